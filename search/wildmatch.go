package search

import "strings"

// wildmatch matches a pattern of gitignore(5) byte by byte, as git does: doublestar
// matches characters, knows braces and no [:alpha:]. With path set, only "**" as a
// whole component matches a slash.
func wildmatch(pattern, text string, path bool) bool {
	w := wild{pattern: pattern, text: text, path: path}
	return w.from(0, 0)
}

type wild struct {
	pattern, text string
	path          bool
	// failed has a bit for each place of both that a star went on from in
	// vain, so that many stars take no longer than the product of both.
	failed []uint64
}

func (w *wild) from(i, j int) bool {
	for ; i < len(w.pattern); i, j = i+1, j+1 {
		c := w.pattern[i]
		if c == '*' {
			return w.star(i, j)
		}
		if j == len(w.text) {
			return false
		}
		switch c {
		case '?':
			if w.path && w.text[j] == '/' {
				return false
			}
		case '[':
			end, ok := w.class(i, w.text[j])
			if !ok {
				return false
			}
			i = end
		case '\\':
			if i++; i == len(w.pattern) {
				return false
			}
			c = w.pattern[i]
			fallthrough
		default:
			if c != w.text[j] {
				return false
			}
		}
	}
	return j == len(w.text)
}

// star matches from the first of one or more stars on.
func (w *wild) star(i, j int) bool {
	first := i
	for i+1 < len(w.pattern) && w.pattern[i+1] == '*' {
		i++
	}
	rest := w.pattern[i+1:]
	slashes := !w.path
	if w.path && i > first && (first == 0 || w.pattern[first-1] == '/') &&
		(rest == "" || rest[0] == '/' || strings.HasPrefix(rest, `\/`)) {
		if rest != "" && rest[0] == '/' && w.from(i+2, j) {
			return true
		}
		slashes = true
	}
	if rest == "" {
		return slashes || strings.IndexByte(w.text[j:], '/') < 0
	}
	for ; j < len(w.text); j++ {
		if w.tried(i+1, j) {
			return false
		}
		if w.from(i+1, j) {
			return true
		}
		if w.text[j] == '/' && !slashes {
			return false
		}
	}
	return false
}

// tried reports whether it was called with these before. The same star from the
// same place on fails the same way.
func (w *wild) tried(i, j int) bool {
	bit := i*len(w.text) + j
	if w.failed == nil {
		w.failed = make([]uint64, (len(w.pattern)*len(w.text))/64+1)
	}
	was := w.failed[bit/64]&(1<<(bit%64)) != 0
	w.failed[bit/64] |= 1 << (bit % 64)
	return was
}

// class matches c with the class that begins at i, and returns where it ends.
func (w *wild) class(i int, c byte) (end int, ok bool) {
	p := w.pattern
	i++
	negated := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negated {
		i++
	}
	matched := false
	for prev, first := byte(0), true; ; first = false {
		if i >= len(p) {
			return 0, false
		}
		if p[i] == ']' && !first {
			break
		}
		switch {
		case p[i] == '\\':
			if i++; i == len(p) {
				return 0, false
			}
			matched = matched || p[i] == c
			prev = p[i]
		case p[i] == '-' && prev != 0 && i+1 < len(p) && p[i+1] != ']':
			if i++; p[i] == '\\' {
				if i++; i == len(p) {
					return 0, false
				}
			}
			matched = matched || (prev <= c && c <= p[i])
			prev = 0
		case p[i] == '[' && i+1 < len(p) && p[i+1] == ':':
			closing := strings.IndexByte(p[i+2:], ']')
			if closing < 0 {
				return 0, false
			}
			name := p[i+2 : i+2+closing]
			if !strings.HasSuffix(name, ":") {
				matched = matched || c == '['
				prev = '['
				break
			}
			in, known := posixClass(strings.TrimSuffix(name, ":"), c)
			if !known {
				return 0, false
			}
			matched = matched || in
			prev = 0
			i += 2 + closing
		default:
			matched = matched || p[i] == c
			prev = p[i]
		}
		i++
	}
	return i, matched != negated && !(w.path && c == '/')
}

// posixClass tells whether an ASCII character is in a class of POSIX.
func posixClass(name string, c byte) (in, known bool) {
	lower, upper, digit := 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9'
	graph := 0x21 <= c && c <= 0x7e
	switch name {
	case "alnum":
		in = lower || upper || digit
	case "alpha":
		in = lower || upper
	case "blank":
		in = c == ' ' || c == '\t'
	case "cntrl":
		in = c < 0x20 || c == 0x7f
	case "digit":
		in = digit
	case "graph":
		in = graph
	case "lower":
		in = lower
	case "print":
		in = graph || c == ' '
	case "punct":
		in = graph && !lower && !upper && !digit
	case "space":
		in = c == ' ' || ('\t' <= c && c <= '\r')
	case "upper":
		in = upper
	case "xdigit":
		in = digit || ('a' <= c && c <= 'f') || ('A' <= c && c <= 'F')
	default:
		return false, false
	}
	return in, true
}
