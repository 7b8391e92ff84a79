package keeper

import (
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/wsctl/wsctl/wrapper"
)

// maxHeld bounds the output that is held back until the command's pid is told.
// The keeper tells it at once, but the command may be quicker; to pass its bytes
// on first could block on a reader that itself waits for Start.
const maxHeld = 256 << 10

// stream is one of a keeper's two, as it is received.
type stream struct {
	client *Client
	index  int // of Running.ends

	mu    sync.Mutex // held while a writer of the caller's is called
	split *wrapper.Splitter
	run   *Running // nil between commands
	dst   io.Writer
	held  []byte
	hold  bool

	textMu sync.Mutex
	text   []byte // outside of commands
}

func newStream(c *Client, index int) *stream {
	s := &stream{client: c, index: index}
	s.split = wrapper.NewSplitter(writerFunc(s.output), s.marker)
	return s
}

// begin directs the stream to a command.
func (s *stream) begin(r *Running, dst io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run, s.dst, s.held, s.hold = r, dst, nil, true
	s.split.SetToken(r.order.token)
}

// Write takes bytes from the transport. It never fails for a reason of the
// command's, so a transport that copies does not end early.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.split.Write(p)
	s.textMu.Lock()
	s.text = append(s.text[:0], s.split.Preamble()...)
	s.textMu.Unlock()
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// stray is what came before or outside of a command.
func (s *stream) stray() string {
	s.textMu.Lock()
	defer s.textMu.Unlock()
	return string(s.text)
}

// output takes the command's bytes. mu is held.
func (s *stream) output(p []byte) (int, error) {
	if s.hold {
		s.held = append(s.held, p...)
		if len(s.held) > maxHeld {
			s.run.start(0)
			s.release()
		}
		return len(p), nil
	}
	s.deliver(p)
	return len(p), nil
}

func (s *stream) release() {
	held := s.held
	s.held, s.hold = nil, false
	s.deliver(held)
}

func (s *stream) deliver(p []byte) {
	if s.dst == nil || len(p) == 0 || s.run.over() {
		return
	}
	if _, err := s.dst.Write(p); err != nil {
		s.run.outputFailed(err)
		s.dst = nil
	}
}

// marker takes what the keeper says. mu is held.
func (s *stream) marker(body []byte) error {
	r := s.run
	if r == nil {
		return nil // a retired keeper has nothing to say that matters
	}
	text := string(body)
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "start":
		if rest == "" {
			return nil
		}
	case "pid":
		if n, ok := decimal(rest, 2, maxPID); ok && r.start(n) {
			s.release()
			return nil
		}
	case "fail":
		// With the seal: a command that has got hold of its own token must not
		// be able to say that it does not run.
		seal, what, _ := strings.Cut(rest, " ")
		step, errno, _ := strings.Cut(what, " ")
		if n, ok := decimal(errno, 1, 4095); ok && seal == r.order.seal && (step == "chdir" || step == "exec") {
			return s.end(r, Status{}, failure(step, n))
		}
	case "ack":
		if n, ok := decimal(rest, 1, stdinWindow); ok && s.index == 0 && r.acknowledge(n) {
			return nil
		}
	case "exit":
		if status, ok := parseStatus(text, r.order.seal); ok {
			s.release()
			return s.end(r, status, nil)
		}
	}
	return s.client.fault(r, "a marker that makes no sense: "+strconv.Quote(text))
}

// end ends this stream of the command.
func (s *stream) end(r *Running, status Status, failed *StartError) error {
	s.run, s.dst, s.held = nil, nil, nil
	// Whatever comes until the next command is nobody's.
	s.split.SetToken("")
	if !r.ended(s.index, status, failed) {
		return s.client.fault(r, "the two streams tell two ends")
	}
	return nil
}

func decimal(s string, low, high int) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= low && n <= high && strconv.Itoa(n) == s
}
