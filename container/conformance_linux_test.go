package container_test

import (
	"testing"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// snapshots are kept in the state of the directory, which commands cannot reach.
func snapshots(t testing.TB, dir string) workspace.Snapshotter {
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
	snaps, err := snapshot.New(root, store, snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return snaps
}
