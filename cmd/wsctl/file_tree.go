//go:build unix

package main

import (
	"errors"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// guestRoot is where commands in a sandbox see the root.
const guestRoot = "/workspace"

// treeOptions are the flags of all verbs on files.
type treeOptions struct {
	root      string
	driver    choice
	hardLinks choice
	json      bool
	// sweep deals with what a crash left, which walks the tree.
	sweep bool
}

func (o *treeOptions) addFlags(cmd *cobra.Command) {
	o.driver = choice{value: driverContainer, words: []string{driverContainer, driverHost}}
	f := cmd.Flags()
	f.StringVar(&o.root, "root", ".", "the directory that no path leaves, a `DIR`")
	_ = cmd.MarkFlagDirname("root")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	addChoice(cmd, &o.driver, "driver", "whose view decides what absolute paths and links mean: a sandbox's, or this machine's")
}

// addHardLinks adds the flag of the verbs that read content. All others work on
// names, and would do nothing with it.
func (o *treeOptions) addHardLinks(cmd *cobra.Command) {
	o.hardLinks = choice{value: string(host.HardLinksAllow), words: []string{
		string(host.HardLinksAllow), string(host.HardLinksInternal), string(host.HardLinksRefuse),
	}}
	addChoice(cmd, &o.hardLinks, "hard-links", "read files with several names: allow; internal: when all names are below the root; refuse")
}

func (o *treeOptions) check(cmd *cobra.Command) error {
	if o.root == "" {
		return usagef(verbOf(cmd), "--root is empty; give a directory")
	}
	return nil
}

// tree is a guarded directory, and the ways to spell it.
type tree struct {
	*host.Root
	spellings []string // absolute, without a slash at the end
}

// openTree opens the root. What a crash left is dealt with when a sandbox is
// started, and by status: a verb about one file does not walk the tree.
func (a *app) openTree(o *treeOptions) (*tree, error) {
	options := host.RootOptions{
		HardLinks: host.HardLinks(o.hardLinks.value),
		Logger:    a.ui.logger(),
	}
	if !o.sweep {
		options.LeftoverAge = -1
	}
	if o.driver.value == driverContainer {
		options.Guest = guestRoot
		// Commands in a sandbox do not see what is mounted below the
		// root. Other systems cannot tell.
		options.NoMounts = runtime.GOOS == "linux"
	}
	root, err := host.OpenRoot(o.root, options)
	if err != nil {
		return nil, err
	}
	t := &tree{Root: root}
	for _, spelling := range []string{options.Guest, root.Name(), root.Real()} {
		spelling = strings.TrimRight(spelling, "/")
		if !slices.Contains(t.spellings, spelling) && (spelling != "" || root.Real() == "/") {
			t.spellings = append(t.spellings, spelling)
		}
	}
	return t, nil
}

// name turns a path as the user spells it into one relative to the root. A
// path that means one file in a sandbox and another one on this machine is
// refused: guessing would change the wrong one.
func (t *tree) name(path string) (string, error) {
	if path == "" || path[0] != '/' {
		return path, nil
	}
	absolute := "/" + strings.TrimLeft(path, "/")
	var names []string
	for _, spelling := range t.spellings {
		rest, below := strings.CutPrefix(absolute, spelling)
		if !below || (rest != "" && rest[0] != '/') {
			continue
		}
		if rest = strings.TrimLeft(rest, "/"); rest == "" {
			rest = "."
		}
		if !slices.Contains(names, rest) {
			names = append(names, rest)
		}
	}
	switch len(names) {
	case 0:
		return "", workspace.Errorf(workspace.ErrOutside, "", path, "the path lies outside the root; use one below %s", t.spelled())
	case 1:
		return names[0], nil
	}
	return "", workspace.Errorf(workspace.ErrInvalidPath, "", path, "in a sandbox it is %s, on this machine %s; give one of them, relative to the root",
		workspace.Printable(names[0]), workspace.Printable(names[1]))
}

// spelled lists the spellings of the root for a message.
func (t *tree) spelled() string {
	var all []string
	for _, spelling := range t.spellings {
		all = append(all, workspace.Printable(spelling+"/"))
	}
	return strings.Join(all, " or ")
}

// do runs an operation on what path names. A failure tells of the path as it
// was given.
func (t *tree) do(path string, operation func(name string) error) error {
	name, err := t.name(path)
	if err != nil {
		return err
	}
	return asGiven(operation(name), name, path)
}

// asGiven is err with path where the root names what it was asked for.
func asGiven(err error, name, path string) error {
	var e *workspace.Error
	if !errors.As(err, &e) || e.Path != name {
		return err
	}
	given := *e
	given.Path = path
	return &given
}
