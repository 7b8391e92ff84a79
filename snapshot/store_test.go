//go:build linux

package snapshot_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// beside opens the store of dir among those in base.
func beside(t *testing.T, base, dir string) (*snapshot.Store, *snapshot.Snapshots) {
	t.Helper()
	root, err := host.OpenRoot(dir, host.RootOptions{})
	check(t, err)
	t.Cleanup(func() { root.Close() })
	store, err := snapshot.Open(root, snapshot.Place{Beside: base})
	check(t, err)
	t.Cleanup(store.Close)
	s, err := snapshot.New(root, store, snapshot.Options{})
	check(t, err)
	return store, s
}

// The id in a root can be copied with the root, so it alone gives nobody the
// snapshots of another one: a copy has a store of its own, and a root that was
// moved keeps its.
func TestStoreBelongsToItsRoot(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	base, one, two := filepath.Join(top, "state"), filepath.Join(top, "one"), filepath.Join(top, "two")
	check(t, os.Mkdir(one, 0o755))
	check(t, os.WriteFile(filepath.Join(one, "f"), []byte("secret"), 0o600))
	_, s := beside(t, base, one)
	saved, err := s.Save(bg, workspace.SaveOptions{})
	check(t, err)
	out, err := exec.Command("cp", "-a", one, two).CombinedOutput() //nolint:noctx // it ends by itself
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	copied, inCopy := beside(t, base, two)
	if list, err := copied.List(bg); err != nil || len(list) != 0 {
		t.Fatalf("a copy of the root got the snapshots %v, %v", list, err)
	}
	_, err = inCopy.Restore(bg, saved.ID, workspace.RestoreOptions{})
	wantCode(t, err, workspace.ErrNotFound)
	again, _ := beside(t, base, two)
	if again.Name() != copied.Name() {
		t.Errorf("the copy has the store %s and then %s", copied.Name(), again.Name())
	}
	moved := filepath.Join(top, "moved")
	check(t, os.Rename(one, moved))
	_, s = beside(t, base, moved)
	if list, err := s.List(bg); err != nil || len(list) != 1 {
		t.Fatalf("the root that was moved has the snapshots %v, %v", list, err)
	}
}

// A store in a named directory that belongs to another root is refused, unless
// it is to be taken over; a directory with other files is no store.
func TestStoreOfAnotherRoot(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "f = F")
	saved := a.save()
	other := filepath.Join(t.TempDir(), "other")
	check(t, os.Mkdir(other, 0o755))
	root, err := host.OpenRoot(other, host.RootOptions{})
	check(t, err)
	defer root.Close()
	_, err = snapshot.Open(root, snapshot.Place{Dir: a.at})
	wantCode(t, err, workspace.ErrConflict)
	store, err := snapshot.Open(root, snapshot.Place{Dir: a.at, Adopt: true})
	check(t, err)
	defer store.Close()
	s, err := snapshot.New(root, store, snapshot.Options{})
	check(t, err)
	_, err = s.Restore(bg, saved.ID, workspace.RestoreOptions{})
	check(t, err)
	if b, err := os.ReadFile(filepath.Join(other, "f")); string(b) != "F" {
		t.Errorf("the adopted snapshot gave %q, %v", b, err)
	}
	full := t.TempDir()
	check(t, os.WriteFile(filepath.Join(full, "thesis.doc"), nil, 0o600))
	_, err = snapshot.Open(root, snapshot.Place{Dir: full})
	wantCode(t, err, workspace.ErrNotEmpty)
	_, err = snapshot.Open(root, snapshot.Place{Dir: full, Beside: full})
	wantCode(t, err, workspace.ErrInvalidArgument)
}

// A store of a later version is left alone.
func TestStoreOfALaterVersion(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "f = F")
	name := filepath.Join(a.at, "store.json")
	b, err := os.ReadFile(name)
	check(t, err)
	check(t, os.WriteFile(name, []byte(strings.Replace(string(b), `"version": 1`, `"version": 2`, 1)), 0o600))
	_, err = snapshot.Open(a.root, snapshot.Place{Dir: a.at})
	wantCode(t, err, workspace.ErrUnsupported)
	check(t, os.WriteFile(name, []byte("{"), 0o600))
	_, err = snapshot.Open(a.root, snapshot.Place{Dir: a.at})
	wantCode(t, err, workspace.ErrCorrupt)
}

// In the root the store lies in the state, and nothing of it is in a snapshot.
func TestStoreInTheRoot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "f"), []byte("F"), 0o600))
	root, err := host.OpenRoot(dir, host.RootOptions{})
	check(t, err)
	defer root.Close()
	store, err := snapshot.Open(root, snapshot.Place{})
	check(t, err)
	defer store.Close()
	s, err := snapshot.New(root, store, snapshot.Options{})
	check(t, err)
	saved, err := s.Save(bg, workspace.SaveOptions{})
	check(t, err)
	if saved.Stats.Files != 1 || saved.Stats.Directories != 0 {
		t.Errorf("the snapshot counts %+v", saved.Stats)
	}
	private(t, filepath.Join(dir, host.StateName, "snapshots"))
}

// private fails unless everything below dir is its owner's alone.
func private(t *testing.T, dir string) {
	t.Helper()
	files := 0
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if fi.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, fi.Mode())
		}
		return nil
	}))
	if files < 4 {
		t.Errorf("the store has %d files", files)
	}
}

// Saves, restores, reads and removals through several handles of one store, as
// several processes have them, leave it whole.
func TestStoreSharedByMany(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "a = A", "d/b = B")
	keep := a.save()
	var wg sync.WaitGroup
	for i := range 4 {
		root, err := host.OpenRoot(a.dir, host.RootOptions{LeftoverAge: -1})
		check(t, err)
		defer root.Close()
		store, err := snapshot.Open(root, snapshot.Place{Dir: a.at})
		check(t, err)
		defer store.Close()
		s, err := snapshot.New(root, store, snapshot.Options{})
		check(t, err)
		wg.Go(func() {
			for n := range 5 {
				name := filepath.Join(a.dir, string(rune('p'+i)))
				if err := os.WriteFile(name, []byte{byte(n), byte(i)}, 0o644); err != nil {
					t.Error(err)
					return
				}
				snap, err := s.Save(bg, workspace.SaveOptions{})
				if err == nil && n%2 == 0 {
					err = s.Delete(bg, snap.ID)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	a.wantWhole()
	list, err := a.List(bg)
	check(t, err)
	if len(list) != 1+4*2 {
		t.Errorf("there are %d snapshots", len(list))
	}
	a.restore(keep.ID)
	if got := a.content("d/b"); got != "B" {
		t.Errorf("d/b holds %q", got)
	}
}

// wantWhole fails when anything in the store is damaged.
func (a *area) wantWhole() {
	a.t.Helper()
	v, err := a.store.Verify(bg)
	check(a.t, err)
	if len(v.Problems) > 0 {
		a.t.Fatalf("the store is damaged: %+v", v.Problems)
	}
}
