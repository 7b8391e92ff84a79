package workspace

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"
)

// MaxShellText is the largest text of one ShellCommand, in bytes. It does not
// pass through execve(2), so MaxArg is no limit to it.
const MaxShellText = 1 << 20

// ShellOptions say how a persistent shell is opened. The zero value is good.
type ShellOptions struct {
	// Path is the shell, found as Args[0] of a Command is; empty: "sh". It
	// is a POSIX shell whose -i, +m and "command eval" are those of dash,
	// bash or BusyBox ash.
	Path string
	// Dir is where the shell begins, below the root; empty: Options.Dir.
	Dir string
	// Env is added to the workspace's environment.
	Env []string
	// KillGrace is what an interrupted command, and the shell at its Close,
	// is given before SIGKILL; 0: Options.KillGrace.
	KillGrace time.Duration
}

// ShellCommand is one command of a persistent shell.
type ShellCommand struct {
	// Text is what the shell evaluates, any number of lines, no NUL byte.
	Text string
	// Stdin is the command's standard input, as in Command; nil: end of
	// file at once. The shell's own input is out of a command's reach.
	Stdin io.Reader
	// Timeout ends the command and leaves the shell; 0: Options.Timeout. It
	// counts from when the shell is free for the command.
	Timeout time.Duration
	// MaxOutput, Stdout and Stderr are as in Command.
	MaxOutput      int
	Stdout, Stderr io.Writer
}

// ShellOutput is how a command of a persistent shell ended.
type ShellOutput struct {
	// Output is as Exec's; the shell tells a signal as 128+n alone, so
	// Signal is set only when it ended the shell itself. Usage is nil.
	Output
	// Lost is empty, or says why the shell's state (directory, variables,
	// functions, what it left running) is gone. The shell ended with this
	// command, or had ended before it and the command ran in a new one;
	// either way the session goes on in a new shell, begun in
	// ShellOptions.Dir.
	Lost string
}

// Shell is a shell that keeps its directory, variables, functions, aliases,
// umask, positional parameters, traps and options between commands. It runs
// one command at a time: a Run waits for the one before it. Its methods are
// safe for concurrent use.
//
// It is an interactive shell (sh(1), -i) without a terminal, because such a
// shell survives what ends a script: a syntax error, an unset variable under
// set -u, an interrupt. What differs from sh -c for it:
//
//   - exit, exec of a program and a failure under set -e end the shell, as they
//     would a terminal's; the status is theirs and ShellOutput.Lost says so.
//   - set -e, -v and -x, and a trap on INT, last until the end of the command
//     that sets them, and a function named "command" is removed then.
//     Redirections made by exec last as long for descriptors 0, 1, 2, 7, 8 and 9.
//   - A bash trap on DEBUG also sees the few lines that surround a command.
//   - set -n in dash and ash silences the shell until a timeout ends it.
//   - A background process lives on until the shell ends. What it writes while
//     a later command runs is in that command's output, and is dropped between
//     commands.
//
// The end of a command is a random mark on both streams that the shell is told
// only once it has taken the command in; it is in no argument, environment or
// variable. A process of the same user that reads the shell's memory or its
// input by /proc can still learn it, and then forge the end and the status of
// its own command, nothing else.
type Shell struct {
	w    *Workspace
	opts ShellOptions

	// life ends with the context of OpenShell and with Close.
	life context.Context //nolint:containedctx // the shell's life
	end  context.CancelCauseFunc

	turn    chan struct{} // holds a token while somebody uses session
	session *shellSession // nil: the next Run begins one
	ended   string        // why session is nil and nobody was told

	closeOnce sync.Once
	closeErr  error
}

// OpenShell starts a persistent shell. It ends with ctx, with its Close and
// with the workspace. The error is as Start's; UNAVAILABLE when the program is
// no shell that will do.
func (w *Workspace) OpenShell(ctx context.Context, o ShellOptions) (*Shell, error) {
	const op = "open shell"
	if o.Path == "" {
		o.Path = "sh"
	}
	s := &Shell{w: w, opts: o, turn: make(chan struct{}, 1)}
	call, err := w.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer call.finish()
	s.life, s.end = context.WithCancelCause(ctx)
	s.session, err = s.open(call, op)
	if err != nil {
		s.end(err)
		return nil, err
	}
	return s, nil
}

// Run runs one command in the shell. A status other than zero is a result, not
// an error, and so is a timeout: 124 with TimedOut.
//
// At its timeout, or when ctx ends, the command is interrupted as from a
// terminal: SIGINT to what it runs in the foreground, while the shell drops the
// rest of the text and stays. What is not over after KillGrace is ended with
// SIGKILL, and then also what earlier commands left running. Where that does
// not do (or the shell is bash, which would go on with the rest of the text)
// the shell itself is ended and Lost says so. bash goes on with the rest when a
// program catches the interrupt and exits by itself (bash(1), "SIGNALS"): what it
// starts then is interrupted again, but builtins may have run. All of it takes at most KillGrace and five seconds, and mostly less
// than KillGrace.
//
// The error is ABORTED, DISPOSED or another as Exec's, with the partial Output.
func (s *Shell) Run(ctx context.Context, c ShellCommand) (*ShellOutput, error) {
	end, err := s.w.beginCommand(ctx, "shell", Command{Shell: c.Text})
	if err != nil {
		return nil, err
	}
	out, err := s.runNext(ctx, c)
	if out != nil {
		end(&out.ExitCode, out.TimedOut, err)
	} else {
		end(nil, false, err)
	}
	return out, err
}

// runNext runs c when its turn has come.
func (s *Shell) runNext(ctx context.Context, c ShellCommand) (*ShellOutput, error) {
	const op = "shell"
	c, err := s.prepare(op, c)
	if err != nil {
		return nil, err
	}
	call, err := s.w.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer call.finish()
	ctx, cancel := context.WithCancelCause(call)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(context.Cause(s.life)) })()

	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
	}
	if s.life.Err() != nil {
		return nil, s.w.stopped(s.life, op, "")
	}
	if ctx.Err() != nil {
		return nil, s.w.stopped(ctx, op, "")
	}
	lost, err := s.revive(ctx, op)
	if err != nil {
		return nil, err
	}
	out, err := s.run(ctx, op, c)
	if out != nil && out.Lost == "" {
		out.Lost = lost
	}
	return out, err
}

// Close hangs the shell up: SIGHUP and end of file, KillGrace, SIGKILL. What
// it left running goes with it, and a Run under way answers DISPOSED. It may
// be called more than once; every call returns the same.
func (s *Shell) Close() error {
	s.closeOnce.Do(func() {
		s.end(ErrDisposed)
		s.turn <- struct{}{}
		defer func() { <-s.turn }()
		if s.session != nil {
			s.closeErr = s.session.p.Close()
			s.session = nil
		}
	})
	return s.closeErr
}

// prepare checks c and fills in the workspace's defaults.
func (s *Shell) prepare(op string, c ShellCommand) (ShellCommand, error) {
	switch {
	case strings.IndexByte(c.Text, 0) >= 0:
		return c, Errorf(ErrInvalidArgument, op, "", "the text holds a NUL byte")
	case len(c.Text) > MaxShellText:
		return c, Errorf(ErrTooLarge, op, "", "the text has %d bytes; the limit is %d: write it to a file and run that", len(c.Text), MaxShellText)
	}
	if c.Timeout == 0 {
		c.Timeout = s.w.opts.Timeout
	}
	if c.MaxOutput == 0 {
		c.MaxOutput = s.w.opts.MaxOutput
	}
	return c, checkLimits(op, c.Timeout, 0, c.MaxOutput)
}

// revive begins a new session when there is none, or it has ended since the
// last command, and then says why.
func (s *Shell) revive(ctx context.Context, op string) (lost string, err error) {
	if s.session != nil {
		select {
		case <-s.session.p.exited:
			s.drop("the shell had ended since the command before; this one ran in a new shell")
		default:
			return "", nil
		}
	}
	session, err := s.open(ctx, op)
	if err != nil {
		return "", err
	}
	lost, s.session, s.ended = s.ended, session, ""
	return lost, nil
}

// drop lets a session go that has ended. The next command says why, unless why
// is empty because this one does.
func (s *Shell) drop(why string) {
	// An unknown status of a shell that is gone concerns nobody any more.
	_ = s.session.p.Close()
	s.session, s.ended = nil, why
}
