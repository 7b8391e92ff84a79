//go:build linux

package orchestrator_test

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/workspace"
)

// A job in a container goes on when the server goes; the next one sees all of it
// and its end, writes to it and ends it.
func TestContainerJobOutlivesServer(t *testing.T) {
	c, prefix := containerConfig(t)
	e := engineOf(t)
	o := open(t, c)
	w := create(t, o, orchestrator.Spec{Name: "w"})
	j := startJob(t, o, "w", orchestrator.JobSpec{Shell: "echo in $(pwd); cat; echo done >&2; exit 6", Input: true})
	awaitOutput(t, o, j, "in /workspace")
	other := startJob(t, o, "w", orchestrator.JobSpec{Shell: "trap '' TERM; echo up; (setsid sleep 300 &); sleep 300"})
	awaitOutput(t, o, other, "up")
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	o = open(t, c)
	if got, err := o.WaitJob(t.Context(), "w", j.ID, 0); err != nil || got.State != orchestrator.JobRunning {
		t.Fatalf("after the restart: %+v, %v", got, err)
	}
	if n, err := o.WriteJob(t.Context(), "w", j.ID, orchestrator.JobInput{Data: []byte("written later\n"), End: true}); err != nil || n != 14 {
		t.Errorf("took %d, %v", n, err)
	}
	stdout, stderr := output(t, o, j)
	if got := waitJob(t, o, j); stdout != "in /workspace\nwritten later\n" || stderr != "done\n" || *got.Exit != 6 {
		t.Errorf("got %+v, %q, %q", got, stdout, stderr)
	}
	if got, err := o.KillJob(t.Context(), "w", other.ID, 50*time.Millisecond); err != nil || !got.Stopped || *got.Exit != 137 {
		t.Errorf("killed: %+v, %v", got, err)
	}
	if out := run(t, o, "w", "ps -o args | grep -c '[s]leep 300'"); strings.TrimSpace(string(out.Stdout)) != "0" {
		t.Errorf("%s processes are left", out.Stdout)
	}
	// The end of the container is that of its jobs, and what they wrote stays.
	lost := startJob(t, o, "w", orchestrator.JobSpec{Shell: "echo kept; sleep 300"})
	awaitOutput(t, o, lost, "kept")
	if err := e.API().ContainerKill(t.Context(), containers(t, e, *prefix)[0].ID, "KILL"); err != nil {
		t.Fatal(err)
	}
	if got := waitJob(t, o, lost); got.State != orchestrator.JobLost || got.Exit != nil || !strings.Contains(got.Detail, "container") {
		t.Errorf("got %+v", got)
	}
	if stdout, _ := output(t, o, lost); stdout != "kept\n" {
		t.Errorf("of the lost one: %q", stdout)
	}
	again := waitJob(t, o, startJob(t, o, "w", orchestrator.JobSpec{Args: []string{"sh", "-c", "exit 4"}}))
	if again.Exit == nil || *again.Exit != 4 {
		t.Errorf("in the next container: %+v", again)
	}
	if err := o.Remove(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(c.Dir, "jobs", w.ID)); !os.IsNotExist(err) {
		t.Errorf("what jobs wrote is left: %v", err)
	}
}

// What runs in the container beside a job cannot reach what is kept of it: there is
// no name for it inside, its keeper shows nothing, and a keeper that is killed costs
// the status, never forges one, and leaves nothing alive.
func TestContainerJobIsOutOfReach(t *testing.T) {
	c, _ := containerConfig(t)
	o := open(t, c)
	create(t, o, orchestrator.Spec{Name: "w"})
	j := startJob(t, o, "w", orchestrator.JobSpec{Shell: "echo $PPID; echo mine; (setsid sleep 301 &); sleep 301"})
	awaitOutput(t, o, j, "mine")
	stdout, keeper := int64(0), ""
	out, err := o.JobOutput(t.Context(), "w", j.ID, orchestrator.JobQuery{Stdout: &stdout})
	if err != nil {
		t.Fatal(err)
	}
	keeper, _, _ = strings.Cut(string(out.Stdout.Data), "\n")
	for what, line := range map[string]string{
		"the door":         "ls -A /wsjobs; touch /wsjobs/x; mkdir /wsjobs/d; rm -rf /wsjobs/* ; ls -A /wsjobs",
		"its descriptors":  "ls /proc/" + keeper + "/fd; cat /proc/" + keeper + "/fd/* ; for n in 0 3 4 5 6 7 8 9 10 11 12; do echo forged > /proc/" + keeper + "/fd/$n; done",
		"its memory":       "cat /proc/" + keeper + "/environ /proc/" + keeper + "/maps",
		"a file by a name": "find / -xdev -name " + j.ID + " -o -name stdout -type f",
	} {
		got := run(t, o, "w", "("+line+") 2>/dev/null")
		if len(got.Stdout) != 0 {
			t.Errorf("%s: %q", what, got.Stdout)
		}
	}
	run(t, o, "w", "kill -9 "+keeper)
	lost := waitJob(t, o, j)
	if lost.State != orchestrator.JobLost || lost.Exit != nil || !strings.Contains(lost.Detail, "killed") {
		t.Errorf("got %+v", lost)
	}
	if out := run(t, o, "w", "ps -o args | grep -c '[s]leep 301'"); strings.TrimSpace(string(out.Stdout)) != "0" {
		t.Errorf("%s processes of it are left", out.Stdout)
	}
	if stdout, _ := output(t, o, j); stdout != keeper+"\nmine\n" {
		t.Errorf("what is kept: %q", stdout)
	}
}

// Whoever is in the way while a job starts gets nothing of it, and the job starts.
func TestContainerJobAmongStrangers(t *testing.T) {
	c, _ := containerConfig(t)
	o := open(t, c)
	create(t, o, orchestrator.Spec{Name: "w"})
	stop, stopped := make(chan struct{}), make(chan struct{})
	seen := 0
	w, err := o.Get("w")
	if err != nil {
		t.Fatal(err)
	}
	door := filepath.Join(c.Dir, "jobs", w.ID, "door")
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			names, _ := os.ReadDir(door)
			for _, n := range names {
				if stranger(t, filepath.Join(door, n.Name())) {
					seen++
				}
			}
		}
	}()
	for range 5 {
		j := startJob(t, o, "w", orchestrator.JobSpec{Shell: "echo x"})
		if got := waitJob(t, o, j); *got.Exit != 0 {
			t.Errorf("got %+v", got)
		}
	}
	close(stop)
	<-stopped
	if seen == 0 {
		t.Error("no stranger came in time: this test has shown nothing")
	}
	if names, err := os.ReadDir(door); err != nil || len(names) > 0 {
		t.Errorf("left at the door: %v, %v", names, err)
	}
}

// An idle stop and a stop end jobs in containers as well; a pause holds them.
func TestContainerJobPausedAndStopped(t *testing.T) {
	c, _ := containerConfig(t)
	o := open(t, c)
	create(t, o, orchestrator.Spec{Name: "w"})
	j := startJob(t, o, "w", orchestrator.JobSpec{Shell: "echo up; while :; do echo x; sleep .02; done"})
	awaitOutput(t, o, j, "x")
	if err := o.Pause(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	_, err := o.StartJob(t.Context(), "w", orchestrator.JobSpec{Shell: "true"})
	wantCode(t, "a job in what is paused", err, workspace.ErrBusy)
	if err := o.Resume(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	if got, err := o.WaitJob(t.Context(), "w", j.ID, 0); err != nil || got.State != orchestrator.JobRunning {
		t.Errorf("after a pause: %+v, %v", got, err)
	}
	if err := o.Stop(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	if got := waitJob(t, o, j); got.State != orchestrator.JobExited || !got.Stopped {
		t.Errorf("got %+v", got)
	}
}

// stranger connects to a job's door without knowing the token, and tells whether it
// was let in so far as to be refused.
func stranger(t *testing.T, socket string) bool {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	_, _ = conn.Write(bytes.Repeat([]byte("0"), 32))
	got, _ := io.ReadAll(conn)
	if len(got) > 0 {
		t.Errorf("a stranger was given %q", got)
	}
	return true
}
