package search

import (
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/wsctl/wsctl/workspace"
)

// special are the characters with a meaning in a pattern.
const special = `*?[]{}\`

// segment matches one name of a path.
type segment struct {
	text string // as spelled
	// literal: no character of it is special.
	literal bool
	dot     bool // it begins with a dot
	glob    string
	// head and tail are what a glob of the form head*tail is made of.
	head, tail string
	simple     bool
}

// compileSegment reads a segment. When it only stands for the name that is
// spelled like it, no character of it is special.
func compileSegment(text string, spelled bool) (segment, error) {
	s := segment{text: text, literal: !strings.ContainsAny(text, special), dot: strings.HasPrefix(text, ".") || strings.HasPrefix(text, `\.`)}
	if s.literal || spelled {
		return s, nil
	}
	s.glob = escapeBraces(text)
	if !doublestar.ValidatePattern(s.glob) {
		if strings.Count(text, "[") == 0 && !strings.HasSuffix(text, `\`) {
			return s, workspace.Errorf(workspace.ErrInvalidArgument, "glob", "", "%s is not a pattern", workspace.Printable(text))
		}
		return s, workspace.Errorf(workspace.ErrInvalidArgument, "glob", "", `%s is not a pattern: a "[" has no "]", or "\" has nothing behind it; write "\[" for the character itself`, workspace.Printable(text))
	}
	head, tail, star := strings.Cut(s.glob, "*")
	if star && !strings.ContainsAny(head, special) && !strings.ContainsAny(tail, special) {
		s.head, s.tail, s.simple = head, tail, true
	}
	return s, nil
}

// match reports whether the segment matches a name; open is false for a hidden
// name that only a leading dot may match.
func (s *segment) match(name string, open bool) bool {
	if name == s.text {
		return true
	}
	if s.glob == "" || (!open && !s.dot) {
		return false
	}
	if s.simple {
		return len(name) >= len(s.head)+len(s.tail) && strings.HasPrefix(name, s.head) && strings.HasSuffix(name, s.tail)
	}
	if !utf8.ValidString(name) {
		// The library takes apart no other; a byte that is none of UTF-8
		// is then one character that no pattern spells.
		name = strings.ToValidUTF8(name, "\uFFFD")
	}
	return doublestar.MatchUnvalidated(s.glob, name)
}

// escapeBraces makes braces that are left plain characters, since those with
// alternatives are already taken apart.
func escapeBraces(text string) string {
	if !strings.ContainsAny(text, "{}") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch c {
		case '\\':
			b.WriteByte(c)
			if i++; i < len(text) {
				b.WriteByte(text[i])
			}
			continue
		case '[':
			if end := classEnd(text, i); end > i {
				b.WriteString(text[i : end+1])
				i = end
				continue
			}
		case '{', '}':
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}
