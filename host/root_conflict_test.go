//go:build linux

package host_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

func TestRootVersions(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "f = one")
	fi, err := a.r.Stat(bg, "f")
	check(t, err)
	v := workspace.VersionOf(fi)
	check(t, a.write("f", "two", workspace.WriteOptions{IfVersion: v}))
	wantCode(t, a.write("f", "three", workspace.WriteOptions{IfVersion: v}), workspace.ErrConflict)
	_, err = a.r.Edit(bg, "f", workspace.EditOptions{IfVersion: v}, double)
	wantCode(t, err, workspace.ErrConflict)
	wantCode(t, a.write("gone", "x", workspace.WriteOptions{IfVersion: v}), workspace.ErrConflict)
	_, err = a.r.Edit(bg, "gone", workspace.EditOptions{}, double)
	wantCode(t, err, workspace.ErrNotFound)
	if a.content("f") != "two" {
		t.Error("a conflict changed the file")
	}
}

// Each way to change a file between the look and the rename is CONFLICT, and
// the foreign change stays.
func TestRootConflict(t *testing.T) {
	changes := map[string]func(a *area) string{
		"in place": func(a *area) string {
			check(t, os.WriteFile(a.path("f"), []byte("theirs"), 0o644))
			return "theirs"
		},
		"replaced": func(a *area) string {
			check(t, os.WriteFile(a.path("g"), []byte("theirs"), 0o644))
			check(t, os.Rename(a.path("g"), a.path("f")))
			return "theirs"
		},
		"removed": func(a *area) string { check(t, os.Remove(a.path("f"))); return "" },
	}
	steps := []string{"create", "write", "fsync", "look", "publish"}
	for name, change := range changes {
		for _, step := range steps {
			var a *area
			want, done := "", false
			h := host.TestHooks{Step: func(s string) {
				if s == step && !done {
					done = true
					want = change(a)
				}
			}}
			a = newArea(t, h, host.RootOptions{}, "f = old")
			_, err := a.r.Edit(bg, "f", workspace.EditOptions{}, double)
			wantCode(t, err, workspace.ErrConflict)
			got, err := os.ReadFile(a.path("f"))
			if string(got) != want {
				t.Errorf("%s before %s: the file holds %q, %v; theirs was %q", name, step, got, err, want)
			}
			a.noTemps()
		}
	}
	// Without the guard theirs is lost.
	var a *area
	a = newArea(t, host.TestHooks{Off: "conflict", Step: func(s string) {
		if s == "publish" {
			check(t, os.WriteFile(a.path("f"), []byte("theirs"), 0o644))
		}
	}}, host.RootOptions{}, "f = old")
	_, err := a.r.Edit(bg, "f", workspace.EditOptions{}, double)
	check(t, err)
	if a.content("f") != "oldold" {
		t.Error("the attack fails without the guard")
	}
}

// A file that appears in the place of a new one is kept.
func TestRootTargetAppears(t *testing.T) {
	for _, exclusive := range []bool{false, true} {
		for _, noTmpfile := range []bool{false, true} {
			var a *area
			a = newArea(t, host.TestHooks{NoTmpfile: noTmpfile, Step: func(s string) {
				if s == "publish" {
					check(t, os.WriteFile(a.path("new"), []byte("theirs"), 0o644))
				}
			}}, host.RootOptions{})
			wantCode(t, a.write("new", "ours", workspace.WriteOptions{Exclusive: exclusive}), workspace.ErrExists)
			if a.content("new") != "theirs" {
				t.Error("the other file was replaced")
			}
			a.noTemps()
		}
	}
}

// Edits of one file by all its names add up, and no lock is left.
func TestRootEditsSerialise(t *testing.T) {
	spellings := []string{"f", "./f", "d/../f", "l", "dl/f", "abs", "d/up"}
	tree := []string{"f", "d/", "l -> f", "dl -> .", "abs -> ROOT/f", "d/up -> ../f"}
	count := func(off string) (bytes, conflicts int) {
		a := newArea(t, host.TestHooks{Off: off}, host.RootOptions{}, tree...)
		var wg sync.WaitGroup
		var mu sync.Mutex
		for _, name := range spellings {
			wg.Go(func() {
				for range 10 {
					_, err := a.r.Edit(bg, name, workspace.EditOptions{}, func(b []byte) ([]byte, error) { return append(b, '.'), nil })
					if err != nil {
						mu.Lock()
						conflicts++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		if n := a.r.HeldLocks(); n != 0 {
			t.Errorf("%d locks are left", n)
		}
		return len(a.content("f")), conflicts
	}
	if n, conflicts := count(""); n != 10*len(spellings) || conflicts != 0 {
		t.Errorf("%d edits are there and %d conflicts, of %d", n, conflicts, 10*len(spellings))
	}
	if n, conflicts := count("locks"); conflicts == 0 || n+conflicts != 10*len(spellings) {
		t.Errorf("without locks %d edits and %d conflicts: nothing raced, or one was lost", n, conflicts)
	}
}

// A lock that is waited for is given up with the context.
func TestRootLockAborted(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "f = F")
	inside, release := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		_, err := a.r.Edit(bg, "f", workspace.EditOptions{}, func(b []byte) ([]byte, error) { close(inside); <-release; return b, nil })
		done <- err
	}()
	<-inside
	ctx, cancel := context.WithCancel(bg)
	cancel()
	_, err := a.r.Write(ctx, "f", strings.NewReader(""), workspace.WriteOptions{})
	wantCode(t, err, workspace.ErrAborted)
	close(release)
	check(t, <-done)
	if n := a.r.HeldLocks(); n != 0 {
		t.Errorf("%d locks are left", n)
	}
}
