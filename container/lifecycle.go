//go:build unix

package container

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/reaper"
	"github.com/wsctl/wsctl/workspace"
)

const (
	// createTimeout bounds the engine's work on one request to create or to
	// start a container.
	createTimeout = 60 * time.Second
	// reapTimeout bounds the search for what dead owners left.
	reapTimeout = 10 * time.Second
	// reapRemoveTime bounds each removal in it: a container that the engine
	// cannot remove must not hold up every start.
	reapRemoveTime = 2 * time.Second
	// createGrace is how long a create may take after the caller has given
	// up: it is waited for, since only its answer tells what there is to
	// remove.
	createGrace = 5 * time.Second
)

// Ready implements workspace.Driver. A command that finds its container ended
// calls it too.
func (d *Driver) Ready(ctx context.Context) error {
	const op = "start"
	select {
	case d.starting <- struct{}{}:
		defer func() { <-d.starting }()
	case <-ctx.Done():
		return engineError(ctx, op, ctx.Err())
	}
	if err := d.root.Check(); err != nil {
		return err
	}
	d.mu.Lock()
	b, closed := d.box, d.closed
	d.mu.Unlock()
	if closed {
		return workspace.Errorf(workspace.ErrDisposed, op, "", "the workspace is closed")
	}
	if b != nil {
		why, err := b.alive(ctx)
		if err != nil {
			return err
		}
		if why == "" && !d.masked(b) {
			why = "the directory .wsctl was replaced or removed, and its mask with it"
		}
		if name := d.unprotected(b); why == "" && name != "" {
			why = "the directory " + workspace.Printable(name) + " was replaced or removed, and its protection with it"
		}
		if why == "" {
			return nil
		}
		d.discard(b, why)
	}
	b, err := d.obtain(ctx)
	if err != nil {
		return err
	}
	if err := d.watchDisk(ctx, b); err != nil {
		if b.detached {
			b.detach()
		} else {
			_ = b.end(ctx)
		}
		return err
	}
	d.mu.Lock()
	// What this process has seen of the container's end says more than what
	// the engine knows.
	b.recreated, d.because = cmp.Or(d.because, b.recreated), ""
	if closed = d.closed; !closed {
		d.box = b
	}
	d.mu.Unlock()
	if closed {
		_ = b.end(ctx)
		return workspace.Errorf(workspace.ErrDisposed, op, "", "the workspace was closed meanwhile")
	}
	return nil
}

// masked tells whether the name of the state still leads to the directory over
// which the container's mask lies: a mask goes with the directory it covers.
func (d *Driver) masked(b *box) bool {
	var st unix.Stat_t
	err := unix.Fstatat(int(d.dir.Fd()), host.StateName, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && fileID{uint64(st.Dev), uint64(st.Ino)} == b.state
}

// undo are the steps back from a start that failed, last first. They run with a
// deadline of their own.
type undo []func(context.Context)

func (u *undo) add(f func(context.Context)) { *u = append(*u, f) }

func (u undo) run(ctx context.Context) {
	for i := len(u) - 1; i >= 0; i-- {
		u[i](context.WithoutCancel(ctx))
	}
}

// start makes a container, verifies it, and leaves nothing when that fails.
func (d *Driver) start(ctx context.Context) (_ *box, err error) {
	const op = "start"
	var back undo
	defer func() {
		if err != nil {
			back.run(ctx)
		}
	}()
	reaped := d.reap(ctx)
	defer func() { <-reaped }()
	p, err := d.plan(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = p.inTime(ctx, err)
		}
	}()
	b := d.newBox(p)
	back.add(func(ctx context.Context) {
		if err := d.takeBack(ctx, b, p); err != nil {
			d.log.Warn("container not removed", "container", b.name, "error", err)
		}
	})
	want, err := newCreate(p.spec)
	if err != nil {
		return nil, &workspace.Error{Code: workspace.ErrIO, Op: op, Err: err}
	}
	if b.id, err = d.create(ctx, want, b.name); err != nil {
		return nil, err
	}
	if err := d.inspectCreated(ctx, b, want); err != nil {
		return nil, err
	}
	if err := b.attach(ctx); err != nil {
		return nil, engineError(ctx, op, err)
	}
	back.add(func(context.Context) { _ = b.attached.Close() })
	if err := d.run(ctx, b); err != nil {
		return nil, err
	}
	if err := d.verify(ctx, b, p); err != nil {
		return nil, err
	}
	b.open(p.spec.Pids)
	return b, nil
}

// newBox is the container that p plans, before it is made.
func (d *Driver) newBox(p *plan) *box {
	life, over := context.WithCancel(context.Background())
	return &box{
		life: life, over: over,
		engine: d.engine, execs: brake{d.root}, name: reaper.Name(p.tag.ID), keeper: p.spec.Keeper, unset: p.image.Unset,
		expected: p.expected, state: p.state, detached: p.spec.Detached, homeSource: p.sourceOf(guestHome), door: p.sourceOf(guestDoor), protected: d.protectedIDs(p.expected.Sources),
	}
}

// open lets commands in: the container has been verified.
func (b *box) open(pids int64) {
	if b.keeper != "" {
		b.pool = newPool(b.launchServer, pids)
	}
}

// takeBack removes what a failed start has made. A create that the engine answered
// too late has made a container too, whose id is not known: of a random name it is
// known by that. The name of a detached one is anybody's, so there the label tells.
func (d *Driver) takeBack(ctx context.Context, b *box, p *plan) error {
	switch {
	case b.id != "":
		return d.engine.remove(ctx, "id", b.id)
	case !b.detached:
		return d.engine.remove(ctx, "name", b.name)
	}
	bounded, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	got, err := d.engine.cli.ContainerInspect(bounded, b.name)
	switch {
	case errdefs.IsNotFound(err):
		return nil
	case err != nil:
		return engineError(ctx, "remove", err)
	case got.Config == nil || got.Config.Labels[labelNote] != p.spec.Labels[labelNote]:
		return nil // another one's
	}
	return d.engine.remove(ctx, "id", got.ID)
}

// reap removes what dead owners left, besides the rest of a start. Failures are
// no reason not to start; they are logged.
func (d *Driver) reap(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		bounded, cancel := context.WithTimeout(ctx, reapTimeout)
		defer cancel()
		o := reaper.Options{Logger: d.log, RemoveTime: reapRemoveTime}
		// Without a list the engine has not told; else each failure is logged already.
		if list, err := Reap(bounded, d.engine, d.opts.CacheDir, o); err != nil && list == nil && ctx.Err() == nil {
			d.log.Warn("containers of dead owners not looked for", "error", err)
		}
	}()
	return done
}

// lasting is ctx, but its end takes effect only grace later: for requests whose
// answer is needed to clean up.
func lasting(ctx context.Context, grace, limit time.Duration) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(ctx, func() {
		t := time.AfterFunc(grace, cancel)
		context.AfterFunc(lasting, func() { t.Stop() })
	})
	return lasting, func() { stop(); cancel() }
}

// create makes the container. Any warning is a setting that was not applied.
func (d *Driver) create(ctx context.Context, want createRequest, name string) (string, error) {
	const op = "start"
	bounded, cancel := lasting(ctx, createGrace, createTimeout)
	defer cancel()
	created, err := d.engine.cli.ContainerCreate(bounded, want.Config, want.HostConfig, want.Networking, nil, name)
	switch {
	case ctx.Err() != nil:
		return "", engineError(ctx, op, ctx.Err())
	case errdefs.IsConflict(err) && d.opts.Name != "":
		return "", errNameTaken
	case errdefs.IsNotFound(err):
		d.mu.Lock()
		d.image = nil // it may have been removed; the next start looks again
		d.mu.Unlock()
		return "", workspace.Errorf(workspace.ErrUnavailable, op, "", "the image, the network or the runtime is gone: %w", err)
	case err != nil && d.root.Check() != nil:
		return "", d.root.Check()
	case err != nil && !unreachable(err):
		return "", workspace.Errorf(workspace.ErrUnavailable, op, "", "the engine refuses to create the container: %w", err)
	case err != nil:
		return "", engineError(ctx, op, err)
	case len(created.Warnings) > 0:
		return "", workspace.Errorf(workspace.ErrUnavailable, op, "", "the engine does not apply every setting of the container, so nothing runs in it: %s", strings.Join(created.Warnings, "; "))
	}
	return created.ID, nil
}

// inspectCreated compares the container with the request.
func (d *Driver) inspectCreated(ctx context.Context, b *box, want createRequest) error {
	const op = "start"
	bounded, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	got, err := d.engine.cli.ContainerInspect(bounded, b.id)
	if err != nil {
		return engineError(ctx, op, err)
	}
	if diffs := compare(want, got); len(diffs) > 0 {
		return workspace.Errorf(workspace.ErrUnavailable, op, "", "the engine made another container than it was asked for, so nothing runs in it: %s", strings.Join(diffs, "; "))
	}
	return nil
}

// attach connects to PID 1's streams. That is done before the start, so that the
// leash holds from the first moment.
func (b *box) attach(ctx context.Context) error {
	resp, err := hijack(ctx, func(ctx context.Context) (types.HijackedResponse, error) {
		return b.engine.cli.ContainerAttach(ctx, b.id, container.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	})
	if err != nil {
		return err
	}
	gone := make(chan struct{})
	b.attached, b.gone = &stream{hijacked: resp, begun: func() {}, forget: func() bool { return false }}, gone
	b.said = &head{limit: 1 << 10}
	if b.keeper != "" {
		b.pid1 = keeper.NewInitClient(b.attached)
	} else {
		b.shell1 = newShellKeeper(b.attached, gone)
	}
	go func() {
		defer close(gone)
		if b.pid1 == nil {
			_ = b.attached.demux(b.shell1, b.said)
			return
		}
		b.pid1.Lost(b.attached.demux(b.pid1.Stdout(), b.said))
	}()
	return nil
}

// run starts PID 1.
func (d *Driver) run(ctx context.Context, b *box) error {
	const op = "start"
	bounded, cancel := lasting(ctx, createGrace, createTimeout)
	defer cancel()
	err := d.engine.cli.ContainerStart(bounded, b.id, container.StartOptions{})
	switch {
	case ctx.Err() != nil:
		return engineError(ctx, op, ctx.Err())
	case err == nil:
		return nil
	case d.root.Check() != nil:
		return d.root.Check()
	case unreachable(err):
		return engineError(ctx, op, err)
	case b.keeper == "":
		return workspace.Errorf(workspace.ErrUnavailable, op, "", "the container does not start; without a keeper it needs a working sh in the image: %w", err)
	}
	return workspace.Errorf(workspace.ErrUnavailable, op, "", "the container does not start: %w", err)
}

// head keeps the first bytes of what is written to it.
type head struct {
	limit int

	mu   sync.Mutex
	kept []byte
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, p[:min(len(p), h.limit-len(h.kept))]...)
	return len(p), nil
}

func (h *head) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.kept)
}

// verify looks at the running container from inside, before anything of the
// caller's runs in it, and fills in what only the container can tell.
func (d *Driver) verify(ctx context.Context, b *box, p *plan) error {
	const op = "start"
	bounded, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	seen, err := b.ask(bounded, p.questions())
	switch {
	case ctx.Err() != nil:
		return engineError(ctx, op, ctx.Err())
	case errors.Is(err, workspace.ErrBusy):
		return err
	case err != nil:
		why, told := b.fate(ctx)
		if told != nil {
			return told
		}
		return workspace.Errorf(workspace.ErrUnavailable, op, "", "the container's first process does not tell what it sees (%s; it said %q): %w", why, b.said, err)
	}
	if bad := wrong(posture(seen, p.expected)); len(bad) > 0 {
		texts := make([]string, len(bad))
		for i, f := range bad {
			texts[i] = f.String()
		}
		return &workspace.Error{Code: workspace.ErrUnavailable, Op: op, Err: &postureError{texts}}
	}
	if err := d.checkIdentity(ctx, b, seen); err != nil {
		return err
	}
	if b.shell, err = p.findShell(seen); err != nil {
		return err
	}
	return d.finishEnv(b, p, seen)
}

// postureError is why nothing runs in a container: it is not as confined as it
// must be.
type postureError struct{ findings []string }

func (e *postureError) Error() string {
	return "the container is not as confined as it must be, so nothing runs in it: " + strings.Join(e.findings, "; ")
}

// checkIdentity tells whether the directory that is mounted in the container is
// the one that is held: the engine looks its name up again at each start.
func (d *Driver) checkIdentity(ctx context.Context, b *box, seen report) error {
	const op = "start"
	dev, ino := d.root.Identity()
	mounted, err := seen.file(guestRoot)
	if err == nil && mounted.dev == dev && mounted.ino == ino {
		return nil
	}
	if err := d.root.Check(); err != nil {
		return err
	}
	// Another kernel, or a shell without stat: what only this directory has
	// is a name that nobody can know.
	same, err := d.nonce(ctx, b)
	if err != nil {
		return err
	}
	if comparable := d.engine.local() && d.opts.Runtime == "" && mounted.ino != 0; same && !comparable {
		return nil
	}
	return workspace.Errorf(workspace.ErrUnavailable, op, d.facts.Name, "the engine mounted another directory than the one that is open here; when wsctl runs in a container itself, or the engine on another machine, the root must have the same path there")
}

// nonce makes a file with a random name in the root and tells whether the
// container sees it. It is gone afterwards.
func (d *Driver) nonce(ctx context.Context, b *box) (bool, error) {
	name := ".wsctl-nonce-" + reaper.NewID()
	if _, err := d.root.Write(ctx, name, strings.NewReader(""), workspace.WriteOptions{Exclusive: true, Perm: 0o600}); err != nil {
		return false, fmt.Errorf("look at the mounted directory: %w", err)
	}
	defer func() {
		if err := d.root.Remove(context.WithoutCancel(ctx), name, workspace.RemoveOptions{}); err != nil {
			d.log.Warn("file not removed", "path", name, "error", err)
		}
	}()
	q := keeper.Item{Ask: keeper.AskStat, Path: guestRoot + "/" + name}
	seen, err := b.ask(ctx, []keeper.Item{q})
	if err != nil {
		return false, engineError(ctx, "start", err)
	}
	return seen[q].Errno == 0, nil
}
