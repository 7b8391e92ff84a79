//go:build linux

package host_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// holdDir holds a directory until the test ends.
func (a *area) holdDir(name string) *host.Dir {
	a.t.Helper()
	d, err := a.r.HoldDir(bg, name)
	check(a.t, err)
	a.t.Cleanup(d.Close)
	return d
}

func find(t *testing.T, d *host.Dir, name string) host.Entry {
	t.Helper()
	e, err := d.Find(name)
	check(t, err)
	return e
}

// A tree is gone through by held directories: no link, no state, no name of
// several parts.
func TestTree(t *testing.T) {
	eachMode(t, plainSystems, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "d/e/f = F", "d/l -> e", "out -> /", ".wsctl/secret = S")
		check(t, unix.Mkfifo(a.path("d/p"), 0o600))
		for name, code := range map[string]workspace.Code{
			"d/l": workspace.ErrNotDirectory, "out": workspace.ErrNotDirectory, "out/etc": workspace.ErrNotDirectory, "d/e/f": workspace.ErrNotDirectory,
			"none": workspace.ErrNotFound, ".wsctl": workspace.ErrInvalidPath, ".WSCTL": workspace.ErrInvalidPath, "d/..": workspace.ErrInvalidPath,
			"/": workspace.ErrOutside, "": workspace.ErrInvalidPath,
		} {
			_, err := a.r.HoldDir(bg, name)
			wantCode(t, err, code)
		}
		d := a.holdDir("d")
		entries, err := d.Entries(bg)
		check(t, err)
		names := ""
		for _, e := range entries {
			names += e.Name + " "
		}
		if names != "e l p " {
			t.Errorf("the directory has %q", names)
		}
		text, err := d.ReadLink(find(t, d, "l"))
		check(t, err)
		if text != "e" {
			t.Errorf("the link says %q", text)
		}
		_, err = d.Open(bg, "p")
		wantCode(t, err, workspace.ErrNotFile)
		_, err = d.Open(bg, "e/f")
		wantCode(t, err, workspace.ErrInvalidPath)
		_, err = d.Find("..")
		wantCode(t, err, workspace.ErrInvalidPath)
		top := a.holdDir(".")
		_, err = top.Find(".wsctl")
		wantCode(t, err, workspace.ErrInvalidPath)
		_, err = top.Open(bg, "out")
		wantCode(t, err, workspace.ErrNotFile)
	})
}

// Files, links and directories are made with their mode and time, and only where
// the tree is as it was last seen.
func TestTreeChanges(t *testing.T) {
	eachMode(t, plainSystems, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "d/f = old", "d/gone = G", "d/full/x = X")
		d := a.holdDir("d")
		at := time.Unix(1_000_000_000, 77)
		put := func(name string, old host.Entry) error {
			return d.Put(bg, name, strings.NewReader("new"), host.PutOptions{Perm: 0o640, Modified: at.UnixNano(), Old: old, Sync: true})
		}
		wantCode(t, put("f", host.Entry{}), workspace.ErrConflict)
		seen := find(t, d, "f")
		check(t, os.WriteFile(a.path("d/f"), []byte("theirs"), 0o644))
		wantCode(t, put("f", seen), workspace.ErrConflict)
		if a.content("d/f") != "theirs" {
			t.Fatal("a conflict changed the file")
		}
		check(t, put("f", find(t, d, "f")))
		check(t, put("fresh", host.Entry{}))
		for _, name := range []string{"d/f", "d/fresh"} {
			fi, err := os.Lstat(a.path(name))
			check(t, err)
			if fi.Mode() != 0o640 || !fi.ModTime().Equal(at) || a.content(name) != "new" {
				t.Errorf("%s is %v of %v", name, fi.Mode(), fi.ModTime())
			}
		}
		check(t, d.PutLink(bg, "l", "/etc/passwd", at.UnixNano()))
		wantCode(t, d.PutLink(bg, "l", "x", 0), workspace.ErrConflict)
		check(t, d.PutDir(bg, "made"))
		wantCode(t, d.PutDir(bg, "l"), workspace.ErrConflict)
		fi, err := os.Lstat(a.path("d/l"))
		check(t, err)
		if !fi.ModTime().Equal(at) {
			t.Errorf("the link is of %v", fi.ModTime())
		}
		check(t, d.Set(bg, find(t, d, "made"), 0o705, at.UnixNano()))
		if fi, err = os.Lstat(a.path("d/made")); err != nil || fi.Mode() != fs.ModeDir|0o705 || !fi.ModTime().Equal(at) {
			t.Errorf("the directory is %v, %v", fi, err)
		}
		gone := find(t, d, "gone")
		check(t, os.WriteFile(a.path("d/gone"), []byte("theirs"), 0o644))
		wantCode(t, d.Delete(bg, gone), workspace.ErrConflict)
		check(t, d.Delete(bg, find(t, d, "gone")))
		check(t, d.Delete(bg, find(t, d, "l")))
		check(t, d.Delete(bg, find(t, d, "made")))
		wantCode(t, d.Delete(bg, find(t, d, "full")), workspace.ErrNotEmpty)
		check(t, os.Link(a.path("d/f"), a.path("other")))
		wantCode(t, d.Set(bg, find(t, d, "f"), 0o600, 0), workspace.ErrUnsupported)
		check(t, d.SetSelf(0o711, at.UnixNano()))
		if fi, err = os.Lstat(a.path("d")); err != nil || fi.Mode().Perm() != 0o711 || !fi.ModTime().Equal(at) {
			t.Errorf("the directory is %v, %v", fi, err)
		}
		wantCode(t, a.holdDir(".").PutDir(bg, ".wsctl"), workspace.ErrInvalidPath)
	})
}

// A file that somebody else puts in the place of the one that is to be deleted, at
// the last moment, is back in its place; without the guards it is lost.
func TestTreeDeleteRace(t *testing.T) {
	for _, off := range []string{"", "verify"} {
		var a *area
		h := host.TestHooks{Off: off, Step: func(step string) {
			if step == "move aside" {
				_ = os.WriteFile(a.path("g"), []byte("theirs"), 0o644)
				_ = os.Rename(a.path("g"), a.path("f"))
			}
		}}
		a = newArea(t, h, host.RootOptions{}, "f = F")
		d := a.holdDir(".")
		err := d.Delete(bg, find(t, d, "f"))
		wantCode(t, err, workspace.ErrConflict)
		if a.content("f") != "theirs" {
			t.Errorf("with %q off, theirs is lost", off)
		}
	}
	// Either guard alone holds. In place, the last look does.
	for off, lost := range map[string]bool{"": false, "conflict": true} {
		var a *area
		h := host.TestHooks{Off: off, Step: func(step string) {
			if step == "move aside" {
				_ = os.WriteFile(a.path("f"), []byte("theirs, longer"), 0o644)
			}
		}}
		a = newArea(t, h, host.RootOptions{}, "f = F")
		d := a.holdDir(".")
		_ = d.Delete(bg, find(t, d, "f"))
		if _, err := os.Lstat(a.path("f")); (err != nil) != lost {
			t.Errorf("with %q off: %v", off, err)
		}
	}
}

// Long runs of zeros become holes, also at the end.
func TestTreeHoles(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{})
	d := a.holdDir(".")
	content := strings.Repeat("\x00", 1<<20) + "x" + strings.Repeat("\x00", 3<<20)
	check(t, d.Put(bg, "f", strings.NewReader(content), host.PutOptions{Perm: 0o600}))
	var st unix.Stat_t
	check(t, unix.Stat(a.path("f"), &st))
	if a.content("f") != content || st.Blocks*512 > 1<<20 {
		t.Errorf("%d bytes take %d", st.Size, st.Blocks*512)
	}
}
