//go:build unix

package tools_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

// bench is a directory with a set of tools over it.
type bench struct {
	*testing.T
	dir string
	ws  *workspace.Workspace
	set *tools.Set
}

// newBench makes a set over a new directory of this machine.
func newBench(t *testing.T, o tools.Options) *bench {
	t.Helper()
	dir := t.TempDir()
	d, err := host.New(dir, host.Options{Env: host.InheritedEnv(os.Environ())})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	return &bench{T: t, dir: dir, ws: ws, set: newSet(t, ws, o)}
}

func newSet(t *testing.T, ws *workspace.Workspace, o tools.Options) *tools.Set {
	t.Helper()
	set, err := tools.NewSet(ws, o)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// put writes a file from outside the workspace.
func (b *bench) put(name, content string) {
	b.Helper()
	full := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		b.Fatal(err)
	}
}

// call runs a tool with args, a struct, a map, or JSON as it is, and checks what
// holds for every result.
func (b *bench) call(name string, args any) *tools.Result {
	b.Helper()
	return b.callIn(b.set, name, args)
}

func (b *bench) callIn(set *tools.Set, name string, args any) *tools.Result {
	b.Helper()
	r := set.Call(b.Context(), tools.Request{Name: name, Args: rawArgs(b.T, args)})
	checkResult(b.T, set, name, r)
	return r
}

func rawArgs(t *testing.T, args any) json.RawMessage {
	t.Helper()
	if text, ok := args.(string); ok {
		return json.RawMessage(text)
	}
	raw, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// checkResult checks what holds for every result.
func checkResult(t *testing.T, set *tools.Set, name string, r *tools.Result) {
	t.Helper()
	if !utf8.ValidString(r.Text) || !utf8.Valid(r.Structured) {
		t.Errorf("%s: the result is not UTF-8", name)
	}
	if r.IsError != (r.Code != "") {
		t.Errorf("%s: IsError is %v and the code %q", name, r.IsError, r.Code)
	}
	if r.IsError && !strings.HasPrefix(r.Text, string(r.Code)) {
		t.Errorf("%s: the text of a failure does not begin with its code: %s", name, r.Text)
	}
	if r.Structured == nil {
		if !r.IsError {
			t.Errorf("%s: no structured result", name)
		}
		return
	}
	schema, err := set.Tool(name).Output.Resolve(&jsonschema.ResolveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(r.Structured, &v); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(v); err != nil {
		t.Errorf("%s: the structured result is not what its schema says: %v\n%s", name, err, r.Structured)
	}
}

// ok runs a tool that must not fail and returns its structured result.
func (b *bench) ok(name string, args any) map[string]any {
	b.Helper()
	r := b.call(name, args)
	if r.IsError {
		b.Fatalf("%s %v: %s", name, args, r.Text)
	}
	return structuredOf(b.T, r)
}

func structuredOf(t *testing.T, r *tools.Result) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(r.Structured, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// fails runs a tool that must fail with code, and returns what it says.
func (b *bench) fails(name string, args any, code workspace.Code, says ...string) string {
	b.Helper()
	r := b.call(name, args)
	if r.Code != code {
		b.Errorf("%s %v: the code is %q, want %s: %s", name, args, r.Code, code, r.Text)
	}
	for _, s := range says {
		if !strings.Contains(r.Text, s) {
			b.Errorf("%s %v: nothing of %q in: %s", name, args, s, r.Text)
		}
	}
	if strings.Contains(r.Text, "\n") && r.Structured == nil {
		b.Errorf("%s %v: a failure of several lines: %s", name, args, r.Text)
	}
	return r.Text
}

// args is arguments of a call.
type args map[string]any
