package wrapper

import (
	"errors"
	"strconv"
	"strings"
)

// Script is what the wrapper's shell evaluates: it sets the environment and
// becomes the command.
type Script struct {
	// Args is the command and its arguments; it is looked up in the PATH of Env.
	Args []string
	// Shell is a command line for `sh -c`; it is used when Args is empty.
	Shell string
	// Env lists NAME=value entries that are exported, the last one of a name wins.
	Env []string
	// Unset names variables of the wrapper's own environment that the command
	// must not have. It is done before Env is set.
	Unset []string
}

// Text builds the script. It fails for what a shell cannot carry: a NUL byte,
// or a variable whose name is not a shell identifier or which bash holds
// read-only (an attempt to set it would end the shell).
func (s Script) Text() ([]byte, error) {
	var b []byte
	unset := append([]string(nil), s.Unset...)
	for _, name := range unset {
		if err := checkName(name); err != nil {
			return nil, err
		}
	}
	for _, kv := range s.Env {
		name, _, ok := strings.Cut(kv, "=")
		if !ok {
			return nil, errors.New("wrapper: environment entry without =: " + strconv.Quote(kv))
		}
		if err := checkName(name); err != nil {
			return nil, err
		}
	}
	if len(unset) > 0 {
		b = append(append(append(b, "unset "...), strings.Join(unset, " ")...), '\n')
	}
	var err error
	for _, kv := range s.Env {
		name, value, _ := strings.Cut(kv, "=")
		b = append(append(append(b, "export "...), name...), '=')
		if b, err = appendQuoted(b, value); err != nil {
			return nil, err
		}
		b = append(b, '\n')
	}
	args := s.Args
	if len(args) == 0 {
		args = []string{"sh", "-c", s.Shell}
	}
	bare := args[0] == "sh"
	if bare {
		// Without a PATH, or with a useless one, a shell is found all the same.
		// A name after the line is $0 and begins messages; it is given only where it
		// is needed for that, as BusyBox words its messages otherwise with it.
		b = append(b, "unset wsctl_sh wsctl_name\nwsctl_sh=sh\n"+
			"command -v sh >/dev/null || { wsctl_sh=/bin/sh wsctl_name=sh; }\n"...)
	}
	// Only the command's own messages may reach its stderr, hence at the very end.
	b = append(b, "exec 2>&3 3>&-\nexec"...)
	if bare {
		b = append(b, ` "$wsctl_sh"`...)
		args = args[1:]
	} else if strings.HasPrefix(args[0], "-") {
		b = append(b, " --"...)
	}
	for _, a := range args {
		if b, err = appendQuoted(append(b, ' '), a); err != nil {
			return nil, err
		}
	}
	if bare && len(s.Args) == 0 {
		b = append(b, ` ${wsctl_name:+"$wsctl_name"}`...)
	}
	return append(b, '\n'), nil
}

// Argv is the argument list for a caller that can start a program with an exact
// environment by itself: the shell of that argument list is `sh`, to be found by
// the caller. Args go through the shell so that "not found" and "not
// executable" are the shell's own 127 and 126 with its words, and a script
// without #! runs. inner is where in the list args begin, for a caller that can
// find a program as plainly as a shell. With no args, line is a command line for
// `sh -c`, and inner is 0.
func Argv(args []string, line string) (argv []string, inner int) {
	if len(args) == 0 {
		return []string{"sh", "-c", line}, 0
	}
	become := `exec "$@"`
	if strings.HasPrefix(args[0], "-") {
		// Only then: an old dash takes -- itself for the command.
		become = `exec -- "$@"`
	}
	argv = append(make([]string, 0, 4+len(args)), "sh", "-c", become, "sh")
	return append(argv, args...), len(argv)
}

// appendQuoted appends s in single quotes, within which a shell changes nothing;
// a single quote itself is put between two such strings as \'.
func appendQuoted(b []byte, s string) ([]byte, error) {
	b = append(b, '\'')
	for i := range len(s) {
		switch s[i] {
		case 0:
			return nil, errors.New("wrapper: a NUL byte cannot be in an argument or a variable")
		case '\'':
			b = append(b, `'\''`...)
		default:
			b = append(b, s[i])
		}
	}
	return append(b, '\''), nil
}

// checkName refuses what a shell cannot export.
func checkName(name string) error {
	for i := range len(name) {
		c := name[i]
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			name = name[:min(len(name), 80)]
			return errors.New("wrapper: " + strconv.Quote(name) + " is not a name that a shell can export; use letters, digits and _")
		}
	}
	switch name {
	case "":
		return errors.New("wrapper: a variable without a name")
	case "UID", "EUID", "PPID", "BASHOPTS", "BASH_VERSINFO", "SHELLOPTS":
		return errors.New("wrapper: " + name + " is read-only in bash and cannot be set through a shell")
	}
	return nil
}
