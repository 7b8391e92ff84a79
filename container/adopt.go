//go:build unix

package container

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/reaper"
	"github.com/wsctl/wsctl/workspace"
)

// AdoptOptions say how a workspace that is there is used.
type AdoptOptions struct {
	// Root says how the root is guarded. Guest and NoMounts are set here.
	Root host.RootOptions
	// Disk is by how much root, home and layer may grow together from the
	// first command on, in bytes; 0: no limit beside that of the workspace.
	Disk int64
	// Logger is told what no call returns; nil: silent.
	Logger *slog.Logger
}

// errNameTaken is why a detached container is not made: there is one.
var errNameTaken = errors.New("the name is taken")

// errStale is why a container is looked at once more: it has ended meanwhile.
var errStale = errors.New("the container has ended meanwhile")

// attachTries is how often the streams of a running PID 1 are attached to. What
// they carry for others, a new reader may get from the middle.
const attachTries = 4

// Adopt opens a detached workspace by its name, or by the id that ListDetached
// gives, for use by this process beside others. It changes nothing; the first
// command, or Ready, verifies the container as thoroughly as a new one and starts
// it where it has ended. Closing the driver detaches. The engine must outlive it.
//
// Errors: NOT_FOUND for no such workspace, or a root that is gone; CONFLICT when
// another directory has the root's name; UNAVAILABLE for a container that is not
// what this version of wsctl makes.
func Adopt(ctx context.Context, e *Engine, ref string, o AdoptOptions) (*Driver, error) {
	if o.Disk != 0 && o.Disk < minDisk {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "open", ref, "%d bytes of disk are too few; give at least 1 MiB", o.Disk)
	}
	if ValidName(ref) && len(ref) < 64 {
		ref = reaper.Name(ref)
	}
	f, err := e.readDetached(ctx, ref)
	if err != nil {
		return nil, err
	}
	opts := f.note.Choices.options()
	opts.Name, opts.Logger, opts.Root = f.tag.ID, o.Logger, o.Root
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	root, held, err := openRoot(ctx, f.tag.Root, opts)
	if err != nil {
		return nil, err
	}
	d := &Driver{
		engine: e.believing(f.note), first: f, root: root, dir: held, user: f.user, opts: opts, log: opts.Logger, found: true, id: f.got.ID, adopted: true, moreDisk: o.Disk,
		facts: rootFacts{Name: root.Name(), Real: root.Real()}, image: &f.image, starting: make(chan struct{}, 1),
	}
	d.facts.Dev, d.facts.Ino = root.Identity()
	if d.facts.Ino != f.note.Root || birthTime(held) != f.note.Born {
		_ = d.Close()
		return nil, workspace.Errorf(workspace.ErrConflict, "open", f.tag.ID, "another directory has the name %s of its root by now; put the right one back, or remove the workspace with wsctl down %s", workspace.Printable(f.tag.Root), f.tag.ID)
	}
	return d, nil
}

// Adopted tells, after Ready, whether the detached container was there already.
func (d *Driver) Adopted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.adopted
}

// obtain makes the container, or takes the one that is there.
func (d *Driver) obtain(ctx context.Context) (*box, error) {
	if d.opts.Name == "" {
		return d.start(ctx)
	}
	d.mu.Lock()
	id := d.id
	d.mu.Unlock()
	ref := id
	if id == "" {
		ref = reaper.Name(d.opts.Name)
	}
	for tries := 1; ; tries++ {
		f, err := d.look(ctx, ref)
		missing := errors.Is(err, workspace.ErrNotFound)
		switch {
		case missing && id != "":
			return nil, workspace.Errorf(workspace.ErrUnavailable, "start", d.opts.Name, "the container of the workspace was removed, and what was installed in it with it; make it anew with wsctl up")
		case err == nil:
			b, err := d.adopt(ctx, f)
			if errors.Is(err, errStale) && tries < attachTries {
				continue
			}
			return b, err
		case !missing:
			return nil, err
		}
		b, err := d.start(ctx)
		if errors.Is(err, errNameTaken) {
			continue // somebody was faster
		}
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		d.id = b.id
		if d.home != nil {
			d.home.fresh = false // it is the container's now
		}
		d.mu.Unlock()
		return b, nil
	}
}

// look reads the container; what Adopt has read a moment ago counts.
func (d *Driver) look(ctx context.Context, ref string) (*foundContainer, error) {
	f := d.first
	d.first = nil
	if f != nil {
		return f, nil
	}
	return d.engine.readDetached(ctx, ref)
}

// foundContainer is a detached container that is there, read strictly: its labels say that
// it is ours, and it is, field by field, what would be made today.
type foundContainer struct {
	got   container.InspectResponse
	tag   reaper.Tag
	note  note
	image imageInfo
	user  commandUser
	spec  createSpec
}

// readDetached reads the container with that name or id. Errors: NOT_FOUND;
// UNAVAILABLE for one that must not be used.
func (e *Engine) readDetached(ctx context.Context, ref string) (*foundContainer, error) {
	const op = "open"
	bounded, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	got, err := e.cli.ContainerInspect(bounded, ref)
	switch {
	case errdefs.IsNotFound(err):
		return nil, noWorkspace(strings.TrimPrefix(ref, reaper.Name("")))
	case err != nil:
		return nil, engineError(ctx, op, err)
	case got.ContainerJSONBase == nil || got.Config == nil || got.HostConfig == nil || got.State == nil:
		return nil, workspace.Errorf(workspace.ErrUnavailable, op, ref, "the engine tells nothing about the container")
	}
	refused := func(err error) error {
		return workspace.Errorf(workspace.ErrUnavailable, op, strings.TrimPrefix(got.Name, "/"), "the container is not used: %w; remove it with wsctl down and make it again with wsctl up", err)
	}
	f := &foundContainer{got: got}
	f.image, err = inspectImage(bounded, e.cli, got.Image)
	gone := errdefs.IsNotFound(err)
	if err != nil && !gone {
		return nil, refused(err)
	}
	if f.tag, err = reaper.Claim(reaper.Facts{Names: []string{got.Name}, Labels: got.Config.Labels, ImageGone: gone}); err != nil {
		return nil, refused(err)
	}
	if !f.tag.Detached {
		return nil, workspace.Errorf(workspace.ErrNotFound, op, f.tag.ID, "this is the sandbox of another process and no detached workspace")
	}
	if f.note, err = readNote(got.Config.Labels[labelNote]); err != nil {
		return nil, refused(err)
	}
	if err := f.read(); err != nil {
		return nil, refused(err)
	}
	want, err := newCreate(f.spec)
	if err != nil {
		return nil, &workspace.Error{Code: workspace.ErrIO, Op: op, Err: err}
	}
	if diffs := compare(want, got); len(diffs) > 0 {
		return nil, refused(errors.New("it is not what wsctl makes today (" + workspace.Printable(f.tag.Version) + " made it): " + strings.Join(diffs, "; ")))
	}
	return f, nil
}

// read takes from the container in what it may differ from others.
func (f *foundContainer) read() error {
	c, h := f.got.Config, f.got.HostConfig
	var err error
	if f.user, err = parseUser(c.User); err != nil {
		return err
	}
	if err := checkNetwork(string(h.NetworkMode)); err != nil {
		return err
	}
	labels := f.tag.Labels()
	labels[labelNote] = c.Labels[labelNote]
	f.spec = createSpec{
		Image: f.got.Image, User: f.user.String(), GID: f.user.GID, Unset: f.image.Unset, Labels: labels,
		Mounts: h.Mounts, Detached: true, Memory: h.Memory, CPUs: float64(h.NanoCPUs) / 1e9, Network: string(h.NetworkMode),
		Runtime: f.note.Choices.Runtime, Seccomp: f.note.Choices.Seccomp, ReadOnly: f.note.Choices.ReadOnlyRootfs, TmpMemory: f.note.Choices.Memory,
	}
	if h.PidsLimit != nil {
		f.spec.Pids = *h.PidsLimit
	}
	if f.spec.Memory <= 0 || f.spec.CPUs <= 0 || f.spec.Pids <= 0 {
		return errors.New("it has no limit for memory, processors or processes")
	}
	if len(c.Entrypoint) > 0 && c.Entrypoint[0] == guestKeeper {
		f.spec.Keeper = guestKeeper
	}
	if f.spec.Keeper != "" && f.note.Protocol != keeper.Protocol {
		return errors.New("another version of wsctl made it (" + workspace.Printable(f.tag.Version) + "), whose keeper this one does not speak with")
	}
	always := append(engineMasks(), guestState)
	for _, m := range h.MaskedPaths {
		if !slices.Contains(always, m) {
			f.spec.Masks = append(f.spec.Masks, m)
		}
	}
	if f.note.Path != "" {
		f.image.Toolchain = true
		f.image.Env = []string{"PATH=" + f.note.Path}
	}
	return f.readMounts()
}

// readMounts refuses mounts that are not as we make them, or that can be written
// and were not asked for so.
func (f *foundContainer) readMounts() error {
	writable := map[string]bool{guestRoot: true, guestHome: true}
	for _, m := range f.note.Choices.Mounts {
		writable[m.Target] = m.Writable
	}
	for _, target := range protectWritable(f.note.Choices.Protect) {
		writable[target] = true
	}
	roots := 0
	for _, m := range f.spec.Mounts {
		switch {
		case !reflect.DeepEqual(m, bind(m.Source, m.Target, !m.ReadOnly)):
			return errors.New("its mount at " + workspace.Printable(m.Target) + " is not one of wsctl's")
		case !m.ReadOnly && !writable[m.Target]:
			return errors.New("its mount at " + workspace.Printable(m.Target) + " can be written")
		case m.Target == guestRoot:
			roots++
		}
	}
	if roots != 1 {
		return errors.New("it has no mount of a root")
	}
	return nil
}

// adopt verifies the container and starts it where it does not run. Nothing of the
// container is changed when that fails.
func (d *Driver) adopt(ctx context.Context, f *foundContainer) (_ *box, err error) {
	if err := d.sameAs(f); err != nil {
		return nil, err
	}
	d.base = f.note.Disk
	var state fileID
	if state.dev, state.ino, err = d.root.StateIdentity(); err != nil {
		return nil, err
	}
	if !f.got.State.Running && !d.engine.learned {
		// The machine may have been booted since.
		if err := d.engine.learn(ctx); err != nil {
			return nil, engineError(ctx, "start", err)
		}
	}
	p := &plan{image: f.image, userName: f.note.UserName, state: state, tag: f.tag, spec: f.spec}
	p.expected = d.expectation(f.spec, f.image.volumes)
	p.expected.Sources = f.note.sources()
	p.findShells(d)
	b := d.newBox(p)
	b.id = f.got.ID
	switch s := f.got.State; {
	case s.Paused:
		_, err := b.verdict(s)
		return nil, err
	case !s.Running:
		if b.recreated, err = b.verdict(s); err != nil {
			return nil, err
		}
		b.recreated += "; it was started again: what was installed in it is there, what ran is not"
		if s.Status == "created" {
			b.recreated = ""
		}
		err = d.startAgain(ctx, b, p)
		b.open(f.spec.Pids)
	default:
		b.open(f.spec.Pids)
		primed := d.prime(ctx, b)
		err = d.join(ctx, b, p)
		<-primed
	}
	var bad *postureError
	if errors.As(err, &bad) && f.got.State.Running && ctx.Err() == nil {
		// What was asked for is right, so what is wrong came later, as when
		// the directory under a mask is replaced.
		b, err = d.again(ctx, b, p, bad)
	}
	if err != nil {
		if b.pool != nil {
			b.pool.close()
		}
		return nil, err
	}
	if name := d.unprotected(b); name != "" {
		b.detach()
		return nil, workspace.Errorf(workspace.ErrUnavailable, "start", f.tag.ID, "the directory %s was replaced or removed, and its protection with it; put it back, or make the workspace anew with wsctl down and wsctl up", workspace.Printable(name))
	}
	d.mu.Lock()
	d.id, d.adopted = b.id, true
	d.mu.Unlock()
	return b, nil
}

// again ends the container of b, which is not as it must be, and starts it again.
func (d *Driver) again(ctx context.Context, b *box, p *plan, why error) (*box, error) {
	d.log.Warn("container started again", "container", b.name, "reason", why)
	if err := b.end(ctx); err != nil {
		return b, err
	}
	next := d.newBox(p)
	next.id, next.recreated = b.id, why.Error()+"; it was started again: what was installed in it is there, what ran is not"
	err := d.startAgain(ctx, next, p)
	if err == nil {
		next.open(p.spec.Pids)
	}
	return next, err
}

// prime starts a serving keeper while the container is verified: a command is not
// far. Nothing runs in it before. The channel is closed when it is there, or is not
// to be.
func (d *Driver) prime(ctx context.Context, b *box) <-chan struct{} {
	done := make(chan struct{})
	if b.pool == nil || !d.found {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		if s, err := b.pool.get(ctx); err == nil {
			b.pool.put(s)
		}
	}()
	return done
}

// sameAs refuses a container of this name that is another than was asked for.
func (d *Driver) sameAs(f *foundContainer) error {
	const op = "start"
	if d.found {
		return nil
	}
	if id, err := identify(f.tag.Root); err != nil || id != (fileID{d.facts.Dev, d.facts.Ino}) {
		return workspace.Errorf(workspace.ErrExists, op, d.opts.Name, "the workspace of this name is over %s; choose another name, or remove it with wsctl down %s", workspace.Printable(f.tag.Root), d.opts.Name)
	}
	if diffs := f.note.Choices.differences(d.opts.choices(d.user)); len(diffs) > 0 {
		return workspace.Errorf(workspace.ErrExists, op, d.opts.Name, "the workspace is there with other options (%s); leave them out, or make it anew: wsctl down %s", strings.Join(diffs, "; "), d.opts.Name)
	}
	return nil
}

// startAgain starts a container that has ended, or never ran. The engine looks up
// what is mounted anew, so all of it is verified; where it is not what it was, the
// container is ended again.
func (d *Driver) startAgain(ctx context.Context, b *box, p *plan) error {
	if err := b.attach(ctx); err != nil {
		return engineError(ctx, "start", err)
	}
	err := d.run(ctx, b)
	if err == nil {
		err = d.verify(ctx, b, p)
	}
	if err != nil {
		if haltErr := b.end(ctx); haltErr != nil {
			d.log.Warn("container not ended", "container", b.name, "error", haltErr)
		}
	}
	return err
}

// join attaches to a container that runs, beside others. What comes from PID 1 for
// them comes here too, and may begin in the middle of an answer: then once more.
func (d *Driver) join(ctx context.Context, b *box, p *plan) error {
	for tries := 1; ; tries++ {
		if err := b.attach(ctx); err != nil {
			// It was there a moment ago; why is it not?
			if why, told := b.fate(ctx); told != nil || why != runsOn {
				return cmp.Or(told, errStale)
			}
			switch {
			case tries < attachTries && ctx.Err() == nil:
				continue // it was paused
			case errdefs.IsConflict(err):
				return b.pausedMoment()
			}
			return engineError(ctx, "start", err)
		}
		err := d.greet(ctx, b)
		if err == nil {
			err = d.verify(ctx, b, p)
			if err == nil {
				return nil
			}
			tries = attachTries
		}
		_ = b.attached.Close()
		<-b.gone
		var bad *postureError
		if errors.As(err, &bad) {
			return err
		}
		if why, told := b.fate(ctx); told != nil || why != runsOn {
			return cmp.Or(told, errStale)
		}
		if ctx.Err() != nil {
			return engineError(ctx, "start", ctx.Err())
		}
		if tries >= attachTries {
			return err
		}
	}
}

// greet has PID 1 answer one empty question.
func (d *Driver) greet(ctx context.Context, b *box) error {
	if b.pid1 == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	if _, err := b.pid1.Report(bounded, nil); err != nil {
		return workspace.Errorf(workspace.ErrUnavailable, "start", "", "the first process of the container %s does not answer (%w); end it with docker kill %s, and the next command starts it again", b.name, err, b.name)
	}
	return nil
}
