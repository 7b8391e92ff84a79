//go:build unix

package container

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/wsctl/wsctl/workspace"
	"github.com/wsctl/wsctl/wrapper"
)

// cold is a command that an exec of its own runs under the wrapper. Its process
// group is all that can be ended: what leaves the group lives on until the
// container goes.
type cold struct {
	d      *Driver
	b      *box
	s      *stream
	reader *wrapper.Reader
	keep   bool
	oom    int64 // the container's count of OOM kills when it started

	stopped atomic.Bool

	ended chan struct{} // closed when the streams have ended
	done  chan struct{} // closed when exit and err are set
	exit  workspace.Exit
	err   error
}

// maxColdScript bounds what the wrapper reads before it runs a command: it takes
// single bytes, at a system call each, so that the rest is left for the command.
const maxColdScript = 256 << 10

func (d *Driver) startCold(ctx context.Context, b *box, c workspace.Command, s workspace.Streams) (workspace.Running, error) {
	const op = "exec"
	if c.Terminal != nil {
		return nil, workspace.Errorf(workspace.ErrUnsupported, op, "", "a terminal needs a keeper in the container, and none could be mounted; put wskeeper beside wsctl")
	}
	script, err := wrapper.Script{
		Args:  c.Args,
		Shell: c.Shell,
		Env:   workspace.MergeEnv(b.env, c.Env),
		Unset: b.unset,
	}.Text()
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "%w", err)
	}
	if len(script) > maxColdScript {
		return nil, workspace.Errorf(workspace.ErrTooLarge, op, "", "arguments and environment have %d bytes together; without a keeper in the container the limit is %d: pass them in a file, or put wskeeper beside wsctl", len(script), maxColdScript)
	}
	token, err := wrapper.NewToken(rand.Reader)
	if err != nil {
		return nil, err
	}
	input, err := wrapper.Input(token, guestDir(c.Dir), script)
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrInvalidPath, op, c.Dir, "%w", err)
	}
	keep := c.Background == workspace.BackgroundKeep
	argv := wrapper.Command(keep)
	argv[0] = b.shell
	conn, err := b.exec(ctx, argv)
	if err != nil {
		return nil, err
	}
	r := &cold{
		d: d, b: b, s: conn, keep: keep, oom: b.oomKills.Load(),
		reader: wrapper.NewReader(token, s.Stdout, s.Stderr),
		ended:  make(chan struct{}), done: make(chan struct{}),
	}
	go func() {
		_ = conn.demux(r.reader.Stdout(), r.reader.Stderr())
		_ = conn.Close()
		close(r.ended)
	}()
	if err = r.greet(ctx, token); err != nil {
		_ = conn.Close() // the wrapper's input ends, and it with it
		return nil, err
	}
	// From here the command may run, and its group is known: an abort is left
	// to Stop.
	go r.feed(input, s.Stdin)
	go r.wait()
	select {
	case <-r.reader.Started():
	case <-r.reader.Done():
	case <-r.ended:
	case <-ctx.Done():
	}
	return r, nil
}

// greet learns the group. Until then nothing can run.
func (r *cold) greet(ctx context.Context, token string) error {
	_, err := r.s.Write(wrapper.Greeting(token))
	select {
	case <-r.reader.Grouped():
		return nil
	case <-r.reader.Done():
		_, err = r.reader.Status()
	case <-r.ended:
		text := r.reader.Preamble()
		if whilePaused(text) {
			return r.b.pausedMoment()
		}
		if strings.Contains(strings.ToLower(text), "resource temporarily unavailable") {
			return workspace.Errorf(workspace.ErrBusy, "exec", "", "the workspace is out of processes (%q); wait for a command to end, or raise the limit", text)
		}
		err = errors.Join(err, errors.New(strconv.Quote(text)))
	case <-ctx.Done():
		return engineError(ctx, "exec", ctx.Err())
	}
	return &notRun{err}
}

// feed sends the script and then the command's own input.
func (r *cold) feed(script []byte, stdin io.Reader) {
	if _, err := r.s.Write(script); err != nil {
		return
	}
	if stdin != nil {
		// The end of the command ends the connection, and with it the
		// copy, except in a Read of the caller's that blocks.
		_, _ = io.Copy(writerOnly{r.s}, stdin)
	}
	_ = r.s.CloseWrite()
}

// writerOnly hides every other method of a writer from io.Copy.
type writerOnly struct{ io.Writer }

func (r *cold) wait() {
	defer close(r.done)
	select {
	case <-r.reader.Done():
	case <-r.ended:
	}
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()
	status, err := r.status(ctx)
	if !r.keep {
		// The wrapper ends its group, and itself with it, after it has told
		// the status: the end of the streams shows that it has.
		r.endGroup(ctx)
		_ = r.s.Close()
	}
	switch {
	case err != nil && r.stopped.Load():
		// It was to be killed, and is, with the container if need be.
		status = 128 + int(syscall.SIGKILL)
	case err != nil:
		r.err = err
		return
	}
	r.exit = workspace.Exit{Code: status, Stopped: r.stopped.Load(), Recreated: r.b.takeRecreated()}
	if status == 128+int(syscall.SIGKILL) && !r.exit.Stopped {
		r.exit.OOMKilled = r.b.countOOM(ctx) > r.oom
	}
}

// status is what the markers told; without them, what the engine knows.
func (r *cold) status(ctx context.Context) (int, error) {
	select {
	case <-r.reader.Done():
		status, err := r.reader.Status()
		if errors.Is(err, wrapper.ErrNoDir) {
			return 0, workspace.Errorf(workspace.ErrDenied, "exec", "", "the command's user may not enter the working directory, or it is gone")
		}
		return status, err
	default:
	}
	for {
		info, err := r.b.engine.API().ContainerExecInspect(ctx, r.s.exec)
		switch {
		case err != nil:
			return 0, r.b.lost(context.Background(), errors.Join(err, io.ErrUnexpectedEOF))
		case !info.Running && r.b.shell1.alive(ctx, r.reader.Group()):
			return info.ExitCode, nil
		case !info.Running:
			// It was ended with the container.
			return 0, r.b.lost(context.Background(), io.ErrUnexpectedEOF)
		}
		select {
		case <-ctx.Done():
			return 0, r.b.lost(context.Background(), io.ErrUnexpectedEOF)
		case <-time.After(removePoll):
		}
	}
}

// endGroup waits for the exec to end, and ends the group itself when it does not.
func (r *cold) endGroup(ctx context.Context) {
	t := time.NewTimer(stopMargin)
	defer t.Stop()
	select {
	case <-r.ended:
	case <-t.C:
		_ = r.b.shell1.kill(ctx, r.reader.Group(), syscall.SIGKILL)
	}
}

// Wait implements workspace.Running.
func (r *cold) Wait() (workspace.Exit, error) {
	<-r.done
	return r.exit, r.err
}

// Signal implements workspace.Running.
func (r *cold) Signal(sig syscall.Signal) error {
	select {
	case <-r.done:
		return os.ErrProcessDone
	default:
	}
	ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
	defer cancel()
	return r.b.shell1.kill(ctx, r.reader.Group(), sig)
}

// Resize implements workspace.Running.
func (r *cold) Resize(workspace.TerminalSize) error {
	return workspace.Errorf(workspace.ErrUnsupported, "resize", "", "the command has no terminal")
}

// Stop implements workspace.Running.
func (r *cold) Stop(grace time.Duration) error {
	r.stopped.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), grace+stopMargin)
	defer cancel()
	if grace > 0 && r.b.shell1.kill(ctx, r.reader.Group(), syscall.SIGTERM) == nil {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-r.done:
			return nil
		case <-t.C:
		}
	}
	if !r.killed(ctx) {
		r.d.discard(r.b, "a command could not be ended by signals")
		return nil
	}
	// Who left the group may hold the streams, and the caller's writer may
	// block them; what is still under way gets a moment.
	t := time.NewTimer(drainTime)
	defer t.Stop()
	select {
	case <-r.done:
	case <-t.C:
		_ = r.s.Close()
	}
	return nil
}

// drainTime is what the output of a killed command has to arrive in.
const drainTime = 150 * time.Millisecond

// killed kills the group and returns when nothing of it is left. The command's
// own end is not enough: it may leave others.
func (r *cold) killed(ctx context.Context) bool {
	for {
		switch err := r.b.shell1.kill(ctx, r.reader.Group(), syscall.SIGKILL); {
		case errors.Is(err, os.ErrProcessDone):
			return true
		case err != nil:
			return false
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(killPoll):
		}
	}
}

// killPoll is the time between two kills of a group that is not gone.
const killPoll = 5 * time.Millisecond
