package search

import (
	"bytes"
	"context"
	"io"

	"github.com/wsctl/wsctl/workspace"
)

// searcher searches one file after another.
type searcher struct {
	ctx context.Context //nolint:containedctx // the life of one search
	*expression
	o *GrepOptions
	*scratch
	cursors cursors
	// most is how many matching lines of one file can be told; 0: all.
	most int
}

func newSearcher(ctx context.Context, e *expression, o *GrepOptions, s *scratch) *searcher {
	n := &searcher{ctx: ctx, expression: e, o: o, scratch: s, cursors: newCursors(e.needles)}
	if o.Limit > 0 && o.Mode == Lines {
		n.most = o.Offset + o.Limit + 1
	}
	return n
}

// entry searches a file that was listed. nil: there is nothing in it.
func (s *searcher) entry(d workspace.HeldDir, dir string, e workspace.DirName) (*FileMatches, error) {
	if s.buf == nil {
		s.buf = make([]byte, readBuffer)
	}
	n, size, err := d.ReadHead(s.ctx, e, s.buf)
	if err != nil {
		return nil, err
	}
	if size > s.o.MaxFileBytes {
		return nil, s.tooLarge()
	}
	head := s.buf[:n]
	mark, encoding := encodingOf(head)
	if n < len(s.buf) && encoding == "" {
		return s.text(head[mark:], isBinary, joined(dir, e.Name)), nil
	}
	f, err := d.Open(s.ctx, e.Name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return s.file(f, joined(dir, e.Name))
}

func (s *searcher) tooLarge() error {
	return workspace.Errorf(workspace.ErrTooLarge, "grep", "", "the file has more than %d bytes; read it in parts", s.o.MaxFileBytes)
}

// text searches one that is there from its begin to its end. Most have no
// match, and that is told first.
func (s *searcher) text(text []byte, binary func([]byte) bool, path string) *FileMatches {
	if s.o.MultiLine && bytes.Contains(text, []byte("\r\n")) {
		// A pattern's line break is that of the file.
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	}
	s.cursors.restart()
	if s.needles != nil && s.cursors.next(text, 0) == len(text) {
		return nil
	}
	return s.matches(path, "", binary(text), func(l *lineSearch) {
		if s.o.MultiLine {
			l.multiLine(text)
		} else {
			l.block(text)
		}
	})
}

// matches runs a search and returns what it found.
func (s *searcher) matches(path, encoding string, binary bool, run func(*lineSearch)) *FileMatches {
	l := &lineSearch{searcher: s, number: 1, out: FileMatches{Path: path, Encoding: encoding, Binary: binary}}
	run(l)
	if l.out.Count == 0 {
		return nil
	}
	return &l.out
}

// file searches an open file of any size, from its begin.
func (s *searcher) file(f workspace.File, path string) (*FileMatches, error) {
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.Size() > s.o.MaxFileBytes {
		return nil, s.tooLarge()
	}
	if s.buf == nil {
		s.buf = make([]byte, readBuffer)
	}
	n, err := io.ReadFull(f, s.buf)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, err
	}
	mark, encoding := encodingOf(s.buf[:n])
	head := s.buf[mark:n]
	ended := n < len(s.buf)
	if encoding != "" || (s.o.MultiLine && !ended) {
		rest, err := readAll(s.ctx, f, maxHeld-n)
		if err != nil {
			return nil, err
		}
		text := append(bytes.Clone(head), rest...)
		if encoding != "" {
			text = decode(text, encoding)
		}
		found := s.text(text, func(b []byte) bool { return encoding == "" && isBinary(b) }, path)
		if found != nil {
			found.Encoding = encoding
		}
		return found, s.ctx.Err()
	}
	if ended {
		return s.text(head, isBinary, path), s.ctx.Err()
	}
	var failed error
	found := s.matches(path, "", isBinary(head), func(l *lineSearch) { failed = l.stream(f, head) })
	if failed == nil {
		failed = s.ctx.Err()
	}
	if failed != nil {
		return nil, failed
	}
	return found, nil
}

// stream searches a long file line by line, some of it at a time. head is what
// was read; it lies in the buffer, whose rest is free.
func (l *lineSearch) stream(f io.Reader, head []byte) error {
	buf := l.buf
	filled := copy(buf, head)
	for fresh := 0; ; {
		if err := l.ctx.Err(); err != nil {
			return err
		}
		n, err := f.Read(buf[filled:])
		filled += n
		if err != nil && err != io.EOF {
			return err
		}
		cut := filled
		if err != io.EOF {
			cut = fresh + l.lastEnd(buf[fresh:filled]) + 1
			if cut == fresh {
				// The line goes on.
				if fresh = filled; filled < len(buf) {
					continue
				}
				if len(buf) >= maxHeld {
					return workspace.Errorf(workspace.ErrTooLarge, "grep", "", "it has a line of more than %d bytes; read it in parts", maxHeld)
				}
				buf = append(buf, make([]byte, len(buf))...)
				continue
			}
		}
		l.cursors.restart()
		l.block(buf[:cut])
		if l.stopped || err == io.EOF {
			return nil
		}
		filled = copy(buf, buf[cut:filled])
		fresh = filled
	}
}

// lastEnd is where the last line in b ends, or -1. In a binary file, a NUL ends
// one too.
func (l *lineSearch) lastEnd(b []byte) int {
	end := bytes.LastIndexByte(b, '\n')
	if l.out.Binary {
		end = max(end, bytes.LastIndexByte(b, 0))
	}
	return end
}
