//go:build unix

package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/mcpserver"
	"github.com/wsctl/wsctl/tools"
)

// asking has every call of write_file asked about.
var asking = tools.Options{RequireApproval: func(name string, _ json.RawMessage) bool { return name == "write_file" }}

const writeArgs = `{"path":"a.txt","content":"x"}`

func written(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "a.txt"))
	return err == nil
}

func TestUserIsAskedByElicitation(t *testing.T) {
	for _, c := range []struct {
		answer  string
		allowed bool
	}{
		{`"result":{"action":"accept","content":{}}`, true},
		{`"result":{"action":"accept"}`, true},
		{`"result":{"action":"decline"}`, false},
		{`"result":{"action":"cancel"}`, false},
	} {
		set, dir := newSet(t, asking)
		w := newWire(t, set)
		w.initialize("2025-06-18", `{"elicitation":{}}`)
		w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_file","arguments":` + writeArgs + `}}`)
		q := w.next()
		if q.Method != "elicitation/create" || !strings.Contains(string(q.Params), "write_file") || !strings.Contains(string(q.Params), "a.txt") {
			t.Fatalf("got %+v", q)
		}
		if written(dir) {
			t.Fatal("it was written before the answer")
		}
		// The user thinks, and other calls go on.
		w.alive(2)
		w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, q.ID, c.answer))
		r := resultOf(t, w.answer(1))
		if r.IsError == c.allowed || written(dir) != c.allowed {
			t.Errorf("%s: got %+v", c.answer, r)
		}
		if !c.allowed && !strings.HasPrefix(r.text(), "DENIED: ") {
			t.Errorf("%s: got %q", c.answer, r.text())
		}
		w.alive(3)
	}
}

func TestWhereNobodyCanBeAskedTheWayToAllowIsTold(t *testing.T) {
	for _, capabilities := range []string{`{}`, `{"elicitation":{"url":{}}}`} {
		set, dir := newSet(t, asking)
		w := newWireWith(t, set, mcpserver.Options{HowToAllow: "start wsctl mcp with --approve"})
		w.initialize("2025-06-18", capabilities)
		r := w.call(1, "write_file", writeArgs)
		if !r.IsError || !strings.HasPrefix(r.text(), "DENIED: ") || !strings.Contains(r.text(), "start wsctl mcp with --approve") || written(dir) {
			t.Errorf("%s: got %+v", capabilities, r)
		}
	}
}

// round is a call of the newest revision, where a question is a result.
type round struct {
	ResultType    string `json:"resultType"`
	RequestState  string `json:"requestState"`
	IsError       bool   `json:"isError"`
	InputRequests map[string]struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	} `json:"inputRequests"`
}

func (w *wire) round(id int, args, more string) round {
	w.Helper()
	w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"write_file","arguments":%s%s,`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}}}}`, id, args, more))
	m := w.answer(id)
	if m.Error != nil {
		w.Fatalf("got %+v", m.Error)
	}
	var r round
	if err := json.Unmarshal(m.Result, &r); err != nil {
		w.Fatal(err)
	}
	return r
}

// An answer counts once, and for the call that was asked about.
func TestAnswerComesWithTheNextCall(t *testing.T) {
	set, dir := newSet(t, asking)
	w := newWire(t, set)
	answered := func(state, action string) string {
		return fmt.Sprintf(`,"requestState":%q,"inputResponses":{"approval":{"action":%q}}`, state, action)
	}
	first := w.round(1, writeArgs, "")
	if first.ResultType != "input_required" || first.InputRequests["approval"].Method != "elicitation/create" || first.RequestState == "" {
		t.Fatalf("got %+v", first)
	}
	// Made up, for another call, refused.
	for i, c := range []struct{ args, more string }{
		{writeArgs, answered("made up", "accept")},
		{`{"path":"a.txt","content":"other"}`, answered(first.RequestState, "accept")},
	} {
		if r := w.round(10+i, c.args, c.more); r.ResultType != "input_required" || written(dir) {
			t.Errorf("%s: got %+v", c.more, r)
		}
	}
	second := w.round(20, writeArgs, "")
	if r := w.round(21, writeArgs, answered(second.RequestState, "decline")); !r.IsError || written(dir) {
		t.Errorf("got %+v", r)
	}
	third := w.round(30, writeArgs, "")
	if r := w.round(31, writeArgs, answered(third.RequestState, "accept")); r.IsError || r.ResultType != "complete" || !written(dir) {
		t.Errorf("got %+v", r)
	}
	if r := w.round(32, writeArgs, answered(third.RequestState, "accept")); r.ResultType != "input_required" {
		t.Errorf("an answer counted twice: %+v", r)
	}
}

// What a model writes cannot change what the user sees around it.
func TestQuestionIsInert(t *testing.T) {
	set, _ := newSet(t, asking)
	w := newWire(t, set)
	w.initialize("2025-06-18", `{"elicitation":{}}`)
	args, err := json.Marshal(map[string]string{
		"path":    "a.txt",
		"content": "![x](http://192.0.2.1/leak)\n```\n\n# May the agent look at a file?\n<img src=x>\x1b]52;c;x\x07\u202egnp.exe" + strings.Repeat("y", 5000) + "; rm -rf ~",
	})
	if err != nil {
		t.Fatal(err)
	}
	w.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write_file","arguments":` + string(args) + `}}`)
	q := w.next()
	var p struct{ Message string }
	if err := json.Unmarshal(q.Params, &p); err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(p.Message, "\n\n")
	for line := range strings.SplitSeq(strings.TrimSuffix(shown, "\n"), "\n") {
		if !strings.HasPrefix(line, "    ") {
			t.Errorf("a line is no code: %q", line)
		}
	}
	for _, r := range p.Message {
		if (r < ' ' && r != '\n') || r == 0x202e || r == 0x7f {
			t.Errorf("%q is shown as it is", r)
		}
	}
	if !strings.Contains(p.Message, "more characters") {
		t.Error("what is left out is not told")
	}
	w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"action":"cancel"}}`, q.ID))
	w.answer(1)
}
