//go:build linux

package host_test

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// inMounts runs a test on a thread with mounts of its own, which go with it.
func inMounts(t *testing.T, run func(t *testing.T, dir string)) {
	t.Helper()
	if !asRoot() {
		t.Skip("only root can mount")
	}
	dir := t.TempDir()
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread is never unlocked, so it ends with the goroutine.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			t.Errorf("no mount namespace: %v", err)
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Errorf("mounts cannot be made private: %v", err)
			return
		}
		run(t, dir)
	}()
	<-done
}

// mounted is a root with a tmpfs and a bind mount of its own file system in it.
func mounted(t *testing.T, dir string, h host.TestHooks, noMounts bool) *area {
	t.Helper()
	a := &area{t: t, dir: dir, in: filepath.Join(dir, "root"), out: filepath.Join(dir, "out")}
	a.grow("f = F", "p/tmp/", "p/bind/", "p/g = G")
	check(t, os.MkdirAll(a.out, 0o755))
	check(t, unix.Mount("tmpfs", a.path("p/tmp"), "tmpfs", 0, "size=1m"))
	check(t, unix.Mount(a.out, a.path("p/bind"), "", unix.MS_BIND, ""))
	a.grow("p/tmp/secret = S", "p/tmp/sub/secret = S", "p/bind/secret = S", "p/bind/sub/secret = S")
	var err error
	a.r, err = host.OpenRootWith(a.in, host.RootOptions{NoMounts: noMounts, LeftoverAge: -1}, h)
	check(t, err)
	return a
}

func (a *area) unmount() {
	check(a.t, a.r.Close())
	check(a.t, unix.Unmount(a.path("p/tmp"), unix.MNT_DETACH))
	check(a.t, unix.Unmount(a.path("p/bind"), unix.MNT_DETACH))
	check(a.t, os.RemoveAll(a.in))
	check(a.t, os.RemoveAll(a.out))
}

// Where commands do not see other mounts: everything there is
// UNSUPPORTED and stays as it is.
func TestRootMountsRefused(t *testing.T) {
	inMounts(t, func(t *testing.T, dir string) {
		for _, m := range modes {
			a := mounted(t, dir, m.hooks, true)
			before := treeHash(t, a.in)
			for _, mount := range []string{"p/tmp", "p/bind"} {
				for op, run := range fileOps {
					if err := run(a, mount); workspace.CodeOf(err) != workspace.ErrUnsupported {
						t.Errorf("%s: %s %s: %v", m.name, op, mount, err)
					}
				}
				_, err := a.read(mount + "/secret")
				wantCode(t, err, workspace.ErrUnsupported)
				wantCode(t, a.r.Remove(bg, mount, workspace.RemoveOptions{Recursive: true}), workspace.ErrUnsupported)
			}
			for _, o := range []workspace.RemoveOptions{{Recursive: true}, {Trash: true}} {
				wantCode(t, a.r.Remove(bg, "p", o), workspace.ErrUnsupported)
			}
			check(t, os.RemoveAll(a.path(".wsctl")))
			if treeHash(t, a.in) != before {
				t.Errorf("%s: something was changed", m.name)
			}
			a.unmount()
			h := m.hooks
			h.Off = "mounts"
			a = mounted(t, dir, h, true)
			if _, err := a.read("p/tmp/secret"); err != nil {
				t.Errorf("%s: the attack fails without the guard: %v", m.name, err)
			}
			a.unmount()
		}
	})
}

// On the host what is mounted is part of the tree, by descriptor; only moves
// across and the removal of what it is mounted in are refused.
func TestRootMountsUsed(t *testing.T) {
	inMounts(t, func(t *testing.T, dir string) {
		for _, m := range modes {
			a := mounted(t, dir, m.hooks, false)
			for _, mount := range []string{"p/tmp", "p/bind"} {
				if got, err := a.read(mount + "/secret"); got != "S" {
					t.Errorf("%s: read: %q, %v", m.name, got, err)
				}
				check(t, a.write(mount+"/secret", "new", workspace.WriteOptions{}))
				check(t, a.write(mount+"/a/b", "new", workspace.WriteOptions{}))
				check(t, a.r.Rename(bg, mount+"/a/b", mount+"/c", workspace.RenameOptions{}))
				check(t, a.r.Rename(bg, mount+"/secret", mount+"/c", workspace.RenameOptions{Overwrite: true}))
				wantCode(t, a.r.Rename(bg, mount+"/c", "moved", workspace.RenameOptions{}), workspace.ErrUnsupported)
				wantCode(t, a.r.Rename(bg, "f", mount+"/moved", workspace.RenameOptions{}), workspace.ErrUnsupported)
				wantCode(t, a.r.Rename(bg, mount, "moved", workspace.RenameOptions{}), workspace.ErrUnsupported)
				wantCode(t, a.r.Remove(bg, mount+"/c", workspace.RemoveOptions{Trash: true}), workspace.ErrUnsupported)
				check(t, a.r.Remove(bg, mount+"/sub", workspace.RemoveOptions{Recursive: true}))
				deepTree(t, a.path(mount), 200)
				check(t, a.r.Remove(bg, mount+"/deep", workspace.RemoveOptions{Recursive: true}))
				wantCode(t, a.r.Remove(bg, mount, workspace.RemoveOptions{Recursive: true}), workspace.ErrUnsupported)
				if a.content(mount+"/c") != "new" {
					t.Errorf("%s: %s/c holds %q", m.name, mount, a.content(mount+"/c"))
				}
			}
			wantCode(t, a.r.Remove(bg, "p", workspace.RemoveOptions{Recursive: true}), workspace.ErrUnsupported)
			if a.content("f") != "F" || a.content("p/g") != "G" {
				t.Errorf("%s: something was moved", m.name)
			}
			a.noTemps()
			a.unmount()
		}
	})
}

// A mount that appears after the look at mountinfo is stopped at.
func TestRootMountAppears(t *testing.T) {
	inMounts(t, func(t *testing.T, dir string) {
		for _, openat2 := range []error{nil, unix.ENOSYS} {
			a := &area{t: t, in: filepath.Join(dir, "root")}
			a.grow("p/q/", "out/secret = S")
			var err error
			a.r, err = host.OpenRootWith(a.in, host.RootOptions{LeftoverAge: -1}, host.TestHooks{Openat2: openat2, Step: func(s string) {
				if s == "move aside" {
					check(t, unix.Mount(a.path("out"), a.path("p/q"), "", unix.MS_BIND, ""))
				}
			}})
			check(t, err)
			wantCode(t, a.r.Remove(bg, "p", workspace.RemoveOptions{Recursive: true}), workspace.ErrUnsupported)
			if a.content("p/q/secret") != "S" || a.content("out/secret") != "S" {
				t.Error("something was removed in the other mount")
			}
			check(t, a.r.Close())
			check(t, unix.Unmount(a.path("p/q"), unix.MNT_DETACH))
			check(t, os.RemoveAll(a.in))
		}
	})
}

// An entry of the root itself is described by one call that also tells its mount:
// the answer is the one that a resolved name gets, and another mount is seen.
func TestStatOfARootsOwnEntry(t *testing.T) {
	same := func(t *testing.T, a *area, names ...string) {
		t.Helper()
		for _, name := range names {
			top, err := a.r.Lstat(bg, name)
			check(t, err)
			resolved, err := a.r.Lstat(bg, "./"+name)
			check(t, err)
			if !reflect.DeepEqual(top.Sys(), resolved.Sys()) || top.Mode() != resolved.Mode() ||
				top.Size() != resolved.Size() || !top.ModTime().Equal(resolved.ModTime()) {
				t.Errorf("%s: %+v, resolved %+v", name, top, resolved)
			}
		}
	}
	a := newArea(t, host.TestHooks{}, host.RootOptions{NoMounts: true}, "f = F", "d/")
	check(t, os.Symlink("f", a.path("l")))
	// Beyond what fits into nanoseconds of 64 bits.
	check(t, os.Chtimes(a.path("f"), time.Time{}, time.Unix(1<<33+1e9, 5)))
	same(t, a, "f", "d", "l")
	_, err := a.r.Stat(bg, "none")
	wantCode(t, err, workspace.ErrNotFound)
	inMounts(t, func(t *testing.T, dir string) {
		a := mounted(t, dir, host.TestHooks{}, true)
		defer a.unmount()
		a.grow("over = O")
		check(t, unix.Mount(a.path("f"), a.path("over"), "", unix.MS_BIND, ""))
		defer func() { check(t, unix.Unmount(a.path("over"), unix.MNT_DETACH)) }()
		_, err := a.r.Stat(bg, "over")
		wantCode(t, err, workspace.ErrUnsupported)
		same(t, a, "f")
	})
}

func TestUnescapeMount(t *testing.T) {
	for in, want := range map[string]string{`/a`: "/a", `/a\040b`: "/a b", `/\134\011\012x`: "/\\\t\nx", `/a\9`: `/a\9`} {
		if got := host.UnescapeMount(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}
