//go:build unix

package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

// Schemas, hints and structured results are what the tools say.
func TestToolsAreDescribedTruthfully(t *testing.T) {
	set, dir := newSet(t, tools.Options{})
	put(t, dir, "a.txt", "one\n")
	w := newWire(t, set)
	w.initialize("2025-06-18", "{}")
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	var list struct {
		Tools []struct {
			Name, Title, Description  string
			InputSchema, OutputSchema *jsonschema.Schema
			Annotations               struct {
				ReadOnlyHint, DestructiveHint, IdempotentHint, OpenWorldHint *bool
			}
		}
	}
	if err := json.Unmarshal(w.answer(1).Result, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Tools) != len(set.Tools()) {
		t.Fatalf("%d tools, want %d", len(list.Tools), len(set.Tools()))
	}
	for _, got := range list.Tools {
		want := set.Tool(got.Name)
		if want == nil || got.Title == "" || got.Description == "" || got.InputSchema.Type != "object" || got.OutputSchema.Type != "object" {
			t.Errorf("got %+v", got)
			continue
		}
		a := got.Annotations
		for _, hint := range []struct {
			name string
			got  *bool
			want bool
		}{
			{"readOnly", a.ReadOnlyHint, want.Hints.ReadOnly},
			{"destructive", a.DestructiveHint, want.Hints.Destructive},
			{"idempotent", a.IdempotentHint, want.Hints.Idempotent},
			{"openWorld", a.OpenWorldHint, want.Hints.OpenWorld},
		} {
			if hint.got == nil || *hint.got != hint.want {
				t.Errorf("%s: %s is %v, want %v", got.Name, hint.name, hint.got, hint.want)
			}
		}
	}
	r := w.call(2, "read_file", `{"path":"a.txt"}`)
	schema, err := set.Tool("read_file").Output.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(r.Structured); err != nil {
		t.Error(err)
	}
}

// Output comes while the command runs, and none after the answer.
func TestProgressIsLive(t *testing.T) {
	set, _ := newSet(t, tools.Options{})
	w := newWire(t, set)
	w.initialize("2025-06-18", "{}")
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_command","arguments":{"command":"for i in 1 2 3; do echo line $i; sleep 0.4; done; head -c 100000 /dev/zero | tr '\\0' x; printf '\\377'"},"_meta":{"progressToken":"tok"}}}`)
	began := time.Now()
	var heard strings.Builder
	last, first := -1.0, time.Duration(0)
	for {
		m := w.next()
		if m.Method != "notifications/progress" {
			if string(m.ID) != "1" {
				t.Fatalf("got %+v", m)
			}
			break
		}
		var p struct {
			ProgressToken string
			Progress      float64
			Message       string
		}
		if err := json.Unmarshal(m.Params, &p); err != nil || p.ProgressToken != "tok" || p.Progress <= last {
			t.Errorf("got %s after %v, %v", m.Params, last, err)
		}
		if len(p.Message) > 20_000 {
			t.Errorf("a notice has %d bytes", len(p.Message))
		}
		if first == 0 {
			first = time.Since(began)
		}
		last = p.Progress
		heard.WriteString(p.Message)
	}
	if took := time.Since(began); first > took/2 {
		t.Errorf("the first notice came after %v of %v", first, took)
	}
	for _, want := range []string{"line 1\n", "line 2\n", "line 3\n", "bytes left out"} {
		if !strings.Contains(heard.String(), want) {
			t.Errorf("%q was not heard", want)
		}
	}
	w.alive(2)
	// Without a token nobody has asked for it.
	w.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"run_command","arguments":{"command":"echo x"}}}`)
	if m := w.next(); string(m.ID) != "3" {
		t.Errorf("got %+v", m)
	}
}

// sleeper is a command that writes its pid and takes no SIGTERM.
const sleeper = `{"command":"trap : TERM; echo $$ >pid; while :; do sleep 0.1; done","timeout":60}`

// started waits for the sleeper's pid.
func started(t *testing.T, dir string) int {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		raw, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err == nil && strings.HasSuffix(string(raw), "\n") {
			pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
	}
	t.Fatal("the command does not start")
	return 0
}

// graceLimit is a command's grace and one second more, and what a busy machine
// takes.
const graceLimit = workspace.DefaultKillGrace + time.Second + 500*time.Millisecond

// gone waits until pid is no process any more.
func gone(t *testing.T, pid int, within time.Duration) {
	t.Helper()
	began := time.Now()
	for syscall.Kill(pid, 0) == nil {
		if time.Since(began) > within {
			t.Fatalf("the command lives after %v", within)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestCancellationKills(t *testing.T) {
	set, dir := newSet(t, tools.Options{})
	w := newWire(t, set)
	w.initialize("2025-06-18", "{}")
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_command","arguments":` + sleeper + `}}`)
	pid := started(t, dir)
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}`)
	gone(t, pid, graceLimit)
	w.alive(2)
}

func TestEndOfInputKills(t *testing.T) {
	set, dir := newSet(t, tools.Options{})
	w := newWire(t, set)
	w.initialize("2025-06-18", "{}")
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"run_command","arguments":` + sleeper + `}}`)
	pid := started(t, dir)
	_ = w.in.Close()
	// The drain comes first.
	gone(t, pid, graceLimit+2*time.Second)
	select {
	case <-w.done:
	case <-time.After(2 * time.Second):
		t.Error("the server goes on")
	}
}

// A slow call holds up no other, and what 64 calls return is each one's own.
func TestManyCallsAtOnce(t *testing.T) {
	set, dir := newSet(t, tools.Options{Limits: tools.Limits{Memory: 32 << 20}})
	const n = 64
	line := func(i int) string { return fmt.Sprintf("this is file %d, nothing else. ", i) }
	for i := range n {
		put(t, dir, fmt.Sprintf("f%d", i), strings.Repeat(line(i)+"\n", 1500))
	}
	w := newWire(t, set)
	w.initialize("2025-06-18", "{}")
	w.send(`{"jsonrpc":"2.0","id":9000,"method":"tools/call","params":{"name":"run_command","arguments":{"command":"echo $$ >pid; sleep 30"}}}`)
	pid := started(t, dir)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range n {
		w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"f%d","limit":1000}}}`, i, i))
	}
	seen := map[int]bool{}
	for len(seen) < n {
		m := w.next()
		id, err := strconv.Atoi(string(m.ID))
		if err != nil || id >= n || seen[id] {
			t.Fatalf("an answer to %s", m.ID)
		}
		seen[id] = true
		content, _ := resultOf(t, m).Structured["content"].(string)
		if content == "" || strings.ReplaceAll(content, line(id)+"\n", "") != "" {
			t.Errorf("call %d has something else in it", id)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 32<<20 {
		t.Errorf("%d MiB are kept", grown>>20)
	}
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9000}}`)
	gone(t, pid, graceLimit)
}

// Requests beyond the bound are refused at once, and the others are served.
func TestTooManyRequestsAreRefused(t *testing.T) {
	set, _ := newSet(t, asking)
	w := newWire(t, set)
	w.initialize("2025-06-18", `{"elicitation":{}}`)
	// Each waits for the user, who says nothing.
	pad := strings.Repeat("x", 14<<20)
	write := func(id int) {
		w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"write_file","arguments":{"path":"a","content":"%s"}}}`, id, pad))
	}
	for i := range 4 {
		write(i)
		if m := w.next(); m.Method != "elicitation/create" {
			t.Fatalf("got %+v", m.Error)
		}
	}
	write(4)
	if m := w.next(); m.Error == nil || m.Error.Code != -32000 || string(m.ID) != "4" {
		t.Errorf("one too many: got %+v", m.Error)
	}
	w.send(`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	if m := w.next(); m.Error == nil || m.Error.Code != -32600 {
		t.Errorf("an id in use: got %+v", m)
	}
	// What is answered makes room.
	w.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`)
	w.answer(0)
	w.alive(5)
}

// Text and structured content together are within the bound, so that a client
// which hands on the whole message has room for it.
func TestBoundCountsTheWholeMessage(t *testing.T) {
	const limit = 20_000
	set, dir := newSet(t, tools.Options{Limits: tools.Limits{MaxResultLength: limit}})
	for name, size := range map[string]int{"just under half": limit/2 - 1500, "just under": limit - 200, "over": 3 * limit} {
		put(t, dir, "a.txt", strings.Repeat("x", 99)+"\n")
		put(t, dir, "f", strings.Repeat(strings.Repeat("y", 99)+"\n", size/100))
		w := newWire(t, set)
		w.initialize("2025-06-18", "{}")
		for id, call := range []string{
			`{"name":"read_file","arguments":{"path":"f"}}`,
			`{"name":"run_command","arguments":{"command":"cat f"}}`,
		} {
			w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, id, call))
			m := w.answer(id)
			// What the protocol itself adds is no more than this.
			if n := utf8.RuneCount(m.Result); n > limit+300 {
				t.Errorf("%s: %s has %d characters", name, call, n)
			}
		}
	}
}

// Whatever bytes there are, what comes is UTF-8, and what was replaced is said.
func TestOtherBytesAreReplacedAndTold(t *testing.T) {
	set, dir := newSet(t, tools.Options{})
	put(t, dir, "latin", "caf\xe9\n")
	put(t, dir, "name-\xe9", "x\n")
	w := newWire(t, set)
	w.initialize("2025-06-18", "{}")
	for id, c := range []struct{ tool, args, says string }{
		{"read_file", `{"path":"latin"}`, "1 byte is not UTF-8"},
		{"run_command", `{"command":"printf '\\377'"}`, "not UTF-8"},
		{"run_command", `{"command":"printf 'a\\355\\240\\200b' >&2"}`, "not UTF-8"},
		{"run_command", `{"command":"ls"}`, "not UTF-8"},
	} {
		if r := w.call(id, c.tool, c.args); !strings.Contains(r.text(), c.says) || !strings.Contains(r.text(), "\uFFFD") {
			t.Errorf("%s %s: got %q", c.tool, c.args, r.text())
		}
	}
	w.alive(100)
}
