package workspace

import (
	"context"
	"os"
	"time"
)

// Job is what a command has that outlives this process, in place of streams.
type Job struct {
	// Files are those of package spool, which made them; the caller closes
	// them.
	Files []*os.File
	// Seal is a secret of the caller's with which the end is told.
	Seal string
	// Input gives the command a standard input; else that is empty.
	Input bool
	// Limit bounds what is kept of both streams together, in bytes.
	Limit int64
}

// JobStarter is a driver whose commands can outlive this process. It is optional.
type JobStarter interface {
	// StartJob starts c, whose Timeout and KillGrace are kept by what runs it,
	// and returns when it runs. ctx bounds the start alone.
	StartJob(ctx context.Context, c Command, j Job) error
	// SweepJobs ends what jobs have left whose keepers were killed, as far as
	// that can be found.
	SweepJobs(ctx context.Context) error
}

// StartJob starts a command that outlives this process, and returns when it runs.
// It ends by itself, by its Timeout, by what is written to its spool, and with the
// processes of the workspace; Close leaves it. c has neither streams nor signals.
//
// The observer is asked before; of the end it is not told, as that may be seen by
// another process. The error is UNSUPPORTED when the driver cannot, and as Exec's
// otherwise.
func (w *Workspace) StartJob(ctx context.Context, c Command, j Job) error {
	const op = "job"
	starter, ok := w.driver.(JobStarter)
	switch {
	case !ok:
		return unsupported(op, "commands of this kind of workspace end with the process that started them; use Exec")
	case c.Stdin != nil || c.Stdout != nil || c.Stderr != nil || c.Signals != nil || c.MaxOutput != 0 || c.Terminal != nil || c.Background != "":
		return Errorf(ErrInvalidArgument, op, "", "the streams of a job are its spool; leave Stdin, Stdout, Stderr, Signals, MaxOutput, Terminal and Background empty")
	}
	if err := w.commands.enter(op); err != nil {
		return err
	}
	defer w.commands.leave()
	if o := w.opts.Observer; o != nil {
		a := Activity{Op: op, Args: c.Args, Shell: c.Shell, Dir: c.Dir, Began: time.Now()}
		if err := o.Begin(ctx, a); err != nil {
			return wrap(err, ErrUnavailable, op, "")
		}
	}
	call, err := w.begin(ctx, op)
	if err != nil {
		return err
	}
	defer call.finish()
	if c, err = w.prepare(call, op, c); err != nil {
		return err
	}
	if err := w.ready(call, op); err != nil {
		return err
	}
	if err := starter.StartJob(call, c, j); err != nil {
		if call.Err() != nil {
			return w.stopped(call, op, "")
		}
		return wrap(err, ErrIO, op, "")
	}
	return nil
}

// SweepJobs ends what jobs have left whose keepers were killed. UNSUPPORTED when
// the driver has no jobs.
func (w *Workspace) SweepJobs(ctx context.Context) error {
	const op = "job"
	starter, ok := w.driver.(JobStarter)
	if !ok {
		return unsupported(op, "this kind of workspace has no jobs")
	}
	call, err := w.begin(ctx, op)
	if err != nil {
		return err
	}
	defer call.finish()
	return wrap(starter.SweepJobs(call), ErrIO, op, "")
}
