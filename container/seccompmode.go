package container

import "github.com/wsctl/wsctl/workspace"

// SeccompMode says which system calls commands may make.
type SeccompMode string

const (
	// SeccompDefault is enough for every tool, debuggers included; the empty
	// mode means it too.
	SeccompDefault SeccompMode = "default"
	// SeccompStrict also refuses to look into other processes (ptrace and its
	// like), Unix sockets but for socketpair, input pushed into a terminal,
	// and attributes and project ids of files. Debuggers, leak sanitizers and
	// what talks over a Unix socket fail.
	SeccompStrict SeccompMode = "strict"
)

// ParseSeccompMode reads a mode; "" is SeccompDefault.
func ParseSeccompMode(s string) (SeccompMode, error) {
	switch m := SeccompMode(s); m {
	case "":
		return SeccompDefault, nil
	case SeccompDefault, SeccompStrict:
		return m, nil
	}
	return "", workspace.Errorf(workspace.ErrInvalidArgument, "seccomp", "", "there is no mode %s; use default or strict", workspace.Printable(s))
}
