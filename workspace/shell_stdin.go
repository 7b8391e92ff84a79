package workspace

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"sync"
	"time"
)

// shellFeed makes a FIFO, tells its name, and passes its standard input on once
// the shell has opened the other end. The name is gone by then.
const shellFeed = `p=${TMPDIR:-/tmp}/wsctl-stdin-$1
mkfifo -m 600 "$p" && printf '%s\n' "$p" && exec 3>"$p" && rm -f "$p" && echo opened && exec cat >&3 3>&-`

// feedEnd bounds how long the removal of a FIFO may take.
const feedEnd = 5 * time.Second

// errNoFIFO is the reason when a command's standard input cannot be set up.
var errNoFIFO = errors.New("no FIFO for the command's standard input")

// feeder passes a reader on to one command of a shell, as a command of its own:
// a process has one standard input, and the shell's is taken.
type feeder struct {
	s      *Shell
	path   string
	told   feedTold
	cancel context.CancelFunc
	done   chan struct{} // closed when out and err are set
	out    *Output
	err    error
}

// feed starts to pass r on.
func (s *Shell) feed(ctx context.Context, op string, r io.Reader) (*feeder, error) {
	f := &feeder{s: s, done: make(chan struct{}), told: feedTold{named: make(chan struct{})}}
	// It outlives ctx for as long as the interrupt of the command takes.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f.cancel = cancel
	go func() {
		defer close(f.done)
		f.out, f.err = s.w.Exec(life, Command{
			Args: []string{"sh", "-c", shellFeed, "sh", rand.Text()}, Dir: ".", Env: s.opts.Env,
			Stdin: r, Stdout: &f.told, Timeout: NoTimeout, KillGrace: NoKillGrace,
		})
	}()
	select {
	case <-f.told.named:
	case <-f.done:
	case <-ctx.Done():
	}
	f.path, _ = f.told.lines()
	if ctx.Err() == nil && strings.HasPrefix(f.path, "/") {
		return f, nil
	}
	f.stop()
	switch {
	case ctx.Err() != nil:
		return nil, s.w.stopped(ctx, op, "")
	case f.err != nil && CodeOf(f.err) != ErrAborted:
		return nil, f.err
	case f.out != nil && len(f.out.Stderr) > 0:
		return nil, Errorf(ErrIO, op, "", "%w: %q", errNoFIFO, f.out.Stderr)
	}
	return nil, &Error{Code: ErrIO, Op: op, Err: errNoFIFO}
}

// stop ends it, and removes a FIFO that the shell has not opened.
func (f *feeder) stop() {
	f.cancel()
	<-f.done
	path, opened := f.told.lines()
	if path == "" || opened {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), feedEnd)
	defer cancel()
	// Where commands no longer run, an empty FIFO stays in the temporary
	// directory; the command's own result matters more.
	_, _ = f.s.w.Exec(ctx, Command{Args: []string{"rm", "-f", "--", path}, Dir: ".", Env: f.s.opts.Env})
}

// feedTold is what a feed has printed.
type feedTold struct {
	mu    sync.Mutex
	text  []byte
	named chan struct{} // closed at the end of the first line
}

// Write implements io.Writer.
func (t *feedTold) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := bytes.IndexByte(t.text, '\n') >= 0
	t.text = append(t.text, p...)
	if !before && bytes.IndexByte(p, '\n') >= 0 {
		close(t.named)
	}
	return len(p), nil
}

// lines returns the name told, "" for none, and whether the shell has opened it.
func (t *feedTold) lines() (path string, opened bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	path, rest, whole := strings.Cut(string(t.text), "\n")
	if !whole {
		return "", false
	}
	return path, rest != ""
}
