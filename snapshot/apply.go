//go:build linux

package snapshot

import (
	"context"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// fewChanges is up to how many changes are flushed to the disk one by one; more
// are flushed at once, with all else that waits in the file system.
const fewChanges = 32

// applier carries out a plan. Every step is whole by itself and checks that the
// entry is the one that was planned for, so that an interrupted restore is ended
// by the next one.
type applier struct {
	root *host.Root
	in   *session
	from *cloner // nil: all content comes from the store
	sync bool
	// failed are paths that were changed by somebody else meanwhile, or that
	// this process may not change.
	failed map[string]string
	step   func() // a test's way to see it; nil: none
}

func (a *applier) directory(ctx context.Context, d *dirPlan) error {
	for _, sub := range d.below {
		if sub.doomed {
			if err := a.directory(ctx, sub); err != nil {
				return err
			}
		}
	}
	if err := a.entries(ctx, d); err != nil {
		return err
	}
	for _, sub := range d.below {
		if !sub.doomed {
			if err := a.directory(ctx, sub); err != nil {
				return err
			}
		}
	}
	if d.self == nil {
		return nil
	}
	return a.note(d.path, a.self(ctx, d))
}

// self gives the directory its mode and time, after everything in it.
func (a *applier) self(ctx context.Context, d *dirPlan) error {
	held, err := a.root.HoldDir(ctx, d.path)
	if err != nil {
		return err
	}
	defer held.Close()
	if err := held.SetSelf(d.self.Mode.Perm(), d.self.Modified); err != nil || !a.sync {
		return err
	}
	return held.Sync()
}

// note keeps in mind that one entry could not be brought back, and goes on.
func (a *applier) note(name string, err error) error {
	switch workspace.CodeOf(err) {
	case "":
		return err
	case workspace.ErrConflict, workspace.ErrNotFound, workspace.ErrNotDirectory, workspace.ErrExists, workspace.ErrNotEmpty, workspace.ErrNotFile:
		a.failed[name] = "it was changed by somebody else meanwhile"
	case workspace.ErrDenied:
		a.failed[name] = "this process may not change it"
	case workspace.ErrUnsupported:
		a.failed[name] = "another file system is mounted there"
	default:
		return asError("restore", name, err)
	}
	return nil
}

func (a *applier) entries(ctx context.Context, d *dirPlan) error {
	if len(d.remove)+len(d.trash)+len(d.make)+len(d.put)+len(d.link)+len(d.set) == 0 {
		return nil
	}
	held, err := a.root.HoldDir(ctx, d.path)
	if err == nil {
		defer held.Close()
		err = held.Unlock()
	}
	if err != nil {
		return a.all(d, err)
	}
	each := func(name string, err error) error {
		if a.step != nil {
			a.step()
		}
		if ctx.Err() != nil {
			return asError("restore", join(d.path, name), ctx.Err())
		}
		return a.note(join(d.path, name), err)
	}
	for _, e := range d.remove {
		if err := each(e.Name, held.Delete(ctx, e)); err != nil {
			return err
		}
	}
	for _, e := range d.trash {
		if err := each(e.Name, held.Trash(ctx, e, join(d.path, e.Name))); err != nil {
			return err
		}
	}
	for _, e := range d.make {
		if err := each(e.Name, held.PutDir(ctx, e.Name)); err != nil {
			return err
		}
	}
	if len(d.put) > 0 {
		tree := a.from.dir(ctx, d.path)
		defer tree.close()
		for _, r := range d.put {
			if err := each(r.want.Name, a.put(ctx, held, tree, r)); err != nil {
				return err
			}
		}
	}
	for _, e := range d.link {
		if err := each(e.Name, held.PutLink(ctx, e.Name, e.Target, e.Modified)); err != nil {
			return err
		}
	}
	for _, r := range d.set {
		if err := each(r.want.Name, held.Set(ctx, r.old, r.want.Mode.Perm(), r.want.Modified)); err != nil {
			return err
		}
	}
	return nil
}

// all notes the same of everything that was to be done in a directory.
func (a *applier) all(d *dirPlan, err error) error {
	var names []string
	for _, list := range [][]host.Entry{d.remove, d.trash} {
		for _, e := range list {
			names = append(names, e.Name)
		}
	}
	for _, list := range [][]Entry{d.make, d.link} {
		for _, e := range list {
			names = append(names, e.Name)
		}
	}
	for _, list := range [][]replacement{d.put, d.set} {
		for _, r := range list {
			names = append(names, r.want.Name)
		}
	}
	for _, name := range names {
		if err := a.note(join(d.path, name), err); err != nil {
			return err
		}
	}
	return nil
}

func (a *applier) put(ctx context.Context, held *host.Dir, tree *cloneDir, r replacement) error {
	o := host.PutOptions{Perm: r.want.Mode.Perm(), Modified: r.want.Modified, Old: r.old, Sync: a.sync}
	if tree.put(ctx, held, r.want, o) {
		return nil
	}
	content, err := a.in.content(r.want.Sum)
	if err != nil {
		return err
	}
	defer content.Close()
	return held.Put(ctx, r.want.Name, content, o)
}
