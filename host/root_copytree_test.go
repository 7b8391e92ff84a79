//go:build linux

package host_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// A tree is copied with all it holds: modes without special bits, links as they
// are, and never what they lead to.
func TestCopyTree(t *testing.T) {
	eachMode(t, plainSystems[:len(plainSystems)-2], func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "src/a/f = F", "src/empty/", "src/out -> OUT", "src/a/l -> ../a/f", "src/gone -> nothing", "taken = T", "old/x = X", "f = file")
		check(t, os.Chmod(a.path("src/a/f"), 0o4750))
		check(t, os.Chmod(a.path("src/empty"), 0o500))
		before := a.canary()
		check(t, a.r.CopyTree(bg, "src", "new/dst", host.CopyTreeOptions{}))
		if got, want := listing(t, a.path("new/dst")), listing(t, a.path("src")); !slices.Equal(got, want) {
			t.Errorf("copied: %q, want %q", got, want)
		}
		wantMode(t, a, "new/dst/a/f", 0o750)
		wantMode(t, a, "new/dst/empty", 0o500)
		// Into itself, and all but the state.
		check(t, a.r.CopyTree(bg, "src/a", "src/a/again", host.CopyTreeOptions{}))
		check(t, a.r.CopyTree(bg, ".", "all", host.CopyTreeOptions{}))
		if names := a.names("all"); slices.Contains(names, ".wsctl") || slices.Contains(names, "all") {
			t.Errorf("the root's copy holds %v", names)
		}
		wantCode(t, a.r.CopyTree(bg, "src", "taken", host.CopyTreeOptions{}), workspace.ErrExists)
		wantCode(t, a.r.CopyTree(bg, "src", "taken", host.CopyTreeOptions{Overwrite: true}), workspace.ErrNotDirectory)
		wantCode(t, a.r.CopyTree(bg, "src", "src/out/x", host.CopyTreeOptions{}), workspace.ErrOutside)
		wantCode(t, a.r.CopyTree(bg, "src/out/sub", "x", host.CopyTreeOptions{}), workspace.ErrOutside)
		wantCode(t, a.r.CopyTree(bg, ".wsctl", "x", host.CopyTreeOptions{}), workspace.ErrInvalidPath)
		wantCode(t, a.r.CopyTree(bg, "src", ".wsctl/x", host.CopyTreeOptions{}), workspace.ErrInvalidPath)
		wantCode(t, a.r.CopyTree(bg, "none", "x", host.CopyTreeOptions{}), workspace.ErrNotFound)
		if m.name != "no flags" {
			check(t, a.r.CopyTree(bg, "src/a", "old", host.CopyTreeOptions{Overwrite: true}))
			if names := a.names("old"); slices.Contains(names, "x") || a.content("old/f") != "F" {
				t.Errorf("overwritten: %v", names)
			}
		}
		// A file and a link are copied too.
		check(t, a.r.CopyTree(bg, "f", "f2", host.CopyTreeOptions{}))
		check(t, a.r.CopyTree(bg, "src/out", "out2", host.CopyTreeOptions{}))
		if target, err := os.Readlink(a.path("out2")); a.content("f2") != "file" || target != a.out {
			t.Errorf("f2 holds %q, out2 leads to %q, %v", a.content("f2"), target, err)
		}
		if a.canary() != before {
			t.Error("something outside was changed")
		}
		a.nothingStaged()
		check(t, os.Chmod(a.path("src/empty"), 0o700))
	})
}

// nothingStaged fails when something is left in the state.
func (a *area) nothingStaged() {
	a.t.Helper()
	if left := a.names(".wsctl/pending"); len(left) > 0 {
		a.t.Errorf("left in the state: %v", left)
	}
}

// What fails leaves nothing: a special file, a limit, an end of the context.
func TestCopyTreeFails(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "src/a = 12345", "src/b = 12345", "src/sub/c = 1")
	before := listing(t, a.in)
	wantCode(t, a.r.CopyTree(bg, "src", "dst", host.CopyTreeOptions{MaxBytes: 10}), workspace.ErrTooLarge)
	ctx, cancel := context.WithCancel(bg)
	cancel()
	wantCode(t, a.r.CopyTree(ctx, "src", "dst", host.CopyTreeOptions{}), workspace.ErrAborted)
	wantCode(t, a.r.CopyTree(&countdown{Context: bg, n: 3}, "src", "dst", host.CopyTreeOptions{}), workspace.ErrAborted)
	if got := listing(t, a.in); !slices.Equal(got, before) {
		t.Errorf("left: %q", got)
	}
	mkfifo(t, a.path("src/sub/fifo"))
	err := a.r.CopyTree(bg, "src", "dst", host.CopyTreeOptions{})
	wantCode(t, err, workspace.ErrNotFile)
	if err != nil && !strings.Contains(err.Error(), "src/sub/fifo") {
		t.Errorf("the error does not name the FIFO: %v", err)
	}
	check(t, unix.Unlink(a.path("src/sub/fifo")))
	if got := listing(t, a.in); !slices.Equal(got, before) {
		t.Errorf("left: %q", got)
	}
	a.nothingStaged()
	check(t, a.r.CopyTree(bg, "src", "dst", host.CopyTreeOptions{MaxBytes: 11}))
}

// Directories are exchanged with links to outside while their tree is copied.
func TestRaceCopyTree(t *testing.T) {
	eachMode(t, modes[:2], func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "src/d/secret = inside", "src/d/sub/secret = inside")
		race(t, swapper(t, a, "src/d"), func(i int) bool {
			if err := a.r.CopyTree(bg, "src", "dst", host.CopyTreeOptions{}); err != nil {
				return false
			}
			for _, name := range []string{"dst/d/secret", "dst/d/sub/secret"} {
				if fi, err := os.Lstat(a.path("dst/d")); err == nil && fi.IsDir() {
					if got := a.content(name); got != "inside" {
						t.Errorf("copied from outside: %q", got)
					}
				}
			}
			check(t, a.r.Remove(bg, "dst", workspace.RemoveOptions{Recursive: true}))
			return true
		})
		a.nothingStaged()
	})
}

// The id of what went to the trash brings it back.
func TestRemoveToTrash(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "d/f = F")
	id, err := a.r.RemoveToTrash(bg, "d")
	check(t, err)
	check(t, a.r.RestoreTrash(bg, id, ""))
	if a.content("d/f") != "F" {
		t.Error("it is not back")
	}
	_, err = a.r.RemoveToTrash(bg, "none")
	wantCode(t, err, workspace.ErrNotFound)
}
