//go:build linux

package orchestrator_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/workspace"
)

func auditFile(t *testing.T) string { return filepath.Join(t.TempDir(), "audit.jsonl") }

func openAudit(t *testing.T, name string) *orchestrator.Audit {
	t.Helper()
	a, err := orchestrator.OpenAudit(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func entries(t *testing.T, name string) []orchestrator.Entry {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var list []orchestrator.Entry
	for line := range strings.Lines(string(b)) {
		var e orchestrator.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		list = append(list, e)
	}
	return list
}

// Every entry is one line, whatever is in it, and the file is the owner's alone.
func TestAuditLines(t *testing.T) {
	name := auditFile(t)
	a := openAudit(t, name)
	hostile := "a\n{\"seq\":9,\"op\":\"fake\"}\r\u2028\x00\xff\x1b[2J" + strings.Repeat("x", 10_000)
	if err := a.Append(orchestrator.Entry{Who: hostile, Op: "exec", Path: hostile, Args: []string{hostile, hostile, hostile}, Shell: hostile}); err != nil {
		t.Fatal(err)
	}
	if err := a.Append(orchestrator.Entry{Op: "next"}); err != nil {
		t.Fatal(err)
	}
	list := entries(t, name)
	if len(list) != 2 || list[0].Op != "exec" || list[1].Op != "next" || list[1].Prev != list[0].Hash || list[1].Seq != 2 {
		t.Errorf("got %+v", list)
	}
	if n := len(list[0].Path); n > 5000 {
		t.Errorf("a text of %d bytes", n)
	}
	if fi, err := os.Stat(name); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
}

// The chain goes on over restarts, through writers at once, and after a line
// that a crash cut short.
func TestAuditGoesOn(t *testing.T) {
	name := auditFile(t)
	a := openAudit(t, name)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for j := range 25 {
				if err := a.Append(orchestrator.Entry{Op: fmt.Sprint(i, j)}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(f, `{"seq":201,"op":"cut sh`)
	f.Close()
	a = openAudit(t, name)
	if err := a.Append(orchestrator.Entry{Op: "after"}); err != nil {
		t.Fatal(err)
	}
	f, err = os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, last, err := orchestrator.VerifyAudit(f); err != nil || last.Seq != 201 || last.Op != "after" {
		t.Errorf("got %+v, %v", last, err)
	}
	if list, last, err := orchestrator.ReadAudit(name, 190, 5); err != nil || last != 195 || len(list) != 5 || list[0].Seq != 191 {
		t.Errorf("read to %d, %v: %+v", last, err, list)
	}
}

// Whatever is done to a line is found, and a damaged log is not gone on with.
func TestAuditTampering(t *testing.T) {
	good := auditFile(t)
	a := openAudit(t, good)
	for i := range 5 {
		if err := a.Append(orchestrator.Entry{Who: "eve", Op: fmt.Sprint("op", i)}); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	for what, text := range map[string]string{
		"changed":  strings.Replace(string(whole), "eve", "bob", 1),
		"left out": lines[0] + lines[2] + lines[3],
		"put in":   lines[0] + lines[0] + lines[1],
		"swapped":  lines[1] + lines[0],
		"no JSON":  lines[0] + "{}}\n" + lines[1],
		"spaces":   lines[0] + "\n" + lines[1],
	} {
		name := auditFile(t)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := orchestrator.OpenAudit(name, nil); !errors.Is(err, workspace.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		if b, _ := os.ReadFile(name); string(b) != text {
			t.Errorf("%s: the file was changed", what)
		}
	}
	link := auditFile(t)
	if err := os.Symlink(good, link); err != nil {
		t.Fatal(err)
	}
	if _, err := orchestrator.OpenAudit(link, nil); err == nil {
		t.Error("a link was followed")
	}
}

// What looks like a secret is blanked out, and other text is left alone.
func TestRedact(t *testing.T) {
	for text, secret := range map[string]string{
		"curl -H 'Authorization: Bearer abcdefgh12345678'":                     "abcdefgh12345678",
		"export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG":                   "wJalrXUtnFEMI",
		"PGPASSWORD='hunter2 x' psql":                                          "hunter2",
		"git clone https://user:s3cr3t@example.org/x":                          "s3cr3t",
		"echo ghp_abcdefghijklmnopqrstuvwxyz0123456789":                        "ghp_abcdefghij",
		"x sk-proj-abcdefghijklmnop1234 y":                                     "abcdefghijklmnop",
		`{"api_key": "k-123456"}`:                                              "k-123456",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----": "MIIE",
		"token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl":              "eyJzdWIiOiIxIn0",
		"AKIAIOSFODNN7EXAMPLE":                                                 "AKIAIOSFODNN7EXAMPLE",
	} {
		if got := orchestrator.Redact(text); strings.Contains(got, secret) || !strings.Contains(got, "[redacted]") {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, text := range []string{"go test ./...", "sed -i s/a/b/ tokens.go", "https://example.org:8080/a@b", "ls -la", "author=x", "key value"} {
		if got := orchestrator.Redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	name := auditFile(t)
	a := openAudit(t, name)
	if err := a.Append(orchestrator.Entry{Op: "exec", Args: []string{"login", "--password", "hunter2", "-token", "t0p"}}); err != nil {
		t.Fatal(err)
	}
	if got := entries(t, name)[0].Args; strings.Contains(fmt.Sprint(got), "hunter2") || strings.Contains(fmt.Sprint(got), "t0p") || got[1] != "--password" {
		t.Errorf("got %q", got)
	}
}

// Commands are written down before they run and when they have ended, changes
// and lives too, failures with their code, and nothing of an environment.
func TestWhatIsAudited(t *testing.T) {
	c := hostConfig(t)
	o := open(t, c)
	w := create(t, o, hostSpec("a"))
	ws, done, err := o.Open(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if _, err := ws.Exec(t.Context(), workspace.Command{Shell: "exit 3", Env: []string{"S=canary-value"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := ws.WriteFile(t.Context(), "f", []byte("x"), workspace.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := ws.WriteFile(t.Context(), "../f", []byte("x"), workspace.WriteOptions{}); err == nil {
		t.Fatal("it left the root")
	}
	if err := o.Remove(t.Context(), "none"); err == nil {
		t.Fatal("removed nothing")
	}
	list := entries(t, filepath.Join(c.Dir, "audit.jsonl"))
	var got []string
	for _, e := range list {
		line := e.Op + " " + e.Path
		if e.Exit != nil {
			line += fmt.Sprint(" exit ", *e.Exit)
		}
		if code, _, ok := strings.Cut(e.Error, ":"); ok {
			line += " " + code
		}
		got = append(got, line)
	}
	want := []string{"create a", "exec.begin ", "exec  exit 3", "write f", "write ../f OUTSIDE_ROOT", "remove none NOT_FOUND"}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, e := range list[:5] {
		if e.Workspace != w.ID || e.Who == "" || e.Time.IsZero() {
			t.Errorf("incomplete: %+v", e)
		}
	}
	if b, _ := os.ReadFile(filepath.Join(c.Dir, "audit.jsonl")); bytes.Contains(b, []byte("canary")) {
		t.Error("a value of the environment is in the log")
	}
}
