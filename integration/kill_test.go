//go:build unix

package integration

import (
	"encoding/json"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsctl/wsctl/internal/enginetest"
)

// wsctl is killed at random moments of its life. Within seconds none of its
// containers runs, without any reaper; the next start, or `wsctl reap`, takes
// away what never ran.
func TestKilledWsctlLeavesNoRunningContainer(t *testing.T) {
	t.Parallel()
	root := project(t)
	before := contents(t, root)
	image := enginetest.BusyBox(t)
	began := time.Now()
	run(t, "run", "-q", "--root", root, "--image", image, "--", "true").must(t)
	// Before, in and after the start of a command, however fast this machine is.
	life := 2 * time.Since(began)
	rounds := 5
	if enginetest.Soak() {
		rounds = 200
	}
	killed, neverRan := 0, 0
	for range rounds {
		cmd := command(t, "run", "-q", "--root", root, "--image", image, "-c", "touch started; sleep 300")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(life))
		if err := cmd.Process.Kill(); err == nil {
			killed++
		}
		_ = cmd.Wait()
		eventually(t, 5*time.Second, func() string {
			neverRan = 0
			for _, c := range enginetest.Below(t, root) {
				if c.State != "created" {
					return "a container is " + c.State + " although its owner is dead"
				}
				neverRan++
			}
			return ""
		})
	}
	if killed != rounds {
		t.Errorf("only %d of %d were killed", killed, rounds)
	}
	if _, err := os.Stat(filepath.Join(root, "started")); err != nil {
		t.Errorf("no command had begun when wsctl was killed, so this shows little: %v", err)
	}
	t.Logf("%d containers never ran", neverRan)
	// Once by the next start, and once by the verb.
	run(t, "run", "-q", "--root", root, "--image", image, "--", "true").must(t)
	nothingLeft(t, root, 5*time.Second)

	cmd := command(t, "run", "-q", "--root", root, "--image", image, "-c", "sleep 300")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 20*time.Second, func() string {
		if len(enginetest.Below(t, root)) == 0 {
			return "no container comes"
		}
		return ""
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	run(t, "reap", "-q").must(t)
	nothingLeft(t, root, 5*time.Second)
	if err := os.Remove(filepath.Join(root, "started")); err != nil {
		t.Error(err)
	}
	if after := contents(t, root); !maps.Equal(before, after) {
		t.Errorf("the root held %v and holds %v", before, after)
	}
}

// contents are the files below a root, its state left out.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".wsctl":
			return fs.SkipDir
		case e.Type().IsRegular():
			text, err := os.ReadFile(filepath.Join(root, name))
			files[name] = string(text)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Two owners over one root start, run and end beside each other, each reaping at
// its start, and never takes one the other's container away.
func TestOwnersAtOnceLeaveEachOtherAlone(t *testing.T) {
	t.Parallel()
	root := project(t)
	image := enginetest.BusyBox(t)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range enginetest.Rounds(50) {
				cmd := exec.CommandContext(t.Context(), binary(t), "run", "-q", "--root", root, "--image", image, "-c", "sleep 0.2; echo fine")
				out, err := cmd.CombinedOutput()
				if err != nil || string(out) != "fine\n" {
					t.Errorf("%v: %s", err, out)
				}
			}
		})
	}
	wg.Wait()
	nothingLeft(t, root, 5*time.Second)
}

// ps tells of a container that lives, and whose it is.
func TestPsTellsWhoseAContainerIs(t *testing.T) {
	t.Parallel()
	root := project(t)
	image := enginetest.BusyBox(t)
	cmd, rest := begin(t, "run", "-q", "--root", root, "--image", image, "-c", "echo ready; sleep 300")
	var listed struct {
		Containers []struct {
			Name, Root, State, Verdict, Reason string
			Owner                              struct{ PID int }
		}
	}
	if err := json.Unmarshal([]byte(run(t, "ps", "--json").must(t).stdout), &listed); err != nil {
		t.Fatal(err)
	}
	found := false
	for _, c := range listed.Containers {
		if c.Root != root {
			continue
		}
		found = true
		if c.State != "running" || c.Verdict != "alive" || c.Owner.PID != cmd.Process.Pid || c.Reason == "" || !strings.HasPrefix(c.Name, "wsctl-") {
			t.Errorf("listed as %+v", c)
		}
	}
	if !found {
		t.Errorf("not listed: %+v", listed)
	}
	table := run(t, "ps").must(t).stdout
	if !strings.HasPrefix(table, "CONTAINER ") || !strings.Contains(table, root) || !strings.Contains(table, " alive\n") {
		t.Errorf("table:\n%s", table)
	}
	if r := run(t, "reap", "--dry-run", "--json").must(t); strings.Contains(r.stdout, root) {
		t.Errorf("a living owner's container would be reaped: %s", r.stdout)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := status(t, cmd, rest); got != 130 {
		t.Errorf("status %d", got)
	}
	nothingLeft(t, root, 5*time.Second)
}
