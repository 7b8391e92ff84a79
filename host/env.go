package host

import (
	"slices"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

// inherited are the variables that InheritedEnv takes over, beside LC_*: those
// that say who and where the user is and how to talk to them. Credentials have
// other names.
var inherited = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "TZ", "TMPDIR", "TMP", "TEMP",
}

// InheritedEnv returns those entries of an environment (os.Environ) that
// commands on this machine usually need: PATH, HOME, USER, LOGNAME, SHELL,
// TERM, LANG, LC_*, TZ, TMPDIR, TMP and TEMP. Tokens and keys, which are
// passed to programs in variables of their own, stay behind.
func InheritedEnv(environ []string) []string {
	var env []string
	for _, e := range environ {
		name, _, ok := strings.Cut(e, "=")
		if ok && (slices.Contains(inherited, name) || strings.HasPrefix(name, "LC_")) {
			env = append(env, e)
		}
	}
	return workspace.MergeEnv(env)
}

// checkEnv refuses what execve(2) cannot carry. Names are taken as they are:
// an environment that is handed on may hold any.
func checkEnv(env []string) error {
	for _, e := range env {
		name, _, ok := strings.Cut(e, "=")
		switch {
		case !ok || name == "":
			return workspace.Errorf(workspace.ErrInvalidArgument, "open", "", "environment entry %s is not NAME=value", workspace.Printable(e))
		case strings.IndexByte(e, 0) >= 0:
			return workspace.Errorf(workspace.ErrInvalidArgument, "open", "", "environment entry %s holds a NUL byte", workspace.Printable(name))
		}
	}
	return nil
}
