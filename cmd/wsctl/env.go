package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// envOptions are the flags that say what a command's environment is.
type envOptions struct {
	set     list
	files   list
	inherit []string
	// inheritSet tells an empty --inherit-env from none.
	inheritSet bool
}

func (o *envOptions) addFlags(cmd *cobra.Command) {
	o.set.name, o.files.name = "NAME[=VALUE]", "FILE"
	f := cmd.Flags()
	f.VarP(&o.set, "env", "e", "set a variable; without =VALUE it is taken from the environment of wsctl (repeatable)")
	f.Var(&o.files, "env-file", "read variables from a file, NAME=VALUE or NAME a line, # starts a comment (repeatable)")
	f.Var(&names{&o.inherit, "NAME,PREFIX*"}, "inherit-env", "pass on these variables of wsctl's environment (PREFIX*: all that start so); with --driver host instead of the usual ones (PATH, HOME and the like)")
}

// entries returns what --env-file and --env add, in this order, the last of a
// name winning.
func (o *envOptions) entries(verb string, own environment) ([]string, error) {
	var all []string
	for _, file := range o.files.values {
		entries, err := readEnvFile(verb, file, own)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	for _, text := range o.set.values {
		entry, ok, err := envEntry(text, own)
		if err != nil {
			return nil, usagef(verb, "--env: %w", err)
		}
		if ok {
			all = append(all, entry)
		}
	}
	return workspace.MergeEnv(all), nil
}

// inherited returns the entries of wsctl's environment that --inherit-env
// names.
func (o *envOptions) inherited(own environment) []string {
	var all []string
	for _, entry := range own {
		name, _, _ := strings.Cut(entry, "=")
		if isName(name) && slices.ContainsFunc(o.inherit, func(pattern string) bool {
			prefix, any := strings.CutSuffix(pattern, "*")
			return name == pattern || any && strings.HasPrefix(name, prefix)
		}) {
			all = append(all, entry)
		}
	}
	return workspace.MergeEnv(all)
}

// hostBase is the environment under everything else for --driver host.
func (o *envOptions) hostBase(own environment) []string {
	if o.inheritSet {
		return o.inherited(own)
	}
	return host.InheritedEnv(own)
}

// check refuses patterns that can match nothing.
func (o *envOptions) check(verb string) error {
	for _, pattern := range o.inherit {
		if name := strings.TrimSuffix(pattern, "*"); name != "" && !isName(name) {
			return usagef(verb, "--inherit-env %q: not a name; use letters, digits and '_', and '*' at the end for all names that start so", pattern)
		}
	}
	return nil
}

// envEntry turns NAME=VALUE or NAME into an entry. ok is false for a NAME that
// wsctl's own environment does not have: it is then not set. The error names
// no value, which may be a secret.
func envEntry(text string, own environment) (entry string, ok bool, err error) {
	name, value, has := strings.Cut(text, "=")
	if !isName(name) {
		return "", false, fmt.Errorf("%q is not a name of a variable; use letters, digits and '_'", name)
	}
	if !has {
		if value, has = own.lookup(name); !has {
			return "", false, nil
		}
	}
	if strings.IndexByte(value, 0) >= 0 {
		return "", false, fmt.Errorf("the value of %s holds a NUL byte", name)
	}
	return name + "=" + value, true, nil
}

// isName reports whether s is a name by POSIX 3.216 "Name": what every shell
// can carry, and neither a function (BASH_FUNC_f%%) nor an entry in disguise.
func isName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// maxEnvFile bounds an --env-file: what a command can be given at most, with
// room for comments.
const maxEnvFile = 4 << 20

// readEnvFile reads a file of lines NAME=VALUE, the value up to the end of the
// line with no quoting, as `docker run --env-file` does.
func readEnvFile(verb, file string, own environment) ([]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, usagef(verb, "--env-file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxEnvFile+1))
	switch {
	case err != nil:
		return nil, usagef(verb, "--env-file: %w", err)
	case len(text) > maxEnvFile:
		return nil, usagef(verb, "--env-file %q: more than %d bytes", file, maxEnvFile)
	}
	var all []string
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		number++
		line = strings.TrimLeft(strings.TrimRight(line, "\r\n"), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		entry, ok, err := envEntry(line, own)
		if err != nil {
			return nil, usagef(verb, "--env-file %q line %d: %w", file, number, err)
		}
		if ok {
			all = append(all, entry)
		}
	}
	return all, nil
}
