package workspace

import (
	"context"
	"io"
	"os"
	"sync"
)

// pipeSize is what a pipe holds before a writer waits, in bytes: that of a
// pipe on Linux (pipe(7)).
const pipeSize = 64 << 10

// pipe is a process's output on its way to a reader. A full pipe holds the
// writer back until its context ends; after that, and once the reader has
// closed it, what is written is dropped.
type pipe struct {
	mu      sync.Mutex
	changed *sync.Cond
	buf     []byte
	loose   bool // the context has ended: the writer no longer waits
	ended   bool // closeWrite was called
	closed  bool // Close was called
	unhook  func() bool
}

func newPipe(ctx context.Context) *pipe {
	p := &pipe{}
	p.changed = sync.NewCond(&p.mu)
	p.unhook = context.AfterFunc(ctx, func() {
		p.set(&p.loose)
	})
	return p
}

func (p *pipe) set(flag *bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*flag = true
	p.changed.Broadcast()
}

// Write implements io.Writer and never fails.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(b)
	for len(b) > 0 {
		room := pipeSize - len(p.buf)
		switch {
		case p.closed:
			return n, nil
		case room > 0:
			m := min(room, len(b))
			p.buf = append(p.buf, b[:m]...)
			b = b[m:]
			p.changed.Broadcast()
		case p.loose:
			return n, nil
		default:
			p.changed.Wait()
		}
	}
	return n, nil
}

// Read implements io.Reader: io.EOF once the writer is gone and all is read,
// os.ErrClosed after Close.
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.closed:
			return 0, os.ErrClosed
		case len(p.buf) > 0 && len(b) > 0:
			n := copy(b, p.buf)
			p.buf = append(p.buf[:0], p.buf[n:]...)
			p.changed.Broadcast()
			return n, nil
		case len(b) == 0:
			return 0, nil
		case p.ended:
			return 0, io.EOF
		}
		p.changed.Wait()
	}
}

// Close is the reader's: it wants no more.
func (p *pipe) Close() error {
	p.set(&p.closed)
	return nil
}

func (p *pipe) closeWrite() {
	p.unhook()
	p.set(&p.ended)
}
