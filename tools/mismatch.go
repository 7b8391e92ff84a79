package tools

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxExplained is how much of a file is looked at to explain a failed match.
const maxExplained = 8 << 20

// whyNot tells why old is not in text, in one line: what is different, and where
// the nearest text is.
func whyNot(text, old []byte) string {
	text = text[:min(len(text), maxExplained)]
	if len(text) == 0 {
		return "the file is empty"
	}
	if bytes.ContainsRune(old, utf8.RuneError) && !utf8.Valid(text) {
		return "it holds U+FFFD, which read_file shows for bytes that are not UTF-8; leave them out of old_string"
	}
	for _, guess := range []struct {
		text []byte
		why  string
	}{
		{withoutNumbers(old), "it holds the line numbers of read_file; leave out the number and the tab"},
		{bytes.ReplaceAll(old, []byte("\r\n"), newline), "it holds CRLF where the file has LF"},
		{unescaped(old), `it holds escapes (\n, \t, \", \\) where the file has the characters themselves`},
	} {
		if guess.text == nil || bytes.Equal(guess.text, old) {
			continue
		}
		if at, ok := newMatcher(text, guess.text).next(0); ok {
			return fmt.Sprintf("%s (line %d)", guess.why, lineOf(text, at.start))
		}
	}
	if why := whiteSpace(text, old); why != "" {
		return why
	}
	lower := bytes.ToLower(text)
	if i := bytes.Index(lower, bytes.ToLower(old)); i >= 0 {
		line := lineOf(lower, i)
		return fmt.Sprintf("upper and lower case differ from line %d on: %s", line, quoteLine(lineAt(text, line)))
	}
	return nearest(text, old)
}

// withoutNumbers is old without a number and a tab at the beginning of each
// line; nil when a line has none.
func withoutNumbers(old []byte) []byte {
	var out []byte
	for line := range bytes.Lines(old) {
		number, rest, ok := bytes.Cut(line, []byte("\t"))
		number = bytes.TrimLeft(number, " ")
		if !ok || len(number) == 0 || len(bytes.Trim(number, "0123456789")) > 0 {
			return nil
		}
		out = append(out, rest...)
	}
	return out
}

// unescaped is old with the escapes of a string resolved.
func unescaped(old []byte) []byte {
	return []byte(strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\"`, `"`, `\'`, `'`).Replace(string(old)))
}

// whiteSpace tells where white space alone makes the difference; empty: nowhere.
func whiteSpace(text, old []byte) string {
	want := bytes.Trim(plainSpaces(old), " \n")
	if len(want) == 0 {
		return "it is white space that is not there"
	}
	plain := plainSpaces(text)
	i := bytes.Index(plain, want)
	if i < 0 {
		return ""
	}
	first := 1 + bytes.Count(plain[:i], newline)
	// Both have the same lines but for blanks; the first that differs tells.
	wanted := bytes.Split(bytes.Trim(old, "\r\n"), newline)
	for i, has := range wanted {
		has = bytes.TrimSuffix(has, []byte("\r"))
		there := lineAt(text, first+i)
		same := bytes.Contains(there, has)
		if i > 0 {
			same = same && bytes.HasPrefix(there, has)
		}
		if i < len(wanted)-1 {
			same = same && bytes.HasSuffix(there, has)
		}
		if !same {
			return fmt.Sprintf("white space differs: line %d of the file is %s, and the edit has %s", first+i, quoteLine(there), quoteLine(has))
		}
	}
	return fmt.Sprintf("white space differs around line %d, at the beginning or the end of the text", first)
}

// plainSpaces is b with each run of blanks as one space, and none at the end of
// a line.
func plainSpaces(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for line := range bytes.Lines(b) {
		ended := bytes.HasSuffix(line, newline)
		blank := false
		for _, c := range bytes.TrimRight(line, " \t\r\n") {
			if c == ' ' || c == '\t' {
				blank = true
				continue
			}
			if blank {
				out = append(out, ' ')
			}
			blank = false
			out = append(out, c)
		}
		if ended {
			out = append(out, '\n')
		}
	}
	return out
}

// lineAt is a line of text without its break.
func lineAt(text []byte, line int) []byte {
	at, ok := lineStart(text, line)
	if !ok {
		return nil
	}
	text = text[at:]
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	return bytes.TrimSuffix(text, []byte("\r"))
}

// quoteLine shows a line with its white space.
func quoteLine(line []byte) string {
	s, _ := valid(line)
	return fmt.Sprintf("%q", clip(s, 120))
}

// minLikeness is how alike two lines must be, from 0 to 1, for one to be told
// of.
const minLikeness = 0.5

// nearest names the line of text that is most like the longest one of old.
func nearest(text, old []byte) string {
	var anchor []byte
	for line := range bytes.Lines(old) {
		if line = bytes.TrimSpace(line); len(line) > len(anchor) {
			anchor = line
		}
	}
	like := newLikeness(anchor)
	best, bestLine, number := 0.0, 0, 0
	for line := range bytes.Lines(text) {
		number++
		if l := like.to(bytes.TrimSpace(line)); l > best {
			best, bestLine = l, number
		}
	}
	if best < minLikeness {
		return "nothing like it is in the file; read the file again"
	}
	return fmt.Sprintf("the nearest is line %d, %s, for %s of the edit; read the file again around it", bestLine, quoteLine(lineAt(text, bestLine)), quoteLine(anchor))
}

// likeness compares lines with one line by the pairs of bytes they share
// (Dice's coefficient).
type likeness struct {
	pairs [1 << 16]int32
	size  int
}

func newLikeness(line []byte) *likeness {
	l := &likeness{size: max(len(line)-1, 0)}
	for i := range l.size {
		l.pairs[pair(line, i)]++
	}
	return l
}

func pair(b []byte, i int) uint16 { return uint16(b[i])<<8 | uint16(b[i+1]) }

func (l *likeness) to(line []byte) float64 {
	n := len(line) - 1
	// Lines that differ so much in length cannot be alike enough.
	if n <= 0 || l.size == 0 || n > 3*l.size || l.size > 3*n {
		return 0
	}
	shared := 0
	for i := range n {
		p := pair(line, i)
		if l.pairs[p] > 0 {
			shared++
		}
		l.pairs[p]--
	}
	for i := range n {
		l.pairs[pair(line, i)]++
	}
	return 2 * float64(shared) / float64(n+l.size)
}
