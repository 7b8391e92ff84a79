//go:build unix

package host

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
	"github.com/wsctl/wsctl/wrapper"
)

// shell is the shell of every command. POSIX leaves its place open; all systems
// have it there.
const shell = "/bin/sh"

// stopTime is how long, after the grace of a stop, the end of everything may
// take. The contract gives a second, of which a part is for the output that is
// under way.
const stopTime = 800 * time.Millisecond

// program is a command, ready to be started.
type program struct {
	args     []string // for shell
	inner    int      // where in args a list begins that shell would become
	env      []string // complete
	dir      *os.File // O_PATH; open during start
	keep     bool
	terminal *workspace.TerminalSize
}

// newProgram makes c a program. Args go through the shell, so that "not found"
// and "not executable" are its 127 and 126 in its words, here as in a
// container.
func newProgram(c workspace.Command, base []string, dir *os.File) *program {
	p := &program{
		env:      workspace.MergeEnv(base, c.Env),
		dir:      dir,
		keep:     c.Background == workspace.BackgroundKeep,
		terminal: c.Terminal,
	}
	p.args, p.inner = wrapper.Argv(c.Args, c.Shell)
	if len(c.Args) > 0 && c.Args[0] == "sh" && !findsShell(p.env, dir) {
		p.args, p.inner = slices.Clone(c.Args), 0
	}
	return p
}

// findsShell reports whether the PATH of an environment has a program "sh", for
// a command in dir.
func findsShell(env []string, dir *os.File) bool {
	for _, e := range env {
		list, ok := strings.CutPrefix(e, "PATH=")
		if !ok || list == "" {
			continue
		}
		for part := range strings.SplitSeq(list, ":") {
			// An empty part is the current directory (environ(7)).
			name := cmp.Or(part, ".") + "/sh"
			var st unix.Stat_t
			if unix.Fstatat(int(dir.Fd()), name, &st, 0) == nil && st.Mode&unix.S_IFMT == unix.S_IFREG &&
				unix.Faccessat(int(dir.Fd()), name, unix.X_OK, 0) == nil {
				return true
			}
		}
	}
	return false
}

// startError tells why a program could not be started. step is "chdir" or
// "exec".
func startError(step string, err error) error {
	const op = "exec"
	switch {
	case step == "chdir" && errors.Is(err, syscall.EACCES):
		return workspace.Errorf(workspace.ErrDenied, op, "", "the working directory cannot be entered: %w", err)
	case step == "chdir" && errors.Is(err, syscall.ENOENT):
		return workspace.Errorf(workspace.ErrNotFound, op, "", "the working directory is gone: %w", err)
	case errors.Is(err, syscall.E2BIG):
		return workspace.Errorf(workspace.ErrTooLarge, op, "", "arguments and environment are more than the system takes: %w", err)
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return workspace.Errorf(workspace.ErrBusy, op, "", "the system has no room for another process; try again when others have ended: %w", err)
	}
	return workspace.Errorf(workspace.ErrUnavailable, op, "", "%s cannot be started: %w", shell, err)
}

// aborted is the error of a start that ctx ended.
func aborted(ctx context.Context) error {
	return &workspace.Error{Code: workspace.ErrAborted, Op: "exec", Err: ctx.Err()}
}

// disposed is the error of a start after Close.
func disposed() error {
	return workspace.Errorf(workspace.ErrDisposed, "exec", "", "the workspace is closed")
}

// within waits for done, but not longer than d, and reports whether it came.
func within(d time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}
