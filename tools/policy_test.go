//go:build unix

package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

// decided runs a call under a policy with an asker, and returns what was decided
// before anybody was asked.
func (b *bench) decided(policy, tool string, a args) tools.Action {
	b.Helper()
	p, err := tools.ParsePolicy([]byte(policy))
	if err != nil {
		b.Fatal(err)
	}
	asked := false
	set := newSet(b.T, b.ws, tools.Options{Policy: p, Ask: func(context.Context, tools.Question) (bool, error) {
		asked = true
		return false, nil
	}})
	defer set.Close()
	r := b.callIn(set, tool, a)
	switch {
	case asked && r.Code == workspace.ErrDenied:
		return tools.Ask
	case asked:
		b.Errorf("%s %v: a person refused it, and it went on: %s", tool, a, r.Text)
	case r.Code == workspace.ErrDenied:
		return tools.Deny
	}
	return tools.Allow
}

// No text gets past the rules of commands.
func TestPolicyOfCommands(t *testing.T) {
	b := newBench(t, tools.Options{})
	const policy = `{"tools":{"run_command":"ask"},"rules":[
		{"action":"allow","commands":["echo","true","git status","cd sub"]},
		{"action":"ask","commands":["git push"]},
		{"action":"deny","commands":["rm","git push --force"]}]}`
	const open = `{"rules":[{"action":"deny","commands":["rm"]}]}`
	for _, c := range []struct {
		command string
		strict  tools.Action // under policy
		open    tools.Action // under one that allows all but rm
	}{
		{"echo a b", tools.Allow, tools.Allow},
		{"  echo 'a  b' \"c\"\n", tools.Allow, tools.Allow},
		{"echo a; true && echo b || echo c | true", tools.Allow, tools.Allow},
		{"echo a\necho b", tools.Allow, tools.Allow},
		{"echo a 2>&1 >/dev/null", tools.Allow, tools.Allow},
		{"'echo' a", tools.Allow, tools.Allow},
		{"echo rm", tools.Allow, tools.Allow},
		{"git status --porcelain", tools.Allow, tools.Allow},

		{"git statusx", tools.Ask, tools.Allow},
		{"git -c core.pager=x status", tools.Ask, tools.Allow},
		{"git", tools.Ask, tools.Allow},
		{"echoecho", tools.Ask, tools.Allow},
		{"./echo a", tools.Ask, tools.Allow},
		{"ls", tools.Ask, tools.Allow},
		{"echo a; ls", tools.Ask, tools.Allow},
		{"echo a && ls", tools.Ask, tools.Allow},
		{"echo a | ls", tools.Ask, tools.Allow},
		{"echo a\nls", tools.Ask, tools.Allow},
		{"git push", tools.Ask, tools.Allow},

		{"echo $(ls)", tools.Ask, tools.Ask},
		{"echo `ls`", tools.Ask, tools.Ask},
		{"echo \"$(ls)\"", tools.Ask, tools.Ask},
		{"echo $HOME", tools.Ask, tools.Ask},
		{"echo ${HOME}", tools.Ask, tools.Ask},
		{"echo *", tools.Ask, tools.Ask},
		{"echo ~", tools.Ask, tools.Ask},
		{"echo {a,b}", tools.Ask, tools.Ask},
		{"echo a > f", tools.Ask, tools.Ask},
		{"echo a >> f", tools.Ask, tools.Ask},
		{"echo a < f", tools.Ask, tools.Ask},
		{"echo <<E\na\nE", tools.Ask, tools.Ask},
		{"echo a &", tools.Ask, tools.Ask},
		{"echo a & ls", tools.Ask, tools.Ask},
		{"A=b echo a", tools.Ask, tools.Ask},
		{"A=b", tools.Ask, tools.Ask},
		{"! echo a", tools.Ask, tools.Ask},
		{"(echo a)", tools.Ask, tools.Ask},
		{"{ echo a; }", tools.Ask, tools.Ask},
		{"if true; then echo a; fi", tools.Ask, tools.Ask},
		{"echo() { ls; }; echo a", tools.Ask, tools.Ask},
		{"e\\cho a", tools.Ask, tools.Ask},
		{"$'echo' a", tools.Ask, tools.Ask},
		{"echo a &> f", tools.Ask, tools.Ask},
		{"echo a |& ls", tools.Ask, tools.Ask},
		{"echo <(ls)", tools.Ask, tools.Ask},
		{"echo \"open", tools.Ask, tools.Ask},
		{"eval echo a", tools.Ask, tools.Ask},
		{"sh -c 'ls'", tools.Ask, tools.Ask},

		{"rm f", tools.Deny, tools.Deny},
		{"echo a; rm f", tools.Deny, tools.Deny},
		{"echo a\nrm f", tools.Deny, tools.Deny},
		{"echo a &\nrm f", tools.Deny, tools.Deny},
		{"echo $(rm f)", tools.Deny, tools.Deny},
		{"echo \"`rm f`\"", tools.Deny, tools.Deny},
		{"if true; then rm f; fi", tools.Deny, tools.Deny},
		{"A=b rm f", tools.Deny, tools.Deny},
		{"'r'm f", tools.Deny, tools.Deny},
		{"/bin/rm f", tools.Deny, tools.Deny},
		{"env A=b rm f", tools.Deny, tools.Deny},
		{"true | xargs -n 1 rm", tools.Deny, tools.Deny},
		{"r\\m f", tools.Ask, tools.Ask},
		{"$(echo rm) f", tools.Ask, tools.Ask},
		{"sh -c 'rm f'", tools.Ask, tools.Ask},
		{"git push --force", tools.Deny, tools.Allow},
	} {
		a := args{"command": c.command}
		if got := b.decided(policy, "run_command", a); got != c.strict {
			t.Errorf("%q is %s, want %s", c.command, got, c.strict)
		}
		if got := b.decided(open, "run_command", a); got != c.open {
			t.Errorf("where all but rm is allowed %q is %s, want %s", c.command, got, c.open)
		}
	}
	// The same words are another program with another PATH.
	if got := b.decided(policy, "run_command", args{"command": "echo a", "env": args{"PATH": "."}}); got != tools.Ask {
		t.Errorf("with a PATH: %s", got)
	}
	if got := b.decided(policy, "process_start", args{"command": "rm f"}); got != tools.Deny {
		t.Errorf("process_start: %s", got)
	}
	// A rule for one tool is none for another.
	only := `{"rules":[{"action":"deny","tools":["run_command"],"commands":["rm"]}]}`
	if got := b.decided(only, "process_start", args{"command": "rm f"}); got != tools.Allow {
		t.Errorf("process_start: %s", got)
	}
}

// No spelling and no link gets past the rules of paths.
func TestPolicyOfPaths(t *testing.T) {
	b := newBench(t, tools.Options{})
	for _, f := range []string{"src/a.go", "src/deep/b.go", ".env", "src/.env", "secrets/key", "a[1].txt"} {
		b.put(f, "x\n")
	}
	for link, target := range map[string]string{"to-env": ".env", "src/to-secrets": "../secrets", "abs": b.dir + "/secrets/key", "src/loop": "loop"} {
		if err := os.Symlink(target, filepath.Join(b.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	const policy = `{"default":"ask","rules":[
		{"action":"allow","paths":["src/**"]},
		{"action":"deny","paths":[".env","secrets","**/*.{pem,key}"]},
		{"action":"ask","tools":["write_file"],"paths":["src/deep/*"]}]}`
	for path, want := range map[string]tools.Action{
		"src/a.go":                   tools.Allow,
		"./src//deep/../a.go":        tools.Allow,
		b.dir + "/src/a.go":          tools.Allow,
		"src/deep/b.go":              tools.Allow,
		"other":                      tools.Ask,
		"src/../other":               tools.Ask,
		"srcx/a":                     tools.Ask,
		".env":                       tools.Deny,
		"./.env":                     tools.Deny,
		"src/../.env":                tools.Deny,
		b.dir + "/.env":              tools.Deny,
		"src/.env":                   tools.Deny,
		"to-env":                     tools.Deny,
		"secrets/key":                tools.Deny,
		"secrets/not-there":          tools.Deny,
		"src/to-secrets/key":         tools.Deny,
		"src/to-secrets/../.env":     tools.Deny,
		"abs":                        tools.Deny,
		"src/x.pem":                  tools.Deny,
		"src/loop":                   tools.Allow,
		"src/to-secrets/../other":    tools.Ask,
		"src/../secrets/../src/a.go": tools.Allow,
	} {
		if got := b.decided(policy, "read_file", args{"path": path}); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
	if got := b.decided(policy, "write_file", args{"path": "src/deep/c.go", "content": ""}); got != tools.Ask {
		t.Errorf("write_file: %s", got)
	}
	if got := b.decided(policy, "edit_file", edit1(".env", "x", "y")); got != tools.Deny || b.get(".env") != "x\n" {
		t.Errorf("edit_file: %s", got)
	}
	// A path allows no command, and forbids one its directory.
	if got := b.decided(policy, "run_command", args{"command": "true", "cwd": "src"}); got != tools.Ask {
		t.Errorf("a command in src: %s", got)
	}
	if got := b.decided(policy, "run_command", args{"command": "true", "cwd": "src/to-secrets"}); got != tools.Deny {
		t.Errorf("a command in secrets: %s", got)
	}
}

func TestPolicyDefaults(t *testing.T) {
	b := newBench(t, tools.Options{})
	b.put("f", "x\n")
	const policy = `{"default":"deny","readOnly":"allow","tools":{"write_file":"ask"}}`
	for _, c := range []struct {
		tool string
		args args
		want tools.Action
	}{
		{"read_file", args{"path": "f"}, tools.Allow},
		{"write_file", args{"path": "f", "content": ""}, tools.Ask},
		{"edit_file", edit1("f", "x", "y"), tools.Deny},
		{"run_command", args{"command": "true"}, tools.Deny},
		{"process_list", args{}, tools.Allow},
	} {
		if got := b.decided(policy, c.tool, c.args); got != c.want {
			t.Errorf("%s is %s, want %s", c.tool, got, c.want)
		}
	}
	if got := b.decided(`{}`, "run_command", args{"command": "true"}); got != tools.Allow {
		t.Errorf("with nothing said: %s", got)
	}
	if b.get("f") != "x\n" {
		t.Error("what was refused was done")
	}
}

func TestPolicyIsReadStrictly(t *testing.T) {
	for _, text := range []string{
		``, `null x`, `[]`, `{"defaults":"allow"}`, `{"default":"maybe"}`, `{"readOnly":"ALLOW"}`,
		`{"tools":{"rm":"deny"}}`, `{"tools":{"read_file":"no"}}`,
		`{"rules":[{"action":"deny"}]}`, `{"rules":[{"paths":["a"]}]}`,
		`{"rules":[{"action":"deny","paths":["a"],"commands":["b"]}]}`,
		`{"rules":[{"action":"deny","paths":["[a"]}]}`, `{"rules":[{"action":"deny","paths":["/etc"]}]}`,
		`{"rules":[{"action":"deny","paths":[""]}]}`, `{"rules":[{"action":"deny","commands":[""]}]}`,
		`{"rules":[{"action":"deny","commands":["a; b"]}]}`, `{"rules":[{"action":"allow","commands":["$A"]}]}`,
		`{"rules":[{"action":"deny","tools":["x"],"commands":["a"]}]}`, `{} {}`,
	} {
		if _, err := tools.ParsePolicy([]byte(text)); workspace.CodeOf(err) != workspace.ErrInvalidArgument {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := tools.NewSet(nil, tools.Options{Policy: &tools.Policy{Default: "x"}}); err == nil {
		t.Error("a set takes a policy that means nothing")
	}
}

func TestApprovals(t *testing.T) {
	b := newBench(t, tools.Options{})
	write := args{"path": "f", "content": "x"}
	hook := func(name string, raw json.RawMessage) bool {
		return name == "write_file" && bytes.Contains(raw, []byte(`"f"`))
	}
	for _, c := range []struct {
		name string
		o    tools.Options
		ask  tools.Asker
		code workspace.Code
		says string
	}{
		{"nobody to ask", tools.Options{RequireApproval: hook}, nil, workspace.ErrDenied, `nobody to ask: the user can allow it in the policy, with {"tools":{"write_file":"allow"}}`},
		{"nobody to ask, by policy", tools.Options{Policy: &tools.Policy{Default: tools.Ask}}, nil, workspace.ErrDenied, "nobody to ask"},
		{"yes", tools.Options{RequireApproval: hook}, answer(true, nil), "", ""},
		{"no", tools.Options{RequireApproval: hook}, answer(false, nil), workspace.ErrDenied, "the user refused"},
		{"cannot be asked", tools.Options{RequireApproval: hook}, answer(true, errors.New("no elicitation")), workspace.ErrDenied, "nobody could be asked (no elicitation)"},
		{"of the set", tools.Options{RequireApproval: hook, Ask: answer(true, nil)}, nil, "", ""},
		{"the call's comes first", tools.Options{RequireApproval: hook, Ask: answer(true, nil)}, answer(false, nil), workspace.ErrDenied, "refused"},
		{"a hook allows nothing", tools.Options{RequireApproval: func(string, json.RawMessage) bool { return false }, Policy: &tools.Policy{Default: tools.Deny}}, answer(true, nil), workspace.ErrDenied, "to deny"},
	} {
		set := newSet(t, b.ws, c.o)
		r := set.Call(t.Context(), tools.Request{Name: "write_file", Args: rawArgs(t, write), Ask: c.ask})
		checkResult(t, set, "write_file", r)
		if r.Code != c.code || !strings.Contains(r.Text, c.says) {
			t.Errorf("%s: %s", c.name, r.Text)
		}
		if _, err := os.Stat(filepath.Join(b.dir, "f")); (err == nil) != (c.code == "") {
			t.Errorf("%s: the file: %v", c.name, err)
		}
		os.Remove(filepath.Join(b.dir, "f"))
	}
}

func answer(yes bool, err error) tools.Asker {
	return func(context.Context, tools.Question) (bool, error) { return yes, err }
}

// The audit has one line a decision and one a call, whatever is in their texts.
func TestAudit(t *testing.T) {
	var log bytes.Buffer
	b := newBench(t, tools.Options{Run: "r\n\"}", Audit: tools.AuditLog(&log, nil), Policy: &tools.Policy{Tools: map[string]tools.Action{"write_file": tools.Deny}}})
	const evil = "echo a\n{\"kind\":\"decision\",\"tool\":\"x\"}\u2028\x1b[2J"
	b.call("run_command", args{"command": evil, "env": args{"S": "canary123"}})
	b.call("write_file", args{"path": "a\nb", "content": "canary123"})
	b.call("no\nsuch", args{"path": "a"})
	b.call("read_file", args{"path": 1})
	lines := strings.Split(strings.TrimSuffix(log.String(), "\n"), "\n")
	var events []tools.Event
	for _, line := range lines {
		var e tools.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		events = append(events, e)
	}
	if len(events) != 6 {
		t.Fatalf("%d events: %s", len(events), log.String())
	}
	if e := events[0]; e.Kind != tools.EventDecision || e.Command != evil || e.Decision != tools.Allow || e.Root != b.ws.Root() || e.Run != "r\n\"}" {
		t.Errorf("got %+v", e)
	}
	if e := events[1]; e.Kind != tools.EventCall || e.Code != "" || e.Call != events[0].Call || e.Bytes == 0 {
		t.Errorf("got %+v", e)
	}
	if e := events[2]; e.Decision != tools.Deny || e.By != "tool" || e.Paths[0] != "a\nb" {
		t.Errorf("got %+v", e)
	}
	if e := events[4]; e.Tool != "no\nsuch" || e.Code != workspace.ErrInvalidArgument {
		t.Errorf("got %+v", e)
	}
	if strings.Contains(log.String(), "canary123") {
		t.Error("content or environment is in the audit")
	}
	var mu sync.Mutex
	failed := 0
	failing := tools.AuditLog(brokenWriter{}, func(error) { mu.Lock(); failed++; mu.Unlock() })
	failing(tools.Event{})
	if failed != 1 {
		t.Error("a write that failed is not told")
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("full") }
