package search

import (
	"bytes"
	"unicode/utf8"
)

// maxSpans is how many matches of a line are told apart.
const maxSpans = 32

// lineSearch searches one file, block after block of whole lines.
type lineSearch struct {
	*searcher
	out FileMatches
	// number is that of the line that begins at mark of the block.
	number, mark int
	// told is where the first line begins that was not returned, in the
	// block; after is how many lines of context are still due.
	told, after int
	// earlier are the last lines of the blocks before, for context.
	earlier []Line
	stopped bool
}

// block searches whole lines, the last of which may have no end.
func (l *lineSearch) block(b []byte) {
	l.mark, l.told = 0, 0
	for at := 0; at < len(b) && !l.stopped; {
		begin, end, ok := l.nextLine(b, at)
		if !ok {
			break
		}
		l.line(b, begin, end)
		at = end + 1
	}
	if l.stopped {
		return
	}
	l.context(b, len(b))
	if l.o.Before > 0 {
		l.remember(b)
	}
	l.count(b, len(b))
}

// line takes a matching line.
func (l *lineSearch) line(b []byte, begin, end int) {
	if l.enough(b, begin) {
		return
	}
	l.out.Count++
	if l.out.Binary || l.o.Mode == Names {
		l.stopped = true
		return
	}
	if l.o.Mode == Counts {
		return
	}
	l.context(b, begin)
	l.before(b, begin)
	l.count(b, begin)
	l.out.Lines = append(l.out.Lines, l.matching(b[begin:end]))
	l.told, l.after = end+1, l.o.After
}

// enough ends the search when no further matching line can be told. That there
// is one, at begin, is all to be known of it.
func (l *lineSearch) enough(b []byte, begin int) bool {
	switch n := l.out.Count; {
	case l.o.PerFile > 0 && n == l.o.PerFile:
		l.out.More = true
	case l.most > 0 && n == l.most:
	default:
		return false
	}
	l.context(b, begin)
	l.stopped = true
	return true
}

// nextLine finds the next line with a match, at or behind at, which begins a
// line. Its end is that of the text, before "\n".
func (l *lineSearch) nextLine(b []byte, at int) (begin, end int, ok bool) {
	for at < len(b) {
		place := at
		if l.needles != nil {
			if place = l.cursors.next(b, at); place == len(b) {
				return 0, 0, false
			}
		}
		begin = at + l.lastEnd(b[at:place]) + 1
		end = l.lineEnd(b, place)
		if l.whole || l.match(l.ctx, withoutCR(b[begin:end])) {
			return begin, end, true
		}
		at = end + 1
		if l.ctx.Err() != nil {
			return 0, 0, false
		}
	}
	return 0, 0, false
}

func (l *lineSearch) lineEnd(b []byte, at int) int {
	end := indexFrom(b, at, '\n')
	if l.out.Binary {
		end = at + indexFrom(b[at:end], 0, 0)
	}
	return end
}

// count moves mark to the line that begins at begin.
func (l *lineSearch) count(b []byte, begin int) {
	l.number += bytes.Count(b[l.mark:begin], []byte{'\n'})
	l.mark = begin
}

// context returns the lines that are due after a match, before the place end.
func (l *lineSearch) context(b []byte, end int) {
	for ; l.after > 0 && l.told < end; l.after-- {
		l.count(b, l.told)
		next := indexFrom(b, l.told, '\n')
		l.out.Lines = append(l.out.Lines, l.plain(b[l.told:next]))
		l.told = min(next+1, len(b))
	}
}

// before returns the lines of context before a match that begins at begin.
func (l *lineSearch) before(b []byte, begin int) {
	if l.o.Before == 0 {
		return
	}
	first, n := begin, 0
	for ; n < l.o.Before && first > l.told; n++ {
		first = bytes.LastIndexByte(b[:first-1], '\n') + 1
	}
	if first == 0 && l.told == 0 {
		missing := min(l.o.Before-n, len(l.earlier))
		l.out.Lines = append(l.out.Lines, l.earlier[len(l.earlier)-missing:]...)
	}
	l.earlier = nil
	for first < begin {
		l.count(b, first)
		end := indexFrom(b, first, '\n')
		l.out.Lines = append(l.out.Lines, l.plain(b[first:end]))
		first = end + 1
	}
}

// remember keeps the last lines of a block that were not returned.
func (l *lineSearch) remember(b []byte) {
	first, n := len(b), 0
	for ; n < l.o.Before && first > l.told; n++ {
		first = bytes.LastIndexByte(b[:first-1], '\n') + 1
	}
	if first > 0 {
		l.earlier = l.earlier[:0]
	}
	for first < len(b) {
		l.count(b, first)
		end := indexFrom(b, first, '\n')
		l.earlier = append(l.earlier, l.plain(b[first:end]))
		first = end + 1
	}
	if over := len(l.earlier) - l.o.Before; over > 0 {
		l.earlier = l.earlier[over:]
	}
}

// plain is a line of context, the one at mark.
func (l *lineSearch) plain(line []byte) Line { return l.cut(line, 0) }

// matching is a matching line, the one at mark.
func (l *lineSearch) matching(line []byte) Line {
	line = withoutCR(line)
	most := maxSpans
	if len(line) > l.o.MaxLine {
		most = 1
	}
	return l.spanned(line, l.some(l.ctx, line, most))
}

// spanned is a matching line with its matches.
func (l *lineSearch) spanned(line []byte, found [][]int) Line {
	first := 0
	if len(found) > 0 {
		first = found[0][0]
	}
	out := l.cut(line, first)
	out.Match = true
	if len(found) > 0 {
		out.Column = first + 1
	}
	for _, loc := range found {
		begin, end := max(loc[0]-out.Start, 0), min(loc[1]-out.Start, len(out.Text))
		if begin <= end {
			out.Spans = append(out.Spans, Span{begin, end})
		}
	}
	return out
}

// cut is a line of which at most MaxLine bytes are kept, around the byte at.
func (l *lineSearch) cut(line []byte, at int) Line {
	line = withoutCR(line)
	out := Line{Number: l.number, Length: len(line)}
	begin, end := 0, len(line)
	if end > l.o.MaxLine {
		if at > l.o.MaxLine*3/4 {
			begin = min(at-l.o.MaxLine/4, len(line)-l.o.MaxLine)
		}
		end = begin + l.o.MaxLine
		begin, end = characterAt(line, begin), characterBefore(line, end)
	}
	out.Start, out.Text = begin, string(line[begin:end])
	return out
}

// characterAt is the first begin of a character at or behind i.
func characterAt(b []byte, i int) int {
	for n := 0; n < utf8.UTFMax-1 && i < len(b) && !utf8.RuneStart(b[i]); n++ {
		i++
	}
	return i
}

// characterBefore is the last begin of a character at or before i, which is then
// the end of what is before.
func characterBefore(b []byte, i int) int {
	for n := 0; n < utf8.UTFMax-1 && i > 0 && i < len(b) && !utf8.RuneStart(b[i]); n++ {
		i--
	}
	return i
}

func withoutCR(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		return line[:n-1]
	}
	return line
}
