package keeper_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wsctl/wsctl/keeper"
)

// TestMain makes the test binary a keeper when it is started under that name.
func TestMain(m *testing.M) {
	keeper.Init()
	goleak.VerifyTestMain(m)
}

// local is a serving keeper as a process of this machine.
type local struct {
	*keeper.Client
	cmd *exec.Cmd
}

func serve(t testing.TB) *local {
	t.Helper()
	return serveFrom(t, self(t), keeper.Name, keeper.ModeServe)
}

func serveFrom(t testing.TB, binary string, args ...string) *local {
	t.Helper()
	l := &local{cmd: &exec.Cmd{Path: binary, Args: args}}
	stdin, err := l.cmd.StdinPipe()
	check(t, err)
	stdout, err := l.cmd.StdoutPipe()
	check(t, err)
	stderr, err := l.cmd.StderrPipe()
	check(t, err)
	check(t, l.cmd.Start())
	l.Client = keeper.NewClient(stdin, rand.Reader)
	var copies sync.WaitGroup
	copies.Go(func() { _, _ = io.Copy(l.Stdout(), stdout) })
	copies.Go(func() { _, _ = io.Copy(l.Stderr(), stderr) })
	exited := make(chan struct{})
	go func() {
		copies.Wait()
		l.Lost(l.cmd.Wait())
		close(exited)
	}()
	t.Cleanup(func() {
		_ = l.Close()
		select {
		case <-exited:
		case <-time.After(10 * time.Second):
			t.Error("the keeper did not exit")
			_ = l.cmd.Process.Kill()
			<-exited
		}
	})
	return l
}

func self(t testing.TB) string {
	t.Helper()
	path, err := os.Executable()
	check(t, err)
	return path
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// deadline is a context that ends before the test binary's own limit.
func deadline(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// shell is a request for a command line.
func shell(line string) keeper.Request {
	return keeper.Request{
		Path: "/bin/sh", Args: []string{"sh", "-c", line}, Dir: "/",
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
	}
}

// result is what a command gave.
type result struct {
	keeper.Status
	stdout, stderr string
}

func (l *local) run(t testing.TB, req keeper.Request, stdin io.Reader) result {
	t.Helper()
	var out, errs bytes.Buffer
	r, err := l.Client.Start(deadline(t), req, keeper.Streams{Stdin: stdin, Stdout: &out, Stderr: &errs})
	check(t, err)
	status, err := r.Wait(deadline(t))
	check(t, err)
	return result{status, out.String(), errs.String()}
}

// start is for a command that goes on; its output goes to the returned buffers.
func (l *local) start(t testing.TB, req keeper.Request, s keeper.Streams) *keeper.Running {
	t.Helper()
	r, err := l.Client.Start(deadline(t), req, s)
	check(t, err)
	return r
}

// watched is a buffer that can be waited for.
type watched struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

func (w *watched) await(t testing.TB, part string) {
	t.Helper()
	eventually(t, "output "+part, func() bool { return strings.Contains(w.String(), part) })
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if ok() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("never came: %s", what)
		}
	}
}

// named counts the living processes whose argument list contains a word: a whole
// one, since the engine's processes have random digits in theirs.
func named(t testing.TB, word string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	check(t, err)
	whole := regexp.MustCompile(`\b` + regexp.QuoteMeta(word) + `(?:\b|\z)`)
	n := 0
	for _, e := range entries {
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && whole.Match(line) {
			n++
		}
	}
	return n
}

// pidOf is the pid of a command that runs for a while.
func pidOf(t testing.TB, r *keeper.Running) int {
	t.Helper()
	eventually(t, "the pid", func() bool { return r.PID() > 1 })
	return r.PID()
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
