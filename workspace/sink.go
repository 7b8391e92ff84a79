package workspace

import (
	"context"
	"io"
	"sync"
	"time"
)

// blockedWriter is how long, after a command's context has ended, one stream
// waits for the caller's writer before it goes on without it.
const blockedWriter = 100 * time.Millisecond

// sink is a command's stream as the driver writes it: it keeps the head and
// the tail, and passes everything on to the caller's writer. A writer that
// blocks holds the command back, as a pipe would, until the context ends; from
// then on it can hold back nothing, so that a timeout is kept whatever the
// caller does.
type sink struct {
	mu   sync.Mutex
	kept capture
	to   *pump
}

// Write implements io.Writer and never fails.
func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.kept.add(p)
	s.mu.Unlock()
	s.to.write(p)
	return len(p), nil
}

// result returns what was kept so far.
func (s *sink) result() ([]byte, Dropped) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.result()
}

// pump hands bytes to a writer of the caller's in a goroutine of its own, so
// that it can be left when it blocks. A nil pump drops everything.
type pump struct {
	ctx  context.Context //nolint:containedctx // the life of one command
	mu   sync.Mutex      // one write at a time: two streams may share a writer
	work chan []byte
	done chan error
	buf  []byte
	dead bool // guarded by mu: the writer failed or was left
}

// newPump returns a pump to w that stops waiting for it soon after ctx ends.
// Its goroutine ends with close, or when a Write it was left in returns.
func newPump(ctx context.Context, w io.Writer) *pump {
	if w == nil {
		return nil
	}
	p := &pump{ctx: ctx, work: make(chan []byte), done: make(chan error, 1)}
	go func() {
		for b := range p.work {
			_, err := w.Write(b)
			p.done <- err
		}
	}()
	return p
}

// write passes b on and waits for it, but not for longer than blockedWriter
// once the context has ended.
func (p *pump) write(b []byte) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead {
		return
	}
	// The driver may reuse b at once when the writer is left in mid-call.
	p.buf = append(p.buf[:0], b...)
	p.work <- p.buf
	select {
	case err := <-p.done:
		p.dead = err != nil
		return
	case <-p.ctx.Done():
	}
	t := time.NewTimer(blockedWriter)
	defer t.Stop()
	select {
	case err := <-p.done:
		p.dead = err != nil
	case <-t.C:
		p.dead = true
	}
}

// close ends the goroutine; nothing is written after it.
func (p *pump) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
	close(p.work)
}
