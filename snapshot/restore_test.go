//go:build linux

package snapshot_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// What was changed, made and removed is as it was; unchanged files are not read
// again.
func TestRestore(t *testing.T) {
	t.Parallel()
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

// Whatever is planted at the places of a restore is replaced inside, never
// followed: links out, dangling links, a link as a parent, FIFOs, directories.
func TestRestoreOverPlants(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	check(t, os.WriteFile(filepath.Join(out, "f"), []byte("canary"), 0o644))
	a := newArea(t, snapshot.Options{}, "f = F", "d/f = DF", "d/e/g = G", "l -> f")
	want := a.manifest()
	s := a.save()
	for name, plant := range map[string]func(){
		"link out":          func() { a.remove("f"); a.grow("f -> " + filepath.Join(out, "f")) },
		"dangling link":     func() { a.remove("f"); a.grow("f -> " + filepath.Join(out, "new")) },
		"link as parent":    func() { a.remove("d"); a.grow("d -> " + out) },
		"link deep":         func() { a.remove("d/e"); a.grow("d/e -> " + out) },
		"FIFO":              func() { a.remove("f"); a.grow("f|") },
		"directory":         func() { a.remove("f"); a.grow("f/x/y = Y") },
		"file as directory": func() { a.remove("d"); a.grow("d = D") },
		"directory as link": func() { a.remove("l"); a.grow("l/x = X") },
		"hard link": func() {
			a.remove("f")
			check(t, os.Link(filepath.Join(out, "f"), a.path("f")))
		},
	} {
		plant()
		a.restore(s.ID)
		a.wantTree(want)
		if b, err := os.ReadFile(filepath.Join(out, "f")); string(b) != "canary" {
			t.Errorf("%s: outside there is %q, %v", name, b, err)
		}
		if names, _ := os.ReadDir(out); len(names) != 1 {
			t.Errorf("%s: outside something was made", name)
		}
	}
}

// Every kind of entry becomes every other one, and back, twice.
func TestRestoreOtherKinds(t *testing.T) {
	t.Parallel()
	kinds := map[string][]string{
		"file": {"x = X"}, "empty directory": {"x/"}, "full directory": {"x/a/b = B", "x/c = C"},
		"link": {"x -> keep"}, "dangling link": {"x -> nowhere"}, "nothing": nil,
	}
	a := newArea(t, snapshot.Options{}, "keep = K")
	for from, before := range kinds {
		for to, after := range kinds {
			a.remove("x")
			a.grow(before...)
			first, wantFirst := a.save(), a.manifest()
			a.remove("x")
			a.grow(after...)
			second, wantSecond := a.save(), a.manifest()
			for range 2 {
				a.restore(first.ID)
				a.wantTree(wantFirst)
				a.restore(second.ID)
				a.wantTree(wantSecond)
			}
			if t.Failed() {
				t.Fatalf("from %s to %s", from, to)
			}
		}
		// A FIFO cannot be kept; where the snapshot has something it goes.
		a.remove("x")
		a.grow(before...)
		s, want := a.save(), a.manifest()
		a.remove("x")
		a.grow("x|")
		a.restore(s.ID)
		if before == nil {
			if fi, err := os.Lstat(a.path("x")); err != nil || fi.Mode().Type() != fs.ModeNamedPipe {
				t.Errorf("a FIFO that no snapshot could keep is gone: %v", err)
			}
			continue
		}
		a.wantTree(want)
	}
}

// Modes and times of files and directories are as they were, also of directories
// that were there and of read-only ones, which are filled all the same.
func TestRestoreModesAndTimes(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "ro/sub/f = F", "ro/g = G", "private/", "secret = S", "run = R", "empty/")
	for name, mode := range map[string]fs.FileMode{"ro/g": 0o400, "secret": 0o440, "run": 0o755, "private": 0o700, "ro/sub": 0o555, "ro": 0o555} {
		check(t, os.Chmod(a.path(name), mode))
	}
	for _, name := range []string{"ro/sub/f", "ro/sub", "ro", "private", "run", "empty", "."} {
		a.old(name)
	}
	want := a.manifest()
	s := a.save()
	check(t, os.Chmod(a.path("ro"), 0o755))
	check(t, os.Chmod(a.path("ro/sub"), 0o755))
	a.remove("ro/sub/f", "ro/g", "empty", "secret")
	a.grow("ro/new = N", "ro/sub/more/x = X", "private/x = X")
	check(t, os.Chmod(a.path("run"), 0o644))
	check(t, os.Chmod(a.path("private"), 0o755))
	check(t, os.Chmod(a.path("ro/sub"), 0o555))
	check(t, os.Chmod(a.path("ro"), 0o555))
	a.restore(s.ID)
	a.wantTree(want)
	// Only a time differs.
	now := time.Now()
	check(t, os.Chtimes(a.path("run"), now, now))
	check(t, os.Chtimes(a.path("private"), now, now))
	done := a.restore(s.ID)
	a.wantTree(want)
	if !slices.Equal(done.Restored, []string{"run"}) {
		t.Errorf("restored were %v", done.Restored)
	}
	// So that the test's directory can be removed.
	check(t, os.Chmod(a.path("ro"), 0o755))
	check(t, os.Chmod(a.path("ro/sub"), 0o755))
}

// A restore goes by the rules of the snapshot: what it left out, skipped or could
// not have kept stays, whatever the rules are now. The plan is the deed.
func TestRestoreLeavesWhatWasNotKept(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{MaxFileBytes: 100},
		"f = F", "out/o = O", "big = "+strings.Repeat("b", 200), "d/big = "+strings.Repeat("b", 200), "d/x = X", "p|")
	s := a.saveWith(workspace.SaveOptions{Exclude: []string{"out"}})
	a.grow("out/o = changed", "out/new = N", "big = now small", "d/big = "+strings.Repeat("c", 300),
		"new = N", "newbig = "+strings.Repeat("n", 200), "newdir/plain = P", "newdir/node_modules/m = M", "newdir/.git/HEAD = x", "q|")
	a.remove("d/x")
	// The same area with other rules.
	snaps, err := snapshot.New(a.root, a.store, snapshot.Options{Exclude: []string{"new"}})
	check(t, err)
	dry, err := snaps.Restore(bg, s.ID, workspace.RestoreOptions{DryRun: true})
	check(t, err)
	done, err := snaps.Restore(bg, s.ID, workspace.RestoreOptions{})
	check(t, err)
	if !slices.Equal(dry.Restored, done.Restored) || !slices.Equal(dry.Deleted, done.Deleted) || !slices.Equal(dry.Kept, done.Kept) {
		t.Errorf("planned was %+v and done %+v", dry, done)
	}
	if want := []string{"d/x"}; !slices.Equal(done.Restored, want) {
		t.Errorf("restored were %v", done.Restored)
	}
	if want := []string{"new", "newdir/plain"}; !slices.Equal(done.Deleted, want) {
		t.Errorf("deleted were %v", done.Deleted)
	}
	kept := map[string]bool{}
	for _, e := range done.Kept {
		kept[e.Path] = true
	}
	for _, name := range []string{"big", "d/big", "newbig", "out", "p", "q"} {
		if !kept[name] {
			t.Errorf("%s is not told to be kept: %+v", name, done.Kept)
		}
	}
	for name, want := range map[string]string{"out/o": "changed", "out/new": "N", "big": "now small", "newdir/node_modules/m": "M", "newdir/.git/HEAD": "x"} {
		if got := a.content(name); got != want {
			t.Errorf("%s holds %q", name, got)
		}
	}
	if a.content("f") != "F" || a.content("d/x") != "X" {
		t.Error("what the snapshot has is not back")
	}
}

// Repositories, their look-alikes and links to them are left as they are to the
// last byte.
func TestRestoreTouchesNoRepository(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	check(t, os.WriteFile(filepath.Join(out, "HEAD"), []byte("canary"), 0o644))
	a := newArea(t, snapshot.Options{}, "f = F", ".git/HEAD = one", "wt/.git = gitdir: ../.git", "nested/.git/HEAD = n", "nested/x = X",
		"up/.GIT/HEAD = up", "lnk/.git -> "+out, "mod/node_modules -> "+out)
	s := a.save()
	a.grow(".git/HEAD = two", ".git/objects/aa = commit", "nested/.git/HEAD = m", "f = other", "late/.git/HEAD = late", "late/x = X")
	a.remove("wt/.git")
	a.grow("wt/.git = gitdir: elsewhere")
	before := manifestOf(t, a.dir, ".git", ".GIT", "node_modules")
	a.restore(s.ID)
	if after := manifestOf(t, a.dir, ".git", ".GIT", "node_modules"); !slices.Equal(after, before) {
		t.Errorf("repositories are\n%q\nand were\n%q", after, before)
	}
	if a.content("f") != "F" {
		t.Error("f is not restored")
	}
	if _, err := os.Lstat(a.path("late/x")); err == nil {
		t.Error("a new file beside a repository stays")
	}
	if b, _ := os.ReadFile(filepath.Join(out, "HEAD")); string(b) != "canary" {
		t.Errorf("outside there is %q", b)
	}
}

// manifestOf are those lines of the manifest that have one of the names in their
// paths.
func manifestOf(t *testing.T, dir string, names ...string) []string {
	t.Helper()
	return slices.DeleteFunc(manifest(t, dir), func(line string) bool {
		path, _, _ := strings.Cut(line, " ")
		return !slices.ContainsFunc(strings.Split(path, "/"), func(part string) bool { return slices.Contains(names, part) })
	})
}

// Paths are names, never patterns, and reach no further than they say.
func TestRestorePaths(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "1_x (y) [v].mp3 = M", "1_x (y) v.mp3 = V", "d/a = A", "d/b = B", "dd/c = C", "e/f/g = G")
	s := a.save()
	a.grow("1_x (y) [v].mp3 = other", "1_x (y) v.mp3 = other", "d/a = other", "d/new = N", "dd/c = other")
	a.remove("e")
	one := func(paths ...string) workspace.Restored {
		t.Helper()
		r, err := a.Restore(bg, s.ID, workspace.RestoreOptions{Paths: paths})
		check(t, err)
		return r
	}
	if r := one("1_x (y) [v].mp3"); !slices.Equal(r.Restored, []string{"1_x (y) [v].mp3"}) || len(r.Deleted) > 0 {
		t.Errorf("restored were %v, deleted %v", r.Restored, r.Deleted)
	}
	if r := one("./d/"); !slices.Equal(r.Restored, []string{"d/a"}) || !slices.Equal(r.Deleted, []string{"d/new"}) {
		t.Errorf("restored were %v, deleted %v", r.Restored, r.Deleted)
	}
	if r := one("e/f/g"); !slices.Equal(r.Restored, []string{"e", "e/f", "e/f/g"}) {
		t.Errorf("restored were %v", r.Restored)
	}
	a.grow("fresh/x/y = Y", "fresh/z = Z")
	if r := one("fresh/x"); !slices.Equal(r.Deleted, []string{"fresh/x", "fresh/x/y"}) {
		t.Errorf("deleted were %v", r.Deleted)
	}
	if a.content("dd/c") != "other" || a.content("1_x (y) v.mp3") != "other" || a.content("fresh/z") != "Z" {
		t.Error("what was not asked for was changed")
	}
	for _, name := range []string{"nope", "d/a/x", "*"} {
		_, err := a.Restore(bg, s.ID, workspace.RestoreOptions{Paths: []string{name}})
		wantCode(t, err, workspace.ErrNotFound)
	}
	for name, code := range map[string]workspace.Code{"../x": workspace.ErrOutside, "/etc": workspace.ErrOutside, "a/../../b": workspace.ErrOutside, "": workspace.ErrInvalidPath, "a\x00": workspace.ErrInvalidPath} {
		_, err := a.Restore(bg, s.ID, workspace.RestoreOptions{Paths: []string{name}})
		wantCode(t, err, code)
	}
}

// Content that no snapshot has goes to the trash when a restore displaces it.
func TestRestoreTrashesWhatNobodyHas(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{MaxFileBytes: 100}, "f = F")
	s := a.save()
	large := strings.Repeat("l", 200)
	a.grow("f = " + large)
	a.restore(s.ID)
	if a.content("f") != "F" {
		t.Error("f is not restored")
	}
	items, err := a.root.Trash(bg)
	check(t, err)
	if len(items) != 1 || items[0].Path != "f" {
		t.Fatalf("in the trash are %+v", items)
	}
	check(t, a.root.RestoreTrash(bg, items[0].ID, "back"))
	if a.content("back") != large {
		t.Error("the large file is lost")
	}
}

// A tree that somebody changes all the time is restored beside them: nothing
// outside is written, and what changed after it was looked at is told.
func TestRestoreBesideAnAttacker(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	check(t, os.WriteFile(filepath.Join(out, "f"), []byte("canary"), 0o644))
	a := newArea(t, snapshot.Options{}, "d/f = F", "d/e/f = F", "g = G")
	s := a.save()
	stop, done := make(chan struct{}), make(chan struct{})
	swaps := 0
	go func() {
		defer close(done)
		for ; ; swaps++ {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(a.path("d"), a.path("d2"))
			_ = os.Symlink(out, a.path("d"))
			_ = os.WriteFile(a.path("g"), []byte("attack"), 0o644)
			_ = os.Remove(a.path("d"))
			_ = os.Rename(a.path("d2"), a.path("d"))
			_ = os.Rename(a.path("g"), a.path("d/f"))
		}
	}()
	worked := 0
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		_, err := a.Restore(bg, s.ID, workspace.RestoreOptions{NoBackup: worked%2 == 0})
		if err != nil && workspace.CodeOf(err) != workspace.ErrConflict && workspace.CodeOf(err) != workspace.ErrNotFound {
			t.Fatal(err)
		}
		if err == nil {
			worked++
		}
	}
	close(stop)
	<-done
	if swaps == 0 || worked == 0 {
		t.Errorf("%d swaps, %d restores", swaps, worked)
	}
	if b, _ := os.ReadFile(filepath.Join(out, "f")); string(b) != "canary" {
		t.Errorf("outside there is %q", b)
	}
	if names, _ := os.ReadDir(out); len(names) != 1 {
		t.Errorf("outside there are %d entries", len(names))
	}
	a.remove("d", "d2", "g")
	a.restore(s.ID)
	if a.content("d/f") != "F" || a.content("d/e/f") != "F" || a.content("g") != "G" {
		t.Error("the tree is not back")
	}
	a.wantWhole()
}
