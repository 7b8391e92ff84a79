package keeper

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Question is what is asked about a path.
type Question byte

const (
	// AskRead wants the content, at most [MaxRead] bytes (else EFBIG). Links are followed.
	AskRead Question = 'r'
	// AskStat wants the path's own identity, links not followed: [Answer.Stat].
	AskStat Question = 's'
	// AskAccess wants to know whether PID 1 may write to it and enter or execute it.
	AskAccess Question = 'a'
	// AskReadlink wants a link's target.
	AskReadlink Question = 'l'
)

const (
	// MaxRead bounds what AskRead returns, in bytes.
	MaxRead  = 1 << 20
	maxItems = 64
	maxPID   = 1 << 22 // PID_MAX_LIMIT, proc(5)
)

// Item is one line of a report: a question about a path inside the container.
type Item struct {
	Ask  Question
	Path string
}

// Answer is that to an Item, in the same place.
type Answer struct {
	// Errno is a Linux error number, 0 when all went well.
	Errno syscall.Errno
	// Data is the content, the link's target or, for AskStat, what Stat decodes.
	Data []byte
}

// Stat is the identity and the rights of a path, as lstat(2) tells them.
type Stat struct {
	Dev, Ino  uint64
	Mode      uint32 // with the file type bits
	UID, GID  uint32
	LinkCount uint64
}

// Stat decodes the answer to AskStat.
func (a Answer) Stat() (Stat, error) {
	if a.Errno != 0 {
		return Stat{}, a.Errno
	}
	const all, half = 1<<64 - 1, 1<<32 - 1
	d := decoder{b: a.Data}
	s := Stat{
		Dev: d.uint(all), Ino: d.uint(all), Mode: uint32(d.uint(half)),
		UID: uint32(d.uint(half)), GID: uint32(d.uint(half)), LinkCount: d.uint(all),
	}
	if !d.end() {
		return Stat{}, errMalformed
	}
	return s, nil
}

// InitClient talks to a keeper that is PID 1. Its methods are safe for
// concurrent use; each request is answered on its own, in whatever order.
type InitClient struct {
	out *outbox

	mu      sync.Mutex
	nonce   uint64
	pending map[uint64]call
	partial []byte // of an answer
	gone    chan struct{}
	lost    error
}

type call struct {
	kind   byte
	answer chan *decoder
}

// NewInitClient returns a client that writes to stdin. The transport passes what
// PID 1 prints to [InitClient.Stdout] and tells of its end by [InitClient.Lost].
func NewInitClient(stdin io.WriteCloser) *InitClient {
	// Several clients may share one PID 1, and each sees the answers to all.
	c := &InitClient{pending: map[uint64]call{}, gone: make(chan struct{}), nonce: rand.Uint64() >> 2}
	c.out = newOutbox(stdin, c.Lost)
	return c
}

// Close closes stdin: the leash. Unless it is detached PID 1 exits.
func (c *InitClient) Close() error { return c.out.close() }

// Gone is closed when the transport has ended.
func (c *InitClient) Gone() <-chan struct{} { return c.gone }

// Lost tells that the transport has ended; err, which may be nil, says why.
func (c *InitClient) Lost(err error) {
	c.mu.Lock()
	if c.lost == nil {
		c.lost = lostError(err, "")
		close(c.gone)
	}
	c.mu.Unlock()
	_ = c.out.close()
}

// Report asks PID 1 about paths, at most 64 at once, and returns as many answers.
func (c *InitClient) Report(ctx context.Context, items []Item) ([]Answer, error) {
	if len(items) > maxItems {
		return nil, errors.New("keeper: more than " + strconv.Itoa(maxItems) + " items in one report")
	}
	kinds, paths := make([]byte, len(items)), make([]string, len(items))
	for i, item := range items {
		kinds[i], paths[i] = byte(item.Ask), item.Path
	}
	d, err := c.ask(ctx, frameReport, appendStrings(appendString(nil, string(kinds)), paths))
	if err != nil {
		return nil, err
	}
	answers := make([]Answer, len(items))
	for i := range answers {
		answers[i] = Answer{Errno: syscall.Errno(d.uint(4095)), Data: d.bytes()}
	}
	if !d.end() {
		return nil, errMalformed
	}
	return answers, nil
}

// Sweep kills every child of PID 1 until there is none: what is left of a serving
// keeper that was itself killed, and of commands that ran without one. It tells
// how many were killed (counted as in [Status.Ended]), and how many are left when
// limit is over.
func (c *InitClient) Sweep(ctx context.Context, limit time.Duration) (killed, left int, err error) {
	ms := min(max(limit, 0), time.Hour) / time.Millisecond
	d, err := c.ask(ctx, frameSweep, binary.AppendUvarint(nil, uint64(ms)))
	if err != nil {
		return 0, 0, err
	}
	killed, left = int(d.uint(1<<30)), int(d.uint(1<<30))
	if !d.end() {
		return 0, 0, errMalformed
	}
	return killed, left, nil
}

// Kill signals a process group of the container. The error is a syscall.Errno
// when the kernel refused. A group below 2 is refused here.
func (c *InitClient) Kill(ctx context.Context, group, signal int) error {
	if group < 2 || group > maxPID || signal < 0 || signal > 64 {
		return errors.New("keeper: impossible group or signal")
	}
	b := binary.AppendUvarint(nil, uint64(group))
	d, err := c.ask(ctx, frameKill, binary.AppendUvarint(b, uint64(signal)))
	if err != nil {
		return err
	}
	errno := syscall.Errno(d.uint(4095))
	if !d.end() {
		return errMalformed
	}
	if errno != 0 {
		return errno
	}
	return nil
}

// ask sends one request and waits for its answer.
func (c *InitClient) ask(ctx context.Context, kind byte, body []byte) (*decoder, error) {
	answer := make(chan *decoder, 1)
	c.mu.Lock()
	if c.lost != nil {
		c.mu.Unlock()
		return nil, c.lost
	}
	c.nonce++
	nonce := c.nonce
	c.pending[nonce] = call{kind, answer}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, nonce)
		c.mu.Unlock()
	}()
	c.out.send(appendFrame(nil, kind, append(binary.AppendUvarint(nil, nonce), body...)))
	select {
	case d := <-answer:
		return d, nil
	case <-c.gone:
		return nil, c.lost
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Stdout takes the bytes that PID 1 prints.
func (c *InitClient) Stdout() io.Writer { return writerFunc(c.receive) }

func (c *InitClient) receive(p []byte) (int, error) {
	c.mu.Lock()
	c.partial = append(c.partial, p...)
	var err error
	for err == nil {
		f, size, bad := parseFrame(c.partial)
		if err = bad; size == 0 {
			break
		}
		c.partial = c.partial[size:]
		// What is answered outlives what is received next.
		d := &decoder{b: bytes.Clone(f.payload)}
		nonce := d.uint(1 << 63)
		call, ok := c.pending[nonce]
		switch {
		case d.bad || ok && call.kind != f.kind:
			err = errMalformed
		case ok: // else nobody waits for it any more
			call.answer <- d
			delete(c.pending, nonce)
		}
	}
	c.mu.Unlock()
	if errors.Is(err, errMalformed) {
		c.Lost(err)
		return 0, err
	}
	return len(p), nil // the rest of a frame is to come
}

// writerFunc is a function as an io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
