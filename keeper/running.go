package keeper

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// Running is a command on a keeper. Its methods are safe for concurrent use.
type Running struct {
	client  *Client
	order   *order
	started chan struct{}
	done    chan struct{}

	mu        sync.Mutex
	credit    *sync.Cond
	pid       int
	begun     bool
	committed bool // the keeper has said that it would run it
	ends      [2]bool
	status    Status
	failure   *StartError
	err       error
	finished  bool
	sent      int // bytes of stdin that are not acknowledged
	eofSent   bool
	broken    error // of a writer
}

func newRunning(c *Client, o *order) *Running {
	r := &Running{client: c, order: o, started: make(chan struct{}), done: make(chan struct{})}
	r.credit = sync.NewCond(&r.mu)
	return r
}

// PID is the command's process id, which is also that of its group and session,
// in the keeper's PID namespace. It is 0 only when a command filled the streams
// before the keeper could tell.
func (r *Running) PID() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pid
}

// Done is closed when Wait would return at once.
func (r *Running) Done() <-chan struct{} { return r.done }

// Wait returns when the command is over and all of its output delivered: with its
// status, or with an error that wraps [ErrLost], or with ctx.Err() while it still
// runs. It may be called again.
func (r *Running) Wait(ctx context.Context) (Status, error) {
	select {
	case <-r.done:
	default:
		select {
		case <-r.done:
		case <-ctx.Done():
			return Status{}, ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.status
	s.OutputErr = r.broken
	return s, r.err
}

// Signal sends a signal, a Linux number, to the command's group. It is
// os.ErrProcessDone when the command is over.
func (r *Running) Signal(number int) error {
	if number < 0 || number > 64 {
		return syscall.EINVAL
	}
	return r.send(frameSignal, binary.AppendUvarint(nil, uint64(number)))
}

// Stop asks the command and everything it has started to end (SIGTERM, and SIGCONT
// for what is stopped), and has what is left killed after grace. It returns at
// once; Wait tells the end. On a keeper that has retired with processes that
// were kept it ends those. It may be repeated to shorten the grace.
func (r *Running) Stop(grace time.Duration) error {
	if r.over() {
		r.client.mu.Lock()
		kept := r.client.retired && r.client.current == r && r.client.lost == nil
		r.client.mu.Unlock()
		if !kept {
			return os.ErrProcessDone
		}
		r.client.out.send(appendFrame(nil, frameStop, stopFrame(grace)))
		return nil
	}
	return r.send(frameStop, stopFrame(grace))
}

// Resize tells the terminal's new size. Without a terminal it does nothing.
func (r *Running) Resize(s Size) error { return r.send(frameResize, appendSize(nil, s)) }

// CloseStdin ends the command's stdin. What Streams.Stdin brings later is dropped.
func (r *Running) CloseStdin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finished {
		return os.ErrProcessDone
	}
	r.endInput()
	return nil
}

// endInput sends the end of stdin, once. mu is held.
func (r *Running) endInput() {
	if !r.eofSent {
		r.eofSent = true
		r.client.out.send(appendFrame(nil, frameEOF, nil))
		r.credit.Broadcast()
	}
}

// send sends a frame unless the command is over. Under mu, so that no frame of
// this command follows the request of the next one.
func (r *Running) send(kind byte, payload []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finished {
		return os.ErrProcessDone
	}
	r.client.out.send(appendFrame(nil, kind, payload))
	return nil
}

// feed copies stdin until its end or the command's.
func (r *Running) feed(stdin io.Reader) {
	if r.order.noStdin {
		return
	}
	if stdin == nil { // a terminal without input
		_ = r.CloseStdin()
		return
	}
	go func() {
		buf := make([]byte, maxStdinFrame)
		for {
			n, err := stdin.Read(buf)
			if !r.input(buf[:n]) {
				return
			}
			if err != nil {
				_ = r.CloseStdin()
				return
			}
		}
	}()
}

// input sends bytes of stdin when the window has room for them. It tells whether
// more is wanted.
func (r *Running) input(p []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.sent+len(p) > stdinWindow && !r.finished && !r.eofSent {
		r.credit.Wait()
	}
	if r.finished || r.eofSent {
		return false
	}
	if len(p) > 0 {
		r.sent += len(p)
		r.client.out.send(appendFrame(nil, frameStdin, p))
	}
	return true
}

func (r *Running) acknowledge(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n > r.sent {
		return false
	}
	r.sent -= n
	r.credit.Broadcast()
	return true
}

// commit notes that the command may run from here on.
func (r *Running) commit() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.committed = true
}

// start notes that the command runs, as pid where that is known. It is false when
// another pid was told before.
func (r *Running) start(pid int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if pid != 0 && r.pid != 0 && pid != r.pid {
		return false
	}
	r.pid = max(r.pid, pid)
	if !r.begun {
		r.begun = true
		close(r.started)
	}
	return true
}

// ended notes one stream's end, and false when the other one told another.
func (r *Running) ended(stream int, status Status, failed *StartError) bool {
	r.mu.Lock()
	other := r.ends[1-stream]
	if other && (r.status != status || (r.failure == nil) != (failed == nil)) {
		r.mu.Unlock()
		return false
	}
	r.ends[stream] = true
	r.status, r.failure = status, failed
	r.mu.Unlock()
	if !other {
		return true
	}
	if status.Retired {
		r.client.mu.Lock()
		r.client.retired = true
		r.client.mu.Unlock()
	}
	if failed != nil {
		r.finish(Status{}, failed)
	} else {
		r.finish(status, nil)
	}
	return true
}

// finish ends the command for its waiters, once.
func (r *Running) finish(status Status, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finished {
		return
	}
	r.finished = true
	r.status, r.err = status, err
	r.credit.Broadcast()
	close(r.done)
}

// startsWithin waits for the start, or for what takes its place.
func (r *Running) startsWithin(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.started:
	case <-r.done:
	case <-t.C:
		return false
	}
	return true
}

func (r *Running) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.finished
}

// failed is the error of a command that did not start.
func (r *Running) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var failure *StartError
	switch {
	case !r.finished || r.err == nil:
		return nil
	case errors.As(r.err, &failure):
		return r.err
	case !r.begun && !r.committed:
		return &notRun{r.err}
	}
	return nil // it has run: Wait tells
}

func (r *Running) outputFailed(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken == nil {
		r.broken = err
	}
}

func failure(step string, errno int) *StartError {
	return &StartError{Step: step, Errno: syscall.Errno(errno)}
}
