package workspace

import (
	"bytes"
	"io"
	"sync"
)

// maxShellTail bounds what follows an end mark, in bytes.
const maxShellTail = 64

// shellStream is one output stream of a shell. It gives each command what is
// between its marks and drops everything else.
type shellStream struct {
	mu  sync.Mutex
	now *shellWatch // nil: between commands
}

// shellWatch is the output of one command on one stream.
type shellWatch struct {
	start, end []byte
	to         io.Writer
	held       []byte // what may be the beginning of a mark
	begun      bool   // the start mark has come
	atEnd      bool   // the end mark has come
	tail       string // what followed it on its line; set when ended is closed

	started chan struct{} // closed at the start mark
	ended   chan struct{} // closed at the end of the end mark's line
}

// watch gives w what comes from now on.
func (s *shellStream) watch(w *shellWatch) *shellWatch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = w
	return w
}

func newShellWatch(m shellMarks, to io.Writer) *shellWatch {
	return &shellWatch{start: []byte(m.start), end: []byte(m.end), to: to, started: make(chan struct{}), ended: make(chan struct{})}
}

// begin makes it a watch without a start mark.
func (w *shellWatch) begin() *shellWatch {
	w.begun = true
	close(w.started)
	return w
}

// leave ends the watch. Nothing is written to its writer afterwards.
func (s *shellStream) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.now; w != nil && w.begun && !w.atEnd {
		w.pass(w.held)
	}
	s.now = nil
}

// Write implements io.Writer and never fails. It holds the shell back while the
// command's writer does.
func (s *shellStream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil && s.now.add(p) {
		s.now = nil
	}
	return len(p), nil
}

// add takes the next bytes and reports whether the command is over.
func (w *shellWatch) add(p []byte) bool {
	w.held = append(w.held, p...)
	if !w.begun {
		at := bytes.Index(w.held, w.start)
		if at < 0 {
			w.keep(w.start)
			return false
		}
		w.held = w.held[at+len(w.start):]
		w.begin()
	}
	if !w.atEnd {
		at := bytes.Index(w.held, w.end)
		if at < 0 {
			w.pass(w.keep(w.end))
			return false
		}
		w.pass(w.held[:at])
		w.held, w.atEnd = w.held[at+len(w.end):], true
	}
	at := bytes.IndexByte(w.held, '\n')
	if at < 0 && len(w.held) < maxShellTail {
		return false
	}
	if at < 0 {
		at = maxShellTail
	}
	w.tail = string(w.held[:at])
	close(w.ended)
	return true
}

// pass gives p to the command's writer.
func (w *shellWatch) pass(p []byte) {
	if len(p) > 0 {
		_, _ = w.to.Write(p)
	}
}

// keep leaves in held the longest end of it that mark may begin with and
// returns what came before.
func (w *shellWatch) keep(mark []byte) (gone []byte) {
	n := min(len(mark)-1, len(w.held))
	for !bytes.HasPrefix(mark, w.held[len(w.held)-n:]) {
		n--
	}
	gone = w.held[:len(w.held)-n]
	w.held = bytes.Clone(w.held[len(w.held)-n:])
	return gone
}
