package main

import (
	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// serverSnapshots keeps states of a server's workspaces: of a root of the server's
// own in dir, of another in the user's state directory, where those of a root lie
// whoever takes them.
func (a *app) serverSnapshots(w orchestrator.Workspace, files workspace.Files, dir string) (workspace.Snapshotter, func(), error) {
	root, ok := files.(*host.Root)
	if !ok {
		return nil, nil, workspace.Errorf(workspace.ErrUnsupported, "snapshot", w.Name, "its files are not on this machine")
	}
	at := snapshot.Place{Dir: dir}
	if dir == "" {
		var err error
		if at, err = a.env.snapshotPlace(false); err != nil {
			return nil, nil, err
		}
	}
	s, done, err := a.openSnapshots(root, at, snapshot.Options{})
	if err != nil {
		return nil, nil, err
	}
	return s, done, nil
}
