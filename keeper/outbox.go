package keeper

import (
	"io"
	"sync"
)

// TryWriter is a transport that can write what goes without waiting. A frame is
// then sent by whoever has it, with no other goroutine to wake.
type TryWriter interface {
	// TryWrite writes as much as goes at once and tells how much that was. It does
	// not wait and does not fail: Write meets the error again.
	TryWrite(p []byte) int
}

// outbox writes frames to a keeper's stdin. To send never blocks: what must be
// sent at once, a stop, must not wait for a slow transport. What is not yet
// written is bounded by the stdin window.
type outbox struct {
	w      io.WriteCloser
	try    TryWriter // nil: w is none
	failed func(error)

	mu      sync.Mutex
	more    *sync.Cond
	queue   []byte
	writing bool // the goroutine is at it
	closed  bool
}

// newOutbox starts the goroutine that writes; close ends it. It calls failed when
// a write fails.
func newOutbox(w io.WriteCloser, failed func(error)) *outbox {
	o := &outbox{w: w, failed: failed}
	o.try, _ = w.(TryWriter)
	o.more = sync.NewCond(&o.mu)
	go o.run()
	return o
}

func (o *outbox) send(b []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return
	}
	if o.try != nil && !o.writing && len(o.queue) == 0 {
		b = b[o.try.TryWrite(b):]
	}
	if len(b) > 0 {
		o.queue = append(o.queue, b...)
		o.more.Signal()
	}
}

// close drops what is not written and closes the transport's side.
func (o *outbox) close() error {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return nil
	}
	o.closed = true
	o.queue = nil
	o.more.Signal()
	o.mu.Unlock()
	return o.w.Close()
}

func (o *outbox) run() {
	var b []byte
	for {
		o.mu.Lock()
		o.writing = false
		for len(o.queue) == 0 && !o.closed {
			o.more.Wait()
		}
		if o.closed {
			o.mu.Unlock()
			return
		}
		b, o.queue = o.queue, b[:0]
		o.writing = true
		o.mu.Unlock()
		if _, err := o.w.Write(b); err != nil {
			o.failed(err)
			return
		}
	}
}
