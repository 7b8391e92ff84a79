//go:build unix

package remote_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// open returns a dialled workspace over ws, and the proxy in between.
func open(t testing.TB, served *workspace.Workspace, so remote.Options, do remote.DialOptions) (*workspace.Workspace, *proxy) {
	t.Helper()
	p := newProxy(t, serve(t, served, so))
	d, err := remote.Dial(t.Context(), p.address, "", do)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	return ws, p
}

// mark is a number that no other process has among its arguments.
func mark() string { return fmt.Sprint(1_000_000_000 + rand.IntN(1_000_000_000)) }

// alive reports whether a process of this machine has mark among its arguments.
func alive(t testing.TB, mark string) bool {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-o", "stat=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, mark) && !strings.HasPrefix(line, "Z") {
			return true
		}
	}
	return false
}

// eventually polls until ok.
func eventually(t testing.TB, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("%s: not within %v", what, limit)
			return
		}
	}
}

// watchHeap returns by how much the heap has grown at most since.
func watchHeap(t testing.TB) (most func() uint64) {
	t.Helper()
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	stop, done := make(chan struct{}), make(chan struct{})
	var peak uint64
	go func() {
		defer close(done)
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapInuse)
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(stop)
		<-done
		return peak - min(peak, before.HeapInuse)
	}
}

// TestALostConnectionEndsTheCommand cuts the connection, and then only falls
// silent, which the pings find out.
func TestALostConnectionEndsTheCommand(t *testing.T) {
	for what, c := range map[string]struct {
		lose func(p *proxy)
		most time.Duration
	}{
		"cut":    {(*proxy).cut, 1500 * time.Millisecond},
		"silent": {(*proxy).freeze, 2500 * time.Millisecond},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			served, _ := newHost(t)
			const beat = 400 * time.Millisecond
			ws, p := open(t, served, remote.Options{Keepalive: beat}, remote.DialOptions{Keepalive: beat})
			m := mark()
			done := make(chan error, 1)
			go func() {
				_, err := ws.Exec(t.Context(), workspace.Command{Shell: "trap '' TERM; setsid sleep " + m + " & sleep " + m, KillGrace: 300 * time.Millisecond})
				done <- err
			}()
			eventually(t, "the command runs", 5*time.Second, func() bool { return alive(t, m) })
			began := time.Now()
			c.lose(p)
			if err := <-done; workspace.CodeOf(err) != workspace.ErrUnavailable {
				t.Errorf("the call: %v", err)
			}
			if took := time.Since(began); took > c.most {
				t.Errorf("the call took %v", took)
			}
			eventually(t, "what it started is gone", c.most+500*time.Millisecond, func() bool { return !alive(t, m) })
		})
	}
}

// TestAStoppedStreamHoldsUpNoOther lets one stream stand still and uses the
// others.
func TestAStoppedStreamHoldsUpNoOther(t *testing.T) {
	served, _ := newHost(t)
	ws, _ := open(t, served, remote.Options{}, remote.DialOptions{})
	t.Run("stdin", func(t *testing.T) {
		t.Parallel()
		p, err := ws.Start(t.Context(), workspace.Command{Shell: "trap 'echo caught; exit 7' USR1; head -c 3000000 /dev/zero; while :; do sleep .05; done"})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		go io.Copy(p.Stdin(), repeat(make([]byte, 4096))) // nobody reads it
		if _, err := io.ReadFull(p.Stdout(), make([]byte, 3_000_000)); err != nil {
			t.Fatal(err)
		}
		if err := p.Signal(syscall.SIGUSR1); err != nil {
			t.Error(err)
		}
		if exit, err := p.Wait(); exit.Code != 7 || err != nil {
			t.Errorf("%+v, %v", exit, err)
		}
	})
	t.Run("stdout", func(t *testing.T) {
		t.Parallel()
		var stderr lockedBuffer
		p, err := ws.Start(t.Context(), workspace.Command{Shell: "yes & trap 'kill $!; exit 8' USR1; while :; do echo here >&2; sleep .05; done", Stderr: &stderr})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		time.Sleep(300 * time.Millisecond) // stdout is full by now
		before := stderr.Len()
		eventually(t, "stderr goes on", 5*time.Second, func() bool { return stderr.Len() > before+20 })
		if err := p.Signal(syscall.SIGUSR1); err != nil {
			t.Error(err)
		}
		go io.Copy(io.Discard, p.Stdout())
		if exit, err := p.Wait(); exit.Code != 8 || err != nil {
			t.Errorf("%+v, %v", exit, err)
		}
	})
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedBuffer) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Len()
}

// TestASlowClientNeedsLittleMemory has commands write to clients that do not
// read.
func TestASlowClientNeedsLittleMemory(t *testing.T) {
	served, _ := newHost(t)
	ws, _ := open(t, served, remote.Options{}, remote.DialOptions{})
	most := watchHeap(t)
	var all []*workspace.Process
	for range 8 {
		p, err := ws.Start(t.Context(), workspace.Command{Shell: "yes >&2 & exec yes", Stderr: blocked{t.Context()}, KillGrace: workspace.NoKillGrace})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	time.Sleep(700 * time.Millisecond)
	if got := most(); got > 24<<20 {
		t.Errorf("the heap grew by %d MiB", got>>20)
	}
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(func() {
			_ = p.Signal(syscall.SIGKILL)
			_ = p.Close()
		})
	}
	wg.Wait()
}

// blocked is a writer that waits for the end of the test.
type blocked struct{ ctx context.Context }

func (b blocked) Write([]byte) (int, error) { <-b.ctx.Done(); return 0, b.ctx.Err() }

// TestATokenThatEndsEndsItsCommands revokes a token, and lets one expire, while
// a command runs.
func TestATokenThatEndsEndsItsCommands(t *testing.T) {
	for _, how := range []string{"revoked", "expired"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			served, _ := newHost(t)
			a := authority(t)
			var log lockedBuffer
			address := serve(t, served, remote.Options{Authority: a, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
			life := time.Hour
			if how == "expired" {
				life = 2 * time.Second
			}
			parent, err := a.Issue(remote.Grant{Scopes: allScopes, Workspaces: []string{"*"}, Expires: time.Now().Add(life)})
			if err != nil {
				t.Fatal(err)
			}
			token, err := parent.Narrow(remote.Grant{Scopes: []remote.Scope{remote.Exec, remote.Read}})
			if err != nil {
				t.Fatal(err)
			}
			ws, err := workspace.New(dial(t, address, token), workspace.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = ws.Close() })
			m := mark()
			done := make(chan error, 1)
			go func() {
				_, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"sleep", m}, KillGrace: 100 * time.Millisecond})
				done <- err
			}()
			if how == "revoked" {
				eventually(t, "the command runs", 5*time.Second, func() bool { return alive(t, m) })
				id, _ := parent.ID()
				a.Revoke(id)
			}
			if err := <-done; workspace.CodeOf(err) != workspace.ErrDenied || !strings.Contains(err.Error(), how) {
				t.Errorf("the command: %v", err)
			}
			eventually(t, "the process is gone", 2*time.Second, func() bool { return !alive(t, m) })
			if _, err := ws.Stat(t.Context(), "."); workspace.CodeOf(err) != workspace.ErrDenied {
				t.Errorf("a later call: %v", err)
			}
			if s := log.String(); strings.Contains(s, string(token)[20:]) {
				t.Errorf("the server's log has the token in it: %s", s)
			}
		})
	}
}

// TestTheServerKeepsTimeAndGrace starts a command whose client does nothing
// more.
func TestTheServerKeepsTimeAndGrace(t *testing.T) {
	served, _ := newHost(t)
	m := mark()
	l := startFrames(t, serve(t, served, remote.Options{}), `{"mode":"exec","shell":"trap '' TERM; sleep `+m+`","timeoutMs":300,"killGraceMs":300}`)
	began := time.Now()
	kind, payload := l.last(t)
	if took := time.Since(began); kind != 19 || !strings.Contains(payload, `"timedOut":true`) || took > 1600*time.Millisecond {
		t.Errorf("frame %d %s after %v", kind, payload, took)
	}
	eventually(t, "the process is gone", time.Second, func() bool { return !alive(t, m) })
}

// TestAnswersAreNeverCrossed runs two clients beside each other.
func TestAnswersAreNeverCrossed(t *testing.T) {
	served, _ := newHost(t)
	address := serve(t, served, remote.Options{})
	var wg sync.WaitGroup
	for c := range 2 {
		ws, err := workspace.New(dial(t, address, ""), workspace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ws.Close() })
		for w := range 8 {
			wg.Go(func() {
				for i := range 15 {
					id := fmt.Sprintf("%d-%d-%d", c, w, i)
					if _, err := ws.WriteFile(t.Context(), id, []byte(id), workspace.WriteOptions{}); err != nil {
						t.Error(err)
					}
					if got, err := ws.ReadFile(t.Context(), id, 0); string(got) != id {
						t.Errorf("%s reads %q, %v", id, got, err)
					}
					if i%5 == 0 {
						out, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"echo", id}})
						if err != nil || string(out.Stdout) != id+"\n" {
							t.Errorf("%s: %v, %v", id, out, err)
						}
					}
				}
			})
		}
	}
	wg.Wait()
}

// TestClosingTheServerEndsItsCommands closes it under a command.
func TestClosingTheServerEndsItsCommands(t *testing.T) {
	served, _ := newHost(t)
	h, err := remote.Handler(served, remote.Options{Anonymous: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := h.Listen("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- h.Serve(ctx, l) }()
	ws, err := workspace.New(dial(t, "http://"+l.Addr().String(), ""), workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	m := mark()
	done := make(chan error, 1)
	go func() {
		_, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"sleep", m}})
		done <- err
	}()
	eventually(t, "the command runs", 5*time.Second, func() bool { return alive(t, m) })
	cancel()
	if err := <-done; workspace.CodeOf(err) != workspace.ErrUnavailable {
		t.Errorf("the command: %v", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if alive(t, m) {
		t.Error("the process outlives the server")
	}
	if _, err := ws.Stat(t.Context(), "."); workspace.CodeOf(err) != workspace.ErrUnavailable {
		t.Errorf("a later call: %v", err)
	}
	if _, err := served.Stat(t.Context(), "."); err != nil {
		t.Errorf("the served workspace was closed too: %v", err)
	}
}
