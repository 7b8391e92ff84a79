package search

import "bytes"

// batchOfMatches is how many matches are found in one go.
const batchOfMatches = 64

// multiLine searches a whole text for matches that may go over lines. The lines
// of matches that share one are returned together, each once.
func (l *lineSearch) multiLine(b []byte) {
	l.mark, l.told = 0, 0
	for at := 0; at < len(b) && !l.stopped && l.ctx.Err() == nil; {
		found := l.some(l.ctx, b[at:], batchOfMatches)
		if len(found) == 0 {
			break
		}
		base, next := at, at
		for len(found) > 0 && !l.stopped {
			begin, end, n := group(b, base, found)
			if begin < len(b) {
				l.lines(b, begin, end, base, found[:n])
			}
			found = found[n:]
			next = end + 1
		}
		if at = next; l.once {
			break
		}
	}
	if !l.stopped {
		l.context(b, len(b))
	}
}

// group takes the first of the matches, and those that begin on its last line,
// and returns the lines that they are on: from begin to before the end of the
// last. Places in found count from base.
func group(b []byte, base int, found [][]int) (begin, end, n int) {
	begin = bytes.LastIndexByte(b[:base+found[0][0]], '\n') + 1
	end = begin
	for ; n < len(found) && (n == 0 || base+found[n][0] <= end); n++ {
		last := base + found[n][1]
		if found[n][1] > found[n][0] {
			// A match that ends with a line break does not reach into
			// the next line.
			last--
		}
		end = max(end, indexFrom(b, min(last, len(b)), '\n'))
	}
	return begin, end, n
}

// lines takes the lines of a group of matches one by one.
func (l *lineSearch) lines(b []byte, begin, end, base int, found [][]int) {
	for begin <= end && begin < len(b) && !l.stopped {
		stop := indexFrom(b, begin, '\n')
		switch {
		case l.out.Binary || l.o.Mode != Lines:
			l.line(b, begin, stop)
		case !l.enough(b, begin):
			l.out.Count++
			l.context(b, begin)
			l.before(b, begin)
			l.count(b, begin)
			l.out.Lines = append(l.out.Lines, l.part(b[begin:stop], begin, base, found))
			l.told, l.after = stop+1, l.o.After
		}
		begin = stop + 1
	}
}

// part is one line of a group; place is where it begins.
func (l *lineSearch) part(line []byte, place, base int, found [][]int) Line {
	var spans [][]int
	column := 0
	for _, loc := range found {
		begin, end := base+loc[0]-place, base+loc[1]-place
		if begin > len(line) || end < 0 || len(spans) == maxSpans || (end == 0 && begin < 0) {
			continue
		}
		if begin >= 0 && column == 0 {
			column = begin + 1
		}
		spans = append(spans, []int{max(begin, 0), min(end, len(line))})
	}
	out := l.spanned(line, spans)
	out.Column = column
	return out
}
