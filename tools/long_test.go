//go:build unix

package tools_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

// noisy is a command whose streams are each shown whole, and together are too
// long for a small result.
var noisy = args{"command": `i=0; while [ $i -lt 400 ]; do echo "line $i é"; i=$((i+1)); done; echo "the end"`}

func small(o tools.Options) tools.Options {
	o.Limits.MaxResultLength = 2000
	return o
}

// A result that is too long is saved whole, and what the model gets has at most
// the length there is for one, in both forms together.
func TestLongResults(t *testing.T) {
	for name, o := range map[string]tools.Options{"both forms": small(tools.Options{Run: "r"}), "text": small(tools.Options{Run: "r", TextOnly: true})} {
		b := newBench(t, o)
		r := b.set.Call(t.Context(), tools.Request{Name: "run_command", Args: rawArgs(t, noisy), ID: "c"})
		if !o.TextOnly {
			checkResult(t, b.set, "run_command", r)
		}
		path := tools.ToolResultPath("r", "c")
		if r.IsError || r.Path != path || !strings.Contains(r.Text, path) || !strings.Contains(r.Text, "read_file") {
			t.Errorf("%s: got %+v", name, r)
		}
		if n := utf8.RuneCountInString(r.Text) + utf8.RuneCount(r.Structured); n > 2000 || n < 1500 {
			t.Errorf("%s: %d characters of 2000", name, n)
		}
		if !strings.HasPrefix(r.Text, "Exit code 0") || !strings.HasSuffix(r.Text, "the end") {
			t.Errorf("%s: head and tail are %q", name, r.Text)
		}
		whole := b.get(path)
		if !strings.HasPrefix(whole, "Exit code 0") || !strings.Contains(whole, "line 200 é\n") || !strings.HasSuffix(whole, "the end") {
			t.Errorf("%s: saved %q", name, whole)
		}
		if o.TextOnly {
			if r.Structured != nil {
				t.Error("a structured form, and none was wanted")
			}
			continue
		}
		got := structuredOf(t, r)
		cut := got["cut"].(map[string]any)
		if cut["path"] != path || cut["characters"] != float64(utf8.RuneCountInString(whole)) || got["exit_code"] != 0.0 {
			t.Errorf("%s: got %v", name, got)
		}
		page := b.ok("read_file", args{"path": path, "offset": 203, "limit": 1})
		if page["content"] != "line 200 é\n" {
			t.Errorf("%s: got %v", name, page)
		}
		if got := string(b.page(path, nil)); got != whole {
			t.Errorf("%s: paging through the file gives %d bytes of %d", name, len(got), len(whole))
		}
	}
}

// A result that just fits is left as it is: the length counts both forms.
func TestTheLengthOfAResultIsThatOfBothForms(t *testing.T) {
	b := newBench(t, tools.Options{})
	r := b.call("run_command", noisy)
	length := utf8.RuneCountInString(r.Text) + utf8.RuneCount(r.Structured)
	// Durations differ by a few digits.
	for _, c := range []struct {
		limit int
		saved bool
	}{{length + 20, false}, {length - 20, true}, {length/2 + 100, true}} {
		set := newSet(t, b.ws, tools.Options{Limits: tools.Limits{MaxResultLength: c.limit}})
		if r := b.callIn(set, "run_command", noisy); (r.Path != "") != c.saved {
			t.Errorf("limit %d for %d: saved in %q", c.limit, length, r.Path)
		}
	}
}

// Where a result cannot be saved it is cut, and says so.
func TestLongResultsThatCannotBeSaved(t *testing.T) {
	b := newBench(t, small(tools.Options{}))
	b.put(".wsctl/tool-results", "in the way")
	r := b.call("run_command", noisy)
	if r.IsError || r.Path != "" || !strings.Contains(r.Text, "the rest is lost, because it could not be saved: INVALID_PATH") {
		t.Errorf("got %+v", r)
	}
	if warning := structuredOf(t, r)["cut"].(map[string]any)["warning"]; warning == nil {
		t.Error("the structured form does not say so")
	}
}

func TestToolResultPath(t *testing.T) {
	seen := map[string]string{}
	for _, c := range []struct{ run, id, want string }{
		{"run", "call", ".wsctl/tool-results/run/call.txt"},
		{"a.B-c_9", "toolu_01.x", ".wsctl/tool-results/a.B-c_9/toolu_01.x.txt"},
		{"../../etc", "passwd", ".wsctl/tool-results/_._.._etc-"},
		{"", "", ""},
		{".", "..", ""},
		{".hidden", "a/b", ""},
		{"a\x00b", "a\nb", ""},
		{"é", "ü", ""},
		{"è", "ü", ""},
		{strings.Repeat("x", 300), strings.Repeat("y", 300), ""},
		{strings.Repeat("x", 300) + "z", strings.Repeat("y", 300), ""},
	} {
		got := tools.ToolResultPath(c.run, c.id)
		if c.want != "" && !strings.HasPrefix(got, c.want) {
			t.Errorf("%q, %q: %s, want %s", c.run, c.id, got, c.want)
		}
		parts := strings.Split(got, "/")
		if len(parts) != 4 || len(got) > 300 {
			t.Errorf("%q, %q: %s", c.run, c.id, got)
		}
		for _, part := range parts[2:] {
			if part[0] == '.' || strings.ContainsFunc(part, func(r rune) bool { return !strings.ContainsRune("._-", r) && (r > 'z' || r < '0') }) {
				t.Errorf("%q, %q: %s", c.run, c.id, got)
			}
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%q and %q share %s", other, c.run+"/"+c.id, got)
		}
		seen[got] = c.run + "/" + c.id
		// Every such name can be saved under.
		b := newBench(t, small(tools.Options{}))
		r := b.set.Call(t.Context(), tools.Request{Name: "run_command", Args: rawArgs(t, noisy), Run: c.run, ID: c.id})
		if c.run != "" && r.Path != got {
			t.Errorf("%q, %q: saved in %q, want %q: %s", c.run, c.id, r.Path, got, r.Text)
		}
	}
}

// Old results go when a new one is saved, unless they are to be kept.
func TestOldResultsGo(t *testing.T) {
	for keep, want := range map[time.Duration]bool{0: false, -1: true, 30 * 24 * time.Hour: true} {
		b := newBench(t, small(tools.Options{Limits: tools.Limits{KeepResults: keep}}))
		if err := b.ws.SaveResult(t.Context(), "old", "call", strings.NewReader("x"), 0); err != nil {
			t.Fatal(err)
		}
		old := filepath.Join(b.dir, workspace.ResultsDir, "old", "call")
		then := time.Now().Add(-8 * 24 * time.Hour)
		if err := os.Chtimes(old, then, then); err != nil {
			t.Fatal(err)
		}
		b.call("run_command", noisy)
		if _, err := os.Stat(old); (err == nil) != want {
			t.Errorf("kept for %v: %v", keep, err)
		}
	}
}
