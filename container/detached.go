//go:build unix

package container

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/wsctl/wsctl/reaper"
	"github.com/wsctl/wsctl/workspace"
)

// Detached is a workspace whose container no process owns, as the engine tells of
// it. The engine's labels are all that is kept about it.
type Detached struct {
	// Name is what people call it. It is unique on the engine.
	Name string
	// ID is the engine's id of the container.
	ID string
	// State is the engine's word: created, running, paused, restarting,
	// removing, exited, dead.
	State   string
	Created time.Time
	// Root is the directory on the machine that made it, byte for byte, and
	// Workspace the id that the root keeps.
	Root, Workspace string
	// Version is that of the program that made it.
	Version string
	// Expires is when it may be reaped; zero: never.
	Expires time.Time
	// Owner is the process that made it; it need not live.
	Owner   reaper.Owner
	Choices Choices
}

// ValidName tells whether a detached workspace can have that name: at most 48
// lower-case letters, digits and, not first, any of "-_.".
func ValidName(name string) bool { return reaper.IsID(name) }

// newDetached is what is told of a container.
func newDetached(c reaper.Container, n note) Detached {
	return Detached{
		Name: c.Tag.ID, ID: c.ID, State: c.State, Created: c.Created, Root: c.Tag.Root, Workspace: c.Tag.Workspace,
		Version: c.Tag.Version, Expires: c.Tag.Expires, Owner: c.Tag.Owner, Choices: n.Choices,
	}
}

// ListDetached lists the detached workspaces of the engine, oldest first, whoever
// made them. It changes nothing.
func ListDetached(ctx context.Context, e *Engine) ([]Detached, error) {
	all, err := reaper.List(ctx, e.cli)
	if err != nil {
		return nil, err
	}
	list := []Detached{}
	for _, c := range all {
		if c.Verdict == reaper.Foreign || c.Verdict == reaper.Unknown || !c.Tag.Detached {
			continue
		}
		// What cannot be read is listed all the same: it can be removed.
		n, _ := readNote(c.Labels[labelNote])
		list = append(list, newDetached(c, n))
	}
	return list, nil
}

// minPrefix is how much of an engine's id is needed to name a workspace.
const minPrefix = 4

// FindDetached finds the detached workspace that ref names: its name, the name of
// its container, or the beginning of the engine's id of that, of four characters
// or more, when no other begins so. Errors: NOT_FOUND; INVALID_ARGUMENT for an
// ambiguous one.
func FindDetached(ctx context.Context, e *Engine, ref string) (Detached, error) {
	const op = "find"
	list, err := ListDetached(ctx, e)
	if err != nil {
		return Detached{}, err
	}
	var begins []Detached
	for _, w := range list {
		if w.Name == ref || reaper.Name(w.Name) == ref || w.ID == ref {
			return w, nil
		}
		if len(ref) >= minPrefix && strings.HasPrefix(w.ID, ref) {
			begins = append(begins, w)
		}
	}
	switch len(begins) {
	case 0:
		return Detached{}, noWorkspace(ref)
	case 1:
		return begins[0], nil
	}
	return Detached{}, workspace.Errorf(workspace.ErrInvalidArgument, op, ref, "%d workspaces have ids that begin so; give more of it, or the name", len(begins))
}

func noWorkspace(ref string) error {
	return workspace.Errorf(workspace.ErrNotFound, "find", ref, "there is no such workspace on this engine; wsctl ls lists them, wsctl up makes one")
}

// Remove removes the container and what is in it, and looks that it is gone; the
// root stays. cacheDir is as in Options, for a fresh home. It is no failure that
// the container is gone already.
func (w Detached) Remove(ctx context.Context, e *Engine, cacheDir string) error {
	n := note{}
	got, err := e.cli.ContainerInspect(ctx, w.ID)
	if err == nil && got.Config != nil {
		n, _ = readNote(got.Config.Labels[labelNote])
	}
	if err := e.remove(ctx, "id", w.ID); err != nil || n.Home == "" {
		return err
	}
	return removeFreshHome(ctx, cacheDir, n.Home)
}

// Reap is reaper.Reap, and also removes the fresh homes of the detached containers
// that go; cacheDir is as in Options.
func Reap(ctx context.Context, e *Engine, cacheDir string, o reaper.Options) ([]reaper.Container, error) {
	list, err := reaper.Reap(ctx, e.cli, o)
	for _, c := range list {
		n, noteErr := readNote(c.Labels[labelNote])
		if !c.Removed || !c.Tag.Detached || noteErr != nil || n.Home == "" {
			continue
		}
		if homeErr := removeFreshHome(ctx, cacheDir, n.Home); err == nil {
			err = homeErr
		}
	}
	return list, err
}

// Limits are those that can be changed while commands run.
type Limits struct {
	// Memory is in bytes, and there is no swap; CPUs processors; Pids
	// processes and threads. 0 leaves one as it is.
	Memory int64
	CPUs   float64
	Pids   int64
}

// Update changes limits. What was chosen at first stays in Choices; what holds is
// what Adopt finds. INVALID_ARGUMENT for what makes no sense.
func (w Detached) Update(ctx context.Context, e *Engine, l Limits) error {
	const op = "update"
	o, err := Options{Memory: l.Memory, CPUs: l.CPUs, Pids: l.Pids, CacheDir: "/"}.withDefaults()
	if err != nil {
		return err
	}
	var change container.UpdateConfig
	if l.Memory != 0 {
		change.Memory, change.MemorySwap = o.Memory, o.Memory
	}
	if l.CPUs != 0 {
		change.NanoCPUs = nanoCPUs(o.CPUs)
	}
	if l.Pids != 0 {
		change.PidsLimit = &o.Pids
	}
	done, err := e.cli.ContainerUpdate(ctx, w.ID, change)
	switch {
	case errdefs.IsNotFound(err):
		return noWorkspace(w.Name)
	case err != nil:
		return engineError(ctx, op, err)
	case len(done.Warnings) > 0:
		return workspace.Errorf(workspace.ErrUnavailable, op, w.Name, "the engine does not apply every limit: %s", strings.Join(done.Warnings, "; "))
	}
	return nil
}

// halt ends what runs in the container and leaves the container. One that does not
// run, or is gone, is a success.
func (e *Engine) halt(ctx context.Context, id string) error {
	const op = "stop"
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	for {
		err := e.cli.ContainerKill(ctx, id, "KILL")
		if err != nil && unreachable(err) {
			return engineError(ctx, op, err)
		}
		got, lookErr := e.cli.ContainerInspect(ctx, id)
		if errdefs.IsNotFound(lookErr) {
			return nil
		}
		if lookErr == nil && got.State != nil && !got.State.Running && !got.State.Restarting {
			return nil
		}
		if lookErr == nil && got.State != nil && got.State.Paused {
			// A frozen process does not die.
			_ = e.cli.ContainerUnpause(ctx, id)
		}
		select {
		case <-ctx.Done():
			return workspace.Errorf(workspace.ErrIO, op, "", "the container %s still runs after %v; look at the engine's log", id, removeTimeout)
		case <-time.After(removePoll):
		}
	}
}

// DefaultName is a name for a workspace over root, an absolute path, that none of
// list has: that of the directory, as far as it can be one; made longer by a
// number where another root has it.
func DefaultName(root string, list []Detached) string {
	base := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, root[strings.LastIndexByte(root, '/')+1:])
	base = strings.TrimLeft(base, "-_.")
	if base = base[:min(len(base), 40)]; base == "" {
		base = "workspace"
	}
	name := base
	for n := 2; slices.ContainsFunc(list, func(w Detached) bool { return w.Name == name }); n++ {
		name = base + "-" + strconv.Itoa(n)
	}
	return name
}
