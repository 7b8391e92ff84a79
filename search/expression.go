package search

import (
	"context"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/wsctl/wsctl/workspace"
)

// expression is what Grep looks for, compiled.
type expression struct {
	re *regexp.Regexp
	// needles: one of them is in every match; none: nothing is known.
	needles []needle
	// whole: a place of a needle is a match.
	whole bool
	// once: it matches at the begin of the text alone.
	once bool
	size int // instructions of the program
}

// Bounds of an expression. Its program may be much longer than its text
// ("x{1000}"); time goes with the product of that and of the text searched.
const (
	maxExpression = 4096
	maxProgram    = 20_000
)

// stoppable is the product beyond which a match can be stopped, at the price of
// being slower.
const stoppable = 32 << 20

func compileExpression(pattern string, o *GrepOptions) (*expression, error) {
	fail := func(format string, args ...any) error {
		return workspace.Errorf(workspace.ErrInvalidArgument, "grep", "", format, args...)
	}
	switch {
	case pattern == "":
		return nil, fail("the pattern is empty; . matches every line that is not empty")
	case len(pattern) > maxExpression:
		return nil, fail("the pattern has %d bytes; the limit is %d", len(pattern), maxExpression)
	case !utf8.ValidString(pattern):
		return nil, fail("the pattern is not UTF-8; write other bytes as \\x{80} to \\x{FF}, or . for any")
	}
	if o.Literal {
		pattern = regexp.QuoteMeta(pattern)
	}
	// A pattern of its own must be one before it stands between others.
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fail("%s", explain(err))
	}
	if !o.MultiLine && hasNewline(tree) {
		return nil, fail("the pattern holds a line break, and a line holds none; turn multi-line on")
	}
	flags := ""
	if o.IgnoreCase {
		flags += "i"
	}
	if o.MultiLine {
		flags += "m"
	}
	if flags != "" {
		pattern = "(?" + flags + ")" + pattern
	}
	if o.Word {
		pattern = `\b(?:` + pattern + `)\b`
	}
	if tree, err = syntax.Parse(pattern, syntax.Perl); err != nil {
		return nil, fail("%s", explain(err))
	}
	need := requiredBy(tree)
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, fail("%s", explain(err))
	}
	if len(prog.Inst) > maxProgram {
		return nil, fail("the pattern stands for a program of %d steps; the limit is %d: repeat less", len(prog.Inst), maxProgram)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fail("%s", explain(err))
	}
	e := &expression{re: re, needles: need.needles(), size: len(prog.Inst)}
	e.whole = need.whole && e.needles != nil
	e.once = o.MultiLine && prog.StartCond()&syntax.EmptyBeginText != 0
	return e, nil
}

// explain says what is wrong with an expression and what to do.
func explain(err error) string {
	text := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
	advice := "; to look for the text itself, turn literal on (wsctl grep -F)"
	if e, ok := err.(*syntax.Error); ok {
		switch e.Code {
		case syntax.ErrInvalidRepeatSize, syntax.ErrLarge:
			advice = "; something is repeated at most 1,000 times, also where repeats multiply"
		case syntax.ErrInvalidPerlOp:
			advice = "; the syntax is RE2's, without look-around and back references"
		}
	}
	return "the pattern is not a regular expression: " + text + advice
}

// hasNewline reports whether the expression needs a line break.
func hasNewline(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		return strings.ContainsRune(string(re.Rune), '\n')
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			if !hasNewline(sub) {
				return false
			}
		}
		return len(re.Sub) > 0
	case syntax.OpConcat, syntax.OpCapture, syntax.OpPlus:
		for _, sub := range re.Sub {
			if hasNewline(sub) {
				return true
			}
		}
	case syntax.OpCharClass:
		return len(re.Rune) == 2 && re.Rune[0] == '\n' && re.Rune[1] == '\n'
	case syntax.OpRepeat:
		return re.Min > 0 && hasNewline(re.Sub[0])
	}
	return false
}

// match reports whether there is a match in a line.
func (e *expression) match(ctx context.Context, line []byte) bool {
	if len(line) < stoppable/e.size {
		return e.re.Match(line)
	}
	return e.re.MatchReader(&runeReader{ctx: ctx, text: line})
}

// some finds the first matches in text, most of them, or a few when there is so
// much to search that it must be stoppable. Text begins with a line.
func (e *expression) some(ctx context.Context, text []byte, most int) [][]int {
	if len(text) < stoppable/e.size {
		return e.re.FindAllIndex(text, most)
	}
	if loc := e.re.FindReaderIndex(&runeReader{ctx: ctx, text: text}); loc != nil {
		return [][]int{loc}
	}
	return nil
}

// runeReader gives a text to a matcher until the context ends: the only way to
// stop one.
type runeReader struct {
	ctx  context.Context //nolint:containedctx // the life of one call
	text []byte
	n    int
}

func (r *runeReader) ReadRune() (rune, int, error) {
	if r.n++; r.n%4096 == 0 && r.ctx.Err() != nil {
		return 0, 0, io.EOF
	}
	if len(r.text) == 0 {
		return 0, 0, io.EOF
	}
	c, size := rune(r.text[0]), 1
	if c >= utf8.RuneSelf {
		c, size = utf8.DecodeRune(r.text)
	}
	r.text = r.text[size:]
	return c, size, nil
}
