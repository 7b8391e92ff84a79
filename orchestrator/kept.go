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
	dir := filepath.Join(o.cfg.Dir, snapshotsName)
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return workspace.Errorf(workspace.ErrIO, "open", dir, "%w", err)
	}
	for _, d := range list {
		if o.entries[d.Name()] == nil {
			o.leak(d.Name(), os.RemoveAll(filepath.Join(dir, d.Name())))
		}
	}
	return nil
}
