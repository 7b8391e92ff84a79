package wrapper

import (
	"bytes"
	"io"
)

// maxPreamble bounds the bytes kept from before the start marker. An engine's
// error message is one line.
const maxPreamble = 4 << 10

// Splitter is an io.Writer for one stream. It passes output on byte for byte and
// hands each marker that carries the current token to a function.
//
// A marker may be cut anywhere between two writes; only bytes that may begin one
// are held back. What looks like a marker but lacks the token is output. Bytes
// before the first marker of a token are not the command's (they are the
// engine's own error text) and go to [Splitter.Preamble].
//
// It is not safe for concurrent use.
type Splitter struct {
	output io.Writer
	marker func(body []byte) error
	mark   []byte // RS, token, space; empty while there is no token
	held   []byte // a prefix of mark, or mark and a part of the body
	begun  bool   // a marker of this token has come

	preamble []byte
}

// NewSplitter returns a Splitter without a token: until [Splitter.SetToken]
// everything is preamble. The body handed to marker is valid during the call
// only. An error of either ends the Write that met it.
func NewSplitter(output io.Writer, marker func(body []byte) error) *Splitter {
	return &Splitter{output: output, marker: marker}
}

// SetToken makes token the one that markers carry from here on, and forgets the
// preamble. Bytes held for the former token are dropped: they are what is left
// of a stream whose end marker has come. With an empty token nothing is a marker.
// It may be called by the function that takes markers.
func (s *Splitter) SetToken(token string) {
	s.mark = s.mark[:0]
	if token != "" {
		s.mark = append(append(append(s.mark, RecordSeparator), token...), ' ')
	}
	s.held = s.held[:0]
	s.preamble = s.preamble[:0]
	s.begun = false
}

// Continue is SetToken on a stream that is known to be the command's from here on:
// nothing is taken for preamble.
func (s *Splitter) Continue(token string) {
	s.SetToken(token)
	s.begun = true
}

// Preamble is what came before the first marker, at most 4 KiB of it.
func (s *Splitter) Preamble() []byte { return s.preamble }

// Write takes the next bytes of the stream.
func (s *Splitter) Write(p []byte) (int, error) {
	rest := p
	for len(s.held) > 0 && len(rest) > 0 {
		n, err := s.resume(rest)
		if err != nil {
			return len(p) - len(rest) + n, err
		}
		rest = rest[n:]
	}
	done := len(p) - len(rest)
	from, at := 0, 0 // rest[from:at] is known to be output
	for at < len(rest) {
		i := bytes.IndexByte(rest[at:], RecordSeparator)
		if i < 0 || len(s.mark) == 0 {
			break
		}
		at += i
		tail := rest[at:]
		if n := min(len(tail), len(s.mark)); !bytes.Equal(tail[:n], s.mark[:n]) {
			at++
			continue
		}
		if err := s.emit(rest[from:at]); err != nil {
			return done + at, err
		}
		end := bytes.IndexByte(tail, '\n')
		if len(tail) < len(s.mark) || (end < 0 && len(tail) <= len(s.mark)+MaxBody) {
			s.held = append(s.held[:0], tail...)
			return len(p), nil
		}
		if end < 0 || end > len(s.mark)+MaxBody {
			// No writer of ours makes such a marker: the reader of bodies refuses it.
			end = len(s.mark) + MaxBody
		}
		at += end + 1
		from = at
		s.begun = true
		if err := s.marker(tail[len(s.mark):end]); err != nil {
			return done + at, err
		}
	}
	if err := s.emit(rest[from:]); err != nil {
		return len(p), err
	}
	return len(p), nil
}

// resume takes bytes of p into what is held and tells how many. It returns with
// nothing held when that has turned out to be output or a whole marker.
func (s *Splitter) resume(p []byte) (int, error) {
	n := 0
	for len(s.held) < len(s.mark) {
		if n == len(p) {
			return n, nil
		}
		if p[n] != s.mark[len(s.held)] {
			// RS is only at the front of a mark, so none of the held bytes can
			// begin another one.
			held := s.held
			s.held = s.held[:0]
			return n, s.emit(held)
		}
		s.held = append(s.held, p[n])
		n++
	}
	room := len(s.mark) + MaxBody - len(s.held)
	end := bytes.IndexByte(p[n:], '\n')
	switch {
	case end >= 0 && end <= room:
		s.held = append(s.held, p[n:n+end]...)
		n += end + 1
	case len(p)-n <= room:
		s.held = append(s.held, p[n:]...)
		return len(p), nil
	default:
		s.held = append(s.held, p[n:n+room]...)
		n += room
	}
	body := s.held[len(s.mark):]
	s.held = s.held[:0]
	s.begun = true
	return n, s.marker(body)
}

// Flush tells that the stream has ended: what was held is output after all.
func (s *Splitter) Flush() error {
	held := s.held
	s.held = s.held[:0]
	return s.emit(held)
}

func (s *Splitter) emit(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	if !s.begun {
		s.preamble = append(s.preamble, p[:min(len(p), maxPreamble-len(s.preamble))]...)
		return nil
	}
	_, err := s.output.Write(p)
	return err
}
