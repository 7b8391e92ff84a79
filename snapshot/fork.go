//go:build linux

package snapshot

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// Fork makes dir, which must be missing or empty, what the snapshot holds: files,
// directories, links, modes and times. Files that the tree still has as they were
// saved share their content with it until one of them changes, where the file
// system can do that. When it fails, what was made of dir is removed.
func (s *Snapshots) Fork(ctx context.Context, id, dir string) (workspace.Snapshot, error) {
	snap, err := s.fork(ctx, id, dir)
	return snap, asError("fork", dir, err)
}

func (s *Snapshots) fork(ctx context.Context, id, dir string) (snap workspace.Snapshot, err error) {
	in, err := s.store.shared(ctx)
	if err != nil {
		return snap, err
	}
	defer in.end()
	target, err := s.store.record(ctx, id)
	if err != nil {
		return snap, err
	}
	made := false
	switch err := os.Mkdir(dir, 0o700); {
	case err == nil:
		made = true
	case !errors.Is(err, fs.ErrExist):
		return snap, err
	}
	defer func() {
		if err != nil && made {
			_ = os.Remove(dir)
		}
	}()
	root, err := host.OpenRoot(dir, host.RootOptions{LeftoverAge: -1, Logger: s.log})
	if err != nil {
		return snap, err
	}
	defer root.Close()
	list, err := root.ReadDir(ctx, ".", workspace.ListOptions{Limit: 1})
	if err != nil {
		return snap, err
	}
	if len(list.Entries) > 0 {
		return snap, workspace.Errorf(workspace.ErrNotEmpty, "", "", "a snapshot is forked into a directory that is new or empty; give another one, or restore it here")
	}
	defer func() {
		if err != nil {
			// The caller's end must not stop the undoing.
			_ = empty(context.WithoutCancel(ctx), root)
		}
	}()
	p := newPlanner(ctx, in, &target, nil)
	bare := &node{}
	held, err := root.HoldDir(ctx, ".")
	if err != nil {
		return snap, err
	}
	bare.at = held.Self()
	held.Close()
	plan, err := p.plan(bare, target.top)
	if err == nil {
		err = p.check()
	}
	if err != nil {
		return snap, err
	}
	done := workspace.Restored{Snapshot: target.Snapshot}
	forked := &Snapshots{root: root, store: s.store, opts: s.opts, log: s.log}
	a := &applier{in: in, from: &cloner{root: s.root, index: s.store.readIndex()}}
	if err := forked.apply(ctx, plan, p, a, &done); err != nil {
		return snap, err
	}
	if len(done.Kept) > 0 {
		return snap, workspace.Errorf(workspace.ErrIO, "", done.Kept[0].Path, "it cannot be made: %s", done.Kept[0].Reason)
	}
	return target.Snapshot, nil
}

// empty removes everything in a directory that this process has filled.
func empty(ctx context.Context, root *host.Root) error {
	list, err := root.ReadDir(ctx, ".", workspace.ListOptions{})
	for _, e := range list.Entries {
		err = errors.Join(err, root.Remove(ctx, e.Name(), workspace.RemoveOptions{Recursive: true}))
	}
	return err
}
