package tools

import (
	"bytes"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/wsctl/wsctl/workspace"
)

const (
	// diffContext is the number of unchanged lines around a change.
	diffContext = 3
	// maxDiffBytes bounds the text of a diff, and maxHunkBytes the text that
	// is compared for one hunk.
	maxDiffBytes = 20_000
	maxHunkBytes = 256 << 10
)

// changedSpan is a part of an old text and what a new text has in its place.
type changedSpan struct{ old, new span }

// spans are the parts that differ between an old text and a new one, in order.
type spans []changedSpan

// compose returns the spans after replacements in the new text. It takes time
// in their number alone, whatever the texts.
func (s spans) compose(replaced []replacement) spans {
	var out spans
	// skew is how far the new text is ahead of the old one, and shift how far
	// the replacements have moved it, up to where we are.
	skew, shift, growth := 0, 0, 0
	var g changedSpan // the group under way, where the new text was before
	open := false
	flush := func() {
		if open {
			g.new.start += shift
			shift += growth
			g.new.end += shift
			out = append(out, g)
		}
		open, growth = false, 0
	}
	add := func(at span, skewAfter int) {
		if !open || at.start > g.new.end {
			flush()
			open = true
			g = changedSpan{old: span{start: at.start - skew}, new: at}
		}
		skew = skewAfter
		g.new.end = max(g.new.end, at.end)
		g.old.end = g.new.end - skew
	}
	i := 0
	for _, r := range replaced {
		for ; i < len(s) && s[i].new.start <= r.start; i++ {
			add(s[i].new, s[i].new.end-s[i].old.end)
		}
		add(r.span, skew)
		growth += r.size - (r.end - r.start)
	}
	for ; i < len(s); i++ {
		add(s[i].new, s[i].new.end-s[i].old.end)
	}
	flush()
	return out
}

// unifiedDiff is the unified diff of two texts that differ in the spans alone,
// and the number of hunks that were too much for it. Only the lines around the
// spans are looked at.
func unifiedDiff(path string, before, after []byte, changed spans) (diff string, leftOut int) {
	name := workspace.Printable(path)
	oldLines, newLines := lineCounter{text: before}, lineCounter{text: after}
	var b strings.Builder
	for i := 0; i < len(changed); {
		hunk := withContext(before, changed[i])
		for i++; i < len(changed); i++ {
			next := withContext(before, changed[i])
			if next.old.start > hunk.old.end {
				break
			}
			hunk.old.end, hunk.new.end = next.old.end, next.new.end
		}
		old, now := before[hunk.old.start:hunk.old.end], after[hunk.new.start:hunk.new.end]
		if len(old)+len(now) > maxHunkBytes || b.Len() > maxDiffBytes {
			leftOut++
			continue
		}
		text := hunkText(name, old, now, oldLines.before(hunk.old.start), newLines.before(hunk.new.start))
		if b.Len() > 0 {
			// The names stand once, above the first hunk.
			text = text[strings.Index(text, "\n@@")+1:]
		}
		if b.Len()+len(text) > maxDiffBytes {
			leftOut++
			continue
		}
		b.WriteString(text)
	}
	return b.String(), leftOut
}

// withContext widens a span to whole lines and the lines around it.
func withContext(before []byte, c changedSpan) changedSpan {
	start, end := lineBegin(before, c.old.start), c.old.end
	for n := 0; n < diffContext && start > 0; n++ {
		start = lineBegin(before, start-1)
	}
	for n := 0; n <= diffContext && end < len(before); n++ {
		i := bytes.IndexByte(before[end:], '\n')
		if i < 0 {
			i = len(before) - end - 1
		}
		end += i + 1
	}
	return changedSpan{
		old: span{start, end},
		new: span{c.new.start - (c.old.start - start), c.new.end + end - c.old.end},
	}
}

// lineBegin is where the line that holds the byte at begins.
func lineBegin(text []byte, at int) int { return bytes.LastIndexByte(text[:at], '\n') + 1 }

// hunkText is the diff of two texts that have so many lines before them.
func hunkText(name string, old, now []byte, oldBefore, newBefore int) string {
	was, _ := valid(old)
	is, _ := valid(now)
	u, err := udiff.ToUnifiedDiff(name, name, was, udiff.Lines(was, is), diffContext)
	if err != nil {
		// The edits are those of the very texts.
		panic(err)
	}
	for _, h := range u.Hunks {
		h.FromLine += oldBefore
		h.ToLine += newBefore
	}
	return u.String()
}

// lineCounter counts the lines before places that come in order.
type lineCounter struct {
	text      []byte
	at, lines int
}

func (c *lineCounter) before(at int) int {
	c.lines += bytes.Count(c.text[c.at:at], newline)
	c.at = at
	return c.lines
}
