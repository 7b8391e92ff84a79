//go:build linux

package orchestrator_test

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/workspace"
)

// victimDir names the directory of the server that a process of this test is to
// run until it is killed.
const victimDir = "WSCTL_TEST_ORCHESTRATOR"

// victim makes, uses and removes workspaces, several at a time, and says on
// standard output what it was told is done.
func victim(dir string) {
	c := orchestrator.Config{Dir: dir, Backends: func(string) map[string]orchestrator.Backend {
		return map[string]orchestrator.Backend{orchestrator.DriverHost: orchestrator.HostBackend{}}
	}}
	o, err := orchestrator.Open(context.Background(), c)
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	var mu sync.Mutex
	say := func(what, id string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Println(what, id)
	}
	for n := range 4 {
		go func() {
			for i := 0; ; i++ {
				w, err := o.Create(context.Background(), hostSpec(fmt.Sprintf("w%d-%d-%d", os.Getpid(), n, i)))
				if err != nil {
					say("failed", err.Error())
					return
				}
				say("made", w.ID)
				ws, done, err := o.Open(context.Background(), w.ID)
				if err != nil {
					say("failed", err.Error())
					return
				}
				if _, err := ws.WriteFile(context.Background(), "f", []byte(w.ID), workspace.WriteOptions{}); err != nil {
					say("failed", err.Error())
				}
				done()
				say("wrote", w.ID)
				if i%2 == 0 {
					say("removing", w.ID)
					if err := o.Remove(context.Background(), w.ID); err != nil {
						say("failed", err.Error())
					}
					say("removed", w.ID)
				}
			}
		}()
	}
	select {}
}

// startVictim runs this test in a copy of this program that finds env, and returns
// the lines that the copy prints. It ends with us.
func startVictim(t *testing.T, env ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	c.Env = append(os.Environ(), env...)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewScanner(out)
}

// A server that is killed at any moment loses nothing that it has acknowledged,
// keeps nothing that it has not, and its log is whole up to its end.
func TestKilled(t *testing.T) {
	if dir := os.Getenv(victimDir); dir != "" {
		victim(dir)
	}
	dir := filepath.Join(t.TempDir(), "server")
	made, removing := map[string]string{}, map[string]bool{}
	rounds := enginetest.Rounds(100)
	for round := range rounds {
		c, lines := startVictim(t, victimDir+"="+dir)
		time.AfterFunc(50*time.Millisecond+rand.N(250*time.Millisecond), func() { _ = c.Process.Kill() })
		for lines.Scan() {
			what, id, _ := strings.Cut(lines.Text(), " ")
			switch what {
			case "made", "wrote":
				made[id] = what
			case "removing":
				removing[id] = true
			case "removed":
				delete(made, id)
			case "failed":
				t.Errorf("round %d: %s", round, id)
			}
		}
		_ = c.Wait()
	}
	if len(made) == 0 {
		t.Fatal("no server lived long enough to make anything")
	}
	o := open(t, hostConfig(t, func(c *orchestrator.Config) { c.Dir = dir }))
	listed := map[string]bool{}
	for _, w := range o.List() {
		listed[w.ID] = true
		b, err := os.ReadFile(filepath.Join(w.Root, "f"))
		if made[w.ID] == "wrote" && (err != nil || string(b) != w.ID) {
			t.Errorf("%s: its file holds %q, %v", w.ID, b, err)
		}
	}
	for id := range made {
		if !listed[id] && !removing[id] {
			t.Errorf("%s was made and is lost", id)
		}
	}
	roots, err := os.ReadDir(filepath.Join(dir, "roots"))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range roots {
		if r.Name() != ".wsctl" && !listed[r.Name()] {
			t.Errorf("%s is a root without a workspace", r.Name())
		}
	}
	f, err := os.Open(filepath.Join(dir, "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_, last, err := orchestrator.VerifyAudit(f)
	if err != nil {
		t.Fatal(err)
	}
	logged := map[string]bool{}
	for _, e := range entries(t, filepath.Join(dir, "audit.jsonl")) {
		if e.Op == "create" {
			logged[e.Workspace] = true
		}
	}
	for id := range made {
		if !logged[id] {
			t.Errorf("the making of %s is not in the log", id)
		}
	}
	t.Logf("%d rounds, %d workspaces left, %d lines of audit", rounds, len(listed), last.Seq)
}
