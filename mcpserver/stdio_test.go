//go:build unix

package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/tools"
)

func TestEveryRevisionIsSpoken(t *testing.T) {
	for _, revision := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		set, dir := newSet(t, tools.Options{})
		put(t, dir, "a.txt", "one\n")
		w := newWire(t, set)
		var hello struct {
			ProtocolVersion string         `json:"protocolVersion"`
			Capabilities    map[string]any `json:"capabilities"`
		}
		if err := json.Unmarshal(w.initialize(revision, "{}").Result, &hello); err != nil {
			t.Fatal(err)
		}
		if hello.ProtocolVersion != revision || hello.Capabilities["tools"] == nil {
			t.Errorf("%s: got %+v", revision, hello)
		}
		if hello.Capabilities["logging"] != nil {
			t.Errorf("%s: logging is promised", revision)
		}
		if r := w.call(1, "read_file", `{"path":"a.txt"}`); !strings.Contains(r.text(), "1\tone") || r.Structured["content"] != "one\n" {
			t.Errorf("%s: got %+v", revision, r)
		}
	}
	// The newest has no handshake: every request says what it speaks.
	set, dir := newSet(t, tools.Options{})
	put(t, dir, "a.txt", "one\n")
	w := newWire(t, set)
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	w.send(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta + `}}`)
	if m := w.answer(1); !strings.Contains(string(m.Result), "2026-07-28") {
		t.Errorf("got %s", m.Result)
	}
	w.send(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"a.txt"},` + meta + `}}`)
	if r := resultOf(t, w.answer(2)); !strings.Contains(r.text(), "1\tone") {
		t.Errorf("got %+v", r)
	}
}

// Whatever a client sends, it gets messages back, and the session goes on.
func TestHostileLinesEndNoSession(t *testing.T) {
	set, dir := newSet(t, tools.Options{})
	put(t, dir, "a.txt", "one\n")
	w := newWire(t, set)
	w.initialize("2025-06-18", "{}")
	for i, c := range []struct {
		line string
		code int
	}{
		{"garbage", -32700},
		{`{"jsonrpc":"2.0",`, -32700},
		{"\xff\xfe\x00", -32700},
		{"{}", -32600},
		{"42", -32600},
		{"null", -32600},
		{"[]", -32700},
		{`{"jsonrpc":"1.0","id":1,"method":"ping"}`, -32600},
		{`{"jsonrpc":"2.0","id":[1],"method":"ping"}`, -32600},
		{strings.Repeat("[", 100_000), -32700},
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":` + strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000) + "}", -32600},
		{strings.Repeat("x", 17<<20), -32600},
	} {
		w.send(c.line)
		if m := w.next(); m.Error == nil || m.Error.Code != c.code {
			t.Errorf("%.60q: got %+v", c.line, m.Error)
		}
		w.alive(100 + i)
	}
	// An empty line and Windows' line ends are nothing special.
	w.send("", "  ", `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\r")
	if m := w.next(); string(m.ID) != "1" || m.Error != nil {
		t.Errorf("got %+v", m)
	}
	for i, c := range []struct{ params, says string }{
		{`{"name":"nope"}`, "there is no tool"},
		{`{"name":5}`, "invalid params"},
		{`{"name":"read_file\u001b[2J"}`, "there is no tool"},
	} {
		w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, 200+i, c.params))
		m := w.answer(200 + i)
		if m.Error == nil || m.Error.Code != -32602 || !strings.Contains(m.Error.Message, c.says) {
			t.Errorf("%s: got %+v", c.params, m.Error)
		}
		if m.Error != nil && (strings.Contains(m.Error.Message, "Go struct") || strings.Contains(m.Error.Message, "json:") || strings.Contains(m.Error.Message, "mcp.")) {
			t.Errorf("%s: the message speaks Go: %s", c.params, m.Error.Message)
		}
	}
	for i, c := range []struct{ args, says string }{
		{`null`, "path: missing"},
		{`{}`, "path: missing"},
		{`[]`, "must be an object"},
		{`{"path":"a.txt","limit":"5"}`, "limit: "},
		{`{"path":"a.txt","extra":1}`, "extra: there is no such field"},
		{`{"path":null}`, "path: "},
		{`{"path":"a\ud800"}`, "path: holds half a surrogate"},
		{"{\"path\":\"a\xff\"}", "path: holds bytes that are not UTF-8"},
		{`{"path":"missing"}`, "NOT_FOUND: "},
		{`{"path":"../x"}`, "OUTSIDE_ROOT: "},
	} {
		if r := w.call(300+i, "read_file", c.args); !r.IsError || !strings.Contains(r.text(), c.says) {
			t.Errorf("%q: got %+v", c.args, r)
		}
	}
	w.alive(999)
}

func TestBatchesAreAnsweredWhole(t *testing.T) {
	set, dir := newSet(t, tools.Options{})
	put(t, dir, "a.txt", "one\n")
	w := newWire(t, set)
	w.initialize("2025-03-26", "{}")
	w.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":77}},` +
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":78}},42,` +
		`{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"a.txt"}}}]`)
	var line string
	select {
	case line = <-w.lines:
	case <-time.After(10 * time.Second):
		t.Fatal("nothing comes")
	}
	var answers []message
	if err := json.Unmarshal([]byte(line), &answers); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	good, bad := 0, 0
	for _, m := range answers {
		if m.Error == nil {
			good++
		} else {
			bad++
		}
	}
	// The number 42 is no message, and an id may be used twice only one
	// after the other; whether the first is answered by then is a race.
	if good+bad != 4 || bad < 1 {
		t.Errorf("got %s", line)
	}
	w.alive(3)
}

// Requests that are there when the input ends are answered, and then it is over.
func TestEndOfInputIsTheEnd(t *testing.T) {
	set, dir := newSet(t, tools.Options{})
	put(t, dir, "a.txt", "one\n")
	w := newWire(t, set)
	began := time.Now()
	w.send(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
		`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"a.txt"}}}`)
	_ = w.in.Close()
	got := map[string]bool{}
	for line := range w.lines {
		got[string(parse(t, line).ID)] = true
	}
	if !got["1"] || !got["2"] {
		t.Errorf("answered were only %v", got)
	}
	if err := <-w.done; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > drainLimit {
		t.Errorf("the end took %v", took)
	}
}

// drainLimit is how long an end without anything to wait for may take.
const drainLimit = 1500 * time.Millisecond

func TestEmptyInputIsTheEnd(t *testing.T) {
	set, _ := newSet(t, tools.Options{})
	w := newWire(t, set)
	began := time.Now()
	_ = w.in.Close()
	if err := <-w.done; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > drainLimit {
		t.Errorf("the end took %v", took)
	}
}

// A panic in what a set calls is a fault of one call, not the server's end.
func TestPanicEndsNoSession(t *testing.T) {
	set, dir := newSet(t, tools.Options{Audit: func(tools.Event) { panic("told to") }})
	put(t, dir, "a.txt", "one\n")
	w := newWire(t, set)
	w.initialize("2025-06-18", "{}")
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_file","arguments":{"path":"a.txt"}}}`)
	if m := w.answer(1); m.Error == nil || m.Error.Code != -32603 || strings.Contains(m.Error.Message, "told to") {
		t.Errorf("got %+v", m)
	}
	w.alive(2)
}
