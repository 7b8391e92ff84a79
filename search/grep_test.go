//go:build unix

package search_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/search"
	"github.com/wsctl/wsctl/workspace"
)

// lines are the lines of all files in grep's form, context with "-".
func lines(m *search.Matches) string {
	var b strings.Builder
	for _, f := range m.Files {
		if f.Binary {
			fmt.Fprintf(&b, "%s: binary\n", f.Path)
		}
		for _, l := range f.Lines {
			sep := "-"
			if l.Match {
				sep = ":"
			}
			fmt.Fprintf(&b, "%s%s%d%s%s\n", f.Path, sep, l.Number, sep, l.Text)
		}
	}
	return b.String()
}

func TestGrepLines(t *testing.T) {
	for _, c := range []struct {
		what, content, pattern string
		o                      search.GrepOptions
		want                   string
	}{
		{"a line", "one\ntwo\nthree\n", "two", search.GrepOptions{}, "f:2:two\n"},
		{"the last without an end", "one\ntwo", "two", search.GrepOptions{}, "f:2:two\n"},
		{"no line after the last", "one\n", "^$", search.GrepOptions{}, ""},
		{"an empty line", "one\n\ntwo\n", "^$", search.GrepOptions{}, "f:2:\n"},
		{"an empty file", "", "^", search.GrepOptions{}, ""},
		{"CRLF", "one\r\ntwo\r\n", "e$", search.GrepOptions{}, "f:1:one\n"},
		{"a lone CR ends no line", "a\rb\n", "b", search.GrepOptions{}, "f:1:a\rb\n"},
		{"BOM", "\xef\xbb\xbfone\n", "^one", search.GrepOptions{}, "f:1:one\n"},
		{"literal", "a.c\nabc\n", "a.c", search.GrepOptions{Literal: true}, "f:1:a.c\n"},
		{"a leading dash", "--help -e\n-> x\n", "--help", search.GrepOptions{}, "f:1:--help -e\n"},
		{"an arrow", "--help -e\n-> x\n", "->", search.GrepOptions{}, "f:2:-> x\n"},
		{"case", "Deadline\nDEADLINE\nx\n", "deadline", search.GrepOptions{IgnoreCase: true}, "f:1:Deadline\nf:2:DEADLINE\n"},
		{"case beyond ASCII", "STRASSE É\nſtraße é\n", "é", search.GrepOptions{IgnoreCase: true}, "f:1:STRASSE É\nf:2:ſtraße é\n"},
		{"case of long s and Kelvin", "aſk\nas\u212a\nASK\n", "ask", search.GrepOptions{IgnoreCase: true}, "f:1:aſk\nf:2:as\u212a\nf:3:ASK\n"},
		{"word", "foobar\nfoo bar\n", "foo", search.GrepOptions{Word: true}, "f:2:foo bar\n"},
		{"word of alternatives", "xa\nb y\n", "a|b", search.GrepOptions{Word: true}, "f:2:b y\n"},
		{"alternatives", "one\ntwo\nthree\n", "one|three", search.GrepOptions{}, "f:1:one\nf:3:three\n"},
		{"a class", "1a\nbb\n", `\d`, search.GrepOptions{}, "f:1:1a\n"},
		{"a dot takes no line break", "a\nb\n", "a.b", search.GrepOptions{}, ""},
		{"white space takes no line break", "a\n b\n", `a\s+b`, search.GrepOptions{}, ""},
		{"context", "1\n2\n3\nx\n5\n6\n7\n", "x", search.GrepOptions{Before: 2, After: 1}, "f-2-2\nf-3-3\nf:4:x\nf-5-5\n"},
		{"context that meets", "x\n2\nx\n4\n", "x", search.GrepOptions{Before: 3, After: 3}, "f:1:x\nf-2-2\nf:3:x\nf-4-4\n"},
		{"context at the end", "1\nx", "x", search.GrepOptions{Before: 9, After: 9}, "f-1-1\nf:2:x\n"},
		{"context of neighbours", "x\nx\n3\n4\n", "x", search.GrepOptions{After: 1}, "f:1:x\nf:2:x\nf-3-3\n"},
		{"per file", "x1\nx2\n-\nx3\n", "x", search.GrepOptions{PerFile: 2, After: 1}, "f:1:x1\nf:2:x2\nf-3--\n"},
		{"limit", "x1\nx2\nx3\n", "x", search.GrepOptions{Limit: 2}, "f:1:x1\nf:2:x2\n"},
		{"offset", "x1\nx2\nx3\n", "x", search.GrepOptions{Offset: 1, Limit: 1}, "f:2:x2\n"},
		{"multi-line", "a\nb\nc\n", `a\nb`, search.GrepOptions{MultiLine: true}, "f:1:a\nf:2:b\n"},
		{"multi-line with CRLF", "a\r\nb\r\nc\r\n", `a\nb$`, search.GrepOptions{MultiLine: true}, "f:1:a\nf:2:b\n"},
		{"multi-line dot", "a\nb\nc\n", "a.b", search.GrepOptions{MultiLine: true}, ""},
		{"multi-line dot of all", "a\nb\nc\n", "(?s)a.b", search.GrepOptions{MultiLine: true}, "f:1:a\nf:2:b\n"},
		{"multi-line anchors", "ab\nb\n", "^b$", search.GrepOptions{MultiLine: true}, "f:2:b\n"},
		{"multi-line, the begin", "b\nb\n", `\Ab`, search.GrepOptions{MultiLine: true}, "f:1:b\n"},
		{"multi-line, many on a line", "aa a\nx\na\n", "a", search.GrepOptions{MultiLine: true}, "f:1:aa a\nf:3:a\n"},
		{"multi-line, a chain", "a1\na2\na3\nx\n", `(?s)\d.a`, search.GrepOptions{MultiLine: true}, "f:1:a1\nf:2:a2\nf:3:a3\n"},
		{"multi-line, empty", "a\n\nb\n", "^$", search.GrepOptions{MultiLine: true}, "f:2:\n"},
		{"multi-line literal", "f(\n\tx)\n", "f(\n\tx)", search.GrepOptions{MultiLine: true, Literal: true}, "f:1:f(\nf:2:\tx)\n"},
		{"latin-1", "caf\xe9 x\n", "caf. x", search.GrepOptions{}, "f:1:caf\xe9 x\n"},
		{"a NUL far in", strings.Repeat("line\n", 2000) + "a\x00b\n" + "needle\n", "needle", search.GrepOptions{}, "f:2002:needle\n"},
		{"binary", "a\x00b needle\n", "needle", search.GrepOptions{}, "f: binary\n"},
		{"binary without", "a\x00b\n", "needle", search.GrepOptions{}, ""},
		{"a NUL ends a line of a binary", "foo\x00bar", "^bar$", search.GrepOptions{}, "f: binary\n"},
	} {
		t.Run(c.what, func(t *testing.T) {
			ws, dir := open(t)
			check(t, os.WriteFile(filepath.Join(dir, "f"), []byte(c.content), 0o644))
			want(t, c.pattern, lines(grep(t, ws, c.pattern, c.o)), c.want)
			c.o.Path = "f"
			want(t, c.pattern+" in the file itself", lines(grep(t, ws, c.pattern, c.o)), c.want)
		})
	}
}

func TestGrepEncodings(t *testing.T) {
	ws, dir := open(t)
	units := utf16.Encode([]rune("one\r\nnädle 😀 x\n"))
	for name, order := range map[string][2]int{"le": {0, 8}, "be": {8, 0}} {
		b := []byte{0xff, 0xfe}
		if name == "be" {
			b = []byte{0xfe, 0xff}
		}
		for _, u := range units {
			b = append(b, byte(u>>order[0]), byte(u>>order[1]))
		}
		check(t, os.WriteFile(filepath.Join(dir, name), b, 0o644))
	}
	m := grep(t, ws, "nädle 😀", search.GrepOptions{})
	want(t, "both", lines(m), "be:2:nädle 😀 x\nle:2:nädle 😀 x\n")
	if m.Files[0].Encoding != "utf-16be" || m.Files[1].Encoding != "utf-16le" {
		t.Errorf("%+v", m.Files)
	}
}

// A result tells places as fields; nothing has to be taken apart.
func TestGrepFields(t *testing.T) {
	ws, _ := open(t, "a:12:b.txt = x: needle needle\n")
	m := grep(t, ws, "needle", search.GrepOptions{})
	f := m.Files[0]
	l := f.Lines[0]
	if f.Path != "a:12:b.txt" || l.Number != 1 || l.Column != 4 || l.Text != "x: needle needle" || l.Length != 16 || fmt.Sprint(l.Spans) != "[{3 9} {10 16}]" {
		t.Errorf("%+v", m)
	}
	for mode, count := range map[search.Mode]int{search.Names: 1, search.Counts: 1, search.Lines: 1} {
		m := grep(t, ws, "needle", search.GrepOptions{Mode: mode})
		if m.Count != count || len(m.Files) != 1 || m.Searched != 1 || (len(m.Files[0].Lines) > 0) != (mode == search.Lines) {
			t.Errorf("%s: %+v", mode, m)
		}
	}
}

// Caps of a file and of the whole say that there is more.
func TestGrepLimits(t *testing.T) {
	var tree []string
	for i := range 30 {
		tree = append(tree, fmt.Sprintf("d%d/f%02d = x\nx\nx\n", i%3, i))
	}
	ws, _ := open(t, tree...)
	all := lines(grep(t, ws, "x", search.GrepOptions{}))
	var pages strings.Builder
	for offset := 0; ; offset += 7 {
		m := grep(t, ws, "x", search.GrepOptions{Offset: offset, Limit: 7})
		pages.WriteString(lines(m))
		if m.More != (offset+7 < 90) || m.Count != min(7, 90-offset) {
			t.Errorf("from %d: more %v, %d matches", offset, m.More, m.Count)
		}
		if !m.More {
			break
		}
	}
	want(t, "pages", pages.String(), all)
	m := grep(t, ws, "x", search.GrepOptions{PerFile: 2})
	if m.Count != 60 || !m.Files[0].More || m.More {
		t.Errorf("per file: %d, %+v", m.Count, m.Files[0])
	}
	m = grep(t, ws, "x", search.GrepOptions{Mode: search.Names, Limit: 4, Offset: 2})
	if len(m.Files) != 4 || !m.More || m.Files[0].Path != "d0/f06" {
		t.Errorf("names: %+v", m)
	}
	m = grep(t, ws, "x", search.GrepOptions{Mode: search.Counts, PerFile: 2})
	if len(m.Files) != 30 || m.Count != 60 || !m.Files[0].More {
		t.Errorf("counts: %+v", m.Files[0])
	}
	m = grep(t, ws, "x", search.GrepOptions{Limit: 90})
	if m.More || m.Count != 90 {
		t.Errorf("a limit that is just met: more %v", m.More)
	}
}

func TestGrepFilesGlob(t *testing.T) {
	ws, _ := open(t, "a.go = x", "d/b.go = x", "d/c.txt = x", ".github/ci.yml = x", "d/e/f.go = x")
	for pattern, files := range map[string]string{"*.go": "a.go d/b.go d/e/f.go", "d/*.go": "d/b.go", "d/**": "d/b.go d/c.txt d/e/f.go", ".github/**": ".github/ci.yml", "*.{txt,go}": "a.go d/b.go d/c.txt d/e/f.go"} {
		var got []string
		for _, f := range grep(t, ws, "x", search.GrepOptions{Files: pattern}).Files {
			got = append(got, f.Path)
		}
		want(t, pattern, strings.Join(got, " "), files)
	}
}

func TestGrepRefuses(t *testing.T) {
	ws, dir := open(t, "f = x", "d/")
	check(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o666))
	for _, c := range []struct {
		what, pattern string
		o             search.GrepOptions
		code          workspace.Code
	}{
		{"a path that is not there", "x", search.GrepOptions{Scope: search.Scope{Path: "gone"}}, workspace.ErrNotFound},
		{"a path below a file", "x", search.GrepOptions{Scope: search.Scope{Path: "f/x"}}, workspace.ErrNotDirectory},
		{"a FIFO", "x", search.GrepOptions{Scope: search.Scope{Path: "fifo"}}, workspace.ErrNotFile},
		{"outside", "x", search.GrepOptions{Scope: search.Scope{Path: "/etc/passwd"}}, workspace.ErrOutside},
		{"the state", "x", search.GrepOptions{Scope: search.Scope{Path: ".wsctl"}}, workspace.ErrInvalidPath},
		{"no expression", "(", search.GrepOptions{}, workspace.ErrInvalidArgument},
		{"half a group", "a)(b", search.GrepOptions{Word: true}, workspace.ErrInvalidArgument},
		{"look-around", "(?=x)", search.GrepOptions{}, workspace.ErrInvalidArgument},
		{"a huge repeat", "(x{1000}){1000}", search.GrepOptions{}, workspace.ErrInvalidArgument},
		{"a repeat of much", strings.Repeat(`\pL{1000}`, 30), search.GrepOptions{}, workspace.ErrInvalidArgument},
		{"nothing", "", search.GrepOptions{}, workspace.ErrInvalidArgument},
		{"a line break", `a\nb`, search.GrepOptions{}, workspace.ErrInvalidArgument},
		{"a literal line break", "a\nb", search.GrepOptions{Literal: true}, workspace.ErrInvalidArgument},
		{"bytes", "\xff", search.GrepOptions{}, workspace.ErrInvalidArgument},
		{"a long one", strings.Repeat("x", 5000), search.GrepOptions{}, workspace.ErrInvalidArgument},
		{"a bad glob", "x", search.GrepOptions{Files: "["}, workspace.ErrInvalidArgument},
		{"a bad mode", "x", search.GrepOptions{Mode: "x"}, workspace.ErrInvalidArgument},
		{"a negative limit", "x", search.GrepOptions{Limit: -1}, workspace.ErrInvalidArgument},
		{"a negative depth", "x", search.GrepOptions{Scope: search.Scope{Depth: -1}}, workspace.ErrInvalidArgument},
	} {
		_, err := search.Grep(bg, ws, c.pattern, c.o)
		wantCode(t, c.what, err, c.code)
		if err != nil && strings.ContainsAny(err.Error(), "\n") {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if m := grep(t, ws, "x", search.GrepOptions{}); m.Skipped.Special != 1 || m.Count != 1 {
		t.Errorf("a FIFO on the way: %+v", m)
	}
}

// A giant line is found in bounded memory and returned as a part of itself, cut
// at characters; a file over the limit is told.
func TestGrepGiants(t *testing.T) {
	ws, dir := open(t)
	const size = 5 << 20
	giant := bytes.Repeat([]byte("ä"), size/2)
	copy(giant[size-100:], "needle")
	check(t, os.WriteFile(filepath.Join(dir, "giant"), giant, 0o644))
	check(t, os.WriteFile(filepath.Join(dir, "huge"), nil, 0o644))
	check(t, os.Truncate(filepath.Join(dir, "huge"), 1<<40))
	check(t, os.WriteFile(filepath.Join(dir, "utf16"), []byte("\xff\xfe"), 0o644))
	check(t, os.Truncate(filepath.Join(dir, "utf16"), 100<<20))
	for _, pattern := range []string{"needle", "^[a-f]*ä?.*need"} {
		m := grep(t, ws, pattern, search.GrepOptions{MaxLine: 1000})
		if len(m.Files) != 1 || m.Skipped.TooLarge != 2 || len(m.Skipped.Problems) != 2 {
			t.Fatalf("%s: %d files, %+v", pattern, len(m.Files), m.Skipped)
		}
		l := m.Files[0].Lines[0]
		if pattern == "needle" && (l.Column != size-100+1 || !strings.Contains(l.Text, "needle")) {
			t.Errorf("column %d, text %q", l.Column, l.Text)
		}
		if l.Length != size || len(l.Text) > 1000 || len(l.Text) < 900 || strings.Contains(strings.ToValidUTF8(l.Text, "?"), "?") {
			t.Errorf("%s: length %d, text %q", pattern, l.Length, l.Text)
		}
	}
	// An expression of many steps over a long text ends with its context.
	ctx, cancel := context.WithTimeout(bg, 300*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := search.Grep(ctx, ws, "(ä.{0,400}){2}x", search.GrepOptions{})
	wantCode(t, "a slow expression", err, workspace.ErrAborted)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("it ended after %v", took)
	}
}

// A long file is searched part by part as if it were one text.
func TestGrepLongFiles(t *testing.T) {
	ws, dir := open(t)
	var b strings.Builder
	n := 0
	for b.Len() < 5<<20 {
		n++
		fmt.Fprintf(&b, "line %d %s\n", n, strings.Repeat("x", n%97))
	}
	check(t, os.WriteFile(filepath.Join(dir, "long"), []byte(b.String()), 0o644))
	for _, o := range []search.GrepOptions{{}, {Before: 3, After: 2}, {MultiLine: true, Before: 1}} {
		for _, pattern := range []string{`^line \d*7777 `, "line 11", `0000 x*$`} {
			whole := b.String()
			parts := lines(grep(t, ws, pattern, o))
			want(t, pattern, parts, naive(whole, pattern, o))
		}
	}
	m := grep(t, ws, "line", search.GrepOptions{Mode: search.Counts})
	if m.Count != n {
		t.Errorf("%d lines counted of %d", m.Count, n)
	}
}
