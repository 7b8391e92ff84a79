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

func (b *bench) get(name string) string {
	b.Helper()
	content, err := os.ReadFile(filepath.Join(b.dir, name))
	if err != nil {
		b.Fatal(err)
	}
	return string(content)
}

func edit1(path, old, new string) args {
	return args{"path": path, "old_string": old, "new_string": new}
}

// Only what is asked for is changed, whatever the bytes around it.
func TestEditKeepsAllOtherBytes(t *testing.T) {
	b := newBench(t, tools.Options{})
	for _, c := range []struct{ name, before, old, new, after string }{
		{"latin-1", "# caf\xe9\nprice: 5\nna\xefve\n", "price: 5", "price: 7", "# caf\xe9\nprice: 7\nna\xefve\n"},
		{"BOM, CRLF, LF and CR", "\xef\xbb\xbfa\r\nb\r\nc\nd\re", "a\nb", "x\ny", "\xef\xbb\xbfx\r\ny\r\nc\nd\re"},
		{"CRLF with more lines", "a\r\nb\r\n", "a\nb", "1\n2\n3", "1\r\n2\r\n3\r\n"},
		{"CRLF, a line made two", "a\r\nb\r\nc\r\n", "b", "b\nb2", "a\r\nb\r\nb2\r\nc\r\n"},
		{"mixed, a line made two", "a\r\nb\nc\n", "b", "b\nb2", "a\r\nb\nb2\nc\n"},
		{"LF after CRLF", "a\r\nb\nc\r\n", "b\nc", "x\ny", "a\r\nx\ny\r\n"},
		{"breaks in order", "a\r\nb\nc", "a\nb\nc", "1\n2\n3\n4", "1\r\n2\n3\n4"},
		{"CRLF made LF", "a\r\nb\r\n", "a\r\nb", "a\nb", "a\nb\r\n"},
		{"LF made CRLF", "a\nb\n", "a\nb", "a\r\nb", "a\r\nb\n"},
		{"a break alone", "a\r\n\r\nb", "a\n\nb", "a\nb", "a\r\nb"},
		{"lone CR", "10%\r20%\r30%", "20%\r", "", "10%\r30%"},
		{"NUL", "a\x00b\x00c", "b", "B", "a\x00B\x00c"},
		{"all of it", "all\nof it\n", "all\nof it\n", "", ""},
		{"no final newline", "a\nb", "b", "c", "a\nc"},
		{"a final newline taken away", "a\nb\n", "b\n", "b", "a\nb"},
		{"a final newline added", "a\nb", "b", "b\n", "a\nb\n"},
		{"C", `x = '\0'; s = "\n"; p = "\\";`, `'\0'`, `'\1'`, `x = '\1'; s = "\n"; p = "\\";`},
		{"a macro", "#define X \\\n  a\n", "  a", "  b \\\n  c", "#define X \\\n  b \\\n  c\n"},
		{"LaTeX", `\title{a}\n`, `\title{a}`, `\title{b}`, `\title{b}\n`},
		{"JSON in a string", `"{\"a\":\"\\n\"}"`, `\"a\"`, `\"b\"`, `"{\"b\":\"\\n\"}"`},
		{"separators", "a\u2028b\u2029c<>&", "b", "\u2028<&>", "a\u2028\u2028<&>\u2029c<>&"},
	} {
		b.put("f", c.before)
		r := b.call("edit_file", edit1("f", c.old, c.new))
		if got := b.get("f"); r.IsError || got != c.after {
			t.Errorf("%s: %q, want %q (%s)", c.name, got, c.after, r.Text)
		}
	}
}

// A replacement is text, never a template of a regular expression or a format.
func TestEditWritesReplacementsAsTheyAre(t *testing.T) {
	b := newBench(t, tools.Options{})
	const tricky = "$& $$ $1 ${0} $` $' \\1 %s %d \\n \\\\ &amp; \x01"
	for _, eol := range []string{"\n", "\r\n"} {
		b.put("f", "one"+eol+"X"+eol+"two X"+eol)
		b.ok("edit_file", edit1("f", "two X", tricky))
		b.ok("edit_file", args{"path": "f", "old_string": "X", "new_string": tricky, "replace_all": true})
		if got, want := b.get("f"), "one"+eol+tricky+eol+tricky+eol; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	b.ok("write_file", args{"path": "w", "content": tricky})
	if got := b.get("w"); got != tricky {
		t.Errorf("written: %q", got)
	}
}

func TestEditRefusesWhatIsNotClear(t *testing.T) {
	b := newBench(t, tools.Options{})
	const content = "abc\nabc\naaa\n\tindented()\n  x := \"a\"\nif (a) {\n\tcall(one, two)\n}\n"
	for _, c := range []struct {
		name string
		args args
		says []string
	}{
		{"empty", edit1("f", "", "x"), []string{"old_string: must not be empty", "write_file"}},
		{"empty, all", args{"path": "f", "old_string": "", "new_string": "x", "replace_all": true}, []string{"must not be empty"}},
		{"empty in a list", args{"path": "f", "edits": []args{{"old_string": "", "new_string": "x"}}}, []string{"edits[0].old_string: must not be empty"}},
		{"the same", edit1("f", "abc", "abc"), []string{"same as new_string"}},
		{"twice", edit1("f", "abc", "x"), []string{"2 times (in lines 1, 2)", "replace_all"}},
		{"overlapping", edit1("f", "aa", "x"), []string{"2 times (in lines 3)"}},
		{"nothing like it", edit1("f", "zzzzqqqq", "x"), []string{"nothing like it"}},
		{"nearest", edit1("f", "call(one, three)", "x"), []string{`the nearest is line 7, "\tcall(one, two)"`}},
		{"indentation", edit1("f", "if (a) {\n    call(one, two)\n}", "x"), []string{`line 7 of the file is "\tcall(one, two)", and the edit has "    call(one, two)"`}},
		{"blanks at the end", edit1("f", "aaa  \n\tindented()", "x"), []string{`line 3 of the file is "aaa", and the edit has "aaa  "`}},
		{"blanks inside", edit1("f", "x  :=  \"a\"", "x"), []string{"line 5 of the file"}},
		{"case", edit1("f", "CALL(ONE", "x"), []string{"upper and lower case differ from line 7"}},
		{"numbers", edit1("f", "6\tif (a) {\n7\t\tcall(one, two)", "x"), []string{"line numbers of read_file", "line 6"}},
		{"escapes", edit1("f", `abc\naaa`, "x"), []string{"escapes", "line 2"}},
		{"CRLF", edit1("f", "abc\r\naaa", "x"), []string{"CRLF where the file has LF"}},
		{"nothing given", args{"path": "f"}, []string{"old_string: missing"}},
		{"two forms", args{"path": "f", "old_string": "abc", "new_string": "x", "patch": "@@ -1 +1 @@\n-a\n+b\n"}, []string{"give one of"}},
		{"no new", args{"path": "f", "old_string": "abc"}, []string{"new_string: missing"}},
		{"no old", args{"path": "f", "new_string": "abc"}, []string{"old_string: missing"}},
		{"empty list", args{"path": "f", "edits": []args{}}, []string{"edits: must have at least 1"}},
		{"second of two", args{"path": "f", "edits": []args{{"old_string": "aaa", "new_string": "x"}, {"old_string": "aaa", "new_string": "y"}}}, []string{"edits[1].old_string: not found"}},
		{"back again", args{"path": "f", "edits": []args{{"old_string": "aaa", "new_string": "x"}, {"old_string": "x\n", "new_string": "aaa\n"}}}, []string{"as it is"}},
	} {
		b.put("f", content)
		b.fails("edit_file", c.args, workspace.ErrInvalidArgument, c.says...)
		if got := b.get("f"); got != content {
			t.Errorf("%s: the file was changed to %q", c.name, got)
		}
	}
	b.put("empty", "")
	b.fails("edit_file", edit1("empty", "", "x"), workspace.ErrInvalidArgument, "must not be empty")
	b.fails("edit_file", edit1("empty", "a", "x"), workspace.ErrInvalidArgument, "the file is empty")
	b.fails("edit_file", edit1("missing", "", "x"), workspace.ErrInvalidArgument, "must not be empty")
	b.fails("edit_file", edit1("missing", "a", "x"), workspace.ErrNotFound, "missing")
	b.put("latin", "caf\xe9\n")
	b.fails("edit_file", edit1("latin", "caf\uFFFD", "x"), workspace.ErrInvalidArgument, "U+FFFD")
}

func TestEditAppliesAllOrNone(t *testing.T) {
	b := newBench(t, tools.Options{})
	b.put("f", "a\nb\nc\n")
	got := b.ok("edit_file", args{"path": "f", "edits": []args{
		{"old_string": "a", "new_string": "b1"},
		{"old_string": "b", "new_string": "B", "replace_all": true},
		{"old_string": "B\nc\n", "new_string": "end"},
	}})
	if b.get("f") != "B1\nend" || got["replacements"] != 4.0 {
		t.Errorf("got %q, %v", b.get("f"), got)
	}
}

// The diff is one that patch(1) of any kind takes: applied by edit_file itself
// it leads from the old file to the new one.
func TestEditReturnsADiffThatApplies(t *testing.T) {
	b := newBench(t, tools.Options{})
	var lines []string
	for i := range 200 {
		lines = append(lines, fmt.Sprintf("line %d", i))
	}
	before := strings.Join(lines, "\n")
	b.put("f", before)
	got := b.ok("edit_file", args{"path": "f", "edits": []args{
		{"old_string": "line 3\n", "new_string": ""},
		{"old_string": "line 100", "new_string": "line 100\nmore"},
		{"old_string": "line 0\n", "new_string": "zero\n"},
		{"old_string": "line 199", "new_string": "the last\n"},
	}})
	after := b.get("f")
	diff := got["diff"].(string)
	if !strings.HasPrefix(diff, "--- f\n+++ f\n@@ -1,7 +1,6 @@\n-line 0\n+zero\n line 1\n line 2\n-line 3\n line 4\n") {
		t.Errorf("got %s", diff)
	}
	b.put("f", before)
	b.ok("edit_file", args{"path": "f", "patch": diff})
	if b.get("f") != after {
		t.Errorf("got %q\nwant %q", b.get("f"), after)
	}
}

func TestEditByPatch(t *testing.T) {
	b := newBench(t, tools.Options{})
	const content = "a\nb\nc\nx\na\nb\nc\n"
	for _, c := range []struct{ name, patch, after string }{
		{"by its place", "@@ -5,3 +5,3 @@\n a\n-b\n+B\n c\n", "a\nb\nc\nx\na\nB\nc\n"},
		{"another place when it is unique", "@@ -90,2 +90,2 @@\n c\n-x\n+X\n", "a\nb\nc\nX\na\nb\nc\n"},
		{"lines put in", "@@ -3,0 +4,2 @@\n+1\n+2\n", "a\nb\nc\n1\n2\nx\na\nb\nc\n"},
		{"lines put in at the end", "@@ -7,0 +8 @@\n+1\n", content + "1\n"},
		{"names", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+A\n", "A\nb\nc\nx\na\nb\nc\n"},
		{"places moved by a hunk before", "@@ -1,2 +1,3 @@\n a\n+new\n b\n@@ -6,2 +7,2 @@\n b\n-c\n+C\n", "a\nnew\nb\nc\nx\na\nb\nC\n"},
		{"the final newline taken away", "@@ -7 +7 @@\n-c\n+c\n\\ No newline at end of file\n", strings.TrimSuffix(content, "\n")},
	} {
		b.put("f", content)
		r := b.call("edit_file", args{"path": "f", "patch": c.patch})
		if got := b.get("f"); r.IsError || got != c.after {
			t.Errorf("%s: %q, want %q (%s)", c.name, got, c.after, r.Text)
		}
	}
	b.put("crlf", "a\r\nb\r\n")
	b.ok("edit_file", args{"path": "crlf", "patch": "@@ -1,2 +1,2 @@\n a\n-b\n+B\n"})
	if got := b.get("crlf"); got != "a\r\nB\r\n" {
		t.Errorf("got %q", got)
	}
	b.put("f", content)
	for _, c := range []struct{ patch, says string }{
		{"nonsense", "no unified diff"},
		{"@@ -1,9 +1,9 @@\n-a\n+b\n", "no unified diff"},
		{"@@ -9,2 +9,2 @@\n a\n-b\n+B\n", "2 times (in lines 1, 5)"},
		{"@@ -1 +1 @@\n-q\n+Q\n", "patch, hunk 1: not found"},
		{"@@ -40,0 +41 @@\n+q\n", "no line 40"},
		{"--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+q\n", "write_file"},
		{"--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/g\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n", "2 files"},
	} {
		b.fails("edit_file", args{"path": "f", "patch": c.patch}, workspace.ErrInvalidArgument, c.says)
		if b.get("f") != content {
			t.Fatalf("%q changed the file", c.patch)
		}
	}
}

func TestEditSeesOtherWriters(t *testing.T) {
	b := newBench(t, tools.Options{})
	b.put("f", "a\n")
	version := b.ok("read_file", args{"path": "f"})["version"]
	b.ok("edit_file", args{"path": "f", "old_string": "a", "new_string": "b", "if_version": version})
	b.fails("edit_file", args{"path": "f", "old_string": "b", "new_string": "c", "if_version": version}, workspace.ErrConflict)
	b.fails("write_file", args{"path": "f", "content": "c", "if_version": version}, workspace.ErrConflict)
	if b.get("f") != "b\n" {
		t.Errorf("got %q", b.get("f"))
	}
}

// The mode of a file stays, a new one follows the umask, and a link stays a link
// whose target is what is written.
func TestEditKeepsModesAndLinks(t *testing.T) {
	b := newBench(t, tools.Options{})
	for _, mode := range []os.FileMode{0o755, 0o640, 0o600} {
		b.put("f", "old\n")
		if err := os.Chmod(filepath.Join(b.dir, "f"), mode); err != nil {
			t.Fatal(err)
		}
		b.ok("edit_file", edit1("f", "old", "new"))
		b.ok("write_file", args{"path": "f", "content": "newer"})
		if fi, err := os.Stat(filepath.Join(b.dir, "f")); err != nil || fi.Mode() != mode {
			t.Errorf("mode %v is now %v, %v", mode, fi.Mode(), err)
		}
	}
	b.put("real/s.json", "old\n")
	for link, target := range map[string]string{"l": "real/s.json", "x/y/l": "../s.json", "x/s.json": "../real/s.json"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(b.dir, link)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(b.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for i, link := range []string{"l", "x/y/l"} {
		was := []string{"old", "new 0"}[i]
		now := fmt.Sprintf("new %d", i)
		b.ok("edit_file", edit1(link, was, now))
		if got := b.get("real/s.json"); got != now+"\n" {
			t.Errorf("through %s the file has become %q", link, got)
		}
		if fi, err := os.Lstat(filepath.Join(b.dir, link)); err != nil || fi.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is no link any more: %v, %v", link, fi, err)
		}
	}
}

func TestWriteFile(t *testing.T) {
	b := newBench(t, tools.Options{})
	if got := b.ok("write_file", args{"path": "a/b/c", "content": "x"}); got["created"] != true || b.get("a/b/c") != "x" {
		t.Errorf("got %v", got)
	}
	b.fails("write_file", args{"path": "a/b/c", "content": "y", "mode": "create"}, workspace.ErrExists)
	if got := b.ok("write_file", args{"path": "a/b/c", "content": "y", "mode": "append"}); got["created"] != false || b.get("a/b/c") != "xy" {
		t.Errorf("got %v", got)
	}
	b.ok("write_file", args{"path": "a/b/c", "content": ""})
	if b.get("a/b/c") != "" {
		t.Error("the file is not empty")
	}
	b.fails("write_file", args{"path": "../x", "content": ""}, workspace.ErrOutside)
	b.fails("write_file", args{"path": ".wsctl/tool-results/x", "content": ""}, workspace.ErrInvalidPath)
	b.fails("write_file", args{"path": "a", "content": ""}, workspace.ErrNotFile)
	b.fails("write_file", args{"path": "a", "content": "", "mode": "clobber"}, workspace.ErrInvalidArgument, `mode: must be one of "overwrite", "create", "append", not "clobber"`)
}
