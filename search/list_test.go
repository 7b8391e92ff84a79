//go:build unix

package search_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/search"
	"github.com/wsctl/wsctl/workspace"
)

func newRuleMaker(seed uint64) ruleMaker { return ruleMaker{newRand(seed)} }

func sorted(all []string) string {
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestList(t *testing.T) {
	ws, dir := open(t, "b/x", "b/deep/y", "a-b", "a/z", "a.txt = hello", "link -> a.txt", "out -> /etc", "loop -> loop", ".h", ".gitignore = *.o\n", "c.o", ".wsctl/id")
	check(t, unix.Mkfifo(filepath.Join(dir, "fifo"), 0o666))
	one := search.FindOptions{Scope: search.Scope{Depth: 1}}
	f := list(t, ws, one)
	want(t, "depth 1", paths(f), "a-b a.txt a b fifo link loop out")
	if f.Skipped.Hidden != 2 || f.Skipped.Ignored != 1 || f.Skipped.Links != 0 {
		t.Errorf("skipped %+v", f.Skipped)
	}
	want(t, "all", paths(list(t, ws, search.FindOptions{Scope: search.Scope{Hidden: true, NoIgnore: true}})),
		".gitignore .h a-b a.txt a a/z b b/deep b/deep/y b/x c.o fifo link loop out")
	want(t, "depth 2", paths(list(t, ws, search.FindOptions{Scope: search.Scope{Path: "b", Depth: 1}})), "b/deep b/x")
	f = list(t, ws, search.FindOptions{Scope: search.Scope{Depth: 1}, Details: true})
	var facts []string
	for _, e := range f.Entries {
		facts = append(facts, fmt.Sprintf("%s %s %d %s", e.Path, e.Kind, e.Size, e.Target))
		if e.Modified.Before(time.Now().Add(-time.Hour)) && e.Kind != search.Directory {
			t.Errorf("%s was modified %v", e.Path, e.Modified)
		}
	}
	got := strings.Join(facts, "\n")
	for _, line := range []string{"a.txt file 5 ", "fifo special 0 ", "link link 5 a.txt", "out link 4 /etc", "loop link 4 loop"} {
		if !strings.Contains(got+"\n", line+"\n") {
			t.Errorf("no line %q in\n%s", line, got)
		}
	}
	for _, c := range []struct {
		path string
		code workspace.Code
	}{
		{"missing", workspace.ErrNotFound},
		{"a.txt", workspace.ErrNotDirectory},
		{"out", workspace.ErrOutside},
		{"..", workspace.ErrOutside},
		{".wsctl", workspace.ErrInvalidPath},
		{"fifo", workspace.ErrNotDirectory},
		{"loop", workspace.ErrInvalidPath},
	} {
		_, err := search.List(bg, ws, search.FindOptions{Scope: search.Scope{Path: c.path}})
		wantCode(t, c.path, err, c.code)
	}
}

// Results come in the byte order of whole paths, at every call.
func TestOrder(t *testing.T) {
	ws, dir := open(t)
	r := newRuleMaker(3)
	r.tree(t, dir, 4)
	first := ""
	for i := range 20 {
		f := list(t, ws, search.FindOptions{Scope: search.Scope{Hidden: true}, Select: search.Files})
		got := paths(f)
		if i == 0 {
			first = got
			if !slices.IsSortedFunc(f.Entries, func(a, b search.Entry) int { return strings.Compare(a.Path, b.Path) }) || len(f.Entries) < 50 {
				t.Errorf("%d entries, not sorted: %s", len(f.Entries), got)
			}
		}
		want(t, "order", got, first)
	}
}

// A link is followed as the start when it stays inside, and nowhere else.
func TestLinks(t *testing.T) {
	ws, dir := open(t, "items/foo/x.txt = needle\n", "cat/foo -> ../items/foo", "cat/file -> ../items/foo/x.txt", "deep/er/up -> ../..", "self -> .")
	want(t, "a link as the start", paths(glob(t, ws, "cat/foo/**", search.FindOptions{})), "cat/foo/x.txt")
	want(t, "a link as the path", paths(list(t, ws, search.FindOptions{Scope: search.Scope{Path: "cat/foo"}})), "cat/foo/x.txt")
	m := grep(t, ws, "needle", search.GrepOptions{Scope: search.Scope{Path: "cat/foo"}})
	if m.Count != 1 || m.Files[0].Path != "cat/foo/x.txt" {
		t.Errorf("grep in a link: %+v", m)
	}
	if m := grep(t, ws, "needle", search.GrepOptions{Scope: search.Scope{Path: "cat/file"}}); m.Count != 1 {
		t.Errorf("grep in a link to a file: %+v", m)
	}
	if m := grep(t, ws, "needle", search.GrepOptions{}); m.Count != 1 || m.Skipped.Links != 4 {
		t.Errorf("links are not told: %+v", m)
	}
	f := glob(t, ws, "**", search.FindOptions{})
	want(t, "cycles", paths(f), "cat/file cat/foo deep/er/up items/foo/x.txt self")
	if f.Skipped.Links != 4 {
		t.Errorf("links are not told: %+v", f.Skipped)
	}
	out := filepath.Join(filepath.Dir(dir), "out")
	grow(t, out, "secret = needle\n")
	grow(t, dir, "d -> ../out")
	for what, call := range map[string]func() error{
		"list": func() error {
			_, err := search.List(bg, ws, search.FindOptions{Scope: search.Scope{Path: "d"}})
			return err
		},
		"glob": func() error { _, err := search.Glob(bg, ws, "d/*", search.FindOptions{}); return err },
		"grep": func() error {
			_, err := search.Grep(bg, ws, "needle", search.GrepOptions{Scope: search.Scope{Path: "d"}})
			return err
		},
		"grep a file": func() error {
			_, err := search.Grep(bg, ws, "needle", search.GrepOptions{Scope: search.Scope{Path: "d/secret"}})
			return err
		},
	} {
		wantCode(t, what+" through a link to outside", call(), workspace.ErrOutside)
	}
}

// Rules hold for a start inside the tree; what is named is looked at.
func TestIgnore(t *testing.T) {
	ws, _ := open(t, ".gitignore = *.log\n/build/\nkeep/*\n!keep/this\n.env\n", "app.log = m\n", "a.txt = m\n", "build/out.txt = m\n", "build/x.log = m\n",
		"sub/.gitignore = !important.log\nx\n", "sub/important.log = m\n", "sub/other.log = m\n", "sub/x = m\n", "x = m\n", "keep/this = m\n", "keep/that = m\n", ".env = m\n",
		"sub/repo/.git/info/exclude = z\n", "sub/repo/y.log = m\n", "sub/repo/z = m\n", ".git/config = m\n")
	all := func(o search.Scope) string {
		return paths(list(t, ws, search.FindOptions{Scope: o, Select: search.Files}))
	}
	want(t, "the root", all(search.Scope{}), "a.txt keep/this sub/important.log sub/repo/y.log x")
	want(t, "a directory", all(search.Scope{Path: "sub"}), "sub/important.log sub/repo/y.log")
	want(t, "a named one that is ignored", all(search.Scope{Path: "build"}), "build/out.txt")
	want(t, "without rules", all(search.Scope{NoIgnore: true}), "a.txt app.log build/out.txt build/x.log keep/that keep/this sub/important.log sub/other.log sub/repo/y.log sub/repo/z sub/x x")
	want(t, "hidden", all(search.Scope{Hidden: true}), ".gitignore a.txt keep/this sub/.gitignore sub/important.log sub/repo/y.log x")
	want(t, "all of .git", paths(glob(t, ws, "**/config", search.FindOptions{Scope: search.Scope{Hidden: true, NoIgnore: true}})), ".git/config")
	want(t, ".git named", paths(glob(t, ws, ".git/*", search.FindOptions{})), ".git/config")
	want(t, "a name that is ignored", paths(glob(t, ws, ".env", search.FindOptions{})), ".env")
	want(t, "names below an ignored one", paths(glob(t, ws, "build/*.txt", search.FindOptions{})), "build/out.txt")
	m := grep(t, ws, "m", search.GrepOptions{})
	if m.Count != 5 || m.Skipped.Ignored != 6 || m.Skipped.Hidden != 3 {
		t.Errorf("what is left out is not told: %+v", m)
	}
}

// Names may hold any bytes.
func TestNames(t *testing.T) {
	names := []string{"caf\xe9", "x\n1:fake", "a:12:b.txt", "v-1-x.py", "-rf", " ", "tab\t", "\x1b[31m", strings.Repeat("n", 255)}
	var tree []string
	for _, n := range names {
		tree = append(tree, n+" = needle\n")
	}
	ws, _ := open(t, tree...)
	slices.Sort(names)
	got := list(t, ws, search.FindOptions{})
	m := grep(t, ws, "needle", search.GrepOptions{})
	if len(got.Entries) != len(names) || len(m.Files) != len(names) || m.Count != len(names) {
		t.Fatalf("%d listed, %d with a match, %d matches", len(got.Entries), len(m.Files), m.Count)
	}
	for i, n := range names {
		want(t, "list", got.Entries[i].Path, n)
		want(t, "grep", m.Files[i].Path, n)
	}
}

// A tree that is larger than the bound, and one that is deeper than a path can
// be, end in a result that says so.
func TestBounds(t *testing.T) {
	ws, dir := open(t)
	for i := range 300 {
		check(t, os.MkdirAll(filepath.Join(dir, fmt.Sprintf("d%03d/e/f", i)), 0o755))
	}
	f := list(t, ws, search.FindOptions{Scope: search.Scope{MaxEntries: 400}})
	if !f.Incomplete || f.Total > 800 {
		t.Errorf("incomplete %v after %d", f.Incomplete, f.Total)
	}
	ws, dir = open(t)
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	check(t, err)
	name := strings.Repeat("n", 200)
	for range 30 {
		check(t, unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		check(t, err)
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	f = list(t, ws, search.FindOptions{})
	if f.Total < 18 || f.Total > 22 || f.Skipped.Unreadable != 1 {
		t.Errorf("a deep tree: %d entries, skipped %+v", f.Total, f.Skipped)
	}
	ctx, cancel := context.WithCancel(bg)
	cancel()
	_, err = search.List(ctx, ws, search.FindOptions{})
	if !errors.Is(err, context.Canceled) || workspace.CodeOf(err) != workspace.ErrAborted {
		t.Errorf("an ended context: %v", err)
	}
}

// What this process may not read is told.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	ws, dir := open(t, "d/x = needle", "f = needle", "ok = needle")
	check(t, os.Chmod(filepath.Join(dir, "d"), 0))
	check(t, os.Chmod(filepath.Join(dir, "f"), 0))
	defer os.Chmod(filepath.Join(dir, "d"), 0o755)
	m := grep(t, ws, "needle", search.GrepOptions{})
	if m.Count != 1 || m.Skipped.Unreadable != 2 || len(m.Skipped.Problems) != 2 || m.Skipped.Problems[0] != (search.Problem{Path: "d", Code: workspace.ErrDenied}) {
		t.Errorf("%+v", m)
	}
}
