//go:build unix

package host_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// TestNothingStays: commands that end, time out and are aborted leave no
// process, goroutine or descriptor of this one's.
func TestNothingStays(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			ws := open(t, w.keeper, host.Options{})
			mark := strconv.FormatInt(time.Now().UnixNano(), 10)[6:]
			round := func(i int) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c := workspace.Command{Shell: "sleep " + mark + " & sleep " + mark, Stdin: strings.NewReader("x")}
				switch i % 4 {
				case 0:
					c.Shell = "cat; sleep " + mark + " & :"
				case 1:
					c.Timeout = time.Duration(1+i%7*4) * time.Millisecond
				case 2:
					time.AfterFunc(time.Duration(i%7*4)*time.Millisecond, cancel)
				case 3:
					cancel()
				}
				out, err := ws.Exec(ctx, c)
				if err != nil && workspace.CodeOf(err) != workspace.ErrAborted {
					t.Errorf("%q: %+v, %v", c.Shell, out, err)
				}
			}
			for i := range 8 {
				round(i)
			}
			goroutines, files := settled(t)
			for i := range 80 {
				round(i)
			}
			if alive(t, mark) {
				t.Error("a process is left")
			}
			// Keepers that wait are kept: a few goroutines and descriptors each.
			eventually(t, "goroutines and descriptors are back where they were", func() bool {
				g, f := runtime.NumGoroutine(), openFiles(t)
				return g <= goroutines+12 && f <= files+12
			})
			if err := ws.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// settled returns the numbers of goroutines and descriptors once they have been
// the same for a while.
func settled(t testing.TB) (goroutines, files int) {
	t.Helper()
	same := 0
	eventually(t, "the numbers of goroutines and descriptors stand still", func() bool {
		g, f := runtime.NumGoroutine(), openFiles(t)
		if g != goroutines || f != files {
			goroutines, files, same = g, f, 0
		}
		same++
		return same > 20
	})
	return goroutines, files
}

func openFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestCloseEndsEverything: what runs, what was kept, and what runs as Close is
// called by many.
func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, kept bool) {
		d, err := newDriver(t, kept)
		if err != nil {
			t.Fatal(err)
		}
		ws, err := workspace.New(d, workspace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		mark := strconv.FormatInt(time.Now().UnixNano(), 10)[6:]
		out, err := ws.Exec(t.Context(), workspace.Command{
			Shell: "(while :; do sleep " + mark + "; done) & echo kept", Background: workspace.BackgroundKeep,
		})
		if err != nil || string(out.Stdout) != "kept\n" {
			t.Fatalf("%+v, %v", out, err)
		}
		p, err := ws.Start(t.Context(), workspace.Command{Shell: "sleep " + mark + " & wait"})
		if err != nil {
			t.Fatal(err)
		}
		running := make(chan error, 1)
		go func() {
			_, err := ws.Exec(context.WithoutCancel(t.Context()), workspace.Command{Shell: "trap '' TERM; sleep " + mark, KillGrace: 100 * time.Millisecond})
			running <- err
		}()
		eventually(t, "the commands run", func() bool { return alive(t, mark) })
		if err := ws.Close(); err != nil {
			t.Error(err)
		}
		if err := <-running; workspace.CodeOf(err) != workspace.ErrDisposed {
			t.Errorf("a command that was running: %v", err)
		}
		if _, err := p.Wait(); err != nil {
			t.Errorf("a process that was running: %v", err)
		}
		if alive(t, mark) {
			t.Error("a process is left")
		}
		if _, err := d.Start(t.Context(), workspace.Command{Shell: ":"}, workspace.Streams{Stdout: io.Discard, Stderr: io.Discard}); workspace.CodeOf(err) != workspace.ErrDisposed {
			t.Errorf("Start after Close: %v", err)
		}
	})
}

// newDriver is a driver over an empty directory; the caller closes it.
func newDriver(t testing.TB, kept bool) (*host.Driver, error) {
	t.Helper()
	o := host.Options{Env: []string{path}}
	if kept {
		o.Keeper = keeperPath(t)
	}
	return host.New(t.TempDir(), o)
}

// TestKeptOutputIsDropped: what a kept process goes on writing costs nothing and
// does not stop it.
func TestKeptOutputIsDropped(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, kept bool) {
		ws := open(t, kept, host.Options{})
		out, err := ws.Exec(t.Context(), workspace.Command{
			Shell:      "(i=0; while [ $i -lt 20 ]; do head -c 100000 /dev/zero; head -c 100000 /dev/zero >&2; i=$((i+1)); done; echo all > end) & echo done",
			Background: workspace.BackgroundKeep,
		})
		if err != nil || !bytes.Contains(out.Stdout, []byte("done\n")) {
			t.Fatalf("%+v, %v", out, err)
		}
		eventually(t, "the kept process has written everything", func() bool {
			data, err := ws.ReadFile(t.Context(), "end", 0)
			return err == nil && string(data) == "all\n"
		})
	})
}
