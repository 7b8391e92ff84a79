package search

import "strings"

// rule is one line of a .gitignore.
type rule struct {
	pattern string
	// plain is how many bytes at its begin are not special.
	plain     int
	negated   bool
	directory bool // it is for directories alone
	anchored  bool // it is for paths below its own directory, not for names
}

// parseRules reads a file of rules, in its order (gitignore(5)).
func parseRules(text string) []rule {
	var rules []rule
	text = strings.TrimPrefix(text, "\ufeff")
	for line := range strings.SplitSeq(text, "\n") {
		if r, ok := parseRule(strings.TrimSuffix(line, "\r")); ok {
			rules = append(rules, r)
		}
	}
	return rules
}

func parseRule(line string) (r rule, ok bool) {
	if line == "" || line[0] == '#' {
		return r, false
	}
	line = trimSpaces(line)
	line, r.negated = strings.CutPrefix(line, "!")
	line, r.directory = strings.CutSuffix(line, "/")
	r.anchored = strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	r.pattern = line
	r.plain = strings.IndexAny(line, `*?[\`)
	if r.plain < 0 {
		r.plain = len(line)
	}
	return r, line != ""
}

// trimSpaces takes off spaces at the end that no backslash protects.
func trimSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			if i++; i >= len(line) {
				return line
			}
		}
		end = i + 1
	}
	return line[:end]
}

// match reports whether the rule is about an entry: name is its last part, rel
// its path below the directory of the rule.
func (r *rule) match(rel, name string, directory bool) bool {
	if r.directory && !directory {
		return false
	}
	if !r.anchored {
		switch {
		case r.plain == len(r.pattern):
			return name == r.pattern
		case r.plain == 0 && r.pattern[0] == '*' && !strings.ContainsAny(r.pattern[1:], `*?[\`):
			return strings.HasSuffix(name, r.pattern[1:])
		}
		return wildmatch(r.pattern, name, false)
	}
	// What is not special is compared first and taken off, as in git, where
	// "a**/b" then begins with two stars and matches a directory "ax" too.
	if !strings.HasPrefix(rel, r.pattern[:r.plain]) {
		return false
	}
	return wildmatch(r.pattern[r.plain:], rel[r.plain:], true)
}
