//go:build unix

package host_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// keepers runs n commands at once and returns the pids of the keepers below
// which they ran.
func keepers(t testing.TB, ws *workspace.Workspace, n int) map[int]bool {
	t.Helper()
	var mu sync.Mutex
	pids := map[int]bool{}
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			// Long enough for the others to be there too.
			text := "echo $PPID"
			if n > 1 {
				text = "echo $PPID; sleep 1.5"
			}
			out, err := ws.Exec(t.Context(), workspace.Command{Shell: text})
			if err != nil {
				t.Error(err)
				return
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(out.Stdout)))
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			pids[pid] = true
		})
	}
	all.Wait()
	return pids
}

// TestKeepersServeAgain: one after another commands run below one keeper; of
// many at once a few keepers are left, and none after Close.
func TestKeepersServeAgain(t *testing.T) {
	t.Parallel()
	ws := open(t, true, host.Options{})
	pids := map[int]bool{}
	for range 10 {
		for pid := range keepers(t, ws, 1) {
			pids[pid] = true
		}
	}
	if len(pids) != 1 {
		t.Errorf("10 commands one after another ran below %d keepers", len(pids))
	}
	const many = 12
	for pid := range keepers(t, ws, many) {
		pids[pid] = true
	}
	left := func() (n int) {
		for pid := range pids {
			if runs(t, pid) {
				n++
			}
		}
		return n
	}
	if len(pids) < many {
		t.Errorf("%d commands at once ran below %d keepers", many, len(pids))
	}
	eventually(t, "at most 4 keepers wait", func() bool { return left() <= 4 })
	if err := ws.Close(); err != nil {
		t.Error(err)
	}
	if n := left(); n > 0 {
		t.Errorf("%d keepers are left after Close", n)
	}
}

// TestKeeperRetires: a keeper whose command has left something that is kept
// takes no other command, and goes when that has ended.
func TestKeeperRetires(t *testing.T) {
	t.Parallel()
	ws := open(t, true, host.Options{})
	out, err := ws.Exec(t.Context(), workspace.Command{
		Shell: "echo $PPID; (while ! [ -e end ]; do sleep .01; done) & :", Background: workspace.BackgroundKeep,
	})
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out.Stdout)))
	if err != nil {
		t.Fatal(err)
	}
	if others := keepers(t, ws, 1); others[pid] {
		t.Error("the keeper has taken another command")
	}
	if !runs(t, pid) {
		t.Error("the keeper is gone before what it keeps")
	}
	run(t, ws, ": > end")
	eventually(t, "the keeper has gone after what it kept", func() bool { return !runs(t, pid) })
}

// TestKeeperKilled: a command that ends its own keeper has no status, and the
// next command has another keeper.
func TestKeeperKilled(t *testing.T) {
	t.Parallel()
	ws := open(t, true, host.Options{})
	for range 3 {
		out, err := ws.Exec(t.Context(), workspace.Command{Shell: "kill -9 $PPID; sleep 5"})
		if workspace.CodeOf(err) != workspace.ErrUnavailable {
			t.Errorf("%+v, %v", out, err)
		}
		if out := run(t, ws, "echo works"); string(out.Stdout) != "works\n" {
			t.Errorf("the next one: %+v", out)
		}
	}
	for pid := range keepers(t, ws, 1) {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the waiting keeper is gone", func() bool { return !runs(t, pid) })
	}
	if out := run(t, ws, "echo works"); string(out.Stdout) != "works\n" {
		t.Errorf("after a waiting keeper was killed: %+v", out)
	}
}

// TestNotAKeeper: Ready says what is wrong, in good time.
func TestNotAKeeper(t *testing.T) {
	t.Parallel()
	keeperPath(t)
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh\necho hello\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/nonexistent/wskeeper", "/bin/cat", "/bin/false", "/", text} {
		d, err := host.New(t.TempDir(), host.Options{Keeper: path})
		if err != nil {
			t.Fatal(err)
		}
		ws, err := workspace.New(d, workspace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := ws.Ready(t.Context()); workspace.CodeOf(err) != workspace.ErrUnavailable {
			t.Errorf("%s: %v", path, err)
		}
		if err := ws.Close(); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: after %v", path, took)
		}
	}
}
