//go:build linux

package orchestrator_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/orchestrator"
)

// jobVictimDir is victimDir for a server that starts jobs.
const jobVictimDir = "WSCTL_TEST_JOBS"

// jobVictim starts jobs in a workspace until it is killed, and says of which it was
// told that they run.
func jobVictim(t *testing.T, dir string) {
	o, err := orchestrator.Open(context.Background(), jobConfig(t, func(c *orchestrator.Config) {
		c.Dir = dir
		c.Jobs.Running = 1000
	}))
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	if _, err := o.Get("w"); err != nil {
		if _, err := o.Create(context.Background(), hostSpec("w")); err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
	}
	for n := 0; ; n++ {
		name := fmt.Sprintf("%d-%d", os.Getpid(), n)
		j, err := o.StartJob(context.Background(), "w", orchestrator.JobSpec{
			Shell: "echo begin " + name + "; while ! [ -e go ]; do sleep .02; done; seq 2000; echo end; exit 9",
		})
		if err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		fmt.Println("started", j.ID, name)
	}
}

// A server that is killed at any moment loses no job that it has told of: those go
// on, all that they write is there, and how they end is seen by the next one. What
// it had not told of is not left either.
func TestJobsOutliveAKilledServer(t *testing.T) {
	if dir := os.Getenv(jobVictimDir); dir != "" {
		jobVictim(t, dir)
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "server")
	started := map[string]string{}
	for round := range enginetest.Rounds(50) {
		c, lines := startVictim(t, jobVictimDir+"="+dir, "WSCTL_TEST_KEEPER="+enginetest.Keeper(t))
		for lines.Scan() {
			f := strings.Fields(lines.Text())
			if len(f) == 3 && f[0] == "started" {
				started[f[1]] = f[2]
				if len(started) > 3*round+2 {
					_ = c.Process.Kill() // in the middle of the next start
				}
			} else if len(f) > 0 && f[0] == "failed" {
				t.Errorf("round %d: %s", round, lines.Text())
			}
		}
		_ = c.Wait()
	}
	if len(started) == 0 {
		t.Fatal("no server lived long enough to start anything")
	}
	o := open(t, jobConfig(t, func(c *orchestrator.Config) { c.Dir = dir }))
	w, err := o.Get("w")
	if err != nil {
		t.Fatal(err)
	}
	list, err := o.Jobs("w")
	if err != nil {
		t.Fatal(err)
	}
	running := 0
	for _, j := range list {
		if started[j.ID] != "" && j.State == orchestrator.JobRunning {
			running++
		}
	}
	if running != len(started) {
		t.Errorf("of %d jobs %d run", len(started), running)
	}
	if err := os.WriteFile(filepath.Join(w.Root, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var numbers strings.Builder
	for n := 1; n <= 2000; n++ {
		numbers.WriteString(strconv.Itoa(n) + "\n")
	}
	known := map[string]bool{}
	for _, j := range list {
		known[j.ID] = true
		got, err := o.WaitJob(t.Context(), "w", j.ID, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		name, told := started[j.ID]
		if !told {
			// It was killed as it started it: whatever became of that, it is over.
			if !got.Over() {
				t.Errorf("a job that nobody was told of: %+v", got)
			}
			continue
		}
		if got.State != orchestrator.JobExited || *got.Exit != 9 {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		if stdout, _ := output(t, o, got); stdout != "begin "+name+"\n"+numbers.String()+"end\n" {
			t.Errorf("%s: %d bytes, %.40q", name, len(stdout), stdout)
		}
	}
	for id := range started {
		if !known[id] {
			t.Errorf("the job %s was started and is lost", id)
		}
	}
	ends := map[string]int{}
	for _, e := range entries(t, filepath.Join(dir, "audit.jsonl")) {
		if e.Op == "job" {
			ends[e.Job]++
		}
	}
	for id := range started {
		if ends[id] != 1 {
			t.Errorf("the end of %s is logged %d times", id, ends[id])
		}
	}
	t.Logf("%d jobs, %d told of", len(list), len(started))
}
