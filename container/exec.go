//go:build unix

package container

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/workspace"
	"github.com/wsctl/wsctl/wrapper"
)

// Run implements workspace.Driver.
func (d *Driver) Run(ctx context.Context, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
	return workspace.RunStarted(ctx, d, c, s)
}

// Start implements workspace.Starter. There are two ways for a command to run,
// with one meaning: on a serving keeper that waits already (warm), and by an
// exec of the image's shell under the wrapper (cold), for containers into which
// no keeper can be mounted.
func (d *Driver) Start(ctx context.Context, c workspace.Command, s workspace.Streams) (workspace.Running, error) {
	b, err := d.current()
	if err != nil {
		return nil, err
	}
	if b.keeper == "" {
		return d.startCold(ctx, b, c, s)
	}
	return d.startWarm(ctx, b, c, s)
}

// exec starts one process in the container, attached to its streams. ctx bounds
// the start alone.
func (b *box) exec(ctx context.Context, argv []string) (*stream, error) {
	api := b.engine.API()
	created, err := api.ContainerExecCreate(ctx, b.id, container.ExecOptions{
		// A constant directory: the engine's own change of directory would
		// follow what a command has put there.
		WorkingDir:   "/",
		Cmd:          argv,
		AttachStdin:  true,
		AttachStdout: true,
		AttachStderr: true,
	})
	if err != nil {
		return nil, b.lost(ctx, err)
	}
	resp, err := hijack(ctx, func(ctx context.Context) (types.HijackedResponse, error) {
		return api.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	})
	if err != nil {
		return nil, b.lost(ctx, err)
	}
	return &stream{hijacked: resp, exec: created.ID}, nil
}

// stdin is the standard input of a stream on its own: closing it leaves the
// output open.
type stdin struct{ *stream }

// Close ends the standard input.
func (s stdin) Close() error { return s.CloseWrite() }

// guestDir is the path inside of a directory of the root.
func guestDir(name string) string {
	// Not path.Join: ".." after a link means what the kernel says.
	if name == "." {
		return guestRoot
	}
	return guestRoot + "/" + name
}

// warm is a command on a serving keeper.
type warm struct {
	d   *Driver
	b   *box
	srv *server
	cmd *keeper.Running
	oom int64 // the container's count of OOM kills when it started

	done chan struct{} // closed when exit and err are set
	exit workspace.Exit
	err  error
}

func (d *Driver) startWarm(ctx context.Context, b *box, c workspace.Command, s workspace.Streams) (workspace.Running, error) {
	req := keeper.Request{
		Path: b.shell,
		Args: wrapper.Argv(c.Args, c.Shell),
		Env:  workspace.MergeEnv(b.env, c.Env),
		Dir:  guestDir(c.Dir),
		Keep: c.Background == workspace.BackgroundKeep,
	}
	if c.Terminal != nil {
		req.Terminal = &keeper.Size{Rows: c.Terminal.Rows, Cols: c.Terminal.Cols}
	}
	streams := keeper.Streams{Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr}
	w := &warm{d: d, b: b, oom: b.oomKills.Load(), done: make(chan struct{})}
	// An abort in the very moment of a start is left to Stop, which costs the
	// command alone; giving up the start would cost the keeper too.
	start, cancel := withMargin(ctx, startMargin)
	defer cancel()
	for {
		srv, err := b.pool.get(ctx)
		if err != nil {
			return nil, b.lost(ctx, err)
		}
		w.cmd, err = srv.client.Start(start, req, streams)
		if err == nil {
			w.srv = srv
			break
		}
		b.pool.put(srv)
		if errors.Is(err, keeper.ErrBusy) {
			continue // it was lost while it was idle
		}
		return nil, w.startError(ctx, c, err)
	}
	go w.wait()
	return w, nil
}

// startMargin is how long a start may go on after its context has ended.
const startMargin = 250 * time.Millisecond

// withMargin returns a context that ends margin later than ctx.
func withMargin(ctx context.Context, margin time.Duration) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		t := time.NewTimer(margin)
		defer t.Stop()
		select {
		case <-t.C:
			cancel()
		case <-later.Done():
		}
	})
	return later, func() { stop(); cancel() }
}

// startError classifies why nothing was run.
func (w *warm) startError(ctx context.Context, c workspace.Command, err error) error {
	const op = "exec"
	var failed *keeper.StartError
	switch {
	case !errors.As(err, &failed):
		return w.b.lost(ctx, err)
	case failed.Step == "chdir" && errors.Is(failed, syscall.EACCES):
		return workspace.Errorf(workspace.ErrDenied, op, c.Dir, "the command's user may not enter the directory; change its mode")
	case failed.Step == "chdir" && errors.Is(failed, syscall.ENOTDIR):
		return workspace.Errorf(workspace.ErrNotDirectory, op, c.Dir, "the working directory is not a directory")
	case failed.Step == "chdir":
		return workspace.Errorf(workspace.ErrNotFound, op, c.Dir, "the working directory is gone")
	case errors.Is(failed, syscall.E2BIG):
		return workspace.Errorf(workspace.ErrTooLarge, op, "", "arguments and environment are too large for one command")
	case errors.Is(failed, syscall.EAGAIN), errors.Is(failed, syscall.ENOMEM):
		return workspace.Errorf(workspace.ErrBusy, op, "", "the workspace is out of processes or memory (%w); wait for a command to end, or raise the limit", failed.Errno)
	}
	return workspace.Errorf(workspace.ErrUnavailable, op, "", "the image's shell %s does not start: %w", w.b.shell, failed.Errno)
}

// wait turns the keeper's answer into an Exit and gives the server back.
func (w *warm) wait() {
	defer close(w.done)
	status, err := w.cmd.Wait(context.Background())
	w.b.pool.put(w.srv)
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()
	if err != nil {
		w.err = w.lost(ctx, err)
		return
	}
	w.exit = workspace.Exit{
		Code:      status.Code,
		Signal:    syscall.Signal(status.Signal),
		Stopped:   status.Stopped,
		Ended:     status.Ended,
		Recreated: w.b.takeRecreated(),
		Usage: &workspace.Usage{
			User:   status.Usage.User,
			System: status.Usage.System,
			MaxRSS: status.Usage.MaxRSS,
		},
	}
	if status.Code == 128+int(syscall.SIGKILL) {
		w.exit.OOMKilled = w.b.countOOM(ctx) > w.oom
	}
	if status.Unfinished > 0 {
		w.exit.Recreated = "processes of a command could not be ended"
		w.d.discard(w.b, w.exit.Recreated)
	}
}

// lost ends what a lost keeper left behind and tells what became of it.
func (w *warm) lost(ctx context.Context, err error) error {
	// What its keeper was a parent of is PID 1's now.
	if _, left, sweepErr := w.b.pid1.Sweep(ctx, sweepTimeout); sweepErr != nil || left > 0 {
		w.d.discard(w.b, "the keeper of a command was killed, and what it ran could not be ended")
	}
	return w.b.lost(ctx, err)
}

// Bounds of a question to PID 1 and of a sweep by it.
const (
	reportTimeout = 5 * time.Second
	sweepTimeout  = 2 * time.Second
)

// Wait implements workspace.Running.
func (w *warm) Wait() (workspace.Exit, error) {
	<-w.done
	return w.exit, w.err
}

// Signal implements workspace.Running.
func (w *warm) Signal(sig syscall.Signal) error { return w.cmd.Signal(int(sig)) }

// Resize implements workspace.Running.
func (w *warm) Resize(size workspace.TerminalSize) error {
	return w.cmd.Resize(keeper.Size{Rows: size.Rows, Cols: size.Cols})
}

// stopMargin is how long after the grace the keeper's SIGKILL has to show.
const stopMargin = 700 * time.Millisecond

// Stop implements workspace.Running. When the keeper does not end the command in
// time, the container is given up: nothing in it outlives that.
func (w *warm) Stop(grace time.Duration) error {
	if err := w.cmd.Stop(grace); err != nil {
		return nil // it is over: Wait tells
	}
	t := time.NewTimer(grace + stopMargin)
	defer t.Stop()
	select {
	case <-w.done:
	case <-t.C:
		w.d.discard(w.b, "a command could not be ended by signals")
	}
	return nil
}

// countOOM asks PID 1 how often the kernel killed for want of memory in this
// container, and remembers the answer for commands that start later.
func (b *box) countOOM(ctx context.Context) int64 {
	answers, err := b.pid1.Report(ctx, []keeper.Item{{Ask: keeper.AskRead, Path: b.oomFile}})
	if err != nil || answers[0].Errno != 0 {
		return b.oomKills.Load()
	}
	n := parseOOMKills(answers[0].Data)
	b.oomKills.Store(n)
	return n
}
