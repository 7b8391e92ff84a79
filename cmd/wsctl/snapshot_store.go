//go:build linux

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/reaper"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// storeOptions are the flags of all verbs on snapshots.
type storeOptions struct {
	tree  treeOptions
	store string
	adopt bool
}

func (o *storeOptions) addFlags(cmd *cobra.Command) {
	o.tree.addFlags(cmd)
	f := cmd.Flags()
	f.Var(&named{&o.store, "DIR"}, "store", "where the snapshots are (default: below the state directory, by the workspace's id)")
	_ = cmd.MarkFlagDirname("store")
	f.BoolVar(&o.adopt, "adopt-store", false, "take over a store that belongs to another root: after the root was moved")
}

// place says where the store of a root is.
func (o *storeOptions) place(a *app) (snapshot.Place, error) {
	if o.store == "" {
		return a.env.snapshotPlace(o.adopt)
	}
	dir, err := filepath.Abs(o.store)
	if err != nil {
		return snapshot.Place{}, workspace.Errorf(workspace.ErrInvalidArgument, "--store", "", "%w", err)
	}
	return snapshot.Place{Dir: dir, Adopt: o.adopt}, nil
}

// snapshotPlace is where snapshots are unless the user says otherwise: below the
// state directory, where no command and no git clean reaches them.
func (e environment) snapshotPlace(adopt bool) (snapshot.Place, error) {
	state := e.stateDir()
	if state == "" {
		return snapshot.Place{}, workspace.Errorf(workspace.ErrInvalidArgument, "snapshots", "", "there is no home directory to keep them in; set HOME or XDG_STATE_HOME to an absolute path")
	}
	at := snapshot.Place{Beside: filepath.Join(state, "snapshots"), Adopt: adopt}
	if err := os.MkdirAll(at.Beside, 0o700); err != nil {
		return snapshot.Place{}, workspace.Errorf(workspace.ErrIO, "snapshots", at.Beside, "%w", err)
	}
	return at, nil
}

// openSnapshots opens the store of a root; close lets it go.
func (a *app) openSnapshots(root *host.Root, at snapshot.Place, o snapshot.Options) (s *snapshot.Snapshots, closeStore func(), err error) {
	store, err := snapshot.Open(root, at)
	if err != nil {
		return nil, nil, err
	}
	o.Logger = a.ui.logger()
	if s, err = snapshot.New(root, store, o); err != nil {
		store.Close()
		return nil, nil, err
	}
	return s, store.Close, nil
}

// kept is a root with its snapshots.
type kept struct {
	*tree
	snaps *snapshot.Snapshots
	store *snapshot.Store
	// ws restores, and sees to commands that run meanwhile.
	ws *workspace.Workspace
}

// snapshots opens the store of a root.
func (a *app) snapshots(t *tree, o *storeOptions, options snapshot.Options) (*kept, error) {
	at, err := o.place(a)
	if err != nil {
		return nil, err
	}
	snaps, closeStore, err := a.openSnapshots(t.Root, at, options)
	if err != nil {
		return nil, err
	}
	ws, err := workspace.New(&rootDriver{a: a, t: t}, workspace.Options{Snapshots: snaps})
	if err != nil {
		closeStore()
		return nil, err
	}
	return &kept{tree: t, snaps: snaps, store: snaps.Store(), ws: ws}, nil
}

func (k *kept) close() {
	_ = k.ws.Close()
	k.store.Close()
}

// snapshotVerb runs a verb on the snapshots of a root.
func (a *app) snapshotVerb(cmd *cobra.Command, o *storeOptions, options snapshot.Options, verb func(context.Context, *kept) error) error {
	return a.changing(cmd, &o.tree, func(ctx context.Context, t *tree) error {
		k, err := a.snapshots(t, o, options)
		if err != nil {
			return err
		}
		defer k.close()
		return failedOperation(withOp(verb(ctx, k), cmd.Name()), nil)
	})
}

// withOp is err with the verb where nobody has said what failed.
func withOp(err error, verb string) error {
	var e *workspace.Error
	if !errors.As(err, &e) || e.Op != "" {
		return err
	}
	named := *e
	named.Op = verb
	return &named
}

// rootDriver is a root without commands of its own, which knows of those that run
// in containers over it.
type rootDriver struct {
	a *app
	t *tree
	// paused are containers that Pause has paused.
	paused []container.Detached
}

func (d *rootDriver) Descriptor() workspace.Descriptor {
	return workspace.Descriptor{Kind: workspace.KindLocal, Root: d.t.Name()}
}
func (d *rootDriver) Files() workspace.Files { return d.t.Root }
func (d *rootDriver) Ready(context.Context) error {
	return workspace.Errorf(workspace.ErrUnsupported, "start", "", "no command runs here")
}

func (d *rootDriver) Run(ctx context.Context, _ workspace.Command, _ workspace.Streams) (workspace.Exit, error) {
	return workspace.Exit{}, d.Ready(ctx)
}
func (d *rootDriver) Close() error { return nil }

// Busy implements workspace.Busier: whether commands run in a container over the
// root, whoever started it.
func (d *rootDriver) Busy(ctx context.Context) (bool, error) {
	over, err := d.a.containersOver(ctx, d.t)
	if err != nil {
		// Where no engine is, nothing runs in its containers.
		d.a.ui.warn("whether commands run in a container over this root is not known: %v", err)
		return false, nil
	}
	for _, c := range over {
		if c.State != "running" {
			continue
		}
		if !c.Tag.Detached {
			return true, nil
		}
		busy, err := d.a.detachedBusy(ctx, c)
		if busy || err != nil {
			return busy, err
		}
	}
	return false, nil
}

// detachedBusy reports whether a command runs in a detached container.
func (a *app) detachedBusy(ctx context.Context, c reaper.Container) (bool, error) {
	e, err := a.connect(ctx)
	if err != nil {
		return false, err
	}
	defer e.Close()
	d, err := container.Adopt(ctx, e, c.Tag.ID, container.AdoptOptions{Root: host.RootOptions{LeftoverAge: -1}, Logger: a.ui.logger()})
	if err != nil {
		return false, err
	}
	defer d.Close()
	if err := d.Ready(ctx); err != nil {
		return false, err
	}
	return d.Busy(ctx)
}

// Pause implements workspace.Pauser.
func (d *rootDriver) Pause(ctx context.Context) error {
	e, err := d.a.connect(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	over, err := d.a.containersOver(ctx, d.t)
	if err != nil {
		return err
	}
	for _, c := range over {
		if c.State != "running" {
			continue
		}
		w := container.Detached{ID: c.ID, Name: c.Tag.ID, Root: c.Tag.Root}
		if err := w.Pause(ctx, e); err != nil {
			return err
		}
		d.paused = append(d.paused, w)
	}
	return nil
}

// Unpause implements workspace.Pauser.
func (d *rootDriver) Unpause(ctx context.Context) error {
	if len(d.paused) == 0 {
		return nil
	}
	e, err := d.a.connect(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	var first error
	for _, w := range d.paused {
		if err := w.Resume(ctx, e); err != nil && first == nil {
			first = err
		}
	}
	d.paused = nil
	return first
}
