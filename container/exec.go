//go:build unix

package container

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// startCommand starts a command. There are two ways for a command to run,
// with one meaning: on a serving keeper that waits already (warm), and by an
// exec of the image's shell under the wrapper (cold), for containers into which
// no keeper can be mounted.
//
// A container that turns out to be over before anything of the command has run
// is made anew, once.
func (d *Driver) startCommand(ctx context.Context, c workspace.Command, s workspace.Streams) (r workspace.Running, err error) {
	err = d.inContainer(ctx, func(b *box) (err error) {
		start := d.startWarm
		if b.keeper == "" {
			start = d.startCold
		}
		r, err = start(ctx, b, c, s)
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// inContainer starts something in the container, and once more in the next one when
// the error is a *notRun and the container is over.
func (d *Driver) inContainer(ctx context.Context, start func(*box) error) error {
	for again := true; ; again = false {
		b := d.current()
		if b == nil { // another command has just given it up
			if err := d.Ready(ctx); err != nil {
				return err
			}
			if b = d.current(); b == nil {
				return workspace.Errorf(workspace.ErrUnavailable, "exec", "", "the container was given up as soon as it was made; try again")
			}
		}
		err := start(b)
		var failed *notRun
		if !errors.As(err, &failed) {
			return err
		}
		if again && d.current() != b { // given up on the way
			continue
		}
		why, over := b.ended(ctx)
		if !over || !again {
			return b.lost(ctx, failed.cause)
		}
		d.discard(b, why)
	}
}

// exec starts one process in the container, attached to its streams. ctx bounds
// the start alone. Until the process writes something, or the stream ends or is
// closed, nobody pauses the container. The error is a *notRun.
func (b *box) exec(ctx context.Context, argv []string) (_ *stream, err error) {
	release, err := b.execs.enter(ctx)
	if err != nil {
		return nil, &notRun{err}
	}
	release = sync.OnceFunc(release)
	defer func() {
		if err != nil {
			release()
		}
	}()
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
		return nil, &notRun{err}
	}
	resp, err := hijack(ctx, func(ctx context.Context) (types.HijackedResponse, error) {
		return api.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	})
	if err != nil {
		return nil, &notRun{err}
	}
	forget := context.AfterFunc(b.life, func() { _ = resp.Conn.Close() })
	return &stream{hijacked: resp, exec: created.ID, begun: release, forget: forget}, nil
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

	stopping atomic.Bool

	ending sync.Once
	exit   workspace.Exit
	err    error
}

func (d *Driver) startWarm(ctx context.Context, b *box, c workspace.Command, s workspace.Streams) (workspace.Running, error) {
	req := keeper.Request{
		Path: b.shell,
		Env:  workspace.MergeEnv(b.env, c.Env),
		Dir:  guestDir(c.Dir),
		Keep: c.Background == workspace.BackgroundKeep,
		// What is kept in a container of nobody's stays when we go.
		Outlive: b.detached,
	}
	req.Args, req.Inner = wrapper.Argv(c.Args, c.Shell)
	if c.Terminal != nil {
		req.Terminal = &keeper.Size{Rows: c.Terminal.Rows, Cols: c.Terminal.Cols}
	}
	streams := keeper.Streams{Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr}
	w := &warm{d: d, b: b, oom: b.oomKills.Load()}
	for tries := 1; ; tries++ {
		srv, err := b.pool.get(ctx)
		if err != nil {
			return nil, err
		}
		w.cmd, err = w.begin(ctx, srv, c, req, streams)
		if err == nil {
			w.srv = srv
			return w, nil
		}
		b.pool.put(srv)
		switch {
		// Another one may have been killed while it was idle.
		case (errors.Is(err, keeper.ErrNotRun) || errors.Is(err, keeper.ErrBusy)) && tries < maxTries:
		case errors.Is(err, keeper.ErrNotRun):
			return nil, b.noServer(ctx, err)
		default:
			return nil, err
		}
	}
}

// begin has a server start the command. That the container can run commands shows
// in that they start; when one does not, the engine is asked why. The error is one
// of a keeper that was lost before it ran anything, or is classified.
func (w *warm) begin(ctx context.Context, srv *server, c workspace.Command, req keeper.Request, s keeper.Streams) (*keeper.Running, error) {
	bounded, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	frozen := make(chan error, 1)
	ask := time.AfterFunc(pingTimeout, func() {
		if _, err := w.b.fate(bounded); err != nil && bounded.Err() == nil {
			frozen <- err
			cancel()
		}
	})
	defer ask.Stop()
	cmd, err := srv.client.Start(bounded, req, s)
	switch {
	case err == nil:
		return cmd, nil
	case errors.Is(err, keeper.ErrNotRun), errors.Is(err, keeper.ErrBusy):
		return nil, err
	case bounded.Err() == nil || ctx.Err() != nil:
		return nil, w.b.startError(ctx, c, err)
	}
	select {
	case err := <-frozen:
		return nil, err
	default:
		// A keeper that does not answer was stopped by a command, which may do
		// so to every process of its user.
		w.d.discard(w.b, "a keeper did not answer: a command has stopped it")
		return nil, &notRun{err}
	}
}

// answerTimeout is how long a serving keeper may take to start a command, which
// it does in milliseconds.
const answerTimeout = 5 * time.Second

// maxTries is how many serving keepers may be lost before they start a command.
const maxTries = 3

// pidsFile tells, inside, how many processes and threads the container has.
func pidsFile(cgroup string) string {
	if cgroup == "2" {
		return "/sys/fs/cgroup/pids.current"
	}
	return "/sys/fs/cgroup/pids/pids.current"
}

// noServer classifies why serving keepers do not come to be.
func (b *box) noServer(ctx context.Context, err error) error {
	q := keeper.Item{Ask: keeper.AskRead, Path: pidsFile(b.engine.info.Cgroup)}
	seen, askErr := b.ask(ctx, []keeper.Item{q})
	if askErr == nil && seen[q].Errno == 0 {
		n, numberErr := strconv.ParseInt(strings.TrimSpace(string(seen[q].Data)), 10, 64)
		if numberErr == nil && n+pidsPerServer > b.expected.Pids {
			return workspace.Errorf(workspace.ErrBusy, "exec", "", "the workspace is out of processes: %d of %d are in use; wait for a command to end, or raise the limit", n, b.expected.Pids)
		}
	}
	return &notRun{err}
}

// startError classifies why nothing was run.
func (b *box) startError(ctx context.Context, c workspace.Command, err error) error {
	const op = "exec"
	var failed *keeper.StartError
	switch {
	case !errors.As(err, &failed):
		return b.lost(ctx, err)
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
	return workspace.Errorf(workspace.ErrUnavailable, op, "", "the image's shell %s does not start: %w", b.shell, failed.Errno)
}

// end turns the keeper's answer into an Exit and gives the server back.
func (w *warm) end() {
	status, err := w.cmd.Wait(context.Background())
	w.b.pool.put(w.srv)
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()
	switch {
	case err != nil && w.stopping.Load():
		// It was to be killed, and is, with its keeper or the container.
		w.sweep(ctx)
		w.exit = workspace.Exit{Code: 128 + int(syscall.SIGKILL), Signal: syscall.SIGKILL, Stopped: true, Recreated: w.b.takeRecreated()}
		return
	case err != nil:
		w.sweep(ctx)
		// Not in what is left of a time of ours, whose end is no abort.
		w.err = w.b.lost(context.Background(), err)
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
		w.d.discard(w.b, "processes of a command could not be ended")
	}
}

// sweep ends what a lost keeper left behind: what it was a parent of is PID 1's
// once it is gone. One that was given up and stays has been stopped by a command.
func (w *warm) sweep(ctx context.Context) {
	patience := goneTimeout
	if w.stopping.Load() {
		patience = stoppedGoneTimeout
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-w.srv.client.Gone():
	case <-t.C:
		w.d.discard(w.b, "a keeper that was given up does not end: a command has stopped it")
		return
	}
	if _, left, err := w.b.pid1.Sweep(ctx, sweepTimeout); err != nil || left > 0 {
		w.d.discard(w.b, "the keeper of a command was killed, and what it ran could not be ended")
	}
}

// Bounds of a question to PID 1, of a sweep by it, and of the end of a keeper that
// was given up, which is shorter where a stop's own bound holds.
const (
	goneTimeout        = 3 * time.Second
	stoppedGoneTimeout = time.Second
	reportTimeout      = 5 * time.Second
	sweepTimeout       = 2 * time.Second
)

// Wait implements workspace.Running.
func (w *warm) Wait() (workspace.Exit, error) {
	w.ending.Do(w.end)
	return w.exit, w.err
}

// Done implements workspace.Ender.
func (w *warm) Done() <-chan struct{} { return w.cmd.Done() }

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
	w.stopping.Store(true)
	if err := w.cmd.Stop(grace); err != nil {
		return nil // it is over: Wait tells
	}
	t := time.NewTimer(grace + stopMargin)
	defer t.Stop()
	select {
	case <-w.cmd.Done():
		w.ending.Do(w.end) // what a lost keeper has left, too
	case <-t.C:
		w.d.discard(w.b, "a command could not be ended by signals")
	}
	return nil
}

// countOOM asks how often the kernel killed for want of memory in this container,
// and remembers the answer for commands that start later.
func (b *box) countOOM(ctx context.Context) int64 {
	q := keeper.Item{Ask: keeper.AskRead, Path: b.oomFile}
	seen, err := b.ask(ctx, []keeper.Item{q})
	if err != nil || seen[q].Errno != 0 {
		return b.oomKills.Load()
	}
	n := parseOOMKills(seen[q].Data)
	b.oomKills.Store(n)
	return n
}
