package keeper

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wsctl/wsctl/wrapper"
)

var (
	// ErrLost: the transport has ended before the command's end was told. What
	// became of the command is not known.
	ErrLost = errors.New("keeper: lost")
	// ErrNotRun comes with ErrLost when the keeper was lost before it ran anything
	// of the command: another one may run it.
	ErrNotRun = errors.New("keeper: nothing was run")
	// ErrBusy: the keeper runs a command, or has retired.
	ErrBusy = errors.New("keeper: not free for a command")
)

// StartError tells why nothing was run.
type StartError struct {
	// Step is "chdir" or "exec".
	Step string
	// Errno is a Linux error number; errors.Is compares with it.
	Errno syscall.Errno
}

func (e *StartError) Error() string {
	return "keeper: " + e.Step + ": errno " + strconv.Itoa(int(e.Errno))
}

// Unwrap returns the number.
func (e *StartError) Unwrap() error { return e.Errno }

// Client drives one serving keeper. It has one command at a time. Its methods
// are safe for concurrent use.
type Client struct {
	random io.Reader
	out    *outbox
	stdout *stream
	stderr *stream

	mu      sync.Mutex
	current *Running // from Start until the next Start
	retired bool
	lost    error
	greets  [2]bool // by stream
	serves  chan struct{}
	gone    chan struct{}
}

// NewClient returns a client that writes to the keeper's stdin. Tokens come from
// random, which must be a cryptographic source (crypto/rand.Reader).
//
// The transport passes what the keeper's streams bring to [Client.Stdout] and
// [Client.Stderr], and must go on reading them also between commands; it tells
// the end of both by [Client.Lost]. Either Lost or [Client.Close] must be called
// in the end; a Write of stdin that hangs must be ended by its Close.
func NewClient(stdin io.WriteCloser, random io.Reader) *Client {
	c := &Client{random: random, serves: make(chan struct{}), gone: make(chan struct{})}
	c.out = newOutbox(stdin, c.Lost)
	c.stdout = newStream(c, 0)
	c.stderr = newStream(c, 1)
	return c
}

// Stdout takes the bytes of the keeper's standard output, as the transport gets
// them. It blocks while the command's own writer does.
func (c *Client) Stdout() io.Writer { return c.stdout }

// Stderr takes the bytes of the keeper's standard error.
func (c *Client) Stderr() io.Writer { return c.stderr }

// Gone is closed when the transport has ended.
func (c *Client) Gone() <-chan struct{} { return c.gone }

// Lost tells that the transport has ended; err, which may be nil, says why. All
// bytes that came must have been written before. The running command, if any,
// ends with [ErrLost].
func (c *Client) Lost(err error) {
	c.mu.Lock()
	if c.lost != nil {
		c.mu.Unlock()
		return
	}
	c.lost = lostError(err, c.stdout.stray()+c.stderr.stray())
	lost, r := c.lost, c.current
	close(c.gone)
	c.mu.Unlock()
	_ = c.out.close()
	if r != nil {
		r.finish(Status{}, lost)
	}
}

// Close closes the keeper's stdin: it ends everything it runs and exits. The
// transport then tells its end by Lost.
func (c *Client) Close() error { return c.out.close() }

// Ready returns when the keeper takes commands. The error is [ErrLost] with what
// the engine said, when there will be none, or ctx.Err().
func (c *Client) Ready(ctx context.Context) error {
	select {
	case <-c.serves:
		return nil
	case <-c.gone:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.lost
	case <-ctx.Done():
		return ctx.Err()
	}
}

// greeted notes that a stream has begun.
func (c *Client) greeted(stream int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.greets[stream] = true
	if c.greets == [2]bool{true, true} {
		close(c.serves)
	}
}

// Free tells whether Start would be accepted now.
func (c *Client) Free() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.free() == nil
}

// free is nil or says why not. mu is held.
func (c *Client) free() error {
	switch {
	case c.lost != nil:
		return c.lost
	case c.retired || c.current != nil && !c.current.over():
		return ErrBusy
	}
	return nil
}

// Streams are a command's. Nil writers discard, a nil Stdin is empty.
//
// A writer is used from the goroutine that feeds its stream of the client, and
// not any more when Wait has returned. Where Stdout and Stderr are one value the
// caller serialises it, unless the transport feeds both from one goroutine.
// Stdin is read ahead by up to 256 KiB; a Read that blocks may outlive the
// command, and what it then returns is dropped.
type Streams struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// startMargin is how long a start may go on after its context has ended. Giving
// it up costs the keeper; a command that has just started costs a Stop alone.
const startMargin = 250 * time.Millisecond

// Start runs a command. It returns when the command runs, or with a [*StartError]
// when it could not. ctx bounds that wait only: a quarter of a second after it is
// done the start is given up, and the keeper with it: it will not run the command,
// however late it gets the request. A command that has started by then is returned,
// for the caller to stop.
func (c *Client) Start(ctx context.Context, req Request, s Streams) (*Running, error) {
	o := &order{Request: req, noStdin: s.Stdin == nil && req.Terminal == nil}
	for _, secret := range []*string{&o.token, &o.seal} {
		t, err := wrapper.NewToken(c.random)
		if err != nil {
			return nil, err
		}
		*secret = t
	}
	if !o.valid() {
		return nil, errors.New("keeper: a request needs Path, Args and Dir, and cannot have both Keep and Terminal")
	}
	r := newRunning(c, o)
	c.mu.Lock()
	if err := c.free(); err != nil {
		c.mu.Unlock()
		return nil, err
	}
	c.current = r
	c.mu.Unlock()
	err := c.Ready(ctx)
	if err != nil && ctx.Err() != nil {
		margin, cancel := context.WithTimeout(context.WithoutCancel(ctx), startMargin)
		if err = c.Ready(margin); margin.Err() != nil {
			err = ctx.Err()
		}
		cancel()
	}
	if err != nil {
		c.giveUp(r, err)
		return nil, err
	}
	c.stdout.begin(r, s.Stdout)
	c.stderr.begin(r, s.Stderr)
	o.sent = sinceBoot()
	request := appendFrame(nil, frameRequest, o.encode())
	if len(request) > maxFrame {
		err := &StartError{Step: "exec", Errno: syscall.E2BIG}
		r.finish(Status{}, err)
		return nil, err
	}
	c.out.send(request)
	select {
	case <-r.started:
	case <-r.done:
	case <-ctx.Done():
		if !r.startsWithin(startMargin) {
			c.giveUp(r, ctx.Err())
			return nil, ctx.Err()
		}
	}
	if err := r.failed(); err != nil {
		return nil, err
	}
	r.feed(s.Stdin)
	return r, nil
}

// confirm lets a late request run that is still wanted. It is false when the
// command runs already.
func (c *Client) confirm(r *Running) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun {
		return false
	}
	if !r.finished {
		c.out.send(appendFrame(nil, frameGo, nil))
	}
	return true
}

// fault gives the keeper up: it said what it never says.
func (c *Client) fault(r *Running, why string) error {
	err := errors.New("keeper: " + why)
	c.giveUp(r, err)
	return err
}

// giveUp ends r with err and takes no other command. The order matters: a keeper
// whose command is over and that has not retired is free.
func (c *Client) giveUp(r *Running, err error) {
	c.mu.Lock()
	c.retired = true
	c.mu.Unlock()
	r.finish(Status{}, err)
	_ = c.Close()
}

// lostError is ErrLost with what is known: the transport's error and the text
// that came outside of any command, which is the engine's.
func lostError(err error, text string) error {
	if text = strings.TrimSpace(text); text != "" {
		err = errors.Join(err, errors.New(strconv.Quote(text)))
	}
	if err == nil {
		return ErrLost
	}
	return &lostCause{err}
}

// notRun is a loss before anything was run.
type notRun struct{ cause error }

func (e *notRun) Error() string   { return e.cause.Error() }
func (e *notRun) Unwrap() []error { return []error{ErrNotRun, e.cause} }

type lostCause struct{ cause error }

func (e *lostCause) Error() string   { return ErrLost.Error() + ": " + e.cause.Error() }
func (e *lostCause) Unwrap() []error { return []error{ErrLost, e.cause} }
