//go:build linux

package host_test

import (
	"os"
	"reflect"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// useView asks as often as it takes to have a view.
func (a *area) useView(name string) {
	a.t.Helper()
	for range host.ViewAfter {
		_, err := a.r.Stat(bg, name)
		check(a.t, err)
	}
}

// What the view of a root tells is what a resolved name tells.
func TestViewTellsTheSame(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{NoMounts: true},
		"a/b/f = F", "a/b/d/", "a/b/l -> f", "a/l -> b", "a/out -> OUT", "a/dangling -> none", "a/abs -> ROOT/a/b/f", "a/state -> ../.wsctl")
	check(t, os.Mkdir(a.path(".wsctl"), 0o700))
	a.useView("a/b/f")
	for _, name := range []string{
		"a/b/f", "a/b/d", "a/b/d/", "a/b/l", "a/l/f", "a/l/l", "a/l/", "a/out/secret", "a/out/", "a/dangling", "a/dangling/x",
		"a/abs", "a/none", "a/none/f", "a/b/f/x", "a/b/f/", "a/./b//f", "a/state", "a/state/x",
	} {
		for what, stat := range map[string]func(string) (os.FileInfo, error){
			"Stat":  func(name string) (os.FileInfo, error) { return a.r.Stat(bg, name) },
			"Lstat": func(name string) (os.FileInfo, error) { return a.r.Lstat(bg, name) },
		} {
			got, gotErr := stat(name)
			// A ".." is never answered by the view.
			want, wantErr := stat("a/../" + name)
			if workspace.CodeOf(gotErr) != workspace.CodeOf(wantErr) {
				t.Errorf("%s %s: %v, resolved %v", what, name, gotErr, wantErr)
			}
			if gotErr == nil && wantErr == nil && (!reflect.DeepEqual(got.Sys(), want.Sys()) || got.Mode() != want.Mode()) {
				t.Errorf("%s %s: %v, resolved %v", what, name, got, want)
			}
		}
	}
	check(t, os.Rename(a.path("a/b"), a.out+"/moved"))
	_, err := a.r.Stat(bg, "a/b/f")
	wantCode(t, err, workspace.ErrNotFound)
}

// A directory is exchanged with a link to outside while we ask what is in it.
func TestRaceStat(t *testing.T) {
	for _, off := range []string{"", "view"} {
		if off != "" && !asRoot() {
			continue // there is no view to weaken
		}
		a := newArea(t, host.TestHooks{Off: off}, host.RootOptions{}, "p/d/secret = inside")
		a.useView("p/d/secret")
		var leaks atomic.Int64
		race(t, swapper(t, a, "p/d"), func(int) bool {
			fi, err := a.r.Stat(bg, "p/d/secret")
			if err == nil && fi.Mode().Perm() == 0o640 {
				leaks.Add(1)
			}
			return err == nil
		}, func() bool { return off == "" || leaks.Load() > 0 })
		if n := leaks.Load(); (n > 0) != (off != "") {
			t.Errorf("guard off %q: %d answers tell of what is outside", off, n)
		}
	}
}

// What is mounted below the root after it was opened is seen at once, and so is
// that it is gone.
func TestViewYieldsToMounts(t *testing.T) {
	inMounts(t, func(t *testing.T, dir string) {
		for _, noMounts := range []bool{false, true} {
			for _, off := range []string{"", "view"} {
				a := &area{t: t, dir: dir, in: dir + "/root", out: dir + "/out"}
				a.grow("p/m/f = covered")
				check(t, os.MkdirAll(a.out, 0o755))
				check(t, os.WriteFile(a.out+"/f", []byte("mounted, and longer"), 0o644))
				var err error
				a.r, err = host.OpenRootWith(a.in, host.RootOptions{NoMounts: noMounts, LeftoverAge: -1}, host.TestHooks{Off: off})
				check(t, err)
				a.useView("p/m/f")
				size := func() int64 {
					fi, err := a.r.Stat(bg, "p/m/f")
					if noMounts && workspace.CodeOf(err) == workspace.ErrUnsupported {
						return -1
					}
					check(t, err)
					return fi.Size()
				}
				covered, mounted := int64(len("covered")), int64(len("mounted, and longer"))
				if noMounts {
					mounted = -1
				}
				if off != "" {
					mounted = covered // the attack: the answer is of another place
				}
				for range 3 {
					if got := size(); got != covered {
						t.Errorf("before: size %d, want %d", got, covered)
					}
					check(t, unix.Mount(a.out, a.path("p/m"), "", unix.MS_BIND, ""))
					if got := size(); got != mounted {
						t.Errorf("guard off %q, no mounts %v: size %d, want %d", off, noMounts, got, mounted)
					}
					check(t, unix.Unmount(a.path("p/m"), unix.MNT_DETACH))
				}
				check(t, a.r.Close())
				check(t, os.RemoveAll(a.in))
			}
		}
	})
}
