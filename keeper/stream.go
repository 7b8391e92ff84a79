package keeper

import (
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/wsctl/wsctl/wrapper"
)

// stream is one of a keeper's two, as it is received.
type stream struct {
	client *Client
	index  int // of Running.ends

	mu    sync.Mutex // held while a writer of the caller's is called
	split *wrapper.Splitter
	run   *Running // nil between commands
	dst   io.Writer

	textMu sync.Mutex
	text   []byte // before the greeting
}

func newStream(c *Client, index int) *stream {
	s := &stream{client: c, index: index}
	s.split = wrapper.NewSplitter(writerFunc(s.output), s.marker)
	s.split.SetToken(greeting)
	return s
}

// begin directs the stream to a command.
func (s *stream) begin(r *Running, dst io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run, s.dst = r, dst
	s.split.Continue(r.order.token)
}

// Write takes bytes from the transport. It never fails for a reason of the
// command's, so a transport that copies does not end early.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.split.Write(p)
	if s.run == nil {
		s.textMu.Lock()
		s.text = append(s.text[:0], s.split.Preamble()...)
		s.textMu.Unlock()
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// stray is what came before the greeting.
func (s *stream) stray() string {
	s.textMu.Lock()
	defer s.textMu.Unlock()
	return string(s.text)
}

// output takes the command's bytes. mu is held.
func (s *stream) output(p []byte) (int, error) {
	if s.run == nil {
		return len(p), nil
	}
	// The first bytes show that it runs, and the writer may wait for whoever waits
	// for that.
	s.run.start(0)
	if s.dst == nil || s.run.over() {
		return len(p), nil
	}
	if _, err := s.dst.Write(p); err != nil {
		s.run.outputFailed(err)
		s.dst = nil
	}
	return len(p), nil
}

// marker takes what the keeper says. mu is held.
func (s *stream) marker(body []byte) error {
	r := s.run
	text := string(body)
	if r == nil {
		if text != "serve" {
			return errMalformed
		}
		s.split.SetToken("")
		s.client.greeted(s.index)
		return nil
	}
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "start":
		if rest == "" && s.index == 0 {
			r.commit()
			return nil
		}
	case "late":
		if rest == "" && s.index == 0 && s.client.confirm(r) {
			return nil
		}
	case "pid":
		if n, ok := decimal(rest, 2, maxPID); ok && s.index == 0 && r.start(n) {
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
			return s.end(r, status, nil)
		}
	}
	return s.client.fault(r, "a marker that makes no sense: "+strconv.Quote(text))
}

// end ends this stream of the command.
func (s *stream) end(r *Running, status Status, failed *StartError) error {
	s.run, s.dst = nil, nil
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
