//go:build unix

package container

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/reaper"
	"github.com/wsctl/wsctl/workspace"
)

const (
	// removeTimeout bounds the removal of a container, whatever the caller's
	// context says.
	removeTimeout = 20 * time.Second
	// removePoll is the time between two looks at a container that somebody
	// else is removing.
	removePoll = 20 * time.Millisecond
	// pingTimeout is how long a keeper may take to start a command before the
	// engine is asked what is wrong.
	pingTimeout = 500 * time.Millisecond
	// endedWait is how long a container that refuses execs has for its end to
	// show.
	endedWait = time.Second
	// inspectTimeout bounds that question.
	inspectTimeout = 5 * time.Second
)

// box is one container, created, started and verified.
type box struct {
	engine *Engine
	id     string
	name   string
	// env is the base of a command's environment, complete; unset are names
	// that the container has and a command must not.
	env, unset []string
	// keeper is the path of the keeper inside, "" where there is none; shell
	// the path of sh.
	keeper, shell string
	// pid1 is nil without a keeper; then shell1 is not.
	pid1   *keeper.InitClient
	shell1 *shellKeeper
	// gone is closed when the stream to PID 1 has ended.
	gone <-chan struct{}
	// life ends, by over, with the container or this process's part in it, and
	// with it the streams of execs: an engine does not end each that it should.
	life context.Context //nolint:containedctx // that of the streams
	over context.CancelFunc
	// attached is that stream: closing it is the end of a container that is
	// not detached.
	attached *stream
	// said is what came over it that was no answer of the keeper's.
	said *head
	pool *pool
	// execs keeps them and pauses apart.
	execs brake
	// detached: it outlives the driver, and others may use it too.
	detached bool
	// homeSource is the directory on the host that is its home, door the one
	// that is Options.Door.
	homeSource, door string
	// protected are the directories that commands must not change, by target.
	protected map[string]fileID
	// expected is what it must look like from inside.
	expected expectation
	// state is the directory under the mask.
	state fileID
	// oomFile tells, inside, how often the kernel killed for want of memory;
	// oomKills is what it last said.
	oomFile  string
	oomKills atomic.Int64

	mu        sync.Mutex
	recreated string
}

// takeRecreated returns once why this container had to be made.
func (b *box) takeRecreated() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	why := b.recreated
	b.recreated = ""
	return why
}

// end removes the container and everything in it, and looks that it is gone. A
// detached one is ended only: what was installed in it stays for the next start.
// It may be called again.
func (b *box) end(ctx context.Context) error {
	defer b.over()
	if b.pool != nil {
		b.pool.close()
	}
	_ = b.attached.Close()
	var err error
	if b.detached {
		err = b.engine.halt(ctx, b.id)
	} else {
		err = b.engine.remove(ctx, "id", b.id)
	}
	<-b.gone
	return err
}

// detach lets the container go on without this process.
func (b *box) detach() {
	defer b.over()
	if b.pool != nil {
		b.pool.close()
	}
	_ = b.attached.Close()
	<-b.gone
}

// remove ends and removes the container whose key, "id" or "name", is ref, and
// returns when it is gone. One that is gone already is a success. The end of ctx
// has no hold on it; it is bounded here.
func (e *Engine) remove(ctx context.Context, key, ref string) error {
	const op = "remove"
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	for {
		// A conflict means that the engine, after the end of PID 1, or
		// somebody else is at it. What counts is what is there.
		err := e.cli.ContainerRemove(ctx, ref, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && unreachable(err) {
			return engineError(ctx, op, err)
		}
		there, lookErr := e.listed(ctx, key, ref)
		if lookErr == nil && !there {
			return nil
		}
		select {
		case <-ctx.Done():
			return workspace.Errorf(workspace.ErrIO, op, "", "the container %s is still there after %v: %w; look at the engine's log, and remove it with wsctl reap", ref, removeTimeout, errors.Join(err, lookErr))
		case <-time.After(removePoll):
		}
	}
}

// listed tells whether the engine lists the container, in whatever state. For a
// moment a removal is over for those who ask for the container and not for those
// who list. What is listed without a name is gone: an engine whose removal meets a
// late event of the container's (20.10 does) lists such a shadow for as long as it runs.
func (e *Engine) listed(ctx context.Context, key, ref string) (bool, error) {
	list, err := e.cli.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg(key, ref))})
	if err != nil {
		return false, err
	}
	// The filters also find what begins with ref.
	return slices.ContainsFunc(list, func(c container.Summary) bool {
		return len(c.Names) > 0 && (c.ID == ref || slices.Contains(c.Names, "/"+ref))
	}), nil
}

// alive tells, cheaply, whether commands can run: "" for yes, else why the
// container must be made anew. A paused container is BUSY, and stays.
func (b *box) alive(ctx context.Context) (why string, err error) {
	select {
	case <-b.gone:
		return b.fate(ctx)
	default:
	}
	return "", nil // the start of a command shows the rest
}

// fate asks the engine what became of the container.
func (b *box) fate(ctx context.Context) (why string, err error) {
	bounded, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	got, err := b.engine.cli.ContainerInspect(bounded, b.id)
	switch {
	case errdefs.IsNotFound(err):
		return "the container was ended or removed from outside", nil
	case err != nil:
		return "", engineError(ctx, "exec", err)
	}
	return b.verdict(got.State)
}

// runsOn is the verdict about a container that runs, although something is wrong.
const runsOn = "the container was restarted, or its keeper does not answer"

// verdict reads the state of a container with which something is wrong.
func (b *box) verdict(s *container.State) (why string, err error) {
	switch {
	case s == nil:
		return "the engine does not tell the container's state", nil
	case s.Paused:
		return "", workspace.Errorf(workspace.ErrBusy, "exec", "", "the container %s is paused; unpause it (%s) and try again", b.name, b.unpause())
	case s.OOMKilled:
		return "the kernel ended the container for want of memory", nil
	case s.Restarting, s.Running:
		return runsOn, nil
	}
	return fmt.Sprintf("the container is %s with status %d", s.Status, s.ExitCode), nil
}

// unpause is how people unpause it.
func (b *box) unpause() string {
	if name, ok := strings.CutPrefix(b.name, reaper.Name("")); ok && b.detached {
		return "wsctl resume " + name
	}
	return "docker unpause " + b.name
}

// next is what the next command does about a container that is over.
func (b *box) next() string {
	if b.detached {
		return "the next command starts it again"
	}
	return "the next command makes a new one"
}

// lost tells why a call about this container or a stream of it failed: BUSY when
// it is paused; UNAVAILABLE when it, or the engine, is lost; IO when both are
// there. It never blames the command.
func (b *box) lost(ctx context.Context, cause error) error {
	const op = "exec"
	if ctx.Err() != nil {
		return engineError(ctx, op, ctx.Err())
	}
	bounded, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	if cause != nil && unreachable(cause) && !errors.Is(cause, keeper.ErrLost) {
		// The engine may be there all the same: a stream ends like this too.
		if _, err := b.engine.cli.Ping(bounded); err != nil {
			return engineError(ctx, op, err)
		}
	}
	got, err := b.engine.cli.ContainerInspect(bounded, b.id)
	switch {
	case errdefs.IsNotFound(err):
		return workspace.Errorf(workspace.ErrUnavailable, op, "", "the container was ended or removed from outside while a command ran; %s: %w", b.next(), orEOF(cause))
	case err != nil:
		return engineError(ctx, op, err)
	case got.State != nil && got.State.Running && !got.State.Paused && errdefs.IsConflict(cause):
		// What the engine refuses in a container that runs, it refused while
		// that was paused.
		return b.pausedMoment()
	case got.State != nil && got.State.Running && !got.State.Paused && !isClosed(b.gone):
		return workspace.Errorf(workspace.ErrIO, op, "", "the container runs, but the engine lost the command's streams; its result is unknown: %w", orEOF(cause))
	}
	why, err := b.verdict(got.State)
	if err != nil {
		return err
	}
	return workspace.Errorf(workspace.ErrUnavailable, op, "", "%s; %s: %w", why, b.next(), orEOF(cause))
}

// notRun is why a command was not run at all: its exec, or the keeper that was to
// run it, did not come to be.
type notRun struct{ cause error }

func (e *notRun) Error() string { return e.cause.Error() }
func (e *notRun) Unwrap() error { return e.cause }

// ended tells, within endedWait, that the container is over, and why: the engine
// refuses an exec in a container whose PID 1 has just died before it says itself
// that it has.
func (b *box) ended(ctx context.Context) (why string, over bool) {
	bounded, cancel := context.WithTimeout(ctx, endedWait)
	defer cancel()
	for {
		got, err := b.engine.cli.ContainerInspect(bounded, b.id)
		switch {
		case errdefs.IsNotFound(err):
			return "the container was ended or removed from outside", true
		case err != nil || got.State == nil || got.State.Paused:
			return "", false
		case !got.State.Running || isClosed(b.gone):
			why, err = b.verdict(got.State)
			return why, err == nil
		}
		select {
		case <-b.gone:
		case <-bounded.Done():
			return "", false
		case <-time.After(removePoll):
		}
	}
}

// orEOF is cause, or what a stream that ended without an error is called.
func orEOF(cause error) error {
	if cause == nil {
		return errors.New("the stream ended")
	}
	return cause
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
