//go:build linux

package drivertest

import (
	"context"
	"testing"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// brokenSnapshots are snapshots of which restores are broken.
type brokenSnapshots struct {
	workspace.Snapshotter
	before func(o *workspace.RestoreOptions)
	after  func(r *workspace.Restored)
}

func (b brokenSnapshots) Restore(ctx context.Context, id string, o workspace.RestoreOptions) (workspace.Restored, error) {
	if b.before != nil {
		b.before(&o)
	}
	r, err := b.Snapshotter.Restore(ctx, id, o)
	if b.after != nil {
		b.after(&r)
	}
	return r, err
}

// over is a harness's Snapshots.
func (b brokenSnapshots) over(t testing.TB, dir string) workspace.Snapshotter {
	t.Helper()
	root, err := host.OpenRoot(dir, host.RootOptions{LeftoverAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	store, err := snapshot.Open(root, snapshot.Place{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	if b.Snapshotter, err = snapshot.New(root, store, snapshot.Options{}); err != nil {
		t.Fatal(err)
	}
	return b
}

// blind does not know what runs.
type blind struct{ *broken }

func (blind) Busy(context.Context) (bool, error) { return false, nil }

// The snapshots chapter fails over drivers and snapshots that are broken, and
// passes over sound ones.
func TestBrokenRestoresAreCaught(t *testing.T) {
	paused := sound
	paused.Pause = true
	c := catcher{t: t}
	for name, m := range map[string]struct {
		broken brokenSnapshots
		caps   Capabilities
		wrap   func(workspace.Driver) workspace.Driver
		cases  []string
	}{
		"a dry run restores":         {brokenSnapshots{before: func(o *workspace.RestoreOptions) { o.DryRun = false }}, sound, nil, []string{"snapshots/dry run"}},
		"paths are forgotten":        {brokenSnapshots{before: func(o *workspace.RestoreOptions) { o.Paths = nil }}, sound, nil, []string{"snapshots/paths"}},
		"the state before is lost":   {brokenSnapshots{before: func(o *workspace.RestoreOptions) { o.NoBackup = true }}, sound, nil, []string{"snapshots/rewind"}},
		"metadata are lost":          {brokenSnapshots{after: func(r *workspace.Restored) { r.Snapshot.Metadata = nil }}, sound, nil, []string{"snapshots/rewind"}},
		"nothing is restored":        {brokenSnapshots{before: func(o *workspace.RestoreOptions) { o.DryRun = true }}, sound, nil, []string{"snapshots/busy", "snapshots/commands wait"}},
		"it pauses, and does not":    {brokenSnapshots{}, paused, nil, []string{"snapshots/paused"}},
		"what was left is not known": {brokenSnapshots{}, sound, func(d workspace.Driver) workspace.Driver { return blind{d.(*broken)} }, []string{"snapshots/busy with what was left"}},
	} {
		h := broken{}.harness(t, m.caps, m.wrap)
		h.Snapshots = m.broken.over
		c.catch(name, h, m.cases)
	}
	c.wait()
	h := broken{}.harness(t, sound, nil)
	h.Snapshots = brokenSnapshots{}.over
	for _, name := range []string{"snapshots/rewind", "snapshots/dry run", "snapshots/paths", "snapshots/busy"} {
		if v := judge(t, name, h); v.Failed() {
			t.Errorf("%s, over a sound driver: %s", name, v.said())
		}
	}
}
