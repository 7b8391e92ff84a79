//go:build linux

package orchestrator_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// jobConfig is a server whose commands of this machine run under a keeper.
func jobConfig(t *testing.T, change ...func(*orchestrator.Config)) orchestrator.Config {
	t.Helper()
	return hostConfig(t, append([]func(*orchestrator.Config){func(c *orchestrator.Config) {
		c.Backends = func(string) map[string]orchestrator.Backend {
			return map[string]orchestrator.Backend{orchestrator.DriverHost: orchestrator.HostBackend{Options: host.Options{
				Env: []string{"PATH=" + os.Getenv("PATH")}, Keeper: enginetest.Keeper(t),
			}}}
		}
	}}, change...)...)
}

func startJob(t *testing.T, o *orchestrator.Orchestrator, ref string, s orchestrator.JobSpec) orchestrator.Job {
	t.Helper()
	j, err := o.StartJob(t.Context(), ref, s)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func waitJob(t *testing.T, o *orchestrator.Orchestrator, j orchestrator.Job) orchestrator.Job {
	t.Helper()
	got, err := o.WaitJob(t.Context(), j.Workspace, j.ID, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Over() {
		t.Fatalf("not over: %+v", got)
	}
	return got
}

// output is all of both streams.
func output(t *testing.T, o *orchestrator.Orchestrator, j orchestrator.Job) (stdout, stderr string) {
	t.Helper()
	var text [2]bytes.Buffer
	for end := false; !end; {
		from, errFrom := int64(text[0].Len()), int64(text[1].Len())
		out, err := o.JobOutput(t.Context(), j.Workspace, j.ID, orchestrator.JobQuery{Stdout: &from, Stderr: &errFrom, Limit: 1000, Wait: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		text[0].Write(out.Stdout.Data)
		text[1].Write(out.Stderr.Data)
		end = out.Stdout.End && out.Stderr.End
	}
	return text[0].String(), text[1].String()
}

// awaitOutput waits until a job has written text.
func awaitOutput(t *testing.T, o *orchestrator.Orchestrator, j orchestrator.Job, text string) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); time.Now().Before(until); {
		from := int64(0)
		out, err := o.JobOutput(t.Context(), j.Workspace, j.ID, orchestrator.JobQuery{Stdout: &from})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(out.Stdout.Data), text) {
			return
		}
		from += int64(len(out.Stdout.Data))
		if out, err = o.JobOutput(t.Context(), j.Workspace, j.ID, orchestrator.JobQuery{Stdout: &from, Wait: time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("%q does not come", text)
}

// A job runs beside who asked; what it wrote is read in pieces, and how it ended
// is kept.
func TestJobLife(t *testing.T) {
	t.Parallel()
	o := open(t, jobConfig(t))
	create(t, o, hostSpec("w"))
	j := startJob(t, o, "w", orchestrator.JobSpec{Shell: "cat > got; seq 1000; echo err >&2; exit 7", Input: true})
	if j.State != orchestrator.JobRunning || j.ID == "" {
		t.Errorf("got %+v", j)
	}
	from := int64(0)
	began := time.Now()
	out, err := o.JobOutput(t.Context(), "w", j.ID, orchestrator.JobQuery{Stdout: &from, Wait: 50 * time.Millisecond})
	if err != nil || len(out.Stdout.Data) != 0 || out.Stdout.End || time.Since(began) < 50*time.Millisecond {
		t.Errorf("before anything is written, after %v: %+v, %v", time.Since(began), out, err)
	}
	if n, err := o.WriteJob(t.Context(), "w", j.ID, orchestrator.JobInput{Data: []byte("in\n"), End: true}); err != nil || n != 3 {
		t.Errorf("took %d, %v", n, err)
	}
	_, err = o.WriteJob(t.Context(), "w", j.ID, orchestrator.JobInput{Data: []byte("more")})
	if !errors.Is(err, workspace.ErrInvalidArgument) && !errors.Is(err, workspace.ErrNotStarted) {
		t.Errorf("input after its end: %v", err)
	}
	stdout, stderr := output(t, o, j)
	if !strings.HasPrefix(stdout, "1\n2\n") || !strings.HasSuffix(stdout, "999\n1000\n") || stderr != "err\n" {
		t.Errorf("got %q, %q", stdout, stderr)
	}
	got := waitJob(t, o, j)
	if got.State != orchestrator.JobExited || got.Exit == nil || *got.Exit != 7 || got.Ended == nil || got.Stdout.Bytes != int64(len(stdout)) || got.Input {
		t.Errorf("got %+v", got)
	}
	if out := run(t, o, "w", "cat got"); string(out.Stdout) != "in\n" {
		t.Errorf("its input was %q", out.Stdout)
	}
	wantCode(t, "a signal", o.SignalJob(t.Context(), "w", j.ID, 15), workspace.ErrNotStarted)
	if list, err := o.Jobs("w"); err != nil || len(list) != 1 || list[0].ID != j.ID {
		t.Errorf("listed %+v, %v", list, err)
	}
	if err := o.RemoveJob(t.Context(), "w", j.ID, false); err != nil {
		t.Error(err)
	}
	_, err = o.WaitJob(t.Context(), "w", j.ID, 0)
	wantCode(t, "after the removal", err, workspace.ErrNotFound)
}

// A request with a soft timeout gets the end of what is quick, and the id of what
// goes on.
func TestJobSoftTimeout(t *testing.T) {
	t.Parallel()
	o := open(t, jobConfig(t))
	create(t, o, hostSpec("w"))
	quick := startJob(t, o, "w", orchestrator.JobSpec{Shell: "exit 3", Wait: 10 * time.Second})
	if quick.State != orchestrator.JobExited || *quick.Exit != 3 {
		t.Errorf("got %+v", quick)
	}
	slow := startJob(t, o, "w", orchestrator.JobSpec{Shell: "echo on; read line; echo $line", Input: true, Wait: 100 * time.Millisecond})
	if slow.State != orchestrator.JobRunning {
		t.Errorf("got %+v", slow)
	}
	if _, err := o.WriteJob(t.Context(), "w", slow.ID, orchestrator.JobInput{Data: []byte("later\n")}); err != nil {
		t.Fatal(err)
	}
	if stdout, _ := output(t, o, slow); stdout != "on\nlater\n" {
		t.Errorf("got %q", stdout)
	}
	waitJob(t, o, slow)
}

// A kill, a stop of the workspace and its removal leave nothing of a job alive.
func TestJobEndsWithItsWorkspace(t *testing.T) {
	t.Parallel()
	o := open(t, jobConfig(t))
	w := create(t, o, hostSpec("w"))
	const line = "trap '' TERM; (setsid sh -c 'echo $$ > deep; exec sleep 300' &); echo $$ > pid; while ! [ -s deep ]; do sleep .01; done; echo up; while :; do sleep .1; done"
	for what, end := range map[string]func(orchestrator.Job) error{
		"kill": func(j orchestrator.Job) error {
			_, err := o.KillJob(t.Context(), "w", j.ID, 10*time.Millisecond)
			return err
		},
		"rm":   func(j orchestrator.Job) error { return o.RemoveJob(t.Context(), "w", j.ID, true) },
		"stop": func(orchestrator.Job) error { return o.Stop(t.Context(), "w") },
	} {
		j := startJob(t, o, "w", orchestrator.JobSpec{Shell: "rm -f deep pid; " + line, KillGrace: 10 * time.Millisecond})
		awaitOutput(t, o, j, "up")
		wantCode(t, "rm of what runs", o.RemoveJob(t.Context(), "w", j.ID, false), workspace.ErrBusy)
		if err := end(j); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		gone(t, what, filepath.Join(w.Root, "pid"), filepath.Join(w.Root, "deep"))
		if got, err := o.WaitJob(t.Context(), "w", j.ID, 0); err == nil && (got.State != orchestrator.JobExited || !got.Stopped || *got.Exit != 137) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	j := startJob(t, o, "w", orchestrator.JobSpec{Shell: "rm -f deep pid; " + line, KillGrace: 10 * time.Millisecond})
	awaitOutput(t, o, j, "up")
	pid, err := os.ReadFile(filepath.Join(w.Root, "deep"))
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Remove(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	if alive(pid) {
		t.Error("a process outlived the workspace")
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(w.Root), "..", "jobs", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left of its jobs: %q, %v", left, err)
	}
}

// gone asserts that the processes whose numbers are in files are not there.
func gone(t *testing.T, what string, files ...string) {
	t.Helper()
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if alive(b) {
			t.Errorf("%s: process %s lives", what, bytes.TrimSpace(b))
		}
	}
}

func alive(pid []byte) bool {
	b, err := os.ReadFile("/proc/" + string(bytes.TrimSpace(pid)) + "/stat")
	return err == nil && !strings.Contains(string(b[bytes.LastIndexByte(b, ')'):]), " Z ")
}

// The limits of a job hold: time, output, how many there are; and those that have
// ended are forgotten in the end.
func TestJobLimits(t *testing.T) {
	t.Parallel()
	o := open(t, jobConfig(t, func(c *orchestrator.Config) {
		c.Jobs = orchestrator.JobLimits{Output: 1000, Running: 2, Ended: 3}
	}))
	create(t, o, hostSpec("w"))
	j := startJob(t, o, "w", orchestrator.JobSpec{Shell: "seq 10000; sleep 300", Timeout: 300 * time.Millisecond, MaxOutput: 1 << 30})
	got := waitJob(t, o, j)
	if !got.TimedOut || *got.Exit != 124 || got.Stdout.Bytes != 1000 || got.Stdout.Dropped != 48894-1000 {
		t.Errorf("got %+v", got)
	}
	if stdout, _ := output(t, o, j); len(stdout) != 1000 {
		t.Errorf("%d bytes can be read", len(stdout))
	}
	for range 2 {
		startJob(t, o, "w", orchestrator.JobSpec{Shell: "sleep 300"})
	}
	_, err := o.StartJob(t.Context(), "w", orchestrator.JobSpec{Shell: "true"})
	wantCode(t, "a third one", err, workspace.ErrTooMany)
	if err := o.Stop(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		waitJob(t, o, startJob(t, o, "w", orchestrator.JobSpec{Shell: "true"}))
	}
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		list, err := o.Jobs("w")
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 3 {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("%d jobs are kept", len(list))
		}
	}
}

// What lies in a spool is not trusted: links and FIFOs are not opened, a huge file
// is read as far as a job may write, an end without the seal is none.
func TestHostileSpool(t *testing.T) {
	t.Parallel()
	c := jobConfig(t, func(c *orchestrator.Config) { c.Jobs.Output = 5000 })
	o := open(t, c)
	w := create(t, o, hostSpec("w"))
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	from := int64(0)
	read := func(j orchestrator.Job) (orchestrator.JobOutput, error) {
		return o.JobOutput(t.Context(), "w", j.ID, orchestrator.JobQuery{Stdout: &from})
	}
	for what, plant := range map[string]func(name string) error{
		"link": func(name string) error { return os.Symlink(secret, name) },
		"fifo": func(name string) error { return unix.Mkfifo(name, 0o600) },
		"dir":  func(name string) error { return os.Mkdir(name, 0o700) },
	} {
		j := startJob(t, o, "w", orchestrator.JobSpec{Shell: "echo $PPID; echo out; sleep 300"})
		awaitOutput(t, o, j, "out")
		pid := keeperOf(t, o, j)
		dir := filepath.Join(c.Dir, "jobs", w.ID, j.ID)
		for _, file := range []string{"stdout", "status", "control"} {
			if err := errors.Join(os.Remove(filepath.Join(dir, file)), plant(filepath.Join(dir, file))); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := read(j); err == nil {
			t.Errorf("%s: read %q", what, out.Stdout.Data)
		}
		if err := o.SignalJob(t.Context(), "w", j.ID, 9); err == nil {
			t.Errorf("%s: a signal was sent", what)
		}
		kill(t, pid)
		if got := waitJob(t, o, j); got.State != orchestrator.JobLost || got.Exit != nil {
			t.Errorf("%s: %+v", what, got)
		}
	}
	j := startJob(t, o, "w", orchestrator.JobSpec{Shell: "echo $PPID; echo out; sleep 300"})
	awaitOutput(t, o, j, "out")
	pid := keeperOf(t, o, j)
	dir := filepath.Join(c.Dir, "jobs", w.ID, j.ID)
	if err := os.Truncate(filepath.Join(dir, "stdout"), 1<<40); err != nil {
		t.Fatal(err)
	}
	if out, err := read(j); err != nil || len(out.Stdout.Data) != 5000 {
		t.Errorf("of a huge file: %d bytes, %v", len(out.Stdout.Data), err)
	}
	forged := "exit 0123456789abcdef0123456789abcdef code=0 signal=0 stopped=0 ended=0 unfinished=0 retired=0 user=0 system=0 maxrss=0 job timedout=0 stdout=0 stdoutdropped=0 stderr=0 stderrdropped=0 at=1 duration=1\n"
	if err := os.WriteFile(filepath.Join(dir, "status"), []byte(forged), 0o600); err != nil {
		t.Fatal(err)
	}
	kill(t, pid)
	if got := waitJob(t, o, j); got.State != orchestrator.JobLost || got.Exit != nil || got.Stdout.Bytes > 5000 {
		t.Errorf("a forged end: %+v", got)
	}
}

// keeperOf is the keeper of a job that has printed the number of its parent first.
func keeperOf(t *testing.T, o *orchestrator.Orchestrator, j orchestrator.Job) (pid int) {
	t.Helper()
	from := int64(0)
	out, err := o.JobOutput(t.Context(), j.Workspace, j.ID, orchestrator.JobQuery{Stdout: &from, Limit: 20})
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(out.Stdout.Data), "\n")
	if pid, err = strconv.Atoi(first); err != nil {
		t.Fatal(err)
	}
	return pid
}

// Over the wire a job is started, read, written to, ended and forgotten; who may
// only read, change or administer sees and does nothing of it.
func TestJobsOverTheWire(t *testing.T) {
	t.Parallel()
	c := jobConfig(t)
	o := open(t, c)
	w := create(t, o, hostSpec("w"))
	h, a := served(t, o)
	ctx := t.Context()
	cl := clientOf(t, h, token(t, a, remote.Grant{Name: "alice", Scopes: []remote.Scope{remote.Exec}, Workspaces: []string{w.ID}}))
	j, err := cl.StartJob(ctx, w.ID, orchestrator.JobSpec{Shell: "read a; echo $a; printf '\\377'; trap 'exit 5' USR1; echo up >&2; while :; do sleep .05; done", Input: true})
	if err != nil || j.Owner != "alice" {
		t.Fatalf("got %+v, %v", j, err)
	}
	other := clientOf(t, h, token(t, a, remote.Grant{Scopes: []remote.Scope{remote.Read, remote.Write, remote.Admin}, Workspaces: all}))
	none := int64(0)
	_, listErr := other.Jobs(ctx, "")
	_, startErr := other.StartJob(ctx, w.ID, orchestrator.JobSpec{Shell: "true"})
	_, waitErr := other.WaitJob(ctx, w.ID, j.ID, 0)
	_, readErr := other.JobOutput(ctx, w.ID, j.ID, orchestrator.JobQuery{Stdout: &none})
	_, inputErr := other.WriteJob(ctx, w.ID, j.ID, orchestrator.JobInput{Data: []byte("x")})
	_, killErr := other.KillJob(ctx, w.ID, j.ID, 0)
	for what, err := range map[string]error{
		"list": listErr, "start": startErr, "wait": waitErr, "read": readErr, "input": inputErr, "kill": killErr,
		"signal": other.SignalJob(ctx, w.ID, j.ID, 9), "remove": other.RemoveJob(ctx, w.ID, j.ID, true),
	} {
		wantCode(t, what+" without exec", err, workspace.ErrDenied)
	}
	if n, err := cl.WriteJob(ctx, w.ID, j.ID, orchestrator.JobInput{Data: []byte("hi\n")}); n != 3 || err != nil {
		t.Errorf("took %d, %v", n, err)
	}
	var got []byte
	errs := ""
	for errs != "up\n" || len(got) < 4 {
		at, errAt := int64(len(got)), int64(len(errs))
		out, err := cl.JobOutput(ctx, w.ID, j.ID, orchestrator.JobQuery{Stdout: &at, Stderr: &errAt, Wait: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		got, errs = append(got, out.Stdout.Data...), errs+string(out.Stderr.Data)
	}
	if string(got) != "hi\n\xff" {
		t.Errorf("got %q", got)
	}
	if err := cl.SignalJob(ctx, w.ID, j.ID, int(unix.SIGUSR1)); err != nil {
		t.Error(err)
	}
	if j, err = cl.WaitJob(ctx, w.ID, j.ID, 20*time.Second); err != nil || j.Exit == nil || *j.Exit != 5 {
		t.Errorf("got %+v, %v", j, err)
	}
	if found, err := cl.FindJob(ctx, j.ID[:6]); err != nil || found.ID != j.ID {
		t.Errorf("found %+v, %v", found, err)
	}
	if err := cl.RemoveJob(ctx, w.ID, j.ID, false); err != nil {
		t.Error(err)
	}
	_, err = cl.StartJob(ctx, w.ID, orchestrator.JobSpec{Args: []string{"echo", "\xff"}})
	wantCode(t, "bytes that are no text", err, workspace.ErrInvalidArgument)
	ops := map[string]int{}
	for _, e := range entries(t, filepath.Join(c.Dir, "audit.jsonl")) {
		if e.Job != "" {
			ops[e.Op]++
			if e.Job != j.ID || e.Who != "alice" {
				t.Errorf("logged %+v", e)
			}
			if e.Op == "job" && (e.Exit == nil || *e.Exit != 5 || e.Bytes < 7) {
				t.Errorf("its end: %+v", e)
			}
		}
	}
	if ops["job.begin"] != 1 || ops["job"] != 1 || ops["job.input"] != 1 || ops["job.signal"] != 1 {
		t.Errorf("logged %v", ops)
	}
	list, err := o.Events(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, e := range list {
		types = append(types, e.Type)
	}
	if got := strings.Join(types, " "); got != "created job-started job-ended" {
		t.Errorf("events: %s", got)
	}
}

// A workspace that runs a job is in use; one that has none any more is not.
func TestJobsAreUse(t *testing.T) {
	t.Parallel()
	o := open(t, jobConfig(t))
	s := hostSpec("w")
	s.IdleTTL = 200 * time.Millisecond
	create(t, o, s)
	j := startJob(t, o, "w", orchestrator.JobSpec{Shell: "read x", Input: true})
	time.Sleep(600 * time.Millisecond) // three times as long as may be
	if w, err := o.Get("w"); err != nil || w.State != orchestrator.Ready {
		t.Fatalf("got %+v, %v", w, err)
	}
	if _, err := o.WriteJob(t.Context(), "w", j.ID, orchestrator.JobInput{End: true}); err != nil {
		t.Fatal(err)
	}
	waitJob(t, o, j)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		if w, err := o.Get("w"); err != nil || w.State == orchestrator.Stopped {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal("it is not stopped")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
