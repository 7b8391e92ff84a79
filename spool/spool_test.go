//go:build linux

package spool_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/spool"
	"github.com/wsctl/wsctl/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const seal = "0123456789abcdef0123456789abcdef"

// job is a job on this machine under a real keeper.
type job struct {
	*spool.Spool
	dir   string
	ended chan struct{} // closed when its keeper is gone
	rings chan struct{}
}

func start(t *testing.T, c workspace.Command, change ...func(*workspace.Job)) *job {
	t.Helper()
	j, err := tryStart(t, c, change...)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func tryStart(t *testing.T, c workspace.Command, change ...func(*workspace.Job)) (*job, error) {
	t.Helper()
	d, err := host.New(t.TempDir(), host.Options{Env: []string{"PATH=" + os.Getenv("PATH")}, Keeper: enginetest.Keeper(t)})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ws.Close(); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Join(t.TempDir(), "job")
	s, files, err := spool.Create(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	w := workspace.Job{Files: files, Seal: seal, Limit: 1 << 20}
	for _, f := range change {
		f(&w)
	}
	err = ws.StartJob(t.Context(), c, w)
	spool.CloseFiles(files)
	if err != nil {
		return nil, err
	}
	j := &job{Spool: s, dir: dir, ended: make(chan struct{}), rings: make(chan struct{}, 1)}
	stop, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		if err := s.Watch(stop, func() {
			select {
			case j.rings <- struct{}{}:
			default:
			}
		}); err != nil {
			t.Error(err)
		}
		close(j.ended)
	}()
	t.Cleanup(func() {
		_ = s.Send(keeper.JobStop(0))
		select {
		case <-j.ended:
		case <-time.After(5 * time.Second):
			t.Error("the job's keeper does not end")
		}
		close(stop)
		<-watched
	})
	return j, nil
}

func (j *job) wait(t *testing.T) keeper.JobEnd {
	t.Helper()
	select {
	case <-j.ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the job does not end")
	}
	end, ok, err := j.End(seal)
	if err != nil || !ok {
		text, _ := os.ReadFile(filepath.Join(j.dir, "status"))
		t.Fatalf("no end: %v: %q", err, text)
	}
	return end
}

func (j *job) text(t *testing.T, of spool.Stream) string {
	t.Helper()
	size, err := j.Size(of)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, size)
	if n, err := j.ReadAt(of, b, 0); err != nil || int64(n) != size {
		t.Fatalf("%d of %d, %v", n, size, err)
	}
	return string(b)
}

// A job's streams, its status and what it left are as those of any command.
func TestJob(t *testing.T) {
	t.Parallel()
	j := start(t, workspace.Command{Shell: "echo out; echo err >&2; cat; setsid sleep 60 & exit 3"})
	end := j.wait(t)
	if end.Code != 3 || end.Signal != 0 || end.TimedOut || end.Ended == 0 || end.Duration <= 0 || time.Since(end.EndedAt) > time.Minute {
		t.Errorf("got %+v", end)
	}
	if out, errs := j.text(t, spool.Stdout), j.text(t, spool.Stderr); out != "out\n" || errs != "err\n" {
		t.Errorf("got %q, %q", out, errs)
	}
	if want := (keeper.JobStream{Kept: 4}); end.Stdout != want || end.Stderr != want {
		t.Errorf("counted %+v, %+v", end.Stdout, end.Stderr)
	}
	// The kernel closes what a dead process had open in an order of its own.
	for until := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		err := j.Send(keeper.JobSignal(15))
		if err == spool.ErrGone {
			break
		}
		if err != nil || time.Now().After(until) {
			t.Fatalf("a signal to what has ended: %v", err)
		}
	}
}

// What cannot be started is told as for any command, and leaves no end.
func TestJobThatDoesNotStart(t *testing.T) {
	t.Parallel()
	_, err := tryStart(t, workspace.Command{Shell: "true", Dir: "missing"})
	if workspace.CodeOf(err) != workspace.ErrNotFound {
		t.Errorf("got %v", err)
	}
	j := start(t, workspace.Command{Args: []string{"no-such-program"}})
	if end := j.wait(t); end.Code != 127 {
		t.Errorf("got %+v", end)
	}
}

// Input arrives whole and in order, and ends when it is ended.
func TestInput(t *testing.T) {
	t.Parallel()
	j := start(t, workspace.Command{Shell: "cat"}, func(j *workspace.Job) { j.Input = true })
	want := strings.Repeat("0123456789\n", 30000)
	for rest := want; rest != ""; {
		n, err := j.Input([]byte(rest[:min(len(rest), 100000)]), time.Now().Add(10*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		rest = rest[n:]
	}
	if err := j.Send(keeper.JobEndInput()); err != nil {
		t.Fatal(err)
	}
	if end := j.wait(t); end.Code != 0 {
		t.Errorf("got %+v", end)
	}
	if got := j.text(t, spool.Stdout); got != want {
		t.Errorf("%d of %d bytes", len(got), len(want))
	}
	if _, err := j.Input([]byte("x"), time.Now().Add(time.Second)); err != spool.ErrGone {
		t.Errorf("input after the end: %v", err)
	}
}

// A signal reaches the command; a stop ends everything, whatever it does about it.
func TestSignalAndStop(t *testing.T) {
	t.Parallel()
	j := start(t, workspace.Command{Shell: "trap 'echo usr1; exit 4' USR1; echo ready; while :; do sleep .05; done"})
	<-j.rings
	if err := j.Send(keeper.JobSignal(10)); err != nil {
		t.Fatal(err)
	}
	if end := j.wait(t); end.Code != 4 || end.Stopped || !strings.HasSuffix(j.text(t, spool.Stdout), "usr1\n") {
		t.Errorf("got %+v", end)
	}
	j = start(t, workspace.Command{Shell: "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 60' & echo ready; sleep 60"})
	<-j.rings
	if err := j.Send(keeper.JobStop(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if end := j.wait(t); end.Code != 137 || !end.Stopped || end.Unfinished != 0 {
		t.Errorf("got %+v", end)
	}
}

// The time limit is kept by the keeper, whoever is there.
func TestTimeout(t *testing.T) {
	t.Parallel()
	j := start(t, workspace.Command{Shell: "trap '' TERM; echo begun; sleep 60", Timeout: 200 * time.Millisecond, KillGrace: 100 * time.Millisecond})
	if end := j.wait(t); !end.TimedOut || !end.Stopped || end.Duration > 5*time.Second || j.text(t, spool.Stdout) != "begun\n" {
		t.Errorf("got %+v", end)
	}
}

// What goes beyond the limit is counted and dropped, over both streams together,
// and holds nothing up.
func TestLimit(t *testing.T) {
	t.Parallel()
	j := start(t, workspace.Command{Shell: "head -c 3000000 /dev/zero; head -c 500 /dev/zero >&2"}, func(j *workspace.Job) { j.Limit = 100000 })
	end := j.wait(t)
	if end.Code != 0 || end.Stdout.Kept+end.Stderr.Kept != 100000 || end.Stdout.Kept+end.Stdout.Dropped != 3000000 || end.Stderr.Kept+end.Stderr.Dropped != 500 {
		t.Errorf("got %+v", end)
	}
	if size, err := j.Size(spool.Stdout); err != nil || size != end.Stdout.Kept {
		t.Errorf("on disk %d, %v", size, err)
	}
}
