//go:build linux

package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

func TestRootRemove(t *testing.T) {
	eachMode(t, plainSystems, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "f", "l -> d", "dang -> no", "d/e/f", "d/g", "empty/", "out -> OUT", "d/out -> OUT")
		before := a.canary()
		wantCode(t, a.r.Remove(bg, "d", workspace.RemoveOptions{}), workspace.ErrNotEmpty)
		wantCode(t, a.r.Remove(bg, "none", workspace.RemoveOptions{}), workspace.ErrNotFound)
		wantCode(t, a.r.Remove(bg, "none", workspace.RemoveOptions{Recursive: true}), workspace.ErrNotFound)
		wantCode(t, a.r.Remove(bg, "f/", workspace.RemoveOptions{}), workspace.ErrNotDirectory)
		wantCode(t, a.r.Remove(bg, "l/", workspace.RemoveOptions{Recursive: true}), workspace.ErrInvalidPath)
		for _, name := range []string{"f", "l", "dang", "empty/", "out"} {
			check(t, a.r.Remove(bg, name, workspace.RemoveOptions{Recursive: name == "l"}))
		}
		check(t, a.r.Remove(bg, "d", workspace.RemoveOptions{Recursive: true}))
		if names := a.names("."); len(names) != 1 || len(a.names(".wsctl/pending")) != 0 {
			t.Errorf("left: %v, pending %v", names, a.names(".wsctl/pending"))
		}
		if a.canary() != before {
			t.Error("something outside was removed through a link")
		}
	})
}

// deepTree makes a chain of n directories below dir, by descriptor, since its
// path is longer than any call takes.
func deepTree(t *testing.T, dir string, n int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(t, err)
	for range n {
		check(t, unix.Mkdirat(fd, "deep", 0o755))
		next, err := unix.Openat(fd, "deep", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		check(t, err)
		unix.Close(fd)
		fd = next
	}
	f, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	check(t, err)
	unix.Close(f)
	unix.Close(fd)
}

// A tree of any depth goes, with few descriptors.
func TestRootRemoveDeep(t *testing.T) {
	eachMode(t, modes[:2], func(t *testing.T, m mode) {
		var limit unix.Rlimit
		check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
		a := newArea(t, m.hooks, host.RootOptions{}, "d/")
		depth := 3000
		if m.name != "openat2" {
			depth = 300
		}
		deepTree(t, a.path("d"), depth)
		few := limit
		few.Cur = 256
		check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
		err := a.r.Remove(bg, "d", workspace.RemoveOptions{Recursive: true})
		check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		check(t, err)
		if n := a.names(".wsctl/pending"); len(n) != 0 {
			t.Errorf("left: %v", n)
		}
	})
}

// Directories that their owner locked are opened and go.
func TestRootRemoveLocked(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "d/a/f", "d/b/c/f", "top/f")
	deepTree(t, a.path("d/b/c"), 70)
	for _, d := range []string{"d/a", "d/b/c", "d/b", "d", "top"} {
		check(t, os.Chmod(a.path(d), 0))
	}
	check(t, a.r.Remove(bg, "d", workspace.RemoveOptions{Recursive: true}))
	check(t, a.r.Remove(bg, "top", workspace.RemoveOptions{Recursive: true}))
	if names := a.names("."); len(names) != 1 {
		t.Errorf("left: %v", names)
	}
}

// What cannot be removed is put back with what is around it, and counted.
func TestRootRemoveImmutable(t *testing.T) {
	if !asRoot() {
		t.Skip("only root can make a file immutable")
	}
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "d/e/stays", "d/e/goes", "d/f")
	const immutable = 0x10 // FS_IMMUTABLE_FL, ioctl_iflags(2)
	f, err := os.Open(a.path("d/e/stays"))
	check(t, err)
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, immutable); err != nil {
		t.Skip("this file system has no immutable files:", err)
	}
	defer func() { check(t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)) }()
	err = a.r.Remove(bg, "d", workspace.RemoveOptions{Recursive: true})
	wantCode(t, err, workspace.ErrDenied)
	if !strings.Contains(err.Error(), "1 entries") || !strings.Contains(err.Error(), "stays") {
		t.Errorf("the error does not name what is left: %v", err)
	}
	if names := a.names("d/e"); len(names) != 1 || names[0] != "stays" {
		t.Errorf("left: %v", names)
	}
}

// A removal that is cancelled is finished by the next opening.
func TestRootRemoveCancelled(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{})
	for i := range 20 {
		fill(t, a.in, fmt.Sprintf("d/%d", i), 100)
	}
	ctx := &countdown{Context: bg, n: 4}
	err := a.r.Remove(ctx, "d", workspace.RemoveOptions{Recursive: true})
	wantCode(t, err, workspace.ErrAborted)
	if names := a.names(".wsctl/pending"); len(names) != 1 || !strings.HasPrefix(names[0], "delete-") || !strings.Contains(err.Error(), names[0]) {
		t.Fatalf("pending: %v; %v", names, err)
	}
	if _, err := os.Lstat(a.path("d")); err == nil {
		t.Error("the directory is still in its place")
	}
	a.r.Close()
	// Too young for a leftover, then old enough.
	for age, want := range map[time.Duration]int{time.Hour: 1, -1: 1} {
		r, err := host.OpenRoot(a.in, host.RootOptions{LeftoverAge: age})
		check(t, err)
		_, err = r.Leftovers(bg)
		check(t, err)
		check(t, r.Close())
		if n := len(a.names(".wsctl/pending")); n != want {
			t.Errorf("age %v: %d left", age, n)
		}
	}
	r, err := host.OpenRoot(a.in, host.RootOptions{LeftoverAge: 1})
	check(t, err)
	defer r.Close()
	left, err := r.Leftovers(bg)
	check(t, err)
	if len(left.Finished) != 1 || len(a.names(".wsctl/pending")) != 0 {
		t.Errorf("%+v, left %v", left, a.names(".wsctl/pending"))
	}
}

// countdown is a context that ends after its Err was asked n times.
type countdown struct {
	context.Context //nolint:containedctx // it is one
	n               int
}

func (c *countdown) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

func TestRootRename(t *testing.T) {
	eachMode(t, modes, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "f = F", "g = G", "d/x = X", "d/z/", "e/y = Y", "e/z/", "empty/", "l -> f", "sub/")
		over := workspace.RenameOptions{Overwrite: true}
		none := workspace.RenameOptions{}
		before := treeHash(t, a.in)
		for _, c := range []struct {
			from, to string
			o        workspace.RenameOptions
			code     workspace.Code
		}{
			{"f", "g", none, workspace.ErrExists},
			{"d", "e", none, workspace.ErrExists},
			{"d", "empty", none, workspace.ErrExists},
			{"f", "l", none, workspace.ErrExists},
			{"d", "f", over, workspace.ErrNotDirectory},
			{"f", "empty", over, workspace.ErrNotFile},
			{"f", "d", over, workspace.ErrNotFile},
			{"d", "d/x/y", none, workspace.ErrNotDirectory},
			{"d", "d/new", none, workspace.ErrInvalidArgument},
			{"e", "e/z", over, workspace.ErrInvalidArgument},
			{"d/z", "d", over, workspace.ErrInvalidArgument},
			{"d", "d/x", over, workspace.ErrNotDirectory},
			{"sub", "sub/a/b", none, workspace.ErrNotFound},
			{"none", "x", none, workspace.ErrNotFound},
			{".", "x", none, workspace.ErrInvalidPath},
			{"f", ".", over, workspace.ErrExists},
			{"f", "new/", none, workspace.ErrNotDirectory},
			{"f", ".wsctl", over, workspace.ErrInvalidPath},
			{"f", "../out/f", over, workspace.ErrOutside},
			{"f", "f", none, ""},
			{"d", "./d", over, ""},
		} {
			wantCode(t, a.r.Rename(bg, c.from, c.to, c.o), c.code)
		}
		if treeHash(t, a.in) != before {
			t.Error("a refused rename moved something")
		}
		check(t, a.r.Rename(bg, "f", "new", none))
		check(t, a.r.Rename(bg, "new", "g", over))
		check(t, a.r.Rename(bg, "d", "moved/", none))
		check(t, a.r.Rename(bg, "moved", "e", over))
		check(t, a.r.Rename(bg, "l", "sub/l", none))
		if got := a.content("g"); got != "F" {
			t.Errorf("g holds %q", got)
		}
		if names := strings.Join(a.names("e"), " "); names != "x z" {
			t.Errorf("e holds %v", names)
		}
		if text, err := os.Readlink(a.path("sub/l")); text != "f" {
			t.Errorf("the moved link: %q, %v", text, err)
		}
		if n := a.names(".wsctl/pending"); len(n) != 0 {
			t.Errorf("left: %v", n)
		}
		// Two names of one file: the second one stays.
		check(t, os.Link(a.path("g"), a.path("h")))
		check(t, a.r.Rename(bg, "g", "h", over))
		if _, err := os.Lstat(a.path("g")); err == nil {
			t.Error("the old name is still there")
		}
	})
}

// Without the flags of renameat2 files move all the same, and a directory is
// refused rather than put over another one.
func TestRootRenameWithoutFlags(t *testing.T) {
	a := newArea(t, host.TestHooks{NoFlags: true}, host.RootOptions{}, "f = F", "g = G", "d/")
	check(t, a.r.Rename(bg, "f", "new", workspace.RenameOptions{}))
	wantCode(t, a.r.Rename(bg, "new", "g", workspace.RenameOptions{}), workspace.ErrExists)
	check(t, a.r.Rename(bg, "new", "g", workspace.RenameOptions{Overwrite: true}))
	if a.content("g") != "F" {
		t.Error("g holds", a.content("g"))
	}
	wantCode(t, a.r.Rename(bg, "d", "e", workspace.RenameOptions{}), workspace.ErrUnsupported)
}

// Descriptors are given back, whatever a call answers.
func TestRootDescriptors(t *testing.T) {
	count := func() int {
		names, err := filepath.Glob("/proc/self/fd/*")
		check(t, err)
		return len(names)
	}
	before := count()
	eachMode(t, plainSystems, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "f = F", "d/sub/secret = S", "d/secret", "l -> d", "out -> OUT", "loop -> loop")
		open := count()
		for range 3 {
			for _, form := range []string{"f", "d", "l", "l/sub/..", "out", "loop", "missing", "d/../f", ".", "d/secret", "new", "l/new/"} {
				for _, op := range fileOps {
					_ = op(a, form)
				}
			}
		}
		// The state is held once it is known.
		if n := count(); n > open+1 {
			t.Errorf("%d descriptors are left", n-open)
		}
		check(t, a.r.Close())
	})
	if n := count(); n != before {
		t.Errorf("%d descriptors are left after Close", n-before)
	}
}
