package keeper

import (
	"os"
	"sync"
	"time"
)

// input passes a command's stdin on from memory, so that frames can always be
// read. It holds at most stdinWindow bytes.
type input struct {
	w     *os.File // non-blocking: a write can be interrupted
	acked func(int)
	last  []byte // written at the end instead of closing w, when not nil

	mu       sync.Mutex
	more     *sync.Cond
	waiting  []byte
	spare    []byte
	ended    bool // no more will come
	closed   bool // the command is over
	broken   bool // the command reads no more
	unacked  int
	finished chan struct{}
}

func newInput(w *os.File, acked func(int), last []byte) *input {
	p := &input{w: w, acked: acked, last: last, finished: make(chan struct{})}
	p.more = sync.NewCond(&p.mu)
	go p.run()
	return p
}

// add takes bytes. It refuses more than the window allows, and any after the end.
func (p *input) add(b []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended || len(b) > maxStdinFrame || len(p.waiting)+len(b) > stdinWindow {
		return false
	}
	if p.broken {
		p.consumed(len(b))
		return true
	}
	p.waiting = append(p.waiting, b...)
	p.more.Signal()
	return true
}

// finish says that nothing more will come.
func (p *input) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	p.more.Signal()
}

// close drops what is left and returns when nothing writes any more.
func (p *input) close() {
	p.mu.Lock()
	p.closed = true
	p.more.Signal()
	p.mu.Unlock()
	_ = p.w.SetWriteDeadline(time.Unix(1, 0))
	<-p.finished
	if p.last == nil {
		_ = p.w.Close()
	}
}

// consumed counts bytes that the sender may send anew. mu is held.
func (p *input) consumed(n int) {
	if p.unacked += n; p.unacked >= ackEvery {
		p.acked(p.unacked)
		p.unacked = 0
	}
}

func (p *input) run() {
	defer close(p.finished)
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		for len(p.waiting) == 0 && !p.ended && !p.closed {
			p.more.Wait()
		}
		if p.closed {
			return
		}
		if len(p.waiting) == 0 {
			p.end()
			return
		}
		chunk := p.waiting
		p.waiting, p.spare = p.spare[:0], chunk
		for len(chunk) > 0 {
			n := min(len(chunk), maxStdinFrame)
			if !p.broken {
				p.mu.Unlock()
				_, err := p.w.Write(chunk[:n])
				p.mu.Lock()
				p.broken = err != nil
			}
			p.consumed(n)
			chunk = chunk[n:]
		}
	}
}

// end tells the command that its input is over. mu is held.
func (p *input) end() {
	if p.last == nil {
		_ = p.w.Close()
		return
	}
	p.mu.Unlock()
	_, _ = p.w.Write(p.last)
	p.mu.Lock()
}
