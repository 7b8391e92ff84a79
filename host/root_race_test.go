//go:build linux

package host_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// race lets attack run over and over beside ours, for raceTime, and fails when
// one of the two never got through: then nothing raced. Both report whether they
// did. It goes on, for some seconds, until the conditions of until hold too.
func race(t *testing.T, attack, ours func(i int) bool, until ...func() bool) {
	t.Helper()
	var attacks, passes atomic.Int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	loop := func(n *atomic.Int64, f func(int) bool) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if f(i) {
					n.Add(1)
				}
			}
		})
	}
	loop(&attacks, attack)
	loop(&passes, ours)
	time.Sleep(raceTime()) // the race is as long as it is; nothing is waited for
	// A loaded machine gets more time, so that both were there.
	until = append(until, func() bool { return attacks.Load() > 0 && passes.Load() > 0 })
	missed := func(ok func() bool) bool { return !ok() }
	for deadline := time.Now().Add(10 * time.Second); slices.ContainsFunc(until, missed) && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	close(stop)
	wg.Wait()
	if attacks.Load() == 0 || passes.Load() == 0 {
		t.Errorf("nothing raced: %d attacks, %d calls of ours got through", attacks.Load(), passes.Load())
	}
}

// swapper exchanges the directory name in the root with a link to outside.
func swapper(t *testing.T, a *area, name string) func(int) bool {
	t.Helper()
	link := filepath.Join(a.in, ".."+"/swap")
	check(t, os.Symlink(a.out, link))
	return func(int) bool {
		return unix.Renameat2(unix.AT_FDCWD, a.path(name), unix.AT_FDCWD, link, unix.RENAME_EXCHANGE) == nil
	}
}

// settle puts the directory back in its place after a race.
func settle(t *testing.T, a *area, name string, swap func(int) bool) {
	t.Helper()
	if fi, err := os.Lstat(a.path(name)); err == nil && !fi.IsDir() {
		swap(0)
	}
}

// A directory is exchanged with a link to outside while we read.
func TestRaceRead(t *testing.T) {
	eachMode(t, modes[:2], func(t *testing.T, m mode) {
		for _, off := range []string{"", "beneath"} {
			if off != "" && m.name != "openat2" {
				continue
			}
			h := m.hooks
			h.Off = off
			a := newArea(t, h, host.RootOptions{}, "d/secret = inside", "d/sub/secret = inside", "l -> d")
			names := []string{"d/secret", "d/sub/secret", "d/sub/../secret", "l/secret"}
			var leaks atomic.Int64
			race(t, swapper(t, a, "d"), func(i int) bool {
				got, err := a.read(names[i%len(names)])
				if got == "secret" {
					leaks.Add(1)
				}
				if list, err := a.r.ReadDir(bg, "d", workspace.ListOptions{}); err == nil {
					for _, e := range list.Entries {
						if fi, err := e.Info(); err == nil && fi.Mode().Perm() == 0o640 {
							leaks.Add(1)
						}
					}
				}
				return err == nil
			}, func() bool { return off == "" || leaks.Load() > 0 })
			if n := leaks.Load(); (n > 0) != (off != "") {
				t.Errorf("guard off %q: %d reads got what is outside", off, n)
			}
		}
	})
}

// The same while we write, append, edit, copy, change modes and make
// directories.
func TestRaceChange(t *testing.T) {
	eachMode(t, modes[:2], func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "d/secret = inside", "d/sub/", "f = F")
		before := a.canary()
		swap := swapper(t, a, "d")
		race(t, swap, func(i int) bool {
			ops := []func() error{
				func() error { return a.write("d/secret", "changed", workspace.WriteOptions{}) },
				func() error { return a.write(fmt.Sprintf("d/sub/new%d", i), "new", workspace.WriteOptions{}) },
				func() error { return a.write("d/secret", "+", workspace.WriteOptions{Append: true}) },
				func() error {
					_, err := a.r.Edit(bg, "d/secret", workspace.EditOptions{}, func(b []byte) ([]byte, error) { return b[:1], nil })
					return err
				},
				func() error { _, err := a.r.Copy(bg, "f", "d/copy", workspace.WriteOptions{}); return err },
				func() error { return a.r.Chmod(bg, "d/secret", 0o666) },
				func() error { return a.r.Mkdir(bg, fmt.Sprintf("d/m%d", i), workspace.MkdirOptions{}) },
				func() error { return a.r.Mkdir(bg, fmt.Sprintf("d/p%d/q/r", i), workspace.MkdirOptions{Parents: true}) },
				func() error { return a.r.Symlink(bg, "secret", fmt.Sprintf("d/l%d", i)) },
				func() error { return a.r.Rename(bg, "d/copy", "d/sub/moved", workspace.RenameOptions{Overwrite: true}) },
				func() error { return a.r.Remove(bg, "d/sub/moved", workspace.RemoveOptions{}) },
			}
			return ops[i%len(ops)]() == nil
		})
		settle(t, a, "d", swap)
		if a.canary() != before {
			t.Error("something outside was changed")
		}
		a.noTemps()
	})
}

// A write that is not guarded does change what is outside: the race is real.
func TestRaceChangeMutation(t *testing.T) {
	a := newArea(t, host.TestHooks{Off: "beneath"}, host.RootOptions{}, "d/secret = inside")
	before := a.canary()
	swap := swapper(t, a, "d")
	race(t, swap, func(int) bool { return a.write("d/secret", "changed", workspace.WriteOptions{}) == nil }, func() bool {
		b, _ := os.ReadFile(filepath.Join(a.out, "secret"))
		return string(b) == "changed"
	})
	settle(t, a, "d", swap)
	if a.canary() == before {
		t.Error("the attack fails without the guard")
	}
}

// Directories are exchanged with links while we remove the tree.
func TestRaceRemove(t *testing.T) {
	eachMode(t, modes[:2], func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "keep = K")
		before := a.canary()
		links := filepath.Join(a.dir, "links")
		check(t, os.Mkdir(links, 0o755))
		for i := range 10 {
			check(t, os.Symlink(a.out, filepath.Join(links, fmt.Sprint(i))))
		}
		race(t, func(i int) bool {
			link := filepath.Join(links, fmt.Sprint(i%10))
			target := a.path(fmt.Sprintf("tree/d%d", i%10))
			ok := unix.Renameat2(unix.AT_FDCWD, target, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE) == nil
			if ok {
				// What was a directory goes; the link must stay one.
				_ = unix.Renameat2(unix.AT_FDCWD, target, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
			}
			return ok
		}, func(int) bool {
			// The tree is grown where the attack does not reach it.
			for i := range 10 {
				d := a.path(fmt.Sprintf("grow/d%d/sub", i))
				check(t, os.MkdirAll(d, 0o755))
				for j := range 20 {
					check(t, os.WriteFile(filepath.Join(d, fmt.Sprint(j)), nil, 0o644))
				}
			}
			if err := os.Rename(a.path("grow"), a.path("tree")); err != nil {
				check(t, os.RemoveAll(a.path("grow")))
			}
			return a.r.Remove(bg, "tree", workspace.RemoveOptions{Recursive: true}) == nil
		})
		if a.canary() != before {
			t.Error("something outside was removed")
		}
		if a.content("keep") != "K" {
			t.Error("something else inside was removed")
		}
	})
}

// What is moved is checked after the move: another entry that was given the
// name at the last moment is put back, for remove, trash and rename.
func TestRaceMovedEntry(t *testing.T) {
	ops := map[string]func(a *area) error{
		"remove": func(a *area) error { return a.r.Remove(bg, "d", workspace.RemoveOptions{Recursive: true}) },
		"trash":  func(a *area) error { return a.r.Remove(bg, "d", workspace.RemoveOptions{Trash: true}) },
		"rename": func(a *area) error { return a.r.Rename(bg, "d", "new", workspace.RenameOptions{}) },
		"replace": func(a *area) error {
			return a.r.Rename(bg, "d", "old", workspace.RenameOptions{Overwrite: true})
		},
	}
	for name, op := range ops {
		for _, off := range []string{"", "verify"} {
			if off != "" && name == "remove" {
				// A tree is deleted by its descriptor, which is a
				// second guard.
				continue
			}
			var a *area
			once := false
			a = newArea(t, host.TestHooks{Off: off, Step: func(s string) {
				if (s == "move aside" || s == "rename" || s == "exchange") && !once {
					once = true
					check(t, unix.Renameat2(unix.AT_FDCWD, a.path("d"), unix.AT_FDCWD, a.path("other"), unix.RENAME_EXCHANGE))
				}
			}}, host.RootOptions{}, "d/f = meant", "other/f = other", "old/f = old")
			err := op(a)
			got, _ := os.ReadFile(a.path("d/f"))
			kept := string(got) == "other"
			if off == "" {
				wantCode(t, err, workspace.ErrConflict)
			}
			if kept != (off == "") {
				t.Errorf("%s, guard off %q: the other entry is kept: %v (%v)", name, off, kept, err)
			}
		}
	}
}

// When it cannot be put back, it is kept in quarantine, and the error says
// where.
func TestRaceQuarantine(t *testing.T) {
	var a *area
	a = newArea(t, host.TestHooks{Step: func(s string) {
		switch s {
		case "move aside":
			check(t, unix.Renameat2(unix.AT_FDCWD, a.path("d"), unix.AT_FDCWD, a.path("other"), unix.RENAME_EXCHANGE))
		case "verify":
			check(t, os.Mkdir(a.path("d"), 0o755))
		}
	}}, host.RootOptions{}, "d/f = meant", "other/f = other")
	err := a.r.Remove(bg, "d", workspace.RemoveOptions{Recursive: true})
	wantCode(t, err, workspace.ErrConflict)
	i := strings.Index(err.Error(), ".wsctl/pending/quarantine-")
	if i < 0 {
		t.Fatalf("the error does not say where the entry is: %v", err)
	}
	if got := a.content(strings.Fields(err.Error()[i:])[0] + "/f"); got != "other" {
		t.Errorf("in quarantine is %q", got)
	}
	a.r.Close()
	again, err := host.OpenRoot(a.in, host.RootOptions{})
	check(t, err)
	defer again.Close()
	left, err := again.Leftovers(bg)
	check(t, err)
	if len(left.Quarantined) != 1 {
		t.Errorf("the quarantine is not told: %+v", left)
	}
}

// Another process makes the target at the last moment.
func TestRaceRenameTarget(t *testing.T) {
	for _, noFlags := range []bool{false, true} {
		var a *area
		a = newArea(t, host.TestHooks{NoFlags: noFlags, Step: func(s string) {
			if s == "rename" {
				check(t, os.WriteFile(a.path("new"), []byte("theirs"), 0o644))
			}
		}}, host.RootOptions{}, "f = ours")
		wantCode(t, a.r.Rename(bg, "f", "new", workspace.RenameOptions{}), workspace.ErrExists)
		if a.content("new") != "theirs" || a.content("f") != "ours" {
			t.Error("something was replaced")
		}
	}
}

// Two roots, as of two processes, write one file. Its content is always
// that of one write, each change is seen or told, and nothing is left.
func TestRaceTwoWriters(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "f = "+strings.Repeat("x", 5000))
	other, err := host.OpenRoot(a.in, host.RootOptions{})
	check(t, err)
	defer other.Close()
	write := func(r *host.Root, c string) func(int) bool {
		content := strings.Repeat(c, 5000)
		return func(i int) bool {
			_, err := r.Write(bg, "f", strings.NewReader(content), workspace.WriteOptions{})
			if err != nil && workspace.CodeOf(err) != workspace.ErrConflict && workspace.CodeOf(err) != workspace.ErrBusy {
				t.Error(err)
			}
			if got, err := a.read("f"); err == nil && strings.Trim(got, got[:1]) != "" {
				t.Error("the file is a mixture")
			}
			return err == nil
		}
	}
	race(t, write(a.r, "a"), write(other, "b"))
	a.noTemps()
	if names := a.names("."); len(names) != 1 {
		t.Errorf("left: %v", names)
	}
}

// Two roots that add to one file lose no line: who comes second is told.
func TestRaceTwoEditors(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "f")
	other, err := host.OpenRoot(a.in, host.RootOptions{})
	check(t, err)
	defer other.Close()
	var done atomic.Int64
	edit := func(r *host.Root) func(int) bool {
		return func(int) bool {
			_, err := r.Edit(bg, "f", workspace.EditOptions{}, func(b []byte) ([]byte, error) { return append(b, '.'), nil })
			if err == nil {
				done.Add(1)
			}
			return err == nil
		}
	}
	race(t, edit(a.r), edit(other))
	if got := len(a.content("f")); int64(got) != done.Load() {
		t.Errorf("%d edits succeeded and %d are there", done.Load(), got)
	}
	a.noTemps()
}
