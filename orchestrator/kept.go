//go:build unix

package orchestrator

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/wsctl/wsctl/workspace"
)

// snapshotsName is the directory of the snapshots of our own roots, in Dir. They
// lie outside of the roots, and go with them.
const snapshotsName = "snapshots"

// snapshotDir is where the snapshots of a root of our own are; empty for another
// root.
func (o *Orchestrator) snapshotDir(w Workspace) string {
	if !w.managed() {
		return ""
	}
	return filepath.Join(o.cfg.Dir, snapshotsName, w.ID)
}

// removeSnapshots removes those of a root of our own.
func (o *Orchestrator) removeSnapshots(w Workspace) error {
	if err := os.RemoveAll(o.snapshotDir(w)); err != nil {
		return workspace.Errorf(workspace.ErrIO, "remove", w.Name, "its snapshots: %w", err)
	}
	return nil
}

// removeLostSnapshots removes those that no workspace has.
func (o *Orchestrator) removeLostSnapshots() error {
	return o.removeUnknown(filepath.Join(o.cfg.Dir, snapshotsName), o.hasWorkspace)
}

// hasWorkspace tells whether there is a workspace with that id, while nobody else is
// at work yet.
func (o *Orchestrator) hasWorkspace(id string) bool { return o.entries[id] != nil }

// removeUnknown removes what is in one of our own directories, which need not be
// there, and unknown.
func (o *Orchestrator) removeUnknown(dir string, known func(name string) bool) error {
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return workspace.Errorf(workspace.ErrIO, "open", dir, "%w", err)
	}
	for _, d := range list {
		if !known(d.Name()) {
			o.leak(d.Name(), os.RemoveAll(filepath.Join(dir, d.Name())))
		}
	}
	return nil
}
