package main

import (
	"os"
	"path/filepath"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// agentSnapshots keeps states of d's tree in the user's state directory, where no
// command and no git clean reaches them. Nil where that cannot be: the rest
// works without. done closes what is open.
func (a *app) agentSnapshots(d workspace.Driver) (kept workspace.Snapshotter, done func()) {
	done = func() {}
	root, ok := d.Files().(*host.Root)
	state := a.env.stateDir()
	if !ok || state == "" {
		a.ui.warn("there are no snapshots: neither HOME nor XDG_STATE_HOME is an absolute path")
		return nil, done
	}
	at := snapshot.Place{Beside: filepath.Join(state, "snapshots")}
	err := os.MkdirAll(at.Beside, 0o700)
	var store *snapshot.Store
	if err == nil {
		store, err = snapshot.Open(root, at)
	}
	if err != nil {
		a.ui.warn("there are no snapshots: %v", err)
		return nil, done
	}
	s, err := snapshot.New(root, store, snapshot.Options{Logger: a.ui.logger()})
	if err != nil {
		store.Close()
		a.ui.warn("there are no snapshots: %v", err)
		return nil, done
	}
	return s, store.Close
}
