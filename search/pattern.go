package search

import (
	"slices"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

// Pattern is a compiled glob. Its parts stand between slashes: "*" is any run of
// characters, "?" one character, "[a-z]" and "[!a-z]" a class, "\" takes the
// special meaning from the next character; a part "**" is any number of
// directories, none too, and at the end all that lies in them. "{a,b}" is either, also with slashes in it.
//
// A part also matches the name that is spelled just like it, so that "app/[id]"
// finds the directory [id]. A hidden name is matched only by a part that begins
// with a dot.
type Pattern struct {
	parts []part
	first []int // where the alternatives begin
}

// part is one component of one alternative.
type part struct {
	segment
	kind partKind
}

type partKind uint8

const (
	one  partKind = iota // one name
	many                 // "**"
	end                  // behind the last: it matched
)

// states are the parts that the next name may match, each once, sorted. A nil
// Pattern has none.
type states []int

// step is what a name did.
type step struct {
	states states
	// matched: the pattern ends here. goesOn: it may match below.
	matched, goesOn bool
	// named: a part is spelled like it.
	named bool
}

// Bounds of a pattern.
const (
	maxPattern      = 4096
	maxAlternatives = 256
)

// CompilePattern reads a glob.
func CompilePattern(text string) (*Pattern, error) {
	const op = "glob"
	switch {
	case text == "":
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "the pattern is empty; ** matches everything")
	case len(text) > maxPattern || strings.IndexByte(text, 0) >= 0:
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "the pattern has %d bytes; the limit is %d, without NUL bytes", len(text), maxPattern)
	}
	alternatives, ok := expandBraces(text)
	if !ok {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "the braces of the pattern stand for more than %d patterns; search several times", maxAlternatives)
	}
	if !slices.Contains(alternatives, text) {
		// A name with braces in it is matched by itself.
		alternatives = append(alternatives, text)
	}
	p := &Pattern{}
	for _, a := range alternatives {
		p.first = append(p.first, len(p.parts))
		if err := p.add(a, len(p.first) == len(alternatives) && len(alternatives) > 1); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// add appends an alternative. One that is spelled with braces is only there for
// names with braces.
func (p *Pattern) add(text string, spelled bool) error {
	for name := range strings.SplitSeq(text, "/") {
		switch name {
		case "", ".":
			continue
		case "..":
			return workspace.Errorf(workspace.ErrInvalidArgument, "glob", "", `".." stands behind a special character of the pattern; give the directory as the path`)
		case "**":
			if n := len(p.parts); n == p.first[len(p.first)-1] || p.parts[n-1].kind != many {
				p.parts = append(p.parts, part{kind: many})
			}
			continue
		}
		s, err := compileSegment(name, spelled)
		if err != nil {
			return err
		}
		p.parts = append(p.parts, part{segment: s})
	}
	if n := len(p.parts); n > p.first[len(p.first)-1] && p.parts[n-1].kind == many {
		// "a/**" is what lies in a, and not a itself.
		p.parts = append(p.parts, part{segment: segment{glob: "*", simple: true}})
	}
	p.parts = append(p.parts, part{kind: end})
	return nil
}

// begin are the states before the first name.
func (p *Pattern) begin() states {
	if p == nil {
		return nil
	}
	var s states
	for _, first := range p.first {
		s = p.insert(s, first)
	}
	return s
}

// insert adds a state, and what may follow without a name.
func (p *Pattern) insert(s states, at int) states {
	i, found := slices.BinarySearch(s, at)
	if found {
		return s
	}
	s = slices.Insert(s, i, at)
	if p.parts[at].kind == many {
		s = p.insert(s, at+1)
	}
	return s
}

// step matches one name. dots lets special characters match a hidden one.
func (p *Pattern) step(from states, name string, dots bool) step {
	open := dots || name[0] != '.'
	if p == nil {
		return step{matched: open, goesOn: open}
	}
	var to step
	for _, at := range from {
		switch c := &p.parts[at]; c.kind {
		case many:
			if open {
				to.states = p.insert(to.states, at)
			}
		case one:
			if c.match(name, open) {
				to.states = p.insert(to.states, at+1)
				to.named = to.named || name == c.text
			}
		}
	}
	for _, at := range to.states {
		if p.parts[at].kind == end {
			to.matched = true
		} else {
			to.goesOn = true
		}
	}
	return to
}

// expandBraces replaces "{a,b}" by its alternatives. Braces without a comma, or
// without their partner, stand for themselves. ok is false when there are too
// many.
func expandBraces(text string) (all []string, ok bool) {
	open, close, commas := findBraces(text)
	if open < 0 {
		return []string{text}, true
	}
	tails, ok := expandBraces(text[close+1:])
	if !ok {
		return nil, false
	}
	begin := open + 1
	for _, comma := range append(commas, close) {
		heads, ok := expandBraces(text[begin:comma])
		if !ok {
			return nil, false
		}
		begin = comma + 1
		for _, head := range heads {
			for _, tail := range tails {
				if len(all) == maxAlternatives {
					return nil, false
				}
				all = append(all, text[:open]+head+tail)
			}
		}
	}
	return all, true
}

// findBraces finds the first pair with a comma in it, outside of classes, and
// the commas that divide it.
func findBraces(text string) (open, close int, commas []int) {
	for open = 0; open < len(text); open++ {
		switch text[open] {
		case '\\':
			open++
		case '[':
			open = classEnd(text, open)
		case '{':
			if close, commas = braceEnd(text, open); len(commas) > 0 {
				return open, close, commas
			}
		}
	}
	return -1, -1, nil
}

func braceEnd(text string, open int) (close int, commas []int) {
	depth := 0
	for i := open; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '[':
			i = classEnd(text, i)
		case '{':
			depth++
		case ',':
			if depth == 1 {
				commas = append(commas, i)
			}
		case '}':
			if depth--; depth == 0 {
				return i, commas
			}
		}
	}
	return -1, nil
}

// classEnd is where the class that begins at open ends; open itself when it has
// no end before the next slash.
func classEnd(text string, open int) int {
	i := open + 1
	if i < len(text) && (text[i] == '!' || text[i] == '^') {
		i++
	}
	for first := i; i < len(text) && text[i] != '/'; i++ {
		switch {
		case text[i] == '\\':
			i++
		case text[i] == ']' && i > first:
			return i
		}
	}
	return open
}
