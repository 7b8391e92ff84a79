package container

import (
	"path"
	"strings"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// Mount is a file or directory of this machine that commands see.
type Mount struct {
	// Source is on the host, absolute. What it leads to is mounted; other
	// file systems mounted below it are not passed on.
	Source string
	// Target is where it is inside, absolute.
	Target string
	// Writable lets commands change it, beyond what the root's guard sees.
	Writable bool
}

// ParseMount reads SRC:DST, SRC:DST:ro or SRC:DST:rw. SRC may hold colons: DST
// begins at the last one that a slash follows. A relative SRC is relative to the
// current directory. Errors are INVALID_ARGUMENT.
func ParseMount(spec string) (Mount, error) {
	const usage = "a mount is SRC:DST, SRC:DST:ro or SRC:DST:rw, with DST an absolute path inside"
	var m Mount
	rest, writable := strings.CutSuffix(spec, ":rw")
	if !writable {
		rest = strings.TrimSuffix(spec, ":ro")
	}
	m.Writable = writable
	at := strings.LastIndex(rest, ":/")
	if at <= 0 {
		return Mount{}, mountError(workspace.ErrInvalidArgument, spec, usage)
	}
	source, err := host.Abs("mount", rest[:at])
	if err != nil {
		return Mount{}, err
	}
	m.Source, m.Target = source, path.Clean(rest[at+1:])
	return m, nil
}

// mountError is an error about a mount that the caller asked for.
func mountError(code workspace.Code, subject, format string, args ...any) error {
	return workspace.Errorf(code, "mount", subject, format, args...)
}
