package workspace_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// flood writes until it is asked to end.
func flood(p *goprocess) int {
	for {
		select {
		case <-p.terminated:
			return 143
		default:
			p.stdout.Write([]byte("x"))
			p.stderr.Write([]byte("y"))
		}
		time.Sleep(time.Millisecond)
	}
}

// blocker is a writer that blocks from its first Write until release.
type blocker struct {
	release chan struct{}
	calls   atomic.Int32
}

func (b *blocker) Write(p []byte) (int, error) {
	b.calls.Add(1)
	<-b.release
	return len(p), nil
}

func TestBlockedWriterHoldsNoTimeout(t *testing.T) {
	for name, set := range map[string]func(*workspace.Command, io.Writer){
		"stdout": func(c *workspace.Command, w io.Writer) { c.Stdout = w },
		"stderr": func(c *workspace.Command, w io.Writer) { c.Stderr = w },
		"both":   func(c *workspace.Command, w io.Writer) { c.Stdout, c.Stderr = w, w },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ws := open(t, newInprocess(map[string]program{"flood": flood}), workspace.Options{})
				w := &blocker{release: make(chan struct{})}
				c := workspace.Command{Args: []string{"flood"}, Timeout: time.Second, KillGrace: time.Second}
				set(&c, w)
				began := time.Now()
				out, err := ws.Exec(t.Context(), c)
				if err != nil || !out.TimedOut || out.ExitCode != 124 {
					t.Errorf("got %+v, %v", out, err)
				}
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("back after %v; timeout, grace and a second are 3s", took)
				}
				if len(out.Stdout) == 0 {
					t.Error("the partial output is lost")
				}
				close(w.release)
				synctest.Wait()
				if n := w.calls.Load(); n != 1 {
					t.Errorf("a writer left behind was called %d times", n)
				}
			})
		})
	}
}

// Until a context ends, a writer that blocks holds the command back, as a pipe
// does, rather than have its bytes dropped.
func TestSlowWriterGetsEveryByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ws := open(t, newInprocess(map[string]program{"count": func(p *goprocess) int {
			for i := range 100 {
				fmt.Fprintln(p.stdout, i)
			}
			return 0
		}}), workspace.Options{})
		var got bytes.Buffer
		slow := writerFunc(func(b []byte) (int, error) {
			time.Sleep(time.Minute)
			return got.Write(b)
		})
		out, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"count"}, Stdout: slow, MaxOutput: 10})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(got.String(), "\n") != 100 || !out.Truncated {
			t.Errorf("the writer got %d lines of 100, truncated %v", strings.Count(got.String(), "\n"), out.Truncated)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestFailingWriterGetsNothingMore(t *testing.T) {
	var calls int
	broken := writerFunc(func([]byte) (int, error) { calls++; return 0, errors.New("full") })
	ws := open(t, newInprocess(map[string]program{"three": func(p *goprocess) int {
		for range 3 {
			if n, err := p.stdout.Write([]byte("ab")); n != 2 || err != nil {
				return 1
			}
		}
		return 42
	}}), workspace.Options{})
	out, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"three"}, Stdout: broken})
	if err != nil || out.ExitCode != 42 || string(out.Stdout) != "ababab" {
		t.Errorf("got %+v, %v; a writer's failure is not the command's", out, err)
	}
	if calls != 1 {
		t.Errorf("the writer was called %d times; once failed, it gets nothing more", calls)
	}
}

// twoStreams writes to both streams from two goroutines.
func twoStreams(p *goprocess) int {
	var wg sync.WaitGroup
	for _, w := range []io.Writer{p.stdout, p.stderr} {
		wg.Go(func() {
			for range 200 {
				io.WriteString(w, "line\n")
			}
		})
	}
	wg.Wait()
	return 0
}

func TestOneWriterForBothIsSerialised(t *testing.T) {
	var inside atomic.Int32
	var got bytes.Buffer
	shared := writerFunc(func(b []byte) (int, error) {
		if inside.Add(1) != 1 {
			t.Error("two calls at once")
		}
		defer inside.Add(-1)
		time.Sleep(10 * time.Microsecond)
		return got.Write(b)
	})
	d := newInprocess(map[string]program{"two": twoStreams})
	ws := open(t, d, workspace.Options{})
	if _, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"two"}, Stdout: &shared, Stderr: &shared}); err != nil {
		t.Fatal(err)
	}
	if got.String() != strings.Repeat("line\n", 400) {
		t.Errorf("got %d bytes, want 2000", got.Len())
	}
	got.Reset()
	p, err := ws.Start(t.Context(), workspace.Command{Args: []string{"two"}, Stdout: &shared, Stderr: &shared})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if got.Len() != 2000 {
		t.Errorf("a started process: %d bytes, want 2000", got.Len())
	}
}

// A writer whose type cannot be compared is still a writer.
func TestUncomparableWriters(t *testing.T) {
	var n atomic.Int32
	count := writerFunc(func(b []byte) (int, error) { n.Add(int32(len(b))); return len(b), nil })
	ws := open(t, newInprocess(map[string]program{"two": twoStreams}), workspace.Options{})
	if _, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"two"}, Stdout: count, Stderr: count}); err != nil {
		t.Fatal(err)
	}
	if n.Load() != 2000 {
		t.Errorf("%d bytes, want 2000", n.Load())
	}
}

// What a driver still writes when its Run has returned reaches no caller.
func TestNoWriteAfterReturn(t *testing.T) {
	d := &lateDriver{inprocess: newInprocess(nil), late: make(chan struct{})}
	ws := open(t, d, workspace.Options{})
	var got bytes.Buffer
	out, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"x"}, Stdout: &got})
	if err != nil {
		t.Fatal(err)
	}
	<-d.late
	if got.String() != "in time" || string(out.Stdout) != "in time" {
		t.Errorf("the writer got %q, Output %q", got.String(), out.Stdout)
	}
}

// lateDriver writes once more after its Run has returned.
type lateDriver struct {
	*inprocess
	late chan struct{}
}

func (d *lateDriver) Run(ctx context.Context, _ workspace.Command, s workspace.Streams) (workspace.Exit, error) {
	io.WriteString(s.Stdout, "in time")
	go func() {
		defer close(d.late)
		time.Sleep(20 * time.Millisecond)
		io.WriteString(s.Stdout, "too late")
	}()
	return workspace.Exit{}, ctx.Err()
}

func TestWriterMayKeepNothingOfADriversBuffer(t *testing.T) {
	var kept [][]byte
	ws := open(t, newInprocess(map[string]program{"reuse": func(p *goprocess) int {
		buf := []byte("first")
		p.stdout.Write(buf)
		copy(buf, "XXXXX")
		p.stdout.Write(buf)
		return 0
	}}), workspace.Options{})
	w := writerFunc(func(b []byte) (int, error) { kept = append(kept, bytes.Clone(b)); return len(b), nil })
	out, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"reuse"}, Stdout: w})
	if err != nil {
		t.Fatal(err)
	}
	if string(out.Stdout) != "firstXXXXX" || string(bytes.Join(kept, []byte("|"))) != "first|XXXXX" {
		t.Errorf("Output %q, writer %q", out.Stdout, kept)
	}
}
