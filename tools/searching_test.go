//go:build unix

package tools_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

// names are the paths in a list of a structured result.
func names(t *testing.T, result map[string]any, list string) string {
	t.Helper()
	var all []string
	for _, e := range result[list].([]any) {
		all = append(all, e.(map[string]any)["path"].(string))
	}
	return strings.Join(all, " ")
}

func TestListFiles(t *testing.T) {
	b := newBench(t, tools.Options{})
	b.put("src/main.go", "package main\n")
	b.put("src/deep/x.go", "x")
	b.put(".gitignore", "*.log\n")
	b.put("a.log", "")
	b.put("README", "hello")
	if err := os.Symlink("README", filepath.Join(b.dir, "link")); err != nil {
		t.Fatal(err)
	}
	r := b.call("list_files", args{})
	want := ".: 3 entries.\nSkipped: 1 ignored by .gitignore (include_ignored takes them in), 1 hidden (hidden takes them in).\nREADME\nlink -> README\nsrc/\n"
	if r.Text != want {
		t.Errorf("got %q, want %q", r.Text, want)
	}
	r = b.call("list_files", args{"depth": 3, "format": "tree", "hidden": true, "include_ignored": true})
	want = ".: 8 entries.\nSkipped: 1 link not followed.\n.gitignore\nREADME\na.log\nlink -> README\nsrc/\n  deep/\n    x.go\n  main.go\n"
	if r.Text != want {
		t.Errorf("got %q, want %q", r.Text, want)
	}
	got := b.ok("list_files", args{"path": "src", "depth": 9, "limit": 2, "details": true})
	if names(t, got, "entries") != "src/deep src/deep/x.go" || got["total"] != 3.0 || got["next_offset"] != 2.0 {
		t.Errorf("got %v", got)
	}
	if e := got["entries"].([]any)[1].(map[string]any); e["size"] != 1.0 || e["modified"] == nil || e["kind"] != "file" {
		t.Errorf("details: %v", e)
	}
	r = b.call("list_files", args{"path": "src", "depth": 9, "format": "tree", "offset": 2})
	if !strings.HasSuffix(r.Text, "shown are 3 to 3.\nsrc/\n  main.go\n") {
		t.Errorf("the last page of a tree: %q", r.Text)
	}
	b.fails("list_files", args{"path": "gone"}, workspace.ErrNotFound, "gone")
	b.fails("list_files", args{"path": "README"}, workspace.ErrNotDirectory)
	b.fails("list_files", args{"path": "../x"}, workspace.ErrOutside)
	b.fails("list_files", args{"depth": 0}, workspace.ErrInvalidArgument, "depth")
	b.fails("list_files", args{"format": "tree", "sort": "time"}, workspace.ErrInvalidArgument, "flat")
}

func TestGlob(t *testing.T) {
	b := newBench(t, tools.Options{})
	for i := range 30 {
		b.put(fmt.Sprintf("d%d/f%02d.go", i%3, i), "")
	}
	b.put("app/[id]/page.tsx", "")
	b.put(".github/ci.yml", "")
	r := b.call("glob", args{"pattern": "**/*.go", "limit": 10})
	if !strings.HasPrefix(r.Text, "30 paths; shown are 1 to 10; go on with offset 10.\nSkipped: 1 hidden (hidden takes them in).\nd0/f00.go\n") {
		t.Errorf("got %q", r.Text)
	}
	if got := b.ok("glob", args{"pattern": "app/[id]/*"}); names(t, got, "entries") != "app/[id]/page.tsx" {
		t.Errorf("got %v", got)
	}
	got := b.ok("glob", args{"pattern": "**/*.yml"})
	if got["total"] != 0.0 || got["skipped"].(map[string]any)["hidden"] != 1.0 {
		t.Errorf("nothing is found without a word: %v", got)
	}
	if got := b.ok("glob", args{"pattern": ".github/**", "kind": "any", "sort": "time"}); names(t, got, "entries") != ".github/ci.yml" || got["entries"].([]any)[0].(map[string]any)["modified"] == nil {
		t.Errorf("got %v", got)
	}
	b.fails("glob", args{"pattern": "*", "path": "gone"}, workspace.ErrNotFound)
	b.fails("glob", args{"pattern": "gone/*"}, workspace.ErrNotFound)
	b.fails("glob", args{"pattern": "[a"}, workspace.ErrInvalidArgument, `"["`)
}

func TestGrep(t *testing.T) {
	b := newBench(t, tools.Options{})
	b.put("src/a.go", "one\ntwo\nthree\nfour\nfive\nsix\nthree\n")
	b.put("src/a:12:b.txt", "--pre=./x three\n")
	b.put("bin", "\x00three")
	b.put("wide", strings.Repeat("x", 3000)+"three\n")
	b.put("latin", "caf\xe9 three\n")
	r := b.call("grep", args{"pattern": "three", "context": 1})
	for _, want := range []string{
		"6 matching lines in 5 files, of 5 files searched.\n", "bin: binary file matches\n",
		"\nsrc/a.go\n2-two\n3:three\n4-four\n--\n6-six\n7:three\n", "\nsrc/a:12:b.txt\n1:--pre=./x three\n", " [from column ", "of a line of 3005 bytes]",
	} {
		if !strings.Contains(r.Text, want) {
			t.Errorf("no %q in %q", want, r.Text)
		}
	}
	got := b.ok("grep", args{"pattern": "--pre=./x", "literal": true})
	f := got["files"].([]any)[0].(map[string]any)
	if line := f["lines"].([]any)[0].(map[string]any); f["path"] != "src/a:12:b.txt" || line["line"] != 1.0 || line["text"] != "--pre=./x three" || line["column"] != 1.0 {
		t.Errorf("got %v", got)
	}
	got = b.ok("grep", args{"pattern": "three", "path": "latin"})
	if line := got["files"].([]any)[0].(map[string]any)["lines"].([]any)[0].(map[string]any); line["text"] != "caf\uFFFD three" || line["base64"] != "Y2Fm6SB0aHJlZQ==" {
		t.Errorf("bytes that are not UTF-8: %v", line)
	}
	got = b.ok("grep", args{"pattern": "three", "limit": 2, "offset": 1, "files": "*.go"})
	if got["matches"] != 1.0 || got["next_offset"] != nil {
		t.Errorf("a page: %v", got)
	}
	if got := b.ok("grep", args{"pattern": "three", "limit": 2}); got["next_offset"] != 2.0 {
		t.Errorf("a page: %v", got)
	}
	if r := b.call("grep", args{"pattern": "three", "mode": "files"}); !strings.HasPrefix(r.Text, "5 files with a match, of 5 files searched.\nbin: binary file matches\nlatin\n") {
		t.Errorf("got %q", r.Text)
	}
	if r := b.call("grep", args{"pattern": "three", "mode": "count", "path": "src"}); !strings.HasSuffix(r.Text, "src/a.go: 2 matching lines\nsrc/a:12:b.txt: 1 matching line\n") {
		t.Errorf("got %q", r.Text)
	}
	if r := b.call("grep", args{"pattern": `two\nthree`, "multiline": true}); !strings.HasSuffix(r.Text, "src/a.go\n2:two\n3:three\n") {
		t.Errorf("got %q", r.Text)
	}
	b.put(".env", "SECRET=1\n")
	b.put("app.log", "SECRET=1\n")
	b.put(".gitignore", "*.log\n")
	if r := b.call("grep", args{"pattern": "SECRET"}); r.IsError || !strings.Contains(r.Text, "No match in 5 files searched.\nSkipped: 1 ignored") || !strings.Contains(r.Text, "2 hidden") {
		t.Errorf("got %q", r.Text)
	}
	b.fails("grep", args{"pattern": "x", "path": "gone"}, workspace.ErrNotFound)
	b.fails("grep", args{"pattern": "("}, workspace.ErrInvalidArgument, "literal")
	b.fails("grep", args{"pattern": ""}, workspace.ErrInvalidArgument, "empty")
}

// Names of any bytes are one line of a text, and exact beside it.
func TestSearchNames(t *testing.T) {
	b := newBench(t, tools.Options{})
	b.put("x\n1:fake", "needle\n")
	b.put("caf\xe9", "needle\n")
	for _, c := range []struct {
		tool, list string
		args       args
	}{{"list_files", "entries", args{}}, {"glob", "entries", args{"pattern": "*"}}, {"grep", "files", args{"pattern": "needle"}}} {
		got := b.ok(c.tool, c.args)[c.list].([]any)
		first, second := got[0].(map[string]any), got[1].(map[string]any)
		if first["path"] != "caf\uFFFD" || first["path_base64"] != "Y2Fm6Q==" || second["path"] != "x\n1:fake" || second["path_base64"] != nil {
			t.Errorf("%s: %v", c.tool, got)
		}
		if r := b.call(c.tool, c.args); !strings.Contains(r.Text, `"x\n1:fake"`) || strings.Contains(r.Text, "\n1:fake") {
			t.Errorf("%s: %q", c.tool, r.Text)
		}
	}
}
