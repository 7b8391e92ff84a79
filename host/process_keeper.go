//go:build unix

package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/workspace"
)

// kept is a command below a keeper.
type kept struct {
	run      *keeper.Running
	terminal bool
	done     chan struct{} // closed when exit and err are set
	exit     workspace.Exit
	err      error
}

// start starts a program below a keeper.
func (p *pool) start(ctx context.Context, g *program, s workspace.Streams) (workspace.Running, error) {
	if ctx.Err() != nil {
		return nil, aborted(ctx)
	}
	req := keeper.Request{
		Path: shell, Args: g.args, Inner: g.inner, Env: g.env, Keep: g.keep && g.terminal == nil,
		// The keeper enters the directory that this process holds. It may
		// look at the descriptor because both are the same user's.
		Dir: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), g.dir.Fd()),
	}
	if g.terminal != nil {
		req.Terminal = &keeper.Size{Rows: g.terminal.Rows, Cols: g.terminal.Cols}
	}
	v, run, err := p.begin(ctx, req, keeper.Streams{Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr})
	var failed *keeper.StartError
	switch {
	case v == nil:
		return nil, err
	case errors.As(err, &failed):
		p.put(v)
		return nil, startError(failed.Step, failed.Errno)
	case err != nil && ctx.Err() != nil:
		p.discard(v)
		return nil, aborted(ctx)
	case err != nil:
		p.discard(v)
		return nil, lost(err)
	}
	k := &kept{run: run, terminal: g.terminal != nil, done: make(chan struct{})}
	ctx = context.WithoutCancel(ctx)
	go func() {
		defer close(k.done)
		status, err := run.Wait(ctx)
		if err != nil {
			k.err = lost(err)
			p.discard(v)
			return
		}
		if status.Unfinished > 0 {
			p.log.Warn("processes of a command could not be ended", "count", status.Unfinished)
		}
		k.exit = workspace.Exit{
			Code:    status.Code,
			Signal:  syscall.Signal(status.Signal),
			Stopped: status.Stopped,
			Ended:   status.Ended,
			Usage:   &workspace.Usage{User: status.Usage.User, System: status.Usage.System, MaxRSS: status.Usage.MaxRSS},
		}
		p.put(v)
	}()
	return k, nil
}

// maxBegins is how many keepers are tried for one command.
const maxBegins = 3

// begin has a keeper start a command. One that was killed while it waited has run
// nothing, so another is tried. No keeper at all is the error of take.
func (p *pool) begin(ctx context.Context, req keeper.Request, s keeper.Streams) (*server, *keeper.Running, error) {
	for tries := 1; ; tries++ {
		v, err := p.take()
		if err != nil {
			return nil, nil, err
		}
		run, err := v.Start(ctx, req, s)
		if !errors.Is(err, keeper.ErrNotRun) || ctx.Err() != nil || tries == maxBegins {
			return v, run, err
		}
		p.discard(v)
	}
}

// lost is the error of a command whose keeper is gone.
func lost(err error) error {
	return workspace.Errorf(workspace.ErrUnavailable, "exec", "",
		"the command's keeper has ended, and what became of the command is not known; the next command gets another: %w", err)
}

// Wait implements workspace.Running.
func (k *kept) Wait() (workspace.Exit, error) {
	<-k.done
	return k.exit, k.err
}

// Signal implements workspace.Running.
func (k *kept) Signal(sig syscall.Signal) error { return k.run.Signal(int(sig)) }

// Resize implements workspace.Running.
func (k *kept) Resize(size workspace.TerminalSize) error {
	if !k.terminal {
		return workspace.Errorf(workspace.ErrInvalidArgument, "resize", "", "the process has no terminal")
	}
	return k.run.Resize(keeper.Size{Rows: size.Rows, Cols: size.Cols})
}

// Stop implements workspace.Running.
func (k *kept) Stop(grace time.Duration) error {
	if err := k.run.Stop(grace); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return lost(err)
	}
	if within(grace+stopTime, k.done) {
		return nil
	}
	// The end cannot be told while a stream's writer blocks.
	if pid := k.run.PID(); pid > 1 && errors.Is(syscall.Kill(-pid, 0), syscall.ESRCH) {
		return nil
	}
	return workspace.Errorf(workspace.ErrIO, "stop", "", "the command is not over %v after it was killed", stopTime)
}
