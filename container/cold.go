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
	"sync"
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
	oom    int64

	mu      sync.Mutex
	stopped bool

	ended chan struct{} // closed when the streams have ended
	done  chan struct{} // closed when exit and err are set
	exit  workspace.Exit
	err   error
}

func (d *Driver) startCold(ctx context.Context, b *box, c workspace.Command, s workspace.Streams) (workspace.Running, error) {
	const op = "exec"
	if c.Terminal != nil {
		return nil, workspace.Errorf(workspace.ErrUnsupported, op, "", "a terminal needs a keeper in the container, and none could be mounted; put wskeeper beside wsctl")
	}
	keep := c.Background == workspace.BackgroundKeep
	argv, err := wrapper.Command(guestDir(c.Dir), keep)
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrInvalidPath, op, c.Dir, "%w", err)
	}
	argv[0] = b.shell
	script, err := wrapper.Script{
		Args:  c.Args,
		Shell: c.Shell,
		Env:   workspace.MergeEnv(b.env, c.Env),
		Unset: b.unset,
	}.Text()
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "%w", err)
	}
	token, err := wrapper.NewToken(rand.Reader)
	if err != nil {
		return nil, err
	}
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
	go r.feed(wrapper.Input(token, script), s.Stdin)
	select {
	case <-r.reader.Started():
	case <-r.reader.Done():
	case <-r.ended:
	case <-ctx.Done():
		_ = conn.Close()
		return nil, ctx.Err()
	}
	go r.wait()
	return r, nil
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
	if err != nil {
		r.err = err
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exit = workspace.Exit{Code: status, Stopped: r.stopped, Recreated: r.b.takeRecreated()}
	if status == 128+int(syscall.SIGKILL) && r.b.pid1 != nil {
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
	info, err := r.b.engine.API().ContainerExecInspect(ctx, r.s.exec)
	if err != nil || info.Running {
		return 0, r.b.lost(ctx, errors.Join(err, io.ErrUnexpectedEOF))
	}
	if r.reader.Group() == 0 {
		return 0, r.b.lost(ctx, errors.New(strconv.Quote(r.reader.Preamble())))
	}
	return info.ExitCode, nil
}

// endGroup waits for the exec to end, and ends the group itself when it does not.
func (r *cold) endGroup(ctx context.Context) {
	t := time.NewTimer(stopMargin)
	defer t.Stop()
	select {
	case <-r.ended:
	case <-t.C:
		_ = r.signal(ctx, syscall.SIGKILL)
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
	return r.signal(ctx, sig)
}

// signal sends sig to the command's group: by PID 1 where it is a keeper, else by
// the kill built into a shell, which needs no further process.
func (r *cold) signal(ctx context.Context, sig syscall.Signal) error {
	group := r.reader.Group()
	if group == 0 {
		return os.ErrProcessDone
	}
	if r.b.pid1 != nil {
		return r.b.pid1.Kill(ctx, group, int(sig))
	}
	s, err := r.b.exec(ctx, []string{r.b.shell, "-c", "kill -" + strconv.Itoa(int(sig)) + " -" + strconv.Itoa(group)})
	if err != nil {
		return err
	}
	defer s.Close()
	var said strings.Builder
	return s.demux(&said, &said)
}

// Resize implements workspace.Running.
func (r *cold) Resize(workspace.TerminalSize) error {
	return workspace.Errorf(workspace.ErrUnsupported, "resize", "", "the command has no terminal")
}

// Stop implements workspace.Running.
func (r *cold) Stop(grace time.Duration) error {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), grace+stopMargin)
	defer cancel()
	if grace > 0 && r.signal(ctx, syscall.SIGTERM) == nil {
		t := time.NewTimer(grace)
		defer t.Stop()
		select {
		case <-r.done:
			return nil
		case <-t.C:
		}
	}
	if err := r.signal(ctx, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		r.d.discard(r.b, "a command could not be ended by signals")
		return nil
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		r.d.discard(r.b, "a command could not be ended by signals")
	}
	return nil
}
