//go:build unix

package search_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/search"
	"github.com/wsctl/wsctl/workspace"
)

func TestGlobPatterns(t *testing.T) {
	ws, dir := open(t, "a.go", "b.txt", "src/a.go", "src/a_test.go", "src/deep/b_test.go", "src/deep/er/c.GO",
		"app/[id]/page.tsx", "app/i/page.tsx", "a{b}.txt", "a{b,c}.txt", "x*y", "xzy", "(p)", "back\\slash", "-rf/x", "é", "né",
		".env", ".github/workflows/ci.yml", "lib/.hidden/x.yml", "lib/y.yml")
	for _, c := range []struct{ pattern, want string }{
		{"*.go", "a.go"},
		{"**/*.go", "a.go src/a.go src/a_test.go src/deep/b_test.go"},
		{"**/*_test.go", "src/a_test.go src/deep/b_test.go"},
		{"src/**", "src/a.go src/a_test.go src/deep/b_test.go src/deep/er/c.GO"},
		{"src/*/*.go", "src/deep/b_test.go"},
		{"src/**/*.go", "src/a.go src/a_test.go src/deep/b_test.go"},
		{"**/deep/**/*.GO", "src/deep/er/c.GO"},
		{"{src,app}/*.go", "src/a.go src/a_test.go"},
		{"{src/deep,app/i}/*", "app/i/page.tsx src/deep/b_test.go"},
		{"src/{a,{b,a_test}}.go", "src/a.go src/a_test.go"},
		{"[!b].go", "a.go"},
		{"[ab].{go,txt}", "a.go b.txt"},
		{"?", "é"},
		{"n[é]", "né"},
		// A name is reached as it is spelled, and by escapes.
		{"app/[id]/page.tsx", "app/[id]/page.tsx app/i/page.tsx"},
		{`app/\[id\]/*`, "app/[id]/page.tsx"},
		{"app/[[]id]/*", "app/[id]/page.tsx"},
		{"a{b}.txt", "a{b}.txt"},
		{"a{b,c}.txt", "a{b,c}.txt"},
		{"x*y", "x*y xzy"},
		{`x\*y`, "x*y"},
		{"(p)", "(p)"},
		{`back\slash`, `back\slash`},
		{`back\\slash`, `back\slash`},
		{"-rf/*", "-rf/x"},
		// A dot is explicit or is not matched.
		{".env", ".env"},
		{".e*", ".env"},
		{"*", "(p) a.go a{b,c}.txt a{b}.txt b.txt back\\slash né x*y xzy é"},
		{".github/**/*.yml", ".github/workflows/ci.yml"},
		{".*/**/*.yml", ".github/workflows/ci.yml"},
		{"**/*.yml", "lib/y.yml"},
		{"**/.hidden/*", "lib/.hidden/x.yml"},
		{"lib/", ""},
		{"./src//a.go", "src/a.go"},
		{dir + "/src/*.go", "src/a.go src/a_test.go"},
		{"nothing", ""},
	} {
		got := paths(glob(t, ws, c.pattern, search.FindOptions{}))
		want(t, c.pattern, got, c.want)
	}
	want(t, "hidden", paths(glob(t, ws, "**/*.yml", search.FindOptions{Scope: search.Scope{Hidden: true}})), ".github/workflows/ci.yml lib/.hidden/x.yml lib/y.yml")
	f := glob(t, ws, "**/*.yml", search.FindOptions{})
	if f.Skipped.Hidden != 2 {
		t.Errorf("%d hidden are skipped, want .github and lib/.hidden", f.Skipped.Hidden)
	}
	want(t, "path", paths(glob(t, ws, "*.go", search.FindOptions{Scope: search.Scope{Path: "src/"}})), "src/a.go src/a_test.go")
	want(t, "directories", paths(glob(t, ws, "**", search.FindOptions{Select: search.Directories, Scope: search.Scope{Path: "src"}})), "src/deep src/deep/er")
	want(t, "anything", paths(glob(t, ws, "src/*", search.FindOptions{Select: search.Anything})), "src/a.go src/a_test.go src/deep")
	want(t, "dir/", paths(glob(t, ws, "src/", search.FindOptions{Select: search.Anything})), "src")
	for _, c := range []struct {
		pattern, path string
		code          workspace.Code
	}{
		{"", "", workspace.ErrInvalidArgument},
		{"[a", "", workspace.ErrInvalidArgument},
		{`a\`, "", workspace.ErrInvalidArgument},
		{"*/../a", "", workspace.ErrInvalidArgument},
		{"a\x00", "", workspace.ErrInvalidArgument},
		{strings.Repeat("{a,b}", 20), "", workspace.ErrInvalidArgument},
		{strings.Repeat("x", 5000), "", workspace.ErrInvalidArgument},
		{"*", "missing", workspace.ErrNotFound},
		{"missing/*", "", workspace.ErrNotFound},
		{"a.go/*", "", workspace.ErrNotDirectory},
		{"../*", "", workspace.ErrOutside},
		{"/etc/*", "", workspace.ErrOutside},
		{"*", "/etc", workspace.ErrOutside},
	} {
		_, err := search.Glob(bg, ws, c.pattern, search.FindOptions{Scope: search.Scope{Path: c.path}})
		wantCode(t, fmt.Sprintf("%.20q in %q", c.pattern, c.path), err, c.code)
	}
}

// Where options agree, fd finds the same.
func TestGlobIsFds(t *testing.T) {
	fd := oracle(t, "fdfind", "fd-find")
	ws, dir := open(t)
	r := newRuleMaker(7)
	r.tree(t, dir, 3)
	grow(t, dir, ".gitignore = *.o\n/build\n!foo.o\n", "more/.gitignore = bar.log\n", "more/bar.log", "more/a/x.o")
	output(t, dir, "", oracle(t, "git", "git"), "init", "-q")
	for _, pattern := range []string{"**", "**/*.o", "more/**", "**/foo*", "*/*", "**/[a-c]*", "**/{foo,bar}*", "*/**/a*", "**/a/**"} {
		for _, hidden := range []bool{false, true} {
			args := []string{"--no-global-ignore-file", "--color=never", "--full-path", "--print0", "--no-follow", "--type=f", "--glob", filepath.Join(dir, pattern)}
			if hidden {
				args = append(args, "--hidden", "--exclude=.git")
			}
			var theirs []string
			for _, p := range strings.Split(output(t, dir, "", fd, args...), "\x00") {
				if p = strings.TrimPrefix(p, "./"); p != "" {
					theirs = append(theirs, p)
				}
			}
			ours := glob(t, ws, pattern, search.FindOptions{Scope: search.Scope{Hidden: hidden}})
			var mine []string
			for _, e := range ours.Entries {
				mine = append(mine, e.Path)
			}
			want(t, fmt.Sprintf("%s hidden %v", pattern, hidden), sorted(mine), sorted(theirs))
		}
	}
}

func TestGlobByTime(t *testing.T) {
	ws, dir := open(t, "old", "new", "mid", "same1", "same2")
	at := time.Now().Add(-time.Hour)
	for i, name := range []string{"old", "mid", "new", "same1", "same2"} {
		check(t, os.Chtimes(filepath.Join(dir, name), at, at.Add(time.Duration(min(i, 3))*time.Minute)))
	}
	want(t, "by time", paths(glob(t, ws, "*", search.FindOptions{Order: search.ByTime})), "same1 same2 new mid old")
	f := glob(t, ws, "*", search.FindOptions{Order: search.ByTime, Offset: 1, Limit: 2, Details: true})
	want(t, "a page by time", paths(f), "same2 new")
	if f.Total != 5 || !f.More || !f.Entries[1].Modified.Equal(at.Add(2*time.Minute)) {
		t.Errorf("%+v", f)
	}
}

// Pages join without gap or repeat, and say whether there are more.
func TestPages(t *testing.T) {
	var tree []string
	for i := range 250 {
		tree = append(tree, fmt.Sprintf("d%d/f%03d", i%7, i))
	}
	ws, _ := open(t, tree...)
	all := paths(glob(t, ws, "**", search.FindOptions{}))
	var joined []string
	for offset := 0; ; offset += 60 {
		f := glob(t, ws, "**", search.FindOptions{Offset: offset, Limit: 60})
		joined = append(joined, paths(f))
		if f.Total != 250 || f.More != (offset+60 < 250) {
			t.Errorf("from %d: total %d, more %v", offset, f.Total, f.More)
		}
		if !f.More {
			break
		}
	}
	want(t, "pages", strings.Join(joined, " "), all)
	f := glob(t, ws, "**", search.FindOptions{Offset: 1000, Limit: 10})
	if len(f.Entries) != 0 || f.More || f.Total != 250 {
		t.Errorf("past the end: %+v", f)
	}
	_, err := search.Glob(bg, ws, "*", search.FindOptions{Limit: -1})
	wantCode(t, "limit -1", err, workspace.ErrInvalidArgument)
}
