package workspace

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"
)

// errTimeout is the cause of a context that a command's Timeout ended.
var errTimeout = errors.New("timeout")

// statusTimedOut is the status of a command that its Timeout ended, as that of
// timeout(1).
const statusTimedOut = 124

// Exec runs one command to its end. A status other than zero is a result, not
// an error, and so is a timeout. It returns when the command itself exits,
// whoever still holds its pipes.
//
// The error is ABORTED when ctx ended it (wrapping ctx.Err), DISPOSED when
// Close did, and the Output then holds what the command had written. Before
// anything runs: OUTSIDE_ROOT, NOT_FOUND, NOT_A_DIRECTORY or DENIED for Dir,
// INVALID_ARGUMENT or TOO_LARGE for a command that makes no sense, UNAVAILABLE
// or BUSY when commands cannot run. After any other error the status is not
// known.
func (w *Workspace) Exec(ctx context.Context, c Command) (*Output, error) {
	end, err := w.beginCommand(ctx, "exec", c)
	if err != nil {
		return nil, err
	}
	out, err := w.exec(ctx, c)
	if out != nil {
		end(&out.ExitCode, out.TimedOut, err)
	} else {
		end(nil, false, err)
	}
	return out, err
}

func (w *Workspace) exec(ctx context.Context, c Command) (*Output, error) {
	const op = "exec"
	if c.Terminal != nil {
		return nil, Errorf(ErrInvalidArgument, op, "", "a terminal needs Start")
	}
	call, err := w.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer call.finish()
	c, err = w.prepare(call, op, c)
	if err != nil {
		return nil, err
	}
	if err := w.ready(call, op); err != nil {
		return nil, err
	}

	run, cancel := withTimeout(call, c.Timeout)
	defer cancel()
	stdout, stderr := w.sinks(run, c)
	defer stdout.to.close()
	if stderr.to != stdout.to {
		defer stderr.to.close()
	}
	streams := Streams{Stdin: c.Stdin, Stdout: stdout, Stderr: stderr}
	c.Stdin, c.Stdout, c.Stderr, c.MaxOutput, c.Timeout = nil, nil, nil, 0, 0

	began := time.Now()
	exit, err := w.driver.Run(run, c, streams)
	out := &Output{
		ExitCode:  exit.Code,
		Signal:    exit.Signal,
		OOMKilled: exit.OOMKilled,
		Ended:     exit.Ended,
		Recreated: exit.Recreated,
		Duration:  time.Since(began),
		Usage:     exit.Usage,
	}
	out.Stdout, out.StdoutDropped = stdout.result()
	out.Stderr, out.StderrDropped = stderr.result()
	out.Truncated = out.StdoutDropped.Bytes > 0 || out.StderrDropped.Bytes > 0
	switch {
	case err != nil && run.Err() != nil && errors.Is(err, run.Err()):
		// The driver gave up in mid-start because the context ended.
		if context.Cause(run) == errTimeout {
			out.TimedOut, out.ExitCode = true, statusTimedOut
			return out, nil
		}
		return out, w.stopped(run, op, "")
	case err != nil:
		return out, wrap(err, ErrIO, op, "")
	case exit.Stopped && context.Cause(run) == errTimeout:
		out.TimedOut, out.ExitCode = true, statusTimedOut
	case exit.Stopped:
		return out, w.stopped(run, op, "")
	}
	return out, nil
}

// withTimeout returns a context that ends with cause errTimeout after d; a
// negative d never fires.
func withTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, errTimeout)
}

// sinks returns the two ends of a command's output.
func (w *Workspace) sinks(ctx context.Context, c Command) (stdout, stderr *sink) {
	limit := max(c.MaxOutput, 0)
	stdout = &sink{kept: capture{limit: limit}, to: newPump(ctx, c.Stdout)}
	stderr = &sink{kept: capture{limit: limit}}
	if sameWriter(c.Stdout, c.Stderr) {
		stderr.to = stdout.to
	} else {
		stderr.to = newPump(ctx, c.Stderr)
	}
	return stdout, stderr
}

// sameWriter reports whether a and b are one writer. A type that cannot be
// compared is taken for two.
func sameWriter(a, b io.Writer) (same bool) {
	defer func() { _ = recover() }()
	return a != nil && a == b
}

// prepare checks c and fills in the workspace's defaults.
func (w *Workspace) prepare(ctx context.Context, op string, c Command) (Command, error) {
	if err := checkArgs(op, c); err != nil {
		return c, err
	}
	if err := checkEnv(op, c.Env); err != nil {
		return c, err
	}
	c.Env = MergeEnv(w.opts.Env, c.Env)
	if err := checkSize(op, c); err != nil {
		return c, err
	}
	if c.Timeout == 0 {
		c.Timeout = w.opts.Timeout
	}
	if c.KillGrace == 0 {
		c.KillGrace = w.opts.KillGrace
	}
	if c.MaxOutput == 0 {
		c.MaxOutput = w.opts.MaxOutput
	}
	if err := checkLimits(op, c.Timeout, c.KillGrace, c.MaxOutput); err != nil {
		return c, err
	}
	c.KillGrace = max(c.KillGrace, 0)
	switch c.Background {
	case "":
		c.Background = BackgroundKill
	case BackgroundKill, BackgroundKeep:
	default:
		return c, Errorf(ErrInvalidArgument, op, "", "Background is %q; use %q or %q", c.Background, BackgroundKill, BackgroundKeep)
	}
	if c.Dir == "" {
		c.Dir = w.opts.Dir
	}
	if c.Dir == "" {
		c.Dir = "."
	}
	dir, err := w.name(op, c.Dir)
	if err != nil {
		return c, err
	}
	fi, err := w.driver.Files().Stat(ctx, dir)
	if err != nil {
		return c, w.fileError(ctx, asGiven(err, dir, c.Dir), op, c.Dir)
	}
	if !fi.IsDir() {
		return c, Errorf(ErrNotDirectory, op, c.Dir, "the working directory is not a directory")
	}
	c.Dir = dir
	return c, nil
}

func checkArgs(op string, c Command) error {
	switch {
	case len(c.Args) == 0 && c.Shell == "":
		return Errorf(ErrInvalidArgument, op, "", "no command given")
	case len(c.Args) > 0 && c.Shell != "":
		return Errorf(ErrInvalidArgument, op, "", "both Args and Shell are given; use one")
	case len(c.Args) > 0 && c.Args[0] == "":
		return Errorf(ErrInvalidArgument, op, "", "the command's name is empty")
	case strings.IndexByte(c.Shell, 0) >= 0:
		return Errorf(ErrInvalidArgument, op, "", "the shell text holds a NUL byte")
	}
	for i, a := range c.Args {
		if strings.IndexByte(a, 0) >= 0 {
			return Errorf(ErrInvalidArgument, op, "", "argument %d holds a NUL byte", i)
		}
	}
	return nil
}

// checkSize refuses what execve(2) would refuse, by name and before it runs.
func checkSize(op string, c Command) error {
	total := 0
	for i, a := range c.Args {
		if len(a) > MaxArg {
			return Errorf(ErrTooLarge, op, "", "argument %d has %d bytes; the system takes %d in one argument: pass it in a file or on standard input", i, len(a), MaxArg)
		}
		total += len(a) + 1
	}
	if len(c.Shell) > MaxArg {
		return Errorf(ErrTooLarge, op, "", "the shell text has %d bytes; the system takes %d in one argument: write it to a file and run that", len(c.Shell), MaxArg)
	}
	for _, e := range c.Env {
		total += len(e) + 1
	}
	if total += len(c.Shell); total > MaxArgs {
		return Errorf(ErrTooLarge, op, "", "arguments and environment have %d bytes together; the limit is %d", total, MaxArgs)
	}
	return nil
}

func checkLimits(op string, timeout, grace time.Duration, maxOutput int) error {
	switch {
	case timeout != NoTimeout && (timeout < 0 || timeout > MaxTimeout):
		return Errorf(ErrInvalidArgument, op, "", "timeout %v is out of bounds; give up to %v, or NoTimeout", timeout, MaxTimeout)
	case grace != NoKillGrace && (grace < 0 || grace > MaxKillGrace):
		return Errorf(ErrInvalidArgument, op, "", "kill grace %v is out of bounds; give up to %v, or NoKillGrace", grace, MaxKillGrace)
	case maxOutput != NoOutput && maxOutput < 0:
		return Errorf(ErrInvalidArgument, op, "", "output limit %d is out of bounds; give a size in bytes, or NoOutput", maxOutput)
	}
	return nil
}
