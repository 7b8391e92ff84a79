//go:build unix

package container

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/wsctl/wsctl/workspace"
)

var (
	_ workspace.Pauser = (*Driver)(nil)
	_ workspace.Busier = (*Driver)(nil)
)

// Pause implements workspace.Pauser by the engine's freezer, which holds every
// process, whatever it does. Should this process die meanwhile, its own container
// is removed by the reaper like any other of a dead owner; a detached one stays
// paused, and commands are BUSY until somebody resumes it.
func (d *Driver) Pause(ctx context.Context) error {
	b := d.current()
	if b == nil {
		return nil
	}
	release, err := b.execs.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := d.engine.freeze(ctx, b.id); !errors.Is(err, errNotRunning) {
		return err
	}
	return nil // nothing runs in it
}

// Unpause implements workspace.Pauser.
func (d *Driver) Unpause(ctx context.Context) error {
	b := d.current()
	if b == nil {
		return nil
	}
	if err := d.engine.thaw(ctx, b.id); !errors.Is(err, errNotRunning) {
		return err
	}
	return nil
}

// Pause stops all processes in the container where they are. NOT_STARTED when it
// does not run; it is no failure that it is paused already.
func (w Detached) Pause(ctx context.Context, e *Engine) error {
	release, err := holdExecs(ctx, w.Root)
	if err != nil {
		return err
	}
	defer release()
	return w.notStarted("pause", e.freeze(ctx, w.ID))
}

// Resume lets them go on. NOT_STARTED when it does not run; it is no failure that
// it is not paused.
func (w Detached) Resume(ctx context.Context, e *Engine) error {
	if err := e.thaw(ctx, w.ID); err != nil {
		return w.notStarted("resume", err)
	}
	return w.notStarted("resume", e.settled(ctx, w.ID))
}

// settled waits, for freezeTime at most, until the engine has not called a container
// that runs paused for settleTime: a command that comes next would be refused.
func (e *Engine) settled(ctx context.Context, id string) error {
	var runs steady
	for end := time.Now().Add(freezeTime); time.Now().Before(end); {
		state, err := e.state(ctx, id)
		if err != nil || runs.told(!state.Paused) {
			return err
		}
		select {
		case <-ctx.Done():
			return engineError(ctx, "resume", ctx.Err())
		case <-time.After(freezePoll):
		}
	}
	return nil
}

// steady is what the engine may go on telling: only what it tells for settleTime
// without a break is believed.
type steady struct{ since time.Time }

// told takes what the engine says now, and tells whether that is to be believed.
func (s *steady) told(is bool) bool {
	switch {
	case !is:
		s.since = time.Time{}
	case s.since.IsZero():
		s.since = time.Now()
	}
	return is && time.Since(s.since) > settleTime
}

// notStarted tells what errNotRunning means to who names a workspace.
func (w Detached) notStarted(op string, err error) error {
	switch {
	case errdefs.IsNotFound(err):
		return noWorkspace(w.Name)
	case errors.Is(err, errNotRunning):
		return workspace.Errorf(workspace.ErrNotStarted, op, w.Name, "%w; the next command starts it", err)
	}
	return err
}

// errNotRunning: there is nothing to pause or to resume.
var errNotRunning = errors.New("the container does not run")

const (
	// freezeTime is for how long a container is tried to be frozen. The kernel
	// freezes no process that waits for a disk, and the engine gives up after a
	// second.
	freezeTime = 10 * time.Second
	// freezePoll is the time between two tries.
	freezePoll = 20 * time.Millisecond
	// settleTime is how long an engine may go on telling a state that is over:
	// it follows what it has done by events.
	settleTime = 100 * time.Millisecond
)

// freeze has the engine freeze the container, again while that fails and the container
// runs on. A try that fails leaves it running. errNotRunning is wrapped where there
// is nothing to freeze. New execs must be held; those that a process of ours has asked
// for right before it died are waited for.
func (e *Engine) freeze(ctx context.Context, id string) error {
	const op = "pause"
	var paused steady
	var refused error
	for end := time.Now().Add(freezeTime); ; {
		// The engine answers this when no exec of the container is on its way.
		state, err := e.state(ctx, id)
		if err != nil {
			return err
		}
		if paused.told(state.Paused) && refused != nil {
			return nil
		}
		if time.Now().After(end) {
			return workspace.Errorf(workspace.ErrBusy, op, "", "the container could not be paused within %v, and runs on: a process in it waits for a disk or a network file system; try again (%w)", freezeTime, refused)
		}
		if refused = e.tryFreeze(ctx, id); refused == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return engineError(ctx, op, ctx.Err())
		case <-time.After(freezePoll):
		}
	}
}

// tryFreeze waits for the engine's answer though ctx has ended: without it nobody
// knows whether the container is paused.
func (e *Engine) tryFreeze(ctx context.Context, id string) error {
	bounded, cancel := lasting(ctx, createGrace, createTimeout)
	defer cancel()
	return e.cli.ContainerPause(bounded, id)
}

// thaw is the opposite of freeze.
func (e *Engine) thaw(ctx context.Context, id string) error {
	const op = "resume"
	var runs steady
	for end := time.Now().Add(freezeTime); ; {
		refused := e.cli.ContainerUnpause(ctx, id)
		if refused == nil {
			return nil
		}
		state, err := e.state(ctx, id)
		if err != nil || runs.told(!state.Paused) {
			return err
		}
		if time.Now().After(end) {
			return workspace.Errorf(workspace.ErrIO, op, "", "the container could not be resumed within %v; look at the engine's log: %w", freezeTime, refused)
		}
		select {
		case <-ctx.Done():
			return engineError(ctx, op, ctx.Err())
		case <-time.After(freezePoll):
		}
	}
}

// whilePaused tells whether an engine that had not yet noticed that the container is
// paused had an exec refused by its runtime: it says so in the place of output.
func whilePaused(text string) bool { return strings.Contains(text, "in a paused state") }

// pausedMoment is what a command is told that met a pause.
func (b *box) pausedMoment() error {
	return workspace.Errorf(workspace.ErrBusy, "exec", "", "the container %s was paused a moment ago; try again", b.name)
}

// state is what the engine says of a container that runs, paused or not; else the
// error wraps errNotRunning. When a request has failed because its context ended,
// it may have been carried out all the same, so this one has a time of its own.
func (e *Engine) state(ctx context.Context, id string) (*container.State, error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), inspectTimeout)
	defer cancel()
	got, err := e.cli.ContainerInspect(bounded, id)
	switch {
	case errdefs.IsNotFound(err):
		return nil, fmt.Errorf("%w: %w", errNotRunning, err)
	case err != nil:
		return nil, engineError(bounded, "inspect", err)
	case got.ContainerJSONBase == nil || got.State == nil:
		return nil, workspace.Errorf(workspace.ErrIO, "inspect", id, "the engine does not tell the container's state")
	case !got.State.Running:
		return nil, fmt.Errorf("%w: it is %s", errNotRunning, got.State.Status)
	}
	return got.State, nil
}

// Busy implements workspace.Busier: whether the container has other processes
// than its keepers. Without a keeper what commands left behind cannot be told
// from what keeps the container, and does not count.
func (d *Driver) Busy(ctx context.Context) (bool, error) {
	const op = "restore"
	b := d.current()
	if b == nil || b.keeper == "" {
		return false, nil
	}
	top, err := d.engine.cli.ContainerTop(ctx, b.id, []string{"-o", "pid,args"})
	if err != nil {
		got, lookErr := d.engine.cli.ContainerInspect(ctx, b.id)
		if errdefs.IsNotFound(lookErr) || lookErr == nil && got.State != nil && !got.State.Running {
			return false, nil
		}
		return false, engineError(ctx, op, err)
	}
	args := slices.IndexFunc(top.Titles, func(title string) bool { return title == "COMMAND" || title == "CMD" })
	if args < 0 {
		return false, workspace.Errorf(workspace.ErrIO, op, "", "the engine does not tell what runs in the container (it has the columns %q); have running commands disregarded", top.Titles)
	}
	return slices.ContainsFunc(top.Processes, func(p []string) bool {
		if args >= len(p) {
			return true
		}
		program, _, _ := strings.Cut(p[args], " ")
		return program != b.keeper && !strings.HasSuffix(p[args], "<defunct>")
	}), nil
}
