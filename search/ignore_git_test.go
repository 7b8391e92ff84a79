//go:build unix

package search_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/search"
)

// ruleMaker makes lines of a .gitignore for trees of the names below.
type ruleMaker struct{ *rand.Rand }

var treeNames = []string{
	"a", "b", "ab", "abc", "foo", "bar", "foo.o", "bar.log", "x y", "trail ", "#h", "!n", "[id]", "a{b}", "{a,b}", "*", "é", "build", "Foo", "a-b", `b\c`, ".env", ".x", "\xff",
}

func (r ruleMaker) pick(of ...string) string { return of[r.IntN(len(of))] }

func (r ruleMaker) name() string {
	switch r.IntN(12) {
	case 0, 1, 2:
		return r.pick(treeNames...)
	case 3:
		return r.pick("*", "**", "?", "***", "a*", "*b", "*.o", "*.log", "f*o", "**a", "a**", "b**r", "*?*", "a*b*c")
	case 4:
		return r.pick("[ab]", "[!a]", "[^a]", "[a-c]", "[]a]", "[!]a]", "[[:alpha:]]", "[[:upper:]]oo", "[[:digit:][:punct:]]*", "[[:nope:]]", "[a", "[a-", "[]", "[!]", "[a\\]b]", "[\\a]", "[a-\\c]", "[b/a]", "[[:alpha]", "[--0]", "[[a]", "[é]", "f[!/]o", "[:a]")
	case 5:
		return r.pick(`\a`, `\*`, `\#h`, `\!n`, `a\`, `\\`, `b\\c`, `\[id\]`, `a\{b}`, `f\oo`)
	case 6:
		return r.pick("x y", "trail\\ ", "trail ", "a ", "a\\  ", "\ta", "a\t")
	case 7:
		return r.pick("??", "f??", "[id]", "\\[id]", "{a,b}", "a{b}", "foo.?", "é", "?é", "\xff", "[\x80-\xff]", "bar*")
	}
	return r.pick("a", "b", "ab", "foo", "bar", "build", "*.o", "*")
}

func (r ruleMaker) rule() string {
	if r.IntN(15) == 0 {
		return r.pick("", "#comment", "!", "/", "//", "  ", "!/", "\\", "/*", "/**", "**/", "!*/", "!**", "*", "a/**/b", "**/foo", "foo**/bar", "a/**", "/a/**/", "\ufefffoo")
	}
	parts := make([]string, 1+r.IntN(3))
	if r.IntN(2) == 0 {
		parts = parts[:1]
	}
	for i := range parts {
		parts[i] = r.name()
	}
	s := strings.Join(parts, "/")
	if r.IntN(5) == 0 {
		s = "/" + s
	}
	if r.IntN(4) == 0 {
		s += "/"
	}
	if r.IntN(4) == 0 {
		s = "!" + s
	}
	return s + r.pick("", "", "", "", "", " ", "  ", "\r")
}

func (r ruleMaker) file() string {
	var lines []string
	for range 1 + r.IntN(6) {
		lines = append(lines, r.rule())
	}
	return strings.Join(lines, "\n") + r.pick("", "\n", "\r\n")
}

// tree makes a tree of a few dozen entries.
func (r ruleMaker) tree(t *testing.T, dir string, depth int) {
	for range 4 + r.IntN(8) {
		path := filepath.Join(dir, r.pick(treeNames...))
		if depth > 0 && r.IntN(2) == 0 {
			if os.Mkdir(path, 0o755) == nil {
				r.tree(t, path, depth-1)
			}
		} else if _, err := os.Lstat(path); err != nil {
			check(t, os.WriteFile(path, nil, 0o644))
		}
	}
}

// What is ignored is what git ignores: every entry of generated trees, under
// generated rules, nested ones and .git/info/exclude.
func TestIgnoreIsGits(t *testing.T) {
	git := oracle(t, "git", "git")
	trees, answers, ignored := 8, 0, 0
	switch {
	case enginetest.Soak():
		trees = 200
	case testing.Short():
		trees = 2
	}
	for seed := range trees {
		r := ruleMaker{rand.New(rand.NewPCG(uint64(seed), 1))}
		ws, dir := open(t)
		r.tree(t, dir, 3)
		output(t, dir, "", git, "init", "-q")
		check(t, os.WriteFile(filepath.Join(dir, ".git/info/exclude"), []byte(r.file()), 0o644))
		for range 6 {
			check(t, os.WriteFile(filepath.Join(dir, ".gitignore"), []byte(r.file()), 0o644))
			all := map[string]bool{} // directory?
			check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				rel, _ := filepath.Rel(dir, path)
				if rel == "." {
					return err
				}
				if rel == ".git" {
					return fs.SkipDir
				}
				if d.IsDir() && r.IntN(4) == 0 {
					check(t, os.WriteFile(filepath.Join(path, ".gitignore"), []byte(r.file()), 0o644))
				}
				all[rel] = d.IsDir()
				return err
			}))
			var query strings.Builder
			for rel := range all {
				query.WriteString(rel + "\x00")
			}
			gits := map[string]bool{}
			for _, rel := range strings.Split(output(t, dir, query.String(), git, "check-ignore", "--no-index", "--stdin", "-z"), "\x00") {
				gits[rel] = true
			}
			ours := map[string]bool{}
			for _, e := range list(t, ws, search.FindOptions{Scope: search.Scope{Hidden: true}}).Entries {
				ours[e.Path] = true
			}
			for rel := range all {
				if filepath.Base(rel) == ".gitignore" {
					continue // written while the tree was listed
				}
				answers++
				if gits[rel] {
					ignored++
				}
				if ours[rel] == gits[rel] {
					t.Errorf("tree %d: %q is ignored by git: %v\n%s", seed, rel, gits[rel], rulesOf(t, dir, rel))
				}
			}
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d answers, %d of them ignored", answers, ignored)
	if answers < 100*trees || ignored < answers/20 || ignored > answers*19/20 {
		t.Errorf("%d answers with %d ignored show too little", answers, ignored)
	}
}

// rulesOf shows the rules above an entry.
func rulesOf(t *testing.T, dir, rel string) string {
	t.Helper()
	var b strings.Builder
	for at := rel; at != "."; {
		at = filepath.Dir(at)
		if text, err := os.ReadFile(filepath.Join(dir, at, ".gitignore")); err == nil {
			fmt.Fprintf(&b, "%s: %q\n", at, text)
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, ".git/info/exclude"))
	fmt.Fprintf(&b, "exclude: %q\n", text)
	return b.String()
}
