//go:build unix

package container_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	osexec "os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

// stormOver names, in the environment of a copy of this test program, the detached
// workspace in which it is to run commands until its input ends.
const stormOver = "WSCTL_TEST_STORM_OVER"

// storm runs commands in a detached workspace from two goroutines until stop is
// closed, in each a few and then as somebody new, as wsctl exec does. It tells how
// many have run and how many were refused because the container was paused, and the
// first of another end.
func storm(e *container.Engine, name string, stop <-chan struct{}) (ran, busy int64, failed error) {
	var wg sync.WaitGroup
	var all struct {
		ran, busy atomic.Int64
		failed    atomic.Pointer[error]
	}
	few := func() error {
		d, err := container.Adopt(context.Background(), e, name, container.AdoptOptions{})
		if err != nil {
			return err
		}
		w, err := workspace.New(d, workspace.Options{})
		if err != nil {
			return err
		}
		defer w.Close()
		for range 3 {
			// One that was caught by a pause goes on when that is over.
			out, err := w.Exec(context.Background(), workspace.Command{Args: []string{"echo", "done"}, Timeout: time.Minute})
			if err != nil {
				return err
			}
			if string(out.Stdout) != "done\n" {
				return errors.New(brief(out))
			}
			all.ran.Add(1)
		}
		return nil
	}
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				switch err := few(); {
				case errors.Is(err, workspace.ErrBusy):
					all.busy.Add(1)
				case err != nil:
					all.failed.CompareAndSwap(nil, &err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := all.failed.Load(); err != nil {
		failed = *err
	}
	return all.ran.Load(), all.busy.Load(), failed
}

// stormIn is what the copy does. It says when it has begun, and how it went.
func stormIn(name string) int {
	e, err := container.Connect(context.Background(), container.EngineOptions{Host: os.Getenv("WSCTL_TEST_HOST"), CertDir: os.Getenv("DOCKER_CERT_PATH")})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer e.Close()
	stop := make(chan struct{})
	go func() {
		defer close(stop)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	fmt.Println("storms")
	fmt.Println(storm(e, name, stop))
	return 0
}

// A container into which two processes go on bringing execs is paused and resumed
// over and over by a third party: no exec is caught on its way, which would hang the
// engine for good.
func TestPauseInAStormOfExecs(t *testing.T) {
	t.Parallel()
	for name, keeper := range map[string]bool{"keeper": true, "shell": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pauseInAStorm(t, keeper)
		})
	}
}

func pauseInAStorm(t *testing.T, keeper bool) {
	cli, e, root, o := enginetest.Client(t), connect(t), newRoot(t), named(t)
	if !keeper {
		o.Keeper = ""
	}
	d := up(t, e, root, o)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	other := osexec.Command(self)
	other.Env = append(os.Environ(), stormOver+"="+o.Name, "WSCTL_TEST_HOST="+cli.DaemonHost())
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var over sync.Once
	end := func() { over.Do(func() { close(stop); _ = in.Close() }) }
	defer func() { end(); _ = other.Wait() }()
	said := bufio.NewReader(out)
	if line, _ := said.ReadString('\n'); line != "storms\n" {
		t.Fatalf("the other process says %q", line)
	}
	ours := make(chan string, 1)
	go func() { ours <- fmt.Sprintln(storm(e, o.Name, stop)) }()
	rounds := 5
	if enginetest.Soak() {
		rounds = 100
	}
	// What the engine hangs on would be caught by this.
	ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rounds)*5*time.Second)
	defer cancel()
	for i := range rounds {
		if err := d.Pause(ctx, e); err != nil {
			t.Fatalf("pause %d: %v", i, err)
		}
		time.Sleep(time.Duration(i%3) * 20 * time.Millisecond)
		if err := d.Resume(ctx, e); err != nil {
			t.Fatalf("resume %d: %v", i, err)
		}
		time.Sleep(time.Duration(i%4) * 100 * time.Millisecond)
	}
	end()
	theirs, _ := said.ReadString('\n')
	all := 0
	for who, line := range map[string]string{"this process": <-ours, "the other one": theirs} {
		var ran, busy int
		if n, err := fmt.Sscan(strings.TrimSuffix(line, " <nil>\n"), &ran, &busy); n != 2 || err != nil || !strings.HasSuffix(line, " <nil>\n") {
			t.Errorf("%s: %q", who, line)
		}
		all += ran
		t.Logf("%s: %d commands, %d refused", who, ran, busy)
	}
	if all == 0 {
		t.Error("no command ran between the pauses")
	}
	// The engine tells what it has done by events, which come late when it is busy.
	w := adopt(t, e, o.Name)
	eventually(t, "commands run again", 20*time.Second, func() bool {
		_, err := w.Exec(t.Context(), workspace.Command{Args: []string{"true"}})
		if err != nil && !errors.Is(err, workspace.ErrBusy) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// refusing passes everything on to an engine but what refuse is true of: that it
// answers as an engine does that cannot freeze a container.
func refusing(t *testing.T, refuse func() bool) *container.Engine {
	t.Helper()
	return between(t, func(pass http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/pause") && refuse() {
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = io.WriteString(w, `{"message":"OCI runtime pause failed: unable to freeze: unknown"}`)
				return
			}
			pass.ServeHTTP(w, r)
		})
	})
}

// between is the engine as it is seen through a handler that gets one which passes
// requests on to it.
func between(t *testing.T, with func(pass http.Handler) http.Handler) *container.Engine {
	t.Helper()
	cli := enginetest.Client(t)
	socket, ok := strings.CutPrefix(cli.DaemonHost(), "unix://")
	if !ok {
		t.Skip("needs an engine behind a socket")
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "engine"})
	proxy.Transport = &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	e, err := container.Connect(t.Context(), container.EngineOptions{Host: serve(t, with(proxy))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// An engine refuses to attach to a container that is paused. Where it runs again when
// it is asked why, it was a pause: the caller is to try again.
func TestAttachRefusedInAPauseIsBusy(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), newRoot(t), named(t)
	up(t, e, root, o)
	paused := between(t, func(pass http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/attach") {
				w.WriteHeader(http.StatusConflict)
				_, _ = io.WriteString(w, `{"message":"container is paused, unpause the container before attach"}`)
				return
			}
			pass.ServeHTTP(w, r)
		})
	})
	_, err := adopt(t, paused, o.Name).Exec(t.Context(), workspace.Command{Args: []string{"true"}})
	if !errors.Is(err, workspace.ErrBusy) || !strings.Contains(err.Error(), "paused a moment ago") {
		t.Errorf("%v", err)
	}
}

// A process that the kernel does not freeze, because it waits for a disk, delays a
// pause. One that goes on waiting is told, and everything runs on.
func TestPauseOfWhatCannotBeFrozen(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), newRoot(t), named(t)
	d := up(t, e, root, o)
	w := adopt(t, e, o.Name)
	var left atomic.Int64
	left.Store(3)
	odd := refusing(t, func() bool { return left.Add(-1) >= 0 })
	if err := d.Pause(t.Context(), odd); err != nil || left.Load() != -1 {
		t.Errorf("after three refusals: %v, %d", err, left.Load())
	}
	if _, err := w.Exec(t.Context(), workspace.Command{Args: []string{"true"}}); !errors.Is(err, workspace.ErrBusy) {
		t.Errorf("paused: %v", err)
	}
	if err := d.Resume(t.Context(), odd); err != nil {
		t.Fatal(err)
	}
	left.Store(1 << 30)
	begun := time.Now()
	if err := d.Pause(t.Context(), odd); !errors.Is(err, workspace.ErrBusy) || !strings.Contains(err.Error(), "runs on") {
		t.Errorf("refused for ever: %v", err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("told after %v", took)
	}
	exec(t, w, "true")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := d.Pause(ctx, odd); !errors.Is(err, workspace.ErrAborted) {
		t.Errorf("aborted: %v", err)
	}
	exec(t, w, "true")
}

func brief(out *workspace.Output) string {
	if out == nil {
		return "no output"
	}
	return fmt.Sprintf("status %d, signal %v, timed out %v, %d bytes %.40q, %d bytes %.80q, recreated %q", out.ExitCode, out.Signal, out.TimedOut, len(out.Stdout), out.Stdout, len(out.Stderr), out.Stderr, out.Recreated)
}
