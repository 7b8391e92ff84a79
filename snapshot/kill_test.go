//go:build linux

package snapshot_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// TestKillChild is the process that TestKill kills; by itself it has nothing to
// do. It does one thing over and over.
func TestKillChild(t *testing.T) {
	dir, at, op := os.Getenv("WSCTL_KILL_DIR"), os.Getenv("WSCTL_KILL_STORE"), os.Getenv("WSCTL_KILL_OP")
	if dir == "" {
		return
	}
	a := &area{t: t, dir: dir, at: at}
	a.open(snapshot.Options{})
	ids := strings.Fields(os.Getenv("WSCTL_KILL_IDS"))
	fmt.Println("begun")
	for i := 0; ; i++ {
		switch op {
		case "save":
			for n := range 20 {
				a.grow(fmt.Sprintf("work/d%d/f%d = %d %d", n%3, n, i, rand.Int()))
			}
			a.save()
		case "restore":
			_, err := a.Restore(bg, ids[i%len(ids)], workspace.RestoreOptions{NoBackup: i%3 > 0})
			check(t, err)
		case "prune":
			a.grow(fmt.Sprintf("work/p = %d", rand.Int()))
			a.save()
			_, err := a.store.Prune(bg, snapshot.PruneOptions{Retention: snapshot.Retention{KeepLast: 2, KeepLabel: "keep"}})
			check(t, err)
		}
	}
}

// A process that is killed at any moment of a save, a restore or a prune leaves a
// whole store with every snapshot that was in it. An interrupted restore is ended
// by the next one, and no entry of the tree is other than before or after.
func TestKill(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: kills were left out; they are the same for every user")
	}
	for _, op := range []string{"save", "restore", "prune"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			killRounds(t, op, enginetest.Rounds(200))
		})
	}
}

func killRounds(t *testing.T, op string, rounds int) {
	a := newArea(t, snapshot.Options{})
	var ids []string
	var trees [][]string
	for state := range 3 {
		for n := range 120 {
			if n%3 != state {
				a.grow(fmt.Sprintf("t%d/d%d/f%d = %s", n%2, n%7, n, strings.Repeat(fmt.Sprint(state), 50*n)))
			}
		}
		a.remove(fmt.Sprintf("t%d/d%d", state%2, state))
		s := a.saveWith(workspace.SaveOptions{Label: "keep"})
		ids, trees = append(ids, s.ID), append(trees, a.manifest())
	}
	contents := map[string]bool{}
	for _, tree := range trees {
		for _, line := range tree {
			contents[line[strings.LastIndexByte(line, ' ')+1:]] = true
		}
	}
	a.age = 1
	killed := 0
	for range rounds {
		killOnce(t, a, op, ids)
		killed++
		a.close()
		a.open(snapshot.Options{})
		a.wantWhole()
		list, err := a.List(bg)
		check(t, err)
		for _, id := range ids {
			if !slices.ContainsFunc(list, func(s workspace.Snapshot) bool { return s.ID == id }) {
				t.Fatalf("after %d kills snapshot %s is lost", killed, id)
			}
		}
		if op == "restore" {
			for _, line := range a.manifest() {
				fields := strings.SplitN(line, " ", 4)
				if strings.HasPrefix(fields[1], "-") && !contents[fields[3]] {
					t.Fatalf("after %d kills there is half a file: %.200s", killed, line)
				}
			}
			i := rand.IntN(len(ids))
			a.restore(ids[i])
			a.wantTree(trees[i])
		}
	}
	for i, id := range ids {
		a.restore(id)
		a.wantTree(trees[i])
	}
	_, err := a.store.Prune(bg, snapshot.PruneOptions{Retention: snapshot.Retention{KeepLast: 1, KeepLabel: "keep"}})
	check(t, err)
	left, err := filepath.Glob(filepath.Join(a.at, "*", "tmp-*"))
	check(t, err)
	if len(left) > 0 {
		t.Errorf("a prune leaves %v", left)
	}
}

// killOnce lets a process do op and kills it after a moment.
func killOnce(t *testing.T, a *area, op string, ids []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillChild$", "-test.count=1") //nolint:noctx // it is killed
	cmd.Env = append(os.Environ(), "WSCTL_KILL_DIR="+a.dir, "WSCTL_KILL_STORE="+a.at, "WSCTL_KILL_OP="+op, "WSCTL_KILL_IDS="+strings.Join(ids, " "))
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	said := make([]byte, 256)
	n, _ := stdout.Read(said)
	time.Sleep(time.Duration(rand.IntN(60_000)) * time.Microsecond)
	check(t, cmd.Process.Kill())
	err = cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !strings.HasPrefix(string(said[:n]), "begun") || !status.Signaled() || status.Signal() != unix.SIGKILL {
		t.Fatalf("it was not killed at work: %v, %q", err, said[:n])
	}
}
