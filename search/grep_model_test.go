//go:build unix

package search_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/search"
)

// naive is Grep in the simplest form, over one text in the file "long".
func naive(text, pattern string, o search.GrepOptions) string {
	if o.IgnoreCase {
		pattern = "(?i)" + pattern
	}
	re := regexp.MustCompile(pattern)
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if text == "" {
		all = nil
	}
	const context, match = 1, 2
	marks := make([]int, len(all))
	for i, line := range all {
		all[i] = strings.TrimSuffix(line, "\r")
		if !re.MatchString(all[i]) {
			continue
		}
		for j := max(i-o.Before, 0); j <= min(i+o.After, len(all)-1); j++ {
			marks[j] = max(marks[j], context)
		}
		marks[i] = match
	}
	var b strings.Builder
	for i, line := range all {
		switch marks[i] {
		case context:
			fmt.Fprintf(&b, "long-%d-%s\n", i+1, line)
		case match:
			fmt.Fprintf(&b, "long:%d:%s\n", i+1, line)
		}
	}
	return b.String()
}

// generated texts and expressions, with much in common.
func generatedText(seed uint64) string {
	r := newRand(seed)
	words := []string{"foo", "Foo", "bar", "x", "needle", "NEEDLE", "", " ", "é", "ſ", "k", "\u212a", "s", "\xff", "(", ".", "aaaaaaaa", "\t", "10"}
	ends := []string{"\n", "\n", "\n", "\r\n", "\n\n"}
	var b strings.Builder
	for range r.IntN(60) {
		for range r.IntN(5) {
			b.WriteString(words[r.IntN(len(words))])
		}
		b.WriteString(ends[r.IntN(len(ends))])
	}
	b.WriteString([]string{"", "end", "foo"}[r.IntN(3)])
	return b.String()
}

func generatedPattern(seed uint64) string {
	r := newRand(seed ^ 0xfeed)
	parts := []string{"foo", "bar", "needle", "n", "x", "é", "k", "s", "sk", ".", ".*", "[a-f]", "[^o]", `\d+`, `\b`, `\s`, "(foo|bar)", "(?i:foo)", "(needle|x+)", "a{2,3}", "(fo){1,2}", "o?", "aa+", "(?:n|N)eed", "[Ff]oo", `\.`, `\(`, `\pL`}
	var b strings.Builder
	if r.IntN(6) == 0 {
		b.WriteString("^")
	}
	for range 1 + r.IntN(3) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	if r.IntN(6) == 0 {
		b.WriteString("$")
	}
	if r.IntN(5) == 0 {
		b.WriteString("|" + parts[r.IntN(len(parts))])
	}
	return b.String()
}

// Whatever is looked for first, the result is that of the expression alone.
func TestGrepIsNaive(t *testing.T) {
	ws, dir := open(t)
	found, patterns := 0, uint64(1500)
	if testing.Short() {
		patterns = 150
	}
	for seed := range patterns {
		text, pattern := generatedText(seed), generatedPattern(seed)
		check(t, os.WriteFile(filepath.Join(dir, "long"), []byte(text), 0o644))
		o := search.GrepOptions{IgnoreCase: seed%3 == 0, Before: int(seed % 4), After: int(seed / 2 % 3)}
		expected := naive(text, pattern, o)
		if expected != "" {
			found++
		}
		if got := lines(grep(t, ws, pattern, o)); got != expected {
			t.Fatalf("%q (case %v) in %q:\n%q, want\n%q", pattern, o.IgnoreCase, text, got, expected)
		}
		o.MultiLine = true
		if strings.ContainsAny(pattern, `^[\$`) {
			continue // these know line breaks
		}
		if got := lines(grep(t, ws, pattern, o)); got != expected {
			t.Fatalf("multi-line %q in %q:\n%q, want\n%q", pattern, text, got, expected)
		}
	}
	if found < int(patterns)/5 {
		t.Errorf("only %d patterns found something", found)
	}
}

// Where options agree, ripgrep finds the same.
func TestGrepIsRipgreps(t *testing.T) {
	rg := oracle(t, "rg", "ripgrep")
	ws, dir := open(t, ".gitignore = *.o\n/d2\n!d1/keep.o\n")
	for i := range 40 {
		name := fmt.Sprintf("d%d/f%02d", i%4, i)
		if i%7 == 0 {
			name = fmt.Sprintf("d%d/keep.o", i%4)
		}
		if i%11 == 0 {
			name = fmt.Sprintf("d%d/.h%d/f", i%4, i)
		}
		text := strings.ReplaceAll(strings.ReplaceAll(generatedText(uint64(i)), "\r", ""), "\xff", "?")
		grow(t, dir, name+" = "+text)
	}
	for seed := range uint64(60) {
		pattern := generatedPattern(seed)
		if strings.Contains(pattern, `\b`) {
			continue // words of ASCII here, of Unicode there
		}
		o := search.GrepOptions{IgnoreCase: seed%3 == 0, Before: int(seed % 3), After: int(seed % 2)}
		args := []string{"--no-require-git", "--no-config", "--no-heading", "--with-filename", "--line-number", "--color=never", "--sort=path", "--null", "-B", strconv.Itoa(o.Before), "-A", strconv.Itoa(o.After)}
		if o.IgnoreCase {
			args = append(args, "-i")
		}
		if seed%4 == 0 {
			o.Hidden = true
			args = append(args, "--hidden")
		}
		if seed%5 == 0 {
			o.NoIgnore = true
			args = append(args, "--no-ignore")
		}
		theirs := output(t, dir, "", rg, append(args, "-e", pattern, "--", ".")...)
		var mine []string
		for _, f := range grep(t, ws, pattern, o).Files {
			for _, l := range f.Lines {
				sep := "-"
				if l.Match {
					sep = ":"
				}
				mine = append(mine, fmt.Sprintf("./%s\x00%d%s%s", f.Path, l.Number, sep, l.Text))
			}
		}
		all := slices.DeleteFunc(strings.Split(theirs, "\n"), func(s string) bool { return s == "" || s == "--" })
		want(t, pattern, sortedLines(mine), sortedLines(all))
	}
}

func sortedLines(all []string) string {
	slices.Sort(all)
	return strings.Join(all, "\n")
}
