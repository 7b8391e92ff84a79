package main

import (
	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// agentSnapshots keeps states of d's tree in the user's state directory. Nil where
// that cannot be: the rest works without. done closes what is open.
func (a *app) agentSnapshots(d workspace.Driver) (kept workspace.Snapshotter, done func()) {
	root, ok := d.Files().(*host.Root)
	if !ok {
		return nil, func() {}
	}
	at, err := a.env.snapshotPlace(false)
	if err == nil {
		var s *snapshot.Snapshots
		if s, done, err = a.openSnapshots(root, at, snapshot.Options{}); err == nil {
			return s, done
		}
	}
	a.ui.warn("there are no snapshots: %v", err)
	return nil, func() {}
}
