package tools

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// edit replaces one text by another.
type edit struct {
	// field is what the model calls it.
	field    string
	old, new []byte
	// all: wherever old is.
	all bool
	// line is where old begins in the file as the edits before have left
	// it, when that is known, from 1; 0: anywhere. It decides between
	// several.
	line int
	// atEnd: old must end where the file does.
	atEnd bool
}

// span is a part of a text: from start up to end, in bytes.
type span struct{ start, end int }

// replacement is what takes the place of a span.
type replacement struct {
	span
	size int // of the new text
}

// apply makes the edit in text, which it leaves alone, and says what it has
// replaced.
func (e *edit) apply(text []byte) ([]byte, []replacement, error) {
	found, err := e.find(text)
	if err != nil {
		return nil, nil, err
	}
	out := make([]byte, 0, len(text)+len(found)*max(len(e.new)-len(e.old), 0))
	replaced := make([]replacement, 0, len(found))
	at := 0
	uniform := len(found) > 0 && e.breaks() && allCRLF(text)
	for _, m := range found {
		out = append(out, text[at:m.start]...)
		was := len(out)
		out = e.appendNew(out, text[m.start:m.end], uniform)
		replaced = append(replaced, replacement{m, len(out) - was})
		at = m.end
	}
	return append(out, text[at:]...), replaced, nil
}

// find returns the places that the edit is about.
func (e *edit) find(text []byte) ([]span, error) {
	if len(e.old) == 0 {
		// Of a patch alone: lines that are put in after a line.
		at, ok := lineStart(text, e.line)
		if !ok {
			return nil, fmt.Errorf("%s: the file has no line %d to put lines after", e.field, e.line-1)
		}
		return []span{{at, at}}, nil
	}
	m := newMatcher(text, e.old)
	if e.all {
		found := m.all()
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: not found: %s", e.field, whyNot(text, e.old))
		}
		return found, nil
	}
	fits := func(at span) bool { return !e.atEnd || at.end == len(text) }
	if start, ok := lineStart(text, e.line); ok && e.line > 0 {
		if end, ok := m.matchAt(start); ok && fits(span{start, end}) {
			return []span{{start, end}}, nil
		}
	}
	var found []span
	for at, ok := m.next(0); ok && len(found) <= maxNamed; at, ok = m.next(at.start + 1) {
		if fits(at) {
			found = append(found, at)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("%s: not found: %s", e.field, whyNot(text, e.old))
	case 1:
		return found, nil
	}
	return nil, fmt.Errorf("%s: found %s, and it must be unique: add lines around it, or set replace_all", e.field, places(text, found))
}

// maxNamed is how many places an error names.
const maxNamed = 10

// places says where something was found more than once.
func places(text []byte, found []span) string {
	times, more := fmt.Sprintf("%d times", len(found)), ""
	if len(found) > maxNamed {
		found = found[:maxNamed]
		times, more = fmt.Sprintf("more than %d times", maxNamed), ", …"
	}
	var lines []string
	for _, at := range found {
		lines = append(lines, fmt.Sprint(lineOf(text, at.start)))
	}
	return fmt.Sprintf("%s (in lines %s%s)", times, strings.Join(slices.Compact(lines), ", "), more)
}

// breaks reports whether the line breaks of the new text follow those of the
// file: when neither text says itself what they are.
func (e *edit) breaks() bool {
	return bytes.IndexByte(e.new, '\n') >= 0 && bytes.IndexByte(e.new, '\r') < 0 && bytes.IndexByte(e.old, '\r') < 0
}

// appendNew appends the new text for what was matched. Its line breaks are, in
// order, those that were matched; further ones are as the last of them, or, when
// there was none, CRLF where that ends all lines of the file.
func (e *edit) appendNew(out, matched []byte, uniform bool) []byte {
	if !e.breaks() {
		return append(out, e.new...)
	}
	crlf := uniform
	for line := range bytes.Lines(e.new) {
		body, ended := bytes.CutSuffix(line, newline)
		out = append(out, body...)
		if !ended {
			break
		}
		if i := bytes.IndexByte(matched, '\n'); i >= 0 {
			crlf = i > 0 && matched[i-1] == '\r'
			matched = matched[i+1:]
		}
		if crlf {
			out = append(out, '\r')
		}
		out = append(out, '\n')
	}
	return out
}

// allCRLF reports whether text has lines and all end with CRLF.
func allCRLF(text []byte) bool {
	n := bytes.Count(text, newline)
	return n > 0 && n == bytes.Count(text, []byte("\r\n"))
}

// matcher finds a text in another. A line break of the one matches LF and CRLF,
// unless it has a CR of its own.
type matcher struct {
	text []byte
	// parts are the lines of what is looked for, without their breaks.
	parts [][]byte
}

func newMatcher(text, old []byte) *matcher {
	m := &matcher{text: text, parts: [][]byte{old}}
	if bytes.IndexByte(old, '\r') < 0 && bytes.Contains(text, []byte("\r\n")) {
		m.parts = bytes.Split(old, newline)
	}
	return m
}

// all returns the matches from the beginning, none of which overlap.
func (m *matcher) all() []span {
	var found []span
	for at, ok := m.next(0); ok; at, ok = m.next(at.end) {
		found = append(found, at)
	}
	return found
}

// next returns the first match that begins at or after from.
func (m *matcher) next(from int) (span, bool) {
	first := m.parts[0]
	if len(first) == 0 {
		first = newline
	}
	for at := from; ; {
		i := bytes.Index(m.text[at:], first)
		if i < 0 {
			return span{}, false
		}
		start := at + i
		at = start + 1
		if len(m.parts[0]) == 0 && start > 0 && m.text[start-1] == '\r' {
			// CRLF is one break, and not matched from its middle.
			if start--; start < from {
				continue
			}
		}
		if end, ok := m.matchAt(start); ok {
			return span{start, end}, true
		}
	}
}

// matchAt reports whether there is a match at start, and where it ends.
func (m *matcher) matchAt(start int) (end int, ok bool) {
	rest := m.text[start:]
	for i, part := range m.parts {
		if i > 0 {
			rest = bytes.TrimPrefix(rest, []byte("\r"))
			if rest, ok = bytes.CutPrefix(rest, newline); !ok {
				return 0, false
			}
		}
		if rest, ok = bytes.CutPrefix(rest, part); !ok {
			return 0, false
		}
	}
	return len(m.text) - len(rest), true
}

// lineOf is the number of the line that holds the byte at.
func lineOf(text []byte, at int) int { return 1 + bytes.Count(text[:at], newline) }

// lineStart is where a line begins, from 1; the one after the last is the end.
func lineStart(text []byte, line int) (int, bool) {
	at := 0
	for n := 1; n < line; n++ {
		i := bytes.IndexByte(text[at:], '\n')
		if i < 0 {
			return len(text), n == line-1 && at < len(text)
		}
		at += i + 1
	}
	return at, true
}
