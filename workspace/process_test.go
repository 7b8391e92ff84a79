package workspace_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// echo answers every line of its input and leaves at end of file.
func echo(p *goprocess) int {
	io.Copy(p.stdout, p.stdin)
	return 0
}

// stubborn leaves only when it is killed.
func stubborn(p *goprocess) int {
	<-p.killed
	return 0
}

// obedient leaves when it is asked to.
func obedient(p *goprocess) int {
	<-p.terminated
	return 143
}

func start(t *testing.T, d workspace.Driver, c workspace.Command) *workspace.Process {
	t.Helper()
	p, err := open(t, d, workspace.Options{}).Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProcessDialogue(t *testing.T) {
	p := start(t, newInprocess(map[string]program{"echo": echo}), workspace.Command{Args: []string{"echo"}})
	buf := make([]byte, 5)
	for range 3 {
		if _, err := io.WriteString(p.Stdin(), "hello"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(p.Stdout(), buf); err != nil || string(buf) != "hello" {
			t.Fatalf("read %q, %v", buf, err)
		}
	}
	if err := p.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if exit, err := p.Wait(); err != nil || exit.Code != 0 {
			t.Errorf("Wait: %+v, %v", exit, err)
		}
	}
	if _, err := p.Stdin().Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) && !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a write after the exit: %v", err)
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Signal after the exit: %v", err)
	}
	if err := p.Resize(workspace.TerminalSize{}); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Resize after the exit: %v", err)
	}
}

func TestProcessStdinAfterExitIsEPIPE(t *testing.T) {
	p := start(t, newInprocess(map[string]program{"leave": func(*goprocess) int { return 3 }}), workspace.Command{Args: []string{"leave"}})
	if exit, err := p.Wait(); exit.Code != 3 || err != nil {
		t.Errorf("Wait: %+v, %v", exit, err)
	}
	if _, err := p.Stdin().Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v, want EPIPE", err)
	}
}

func TestProcessOutputOutlivesIt(t *testing.T) {
	const size = 64 << 10
	p := start(t, newInprocess(map[string]program{"full": func(p *goprocess) int {
		p.stdout.Write(bytes.Repeat([]byte("x"), size))
		return 0
	}}), workspace.Command{Args: []string{"full"}})
	if exit, err := p.Wait(); exit.Code != 0 || err != nil {
		t.Fatalf("Wait: %+v, %v; 64 KiB fit without a reader", exit, err)
	}
	if got, err := io.ReadAll(p.Stdout()); len(got) != size || err != nil {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := p.Stdout().Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a read after Close: %v", err)
	}
}

// A full pipe holds the process back until somebody reads, or closes.
func TestProcessPipeHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written int
		p := start(t, newInprocess(map[string]program{"much": func(p *goprocess) int {
			for range 100 {
				n, _ := p.stdout.Write(make([]byte, 1<<10))
				written += n
			}
			return 0
		}}), workspace.Command{Args: []string{"much"}})
		synctest.Wait()
		if written != 64<<10 {
			t.Errorf("%d bytes were written with no reader, want 64 KiB", written)
		}
		if n, err := io.ReadFull(p.Stdout(), make([]byte, 10<<10)); n != 10<<10 || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		synctest.Wait()
		if written != 74<<10 {
			t.Errorf("%d bytes were written after 10 KiB were read", written)
		}
		if err := p.Stdout().Close(); err != nil {
			t.Error(err)
		}
		if exit, err := p.Wait(); exit.Code != 0 || err != nil || written != 100<<10 {
			t.Errorf("Wait: %+v, %v, written %d; a reader that wants no more holds nobody back", exit, err, written)
		}
	})
}

func TestProcessClose(t *testing.T) {
	for _, c := range []struct {
		name string
		main program
		took time.Duration
		exit workspace.Exit
	}{
		{"leaves at end of input", echo, 0, workspace.Exit{}},
		{"leaves at SIGTERM", obedient, 2 * time.Second, workspace.Exit{Code: 143, Stopped: true}},
		{"must be killed", stubborn, 5 * time.Second, workspace.Exit{Code: 137, Signal: syscall.SIGKILL, Stopped: true}},
		{"blocked on a full pipe", func(p *goprocess) int {
			p.stdout.Write(make([]byte, 1<<20))
			return 7
		}, 0, workspace.Exit{Code: 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := start(t, newInprocess(map[string]program{"it": c.main}), workspace.Command{Args: []string{"it"}, KillGrace: 3 * time.Second})
				began := time.Now()
				for range 2 {
					if err := p.Close(); err != nil {
						t.Errorf("Close: %v", err)
					}
					if took := time.Since(began); took != c.took {
						t.Errorf("Close took %v, want %v", took, c.took)
					}
				}
				if exit, err := p.Wait(); exit != c.exit || err != nil {
					t.Errorf("Wait: %+v, %v, want %+v", exit, err, c.exit)
				}
			})
		})
	}
}

func TestProcessCloseAtOnce(t *testing.T) {
	p := start(t, newInprocess(map[string]program{"it": echo}), workspace.Command{Args: []string{"it"}})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := p.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if exit, err := p.Wait(); exit.Code != 0 || err != nil {
				t.Errorf("Wait: %+v, %v", exit, err)
			}
		})
	}
	wg.Wait()
}

func TestProcessEnds(t *testing.T) {
	t.Run("with its timeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := start(t, newInprocess(map[string]program{"it": obedient}), workspace.Command{Args: []string{"it"}, Timeout: time.Minute})
			if exit, err := p.Wait(); exit.Code != 124 || err != context.DeadlineExceeded {
				t.Errorf("Wait: %+v, %v", exit, err)
			}
		})
	})
	t.Run("with its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			p, err := open(t, newInprocess(map[string]program{"it": obedient}), workspace.Options{}).Start(ctx, workspace.Command{Args: []string{"it"}})
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			if exit, err := p.Wait(); exit.Code != 143 || err != context.Canceled {
				t.Errorf("Wait: %+v, %v", exit, err)
			}
		})
	})
	t.Run("with its workspace", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ws := open(t, newInprocess(map[string]program{"it": stubborn}), workspace.Options{})
			p, err := ws.Start(t.Context(), workspace.Command{Args: []string{"it"}})
			if err != nil {
				t.Fatal(err)
			}
			if err := ws.Close(); err != nil {
				t.Error(err)
			}
			if exit, err := p.Wait(); exit.Code != 137 || err != nil {
				t.Errorf("Wait: %+v, %v", exit, err)
			}
		})
	})
}

func TestProcessWritersAreBoundToNoTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &blocker{release: make(chan struct{})}
		p := start(t, newInprocess(map[string]program{"flood": flood}), workspace.Command{
			Args: []string{"flood"}, Stdout: w, Stderr: io.Discard, Timeout: time.Second, KillGrace: time.Second,
		})
		began := time.Now()
		if exit, err := p.Wait(); exit.Code != 124 || err != context.DeadlineExceeded {
			t.Errorf("Wait: %+v, %v", exit, err)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("back after %v", took)
		}
		close(w.release)
	})
}

func TestProcessSignalAndResize(t *testing.T) {
	p := start(t, newInprocess(map[string]program{"catch": func(p *goprocess) int {
		sig := <-p.signals
		return int(sig)
	}}), workspace.Command{Args: []string{"catch"}, Terminal: &workspace.TerminalSize{Rows: 1, Cols: 2}})
	if err := p.Resize(workspace.TerminalSize{Rows: 24, Cols: 80}); err != nil {
		t.Error(err)
	}
	for _, sig := range []os.Signal{nil, syscall.Signal(0), syscall.Signal(-1), syscall.Signal(65), fakeSignal{}} {
		wantCode(t, p.Signal(sig), workspace.ErrInvalidArgument)
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if exit, err := p.Wait(); exit.Code != int(syscall.SIGTERM) || err != nil {
		t.Errorf("Wait: %+v, %v", exit, err)
	}
}

type fakeSignal struct{}

func (fakeSignal) String() string { return "fake" }
func (fakeSignal) Signal()        {}

func TestStartRefuses(t *testing.T) {
	d := newInprocess(map[string]program{"it": echo})
	ws := open(t, d, workspace.Options{})
	for name, c := range map[string]workspace.Command{
		"Stdin":      {Args: []string{"it"}, Stdin: strings.NewReader("")},
		"MaxOutput":  {Args: []string{"it"}, MaxOutput: 1},
		"Signals":    {Args: []string{"it"}, Signals: make(chan os.Signal)},
		"Background": {Args: []string{"it"}, Background: workspace.BackgroundKeep},
		"no command": {},
	} {
		_, err := ws.Start(t.Context(), c)
		if workspace.CodeOf(err) != workspace.ErrInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := open(t, struct{ workspace.Driver }{d}, workspace.Options{}).Start(t.Context(), workspace.Command{Args: []string{"it"}})
	wantCode(t, err, workspace.ErrUnsupported)
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v is not errors.ErrUnsupported", err)
	}
	if readies, _, _ := d.counts(); readies != 0 {
		t.Errorf("a refused Start made the driver ready %d times", readies)
	}
}

// failingStarter cannot start anything.
type failingStarter struct {
	*inprocess
	err error
	// hold, when set, is waited for until the context ends.
	hold chan struct{}
}

func (d *failingStarter) Start(ctx context.Context, _ workspace.Command, _ workspace.Streams) (workspace.Running, error) {
	if d.hold != nil {
		close(d.hold)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, d.err
}

func TestStartThatFailsLeavesNothing(t *testing.T) {
	cause := errors.New("no such engine")
	ws := open(t, &failingStarter{inprocess: newInprocess(nil), err: cause}, workspace.Options{})
	_, err := ws.Start(t.Context(), workspace.Command{Args: []string{"it"}})
	wantCode(t, err, workspace.ErrIO)
	if !errors.Is(err, cause) {
		t.Errorf("%v does not wrap its cause", err)
	}
}

func TestCloseWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &failingStarter{inprocess: newInprocess(nil), hold: make(chan struct{})}
		ws := open(t, d, workspace.Options{})
		failed := make(chan error, 1)
		go func() {
			_, err := ws.Start(t.Context(), workspace.Command{Args: []string{"it"}})
			failed <- err
		}()
		<-d.hold
		if err := ws.Close(); err != nil {
			t.Error(err)
		}
		wantCode(t, <-failed, workspace.ErrDisposed)
	})
}
