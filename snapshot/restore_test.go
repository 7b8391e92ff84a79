//go:build linux

package snapshot_test

import (
	"os"
	"slices"
	"testing"

	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// What was changed, made and removed is as it was; unchanged files are not read
// again.
func TestRestore(t *testing.T) {
	a := newArea(t, snapshot.Options{}, "a = A", "d/b = B", "d/e/c = C", "empty/", "l -> d/b", "out -> /etc/passwd", "x = run")
	check(t, os.Chmod(a.path("x"), 0o755))
	check(t, os.Chmod(a.path("empty"), 0o700))
	a.old("d/e/c")
	a.old("d/e")
	a.old("d")
	want := a.manifest()
	first := a.save()
	if first.Stats.Files != 4 || first.Stats.Directories != 3 || first.Stats.Links != 2 || first.Stats.Read != 4 {
		t.Fatalf("the snapshot counts %+v", first.Stats)
	}
	second := a.save()
	if second.Stats.Read != 0 || second.Stats.Added != 0 {
		t.Fatalf("a tree that did not change was read: %+v", second.Stats)
	}
	a.remove("a", "d/e", "empty", "l")
	a.grow("d/b = other", "new/n = N", "l -> a")
	check(t, os.Chmod(a.path("x"), 0o600))
	changed := a.manifest()
	dry, err := a.Restore(bg, first.ID, workspace.RestoreOptions{DryRun: true})
	check(t, err)
	a.wantTree(changed)
	done := a.restore(first.ID)
	a.wantTree(want)
	if !slices.Equal(done.Restored, dry.Restored) || !slices.Equal(done.Deleted, dry.Deleted) {
		t.Errorf("done were %v and %v, planned %v and %v", done.Restored, done.Deleted, dry.Restored, dry.Deleted)
	}
	if want := []string{"a", "d/b", "d/e", "d/e/c", "empty", "l", "x"}; !slices.Equal(done.Restored, want) {
		t.Errorf("restored were %v", done.Restored)
	}
	if want := []string{"new", "new/n"}; !slices.Equal(done.Deleted, want) {
		t.Errorf("deleted were %v", done.Deleted)
	}
	a.restore(done.Backup)
	a.wantTree(changed)
	again := a.restore(done.Backup)
	if again.Backup != "" || len(again.Restored) > 0 {
		t.Errorf("nothing was to be restored: %+v", again)
	}
}
