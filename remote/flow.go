package remote

import (
	"io"
	"sync"
)

// A stream has a window: its sender sends no more than the receiver has said it
// has room for. So a stream that nobody reads holds up its own sender and
// nothing else: not the other streams, not a signal, not the end; and neither
// side ever holds more than a window of it.

// outflow is the sending end of a stream. It is an io.Writer for one goroutine
// at a time.
type outflow struct {
	link *link
	kind frameKind

	mu      sync.Mutex
	changed *sync.Cond
	credit  int
	closed  bool
}

func newOutflow(l *link, kind frameKind) *outflow {
	f := &outflow{link: l, kind: kind, credit: window}
	f.changed = sync.NewCond(&f.mu)
	return f
}

// add gives more room. A receiver that claims more than its window lies.
func (f *outflow) add(n int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.credit+n > window {
		return errFrame
	}
	f.credit += n
	f.changed.Broadcast()
	return nil
}

// close makes Write fail from here on, also one that waits.
func (f *outflow) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.changed.Broadcast()
}

// take waits for room and returns how much of n may be sent.
func (f *outflow) take(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.credit == 0 && !f.closed {
		f.changed.Wait()
	}
	if f.closed {
		return 0
	}
	n = min(n, f.credit, maxData)
	f.credit -= n
	return n
}

// Write implements io.Writer. It waits while the receiver has no room.
func (f *outflow) Write(b []byte) (int, error) {
	sent := 0
	for sent < len(b) {
		n := f.take(len(b) - sent)
		if n == 0 {
			return sent, io.ErrClosedPipe
		}
		if err := f.link.send(f.kind, b[sent:sent+n]); err != nil {
			return sent, err
		}
		sent += n
	}
	return sent, nil
}

// inflow is the receiving end of a stream. It is an io.Reader.
type inflow struct {
	link *link
	kind frameKind

	mu      sync.Mutex
	changed *sync.Cond
	buf     []byte
	room    int   // what the sender may still send
	owed    int   // what was read and not yet given back
	err     error // what Read returns once buf is empty
}

func newInflow(l *link, kind frameKind) *inflow {
	f := &inflow{link: l, kind: kind, room: window}
	f.changed = sync.NewCond(&f.mu)
	return f
}

// put takes in what was received. It never waits.
func (f *inflow) put(b []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(b) == 0 || len(b) > f.room || f.err != nil {
		return errFrame
	}
	f.room -= len(b)
	f.buf = append(f.buf, b...)
	f.changed.Broadcast()
	return nil
}

// end makes Read return err once all is read. The first call counts.
func (f *inflow) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
		f.changed.Broadcast()
	}
}

// Read implements io.Reader, and gives the sender new room.
func (f *inflow) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	f.mu.Lock()
	for len(f.buf) == 0 && f.err == nil {
		f.changed.Wait()
	}
	n := copy(b, f.buf)
	f.buf = append(f.buf[:0], f.buf[n:]...)
	f.owed += n
	give := 0
	if f.err == nil && f.owed >= window/2 {
		give, f.owed = f.owed, 0
		f.room += give
	}
	var err error
	if n == 0 {
		err = f.err
	}
	f.mu.Unlock()
	if give > 0 {
		// A connection that is gone is told by whoever reads it.
		_ = f.link.sendCredit(f.kind, give)
	}
	return n, err
}

// deliver passes all on to w, until the stream ends. Once w fails the rest is
// dropped.
func (f *inflow) deliver(w io.Writer) {
	buf := make([]byte, maxData)
	failed := false
	for {
		n, err := f.Read(buf)
		if err != nil {
			return
		}
		if !failed {
			_, err = w.Write(buf[:n])
			failed = err != nil
		}
	}
}
