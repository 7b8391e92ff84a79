//go:build unix

package container

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// brakes are of two processes over one root, as far as locks are concerned.
func brakes(t *testing.T) (dir string, two [2]brake) {
	t.Helper()
	dir = t.TempDir()
	for i := range two {
		root, err := host.OpenRoot(dir, host.RootOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = root.Close() })
		two[i] = brake{root}
	}
	return dir, two
}

// A pause waits for execs that are coming to be, whoever begins them, and no exec
// begins while it is made.
func TestBrake(t *testing.T) {
	t.Parallel()
	dir, two := brakes(t)
	var begun [2]func()
	for i, k := range two {
		release, err := k.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		begun[i] = release
	}
	type held struct {
		release func()
		err     error
	}
	pause := make(chan held, 1)
	go func() {
		release, err := holdExecs(t.Context(), dir)
		pause <- held{release, err}
	}()
	begun[0]()
	select {
	case got := <-pause:
		t.Fatalf("held beside an exec: %v", got.err)
	case <-time.After(30 * time.Millisecond):
	}
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	if _, err := two[0].enter(short()); !errors.Is(err, workspace.ErrAborted) {
		t.Errorf("an exec began before a pause: %v", err)
	}
	begun[1]()
	got := <-pause
	if got.err != nil {
		t.Fatal(got.err)
	}
	for _, k := range two {
		if _, err := k.enter(short()); !errors.Is(err, workspace.ErrAborted) {
			t.Errorf("an exec began in a pause: %v", err)
		}
	}
	if _, err := two[1].hold(short()); !errors.Is(err, workspace.ErrAborted) {
		t.Errorf("a pause in a pause: %v", err)
	}
	got.release()
	release, err := two[0].enter(t.Context())
	if err != nil {
		t.Fatalf("after the pause: %v", err)
	}
	release()
}

// Execs that go on beginning, so that there always is one, do not hold up a pause.
func TestBrakeIsFair(t *testing.T) {
	t.Parallel()
	_, two := brakes(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	var over atomic.Bool
	defer over.Store(true)
	var execs atomic.Int64
	for i := range 16 {
		wg.Go(func() {
			for !over.Load() {
				release, err := two[i%2].enter(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				execs.Add(1)
				time.Sleep(20 * time.Millisecond)
				release()
			}
		})
	}
	for range 5 {
		for seen := execs.Load(); execs.Load() < seen+16; {
			time.Sleep(time.Millisecond)
		}
		release, err := two[0].hold(ctx)
		if err != nil {
			t.Fatalf("after %d execs: %v", execs.Load(), err)
		}
		release()
	}
}

// Without the right to open the locks, which are the root's owner's, commands run
// and nothing is paused.
func TestBrakeOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may open everything; make test also runs as another user")
	}
	dir, two := brakes(t)
	release, err := two[0].hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release()
	for _, name := range []string{gateLock, execsLock} {
		if err := os.Chmod(filepath.Join(dir, host.StateName, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	if release, err = two[0].enter(t.Context()); err != nil {
		t.Fatalf("an exec: %v", err)
	}
	release()
	if _, err := two[0].hold(t.Context()); !errors.Is(err, workspace.ErrDenied) {
		t.Errorf("a pause: %v", err)
	}
}

// A root that is gone, or on another machine, holds up no pause.
func TestBrakeWithoutRoot(t *testing.T) {
	t.Parallel()
	release, err := holdExecs(t.Context(), filepath.Join(t.TempDir(), "gone"))
	if err != nil {
		t.Fatal(err)
	}
	release()
}
