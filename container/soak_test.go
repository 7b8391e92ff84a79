//go:build linux

package container_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	dockertypes "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"go.uber.org/goleak"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

// soakTime is how long random work goes on.
func soakTime() time.Duration {
	if enginetest.Soak() {
		return 5 * time.Minute
	}
	return 3 * time.Second
}

// soak is random work in one workspace, and random harm to what it runs in.
type soak struct {
	*testing.T
	ws     *workspace.Workspace
	driver *container.Driver
	cli    *client.Client
	root   string
	word   string // in the arguments of all that sleeps

	harms  atomic.Int64 // begun or over, of what may end any command
	done   atomic.Int64
	harmed atomic.Int64 // commands whose end was excused by a harm
}

// Whatever commands do and whatever becomes of their keepers and their container,
// each result is right or says that it is not known, and nothing is left at the end:
// no process, no goroutine, no descriptor, no container.
func TestSoak(t *testing.T) {
	cli, e := enginetest.Client(t), connect(t)
	enginetest.Keeper(t)
	root := newRoot(t)
	before, descriptors := goleak.IgnoreCurrent(), openFiles(t)
	s := &soak{T: t, cli: cli, root: root, word: fmt.Sprintf("86400.%d", rand.IntN(1e9))}
	d := open(t, e, root, options(t))
	ws, err := workspace.New(d, workspace.Options{KillGrace: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	s.ws, s.driver = ws, d
	if err := os.WriteFile(filepath.Join(root, "kept"), []byte("intact"), 0o644); err != nil {
		t.Fatal(err)
	}
	exec(t, ws, "true")
	stop := time.Now().Add(soakTime())
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for time.Now().Before(stop) && !t.Failed() {
				s.one()
				s.done.Add(1)
			}
		})
	}
	wg.Go(func() { s.harm(stop) })
	wg.Wait()
	t.Logf("%d commands, %d harms, %d commands excused", s.done.Load(), s.harms.Load()/2, s.harmed.Load())
	if out := exec(t, ws, "cat kept"); string(out.Stdout) != "intact" {
		t.Errorf("the root's file holds %q", out.Stdout)
	}
	if err := ws.Close(); err != nil {
		t.Error(err)
	}
	none(t, root)
	eventually(t, "no process", 10*time.Second, func() bool { return running(t, s.word) == 0 })
	// Connections to the engine that wait for another request are kept by design.
	err = goleak.Find(before, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
	if err != nil { // it has looked for a while
		t.Error(err)
	}
	eventually(t, "no descriptor too many", 10*time.Second, func() bool {
		now := openFiles(t)
		if len(now) > len(descriptors) {
			t.Logf("%q were open, and now %q", descriptors, now)
		}
		return len(now) <= len(descriptors)
	})
}

// one runs one command of a random kind.
func (s *soak) one() {
	before := s.harms.Load()
	n := rand.IntN(1 << 30)
	text := strings.Repeat(fmt.Sprintf("%x", n), rand.IntN(200))
	ctx := s.Context()
	wrong := ""
	var out *workspace.Output
	var err error
	run := func(c workspace.Command) { out, err = s.ws.Exec(ctx, c) }
	expect := func(code int, stdout, stderr string) {
		if err != nil || out.ExitCode != code || out.TimedOut || string(out.Stdout) != stdout || string(out.Stderr) != stderr {
			wrong = fmt.Sprintf("expected %d, %d and %d bytes", code, len(stdout), len(stderr))
		}
	}
	kind := rand.IntN(11)
	switch kind {
	case 0, 1, 2:
		run(workspace.Command{Args: []string{"sh", "-c", `printf %s "$1"; printf %s "$2" >&2; exit $3`, "sh", text, "e" + text, fmt.Sprint(n % 100)}})
		expect(n%100, text, "e"+text)
	case 3:
		in := bytes.Repeat([]byte(text+"\n"), 1+rand.IntN(50))
		run(workspace.Command{Args: []string{"cat"}, Stdin: bytes.NewReader(in), MaxOutput: 4 << 20})
		expect(0, string(in), "")
	case 4:
		run(workspace.Command{Shell: fmt.Sprintf("head -c %d /dev/zero", n%3_000_000), MaxOutput: 8 << 20})
		expect(0, string(make([]byte, n%3_000_000)), "")
	case 5:
		run(workspace.Command{Shell: "trap '' TERM; setsid sleep " + s.word + " & sleep " + s.word, Timeout: time.Duration(1+n%300) * time.Millisecond})
		if err != nil || !out.TimedOut || out.ExitCode != 124 {
			wrong = "expected a timeout"
		}
	case 6:
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(n%300)*time.Millisecond)
		defer cancel()
		run(workspace.Command{Shell: "yes & (setsid sleep " + s.word + " &); sleep " + s.word})
		if !errors.Is(err, workspace.ErrAborted) || !errors.Is(err, context.DeadlineExceeded) {
			wrong = "expected an abort"
		}
	case 7:
		run(workspace.Command{Shell: "(setsid sleep " + s.word + " >/dev/null 2>&1 &); env -i sleep " + s.word + " & printf left"})
		expect(0, "left", "")
	case 8:
		run(workspace.Command{Shell: "sleep 1 >/dev/null 2>&1 & printf kept", Background: workspace.BackgroundKeep})
		expect(0, "kept", "")
	case 9:
		run(workspace.Command{Args: []string{"no-such-program"}})
		if err != nil || out.ExitCode != 127 || len(out.Stdout) > 0 || len(out.Stderr) == 0 {
			wrong = "expected 127"
		}
	case 10:
		run(workspace.Command{Shell: "setsid sleep " + s.word + " & sleep .01; kill -9 $PPID; sleep " + s.word})
		if code := workspace.CodeOf(err); code != workspace.ErrIO && code != workspace.ErrUnavailable {
			wrong = "expected that the result is not known"
		}
	}
	if wrong == "" {
		return
	}
	if s.harms.Load() != before || before%2 == 1 {
		// It may have met a container that was on its way out, and then says
		// so, or was killed with it.
		switch code := workspace.CodeOf(err); {
		case err == nil && out.ExitCode == 137, err == nil && out.TimedOut && kind == 5, code == workspace.ErrUnavailable, code == workspace.ErrBusy, code == workspace.ErrIO, code == workspace.ErrAborted && kind == 6:
			s.harmed.Add(1)
			return
		}
	}
	s.Errorf("kind %d: %s: %v, %s", kind, wrong, err, brief(out))
}

// harm does something to the container from outside or from inside, now and then.
func (s *soak) harm(stop time.Time) {
	for {
		pause := time.Duration(300+rand.IntN(2000)) * time.Millisecond
		if time.Now().Add(pause).After(stop) {
			return
		}
		time.Sleep(pause)
		left := enginetest.Below(s.T, s.root)
		if len(left) == 0 {
			continue
		}
		id := left[rand.IntN(len(left))].ID
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		s.harms.Add(1)
		// An engine that is just removing it refuses; that is as good.
		begun, kind := time.Now(), rand.IntN(5)
		switch kind {
		case 0:
			_ = s.cli.ContainerKill(ctx, id, "KILL")
		case 1:
			_ = s.cli.ContainerRemove(ctx, id, dockertypes.RemoveOptions{Force: true})
		case 2:
			now := 0
			_ = s.cli.ContainerRestart(ctx, id, dockertypes.StopOptions{Timeout: &now})
		case 3:
			// Not past the driver: an exec that is coming to be would hang the
			// engine.
			// It may fail to freeze what forks all the time.
			_ = s.driver.Pause(ctx)
			time.Sleep(time.Duration(rand.IntN(700)) * time.Millisecond)
			if err := s.driver.Unpause(ctx); err != nil {
				s.Errorf("resume: %v", err)
			}
		case 4:
			_, _ = s.ws.Exec(ctx, workspace.Command{Shell: "kill -9 -1"})
		}
		took := time.Since(begun)
		// Its effects go on until commands run again.
		last := context.DeadlineExceeded
		for time.Since(begun) < took+20*time.Second {
			out, err := s.ws.Exec(ctx, workspace.Command{Args: []string{"true"}})
			if err == nil && out.ExitCode == 0 {
				last = nil
				break
			}
			last = cmp.Or(err, errors.New(brief(out)))
			time.Sleep(20 * time.Millisecond)
		}
		if last != nil {
			s.Errorf("no command has run within 20 seconds after harm %d, which took %v: %v", kind, took, last)
		}
		s.harms.Add(1)
		cancel()
	}
}

// running counts the processes with a word in their arguments.
func running(t testing.TB, word string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range entries {
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if err == nil && bytes.Contains(line, []byte(word)) {
			n++
		}
	}
	return n
}

// openFiles are what this process has open, but for connections: those to the
// engine that wait for another request are kept by design.
func openFiles(t testing.TB) []string {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var open []string
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && !strings.HasPrefix(to, "socket:") {
			open = append(open, to)
		}
	}
	return open
}

// A command that writes without end leaves our memory as it is.
func TestMemoryIsFlat(t *testing.T) {
	length := 2 * time.Second
	if enginetest.Soak() {
		length = time.Minute
	}
	w := openWorkspace(t, connect(t), newRoot(t), options(t))
	exec(t, w, "true")
	var most atomic.Uint64
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse
	}
	runtime.GC()
	before := heap()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range int(length / (100 * time.Millisecond)) {
			time.Sleep(100 * time.Millisecond)
			most.Store(max(most.Load(), heap()))
		}
	}()
	out, err := w.Exec(t.Context(), workspace.Command{Args: []string{"yes"}, Stdout: io.Discard, Timeout: length})
	<-done
	if err != nil || !out.TimedOut || out.StdoutDropped.Bytes < 1<<20 {
		t.Fatalf("%v, %s", err, brief(out))
	}
	if grown := int64(most.Load()) - int64(before); grown > 16<<20 {
		t.Errorf("the heap grew by %d MiB while %d MiB came", grown>>20, out.StdoutDropped.Bytes>>20)
	}
}
