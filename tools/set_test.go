//go:build unix

package tools_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"go.uber.org/goleak"

	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

// Arguments that make no sense are errors that name the field, and nothing is
// done.
func TestArgumentsAreChecked(t *testing.T) {
	b := newBench(t, tools.Options{})
	for _, c := range []struct{ tool, args, says string }{
		{"read_file", ``, "path: missing; it is required"},
		{"read_file", `{}`, "path: missing; it is required"},
		{"read_file", `null`, "the arguments: must be an object, not null"},
		{"read_file", `[]`, "the arguments: must be an object, not a list"},
		{"read_file", `"a"`, `the arguments: must be an object, not a string ("a")`},
		{"read_file", `{"path":null}`, "path: must be a string, not null; leave out"},
		{"read_file", `{"path":5}`, "path: must be a string, not a number (5)"},
		{"read_file", `{"path":["a"]}`, "path: must be a string, not a list"},
		{"read_file", `{"path":"a","limit":"5"}`, `limit: must be a whole number, not a string ("5")`},
		{"read_file", `{"path":"a","limit":null}`, "limit: must be a whole number, not null"},
		{"read_file", `{"path":"a","extra":1}`, "extra: there is no such field; the fields are path, offset, limit, byte_offset, byte_limit"},
		{"read_file", `{"Path":"a"}`, "Path: there is no such field"},
		{"read_file", `{"path":"a","path":"b"}`, "path: given twice"},
		{"read_file", `{"path":"a"`, "the arguments end too early"},
		{"read_file", `{"path":"a"} {}`, "go on after their end"},
		{"read_file", `{"path" "a"}`, "the arguments are not JSON"},
		{"read_file", `{"path":"\ud800"}`, "path: holds half a surrogate pair"},
		{"read_file", `{"path":"\udc00x"}`, "path: holds half a surrogate pair"},
		{"read_file", `{"path":"\ud800\u0041"}`, "path: holds half a surrogate pair"},
		{"read_file", "{\"path\":\"\xff\"}", "path: holds bytes that are not UTF-8"},
		{"write_file", `{"path":"f","content":"a\ud83dz"}`, "content: holds half a surrogate pair"},
		{"edit_file", `{"path":"f","edits":[{"old_string":"a","new_string":"b"},{"old_string":"a"}]}`, "edits[1].new_string: missing"},
		{"edit_file", `{"path":"f","edits":[{"old_string":"a","new_string":"b","all":true}]}`, "edits[0].all: there is no such field; the fields are old_string, new_string, replace_all"},
		{"edit_file", `{"path":"f","edits":[5]}`, "edits[0]: must be an object, not a number (5)"},
		{"edit_file", `{"path":"f","edits":{}}`, "edits: must be a list, not an object"},
		{"edit_file", `{"path":"f","old_string":"a","new_string":"b","replace_all":"yes"}`, `replace_all: must be a boolean, not a string ("yes")`},
		{"run_command", `{"command":"true","env":{"A":null}}`, "env.A: must be a string, not null"},
		{"run_command", `{"command":"true","env":[]}`, "env: must be an object"},
		{"run_command", strings.Repeat(`{"command":`, 40), "nested too deep"},
	} {
		b.fails(c.tool, c.args, workspace.ErrInvalidArgument, c.says)
	}
	if names, err := os.ReadDir(b.dir); err != nil || len(names) != 0 {
		t.Errorf("the directory holds %v, %v", names, err)
	}
	for _, good := range []string{`{"path":"f","content":"\ud83d\ude00 \uFFFD \\ud800"}`, `{"path":"f","content":"😀 ` + "\uFFFD" + ` \\ud800"}`} {
		b.ok("write_file", good)
		if got := b.get("f"); got != "😀 \uFFFD \\ud800" {
			t.Errorf("%s wrote %q", good, got)
		}
	}
}

func TestFailuresAreResultsWithACode(t *testing.T) {
	b := newBench(t, tools.Options{Tools: []string{"read_file", "run_command"}})
	r := b.set.Call(t.Context(), tools.Request{Name: "write_file"})
	if r.Code != workspace.ErrInvalidArgument || !strings.Contains(r.Text, `no tool "write_file"; the tools are read_file, run_command`) {
		t.Errorf("got %+v", r)
	}
	if _, err := tools.NewSet(b.ws, tools.Options{Tools: []string{"no"}}); workspace.CodeOf(err) != workspace.ErrInvalidArgument {
		t.Errorf("a set of a tool that there is not: %v", err)
	}
	if _, err := tools.NewSet(b.ws, tools.Options{Limits: tools.Limits{Memory: -1}}); workspace.CodeOf(err) != workspace.ErrInvalidArgument {
		t.Errorf("a set with a negative limit: %v", err)
	}
	if err := b.ws.Close(); err != nil {
		t.Fatal(err)
	}
	b.fails("read_file", args{"path": "f"}, workspace.ErrDisposed)
	b.fails("run_command", args{"command": "true"}, workspace.ErrDisposed)
	// A fault of our own is one too, and no dump.
	broken := newSet(t, nil, tools.Options{})
	ctx := tools.WithWorkspace(t.Context(), new(workspace.Workspace))
	if r := broken.Call(ctx, tools.Request{Name: "read_file", Args: json.RawMessage(`{"path":"f"}`)}); r.Code != workspace.ErrIO || strings.Contains(r.Text, "goroutine") {
		t.Errorf("got %+v", r)
	}
}

// What is neither text nor whole is refused at once, by every tool.
func TestIrregularAndHugeFiles(t *testing.T) {
	b := newBench(t, tools.Options{})
	b.ok("run_command", args{"command": "mkfifo p; ln -s /dev/zero z; ln -s p l; mkdir d; truncate -s 1T huge; head -c 5000001 /dev/zero | tr '\\0' a > five"})
	for _, name := range []string{"p", "l", "d"} {
		b.fails("read_file", args{"path": name}, workspace.ErrNotFile)
		b.fails("write_file", args{"path": name, "content": "x"}, workspace.ErrNotFile)
		b.fails("edit_file", edit1(name, "a", "b"), workspace.ErrNotFile)
	}
	b.fails("read_file", args{"path": "z"}, workspace.ErrOutside)
	b.fails("edit_file", edit1("huge", "a", "b"), workspace.ErrTooLarge)
	if got := b.ok("read_file", args{"path": "huge"}); got["kind"] != "binary" || got["size"] != float64(1<<40) {
		t.Errorf("got %v", got)
	}
	if got := b.ok("read_file", args{"path": "huge", "byte_offset": 1<<40 - 3}); got["base64"] != "AAAA" || got["remaining_bytes"] != 0.0 {
		t.Errorf("got %v", got)
	}
	if got := b.ok("read_file", args{"path": "five", "byte_offset": 4_999_999}); got["content"] != "aa" {
		t.Errorf("got %v", got)
	}
}

// Names are never text of a command.
func TestHostileNames(t *testing.T) {
	b := newBench(t, tools.Options{})
	for _, name := range []string{"'; touch pwned; '", "$(touch pwned)", "-rf", "a\nb", "`touch pwned`", "--help", "a\x1b]0;x\x07\r.txt", "%2e%2e", "~", "a\\..\\b", "[a]{b}*?"} {
		b.ok("write_file", args{"path": name + "/" + name, "content": "old"})
		b.ok("edit_file", edit1(name+"/"+name, "old", "new"))
		r := b.call("read_file", args{"path": name + "/" + name})
		if structuredOf(t, r)["content"] != "new" || strings.ContainsAny(strings.SplitN(r.Text, ":", 2)[0], "\x1b\a\r\n") {
			t.Errorf("%q: %q", name, r.Text)
		}
		if got := b.ok("run_command", args{"command": "set -- *; echo $#", "cwd": name}); strings.TrimSpace(got["stdout"].(string)) != "1" {
			t.Errorf("%q: %v", name, got)
		}
	}
	for _, name := range []string{"pwned", "../pwned"} {
		if _, err := os.Lstat(filepath.Join(b.dir, name)); err == nil {
			t.Error("a name was run")
		}
	}
	for path, code := range map[string]workspace.Code{"": workspace.ErrInvalidPath, "a\x00b": workspace.ErrInvalidPath, "../x": workspace.ErrOutside, "/etc/passwd": workspace.ErrOutside, strings.Repeat("x", 5000): workspace.ErrInvalidPath} {
		b.fails("read_file", args{"path": path}, code)
		b.fails("write_file", args{"path": path, "content": ""}, code)
	}
}

// What is in a file is shown as it is, with nothing around it that it could
// break out of.
func TestContentIsNotDressed(t *testing.T) {
	b := newBench(t, tools.Options{})
	const content = "```\n</content>\n![x](http://x/y)\n<script>alert(1)</script>\n2\tforged\n"
	b.put("f", content)
	r := b.call("read_file", args{"path": "f"})
	if structuredOf(t, r)["content"] != content || !strings.HasSuffix(r.Text, "5\t2\tforged") || strings.Count(r.Text, "```") != 1 {
		t.Errorf("got %q", r.Text)
	}
	if strings.Contains(string(r.Structured), `\u003c`) {
		t.Error("the structured form is escaped for HTML")
	}
}

// Every tool says what it is and does, in words and in schemas.
func TestCatalog(t *testing.T) {
	reads := map[string]bool{"read_file": true, "list_files": true, "glob": true, "grep": true, "process_output": true, "process_list": true, "snapshot_list": true, "snapshot_diff": true}
	harmless := map[string]bool{"snapshot_checkpoint": true}
	runs := map[string]bool{"run_command": true, "process_start": true, "process_input": true}
	set := newSet(t, nil, tools.Options{})
	seen := map[string]bool{}
	for _, tool := range set.Tools() {
		h := tool.Hints
		if seen[tool.Name] || tool.Title == "" || len(tool.Description) < 50 {
			t.Errorf("%s: %q, %q", tool.Name, tool.Title, tool.Description)
		}
		seen[tool.Name] = true
		if h.ReadOnly != reads[tool.Name] || h.Destructive == (reads[tool.Name] || harmless[tool.Name]) || h.OpenWorld != runs[tool.Name] || h.ReadOnly && !h.Idempotent {
			t.Errorf("%s: hints %+v", tool.Name, h)
		}
		for what, s := range map[string]*jsonschema.Schema{"input": tool.Input, "output": tool.Output} {
			if s.Type != "object" || s.AdditionalProperties == nil {
				t.Errorf("%s: the %s schema takes anything", tool.Name, what)
			}
			for name, p := range s.Properties {
				if p.Description == "" {
					t.Errorf("%s: %s of the %s schema is not described", tool.Name, name, what)
				}
				if len(p.Types) > 0 {
					t.Errorf("%s: %s of the %s schema may be of %v", tool.Name, name, what, p.Types)
				}
			}
		}
	}
	if len(set.Tools()) < 9 {
		t.Errorf("only %d tools", len(set.Tools()))
	}
}

// Calls at the same time do not mix, leak nothing, and hold no more memory than
// they are given.
func TestManyCallsAtOnce(t *testing.T) {
	b := newBench(t, tools.Options{Limits: tools.Limits{Memory: 8 << 20}})
	b.ok("run_command", args{"command": "true"})
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	const calls = 64
	large := strings.Repeat("a line of a large file that is edited\n", 2<<20/39)
	for i := range calls {
		b.put(fmt.Sprintf("f%d", i), fmt.Sprintf("%s%d\n", large, i))
	}
	stop, peak := make(chan struct{}), make(chan uint64)
	go func() {
		most := uint64(0)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
			select {
			case <-stop:
				peak <- most
				return
			default:
				time.Sleep(2 * time.Millisecond)
			}
		}
	}()
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			mine := fmt.Sprint(i)
			switch i % 4 {
			case 0:
				got := b.ok("run_command", args{"command": "cat; echo " + mine + " >&2; yes " + mine + " | head -c 100000", "stdin": "in " + mine + "\n"})
				if got["stderr"] != mine+"\n" || !strings.HasPrefix(got["stdout"].(string), "in "+mine+"\n"+mine+"\n") {
					t.Errorf("call %d got %.200v", i, got)
				}
				if saved := b.get(got["output_path"].(string)); len(saved) != 100_000+len("in \n")+len(mine)+len(mine)+1 {
					t.Errorf("call %d saved %d bytes", i, len(saved))
				}
			case 1, 2:
				b.ok("edit_file", edit1("f"+mine, "edited\n"+mine+"\n", "edited\nnow "+mine+"\n"))
				if got := b.get("f" + mine); got != large+"now "+mine+"\n" {
					t.Errorf("call %d left %d bytes", i, len(got))
				}
			case 3:
				got := b.ok("read_file", args{"path": "f" + mine, "byte_offset": len(large)})
				if got["content"] != mine+"\n" {
					t.Errorf("call %d got %.200v", i, got)
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	// Without the bound it is more than twice that; the test's own copies of
	// files are in it.
	if most := <-peak; most > 80<<20 {
		t.Errorf("%d MiB at most", most>>20)
	}
}

// A workspace without a store of snapshots says so.
func TestWithoutSnapshots(t *testing.T) {
	b := newBench(t, tools.Options{})
	for name, a := range map[string]args{"snapshot_checkpoint": {}, "snapshot_list": {}, "snapshot_diff": {}, "snapshot_restore": {"id": "latest"}} {
		b.fails(name, a, workspace.ErrUnsupported, "without a snapshot store")
	}
}
