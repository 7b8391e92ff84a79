//go:build linux

package mcpserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

// withSnapshots is a set of tools over a directory whose states can be kept.
func withSnapshots(t *testing.T, o tools.Options) (*tools.Set, string) {
	t.Helper()
	dir := t.TempDir()
	d, err := host.New(dir, host.Options{Env: host.InheritedEnv(os.Environ())})
	if err != nil {
		t.Fatal(err)
	}
	store, err := snapshot.Open(d.Root(), snapshot.Place{Dir: filepath.Join(t.TempDir(), "store")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	snaps, err := snapshot.New(d.Root(), store, snapshot.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.New(d, workspace.Options{Snapshots: snaps})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	set, err := tools.NewSet(ws, o)
	if err != nil {
		t.Fatal(err)
	}
	return set, dir
}

// Kept states are resources: their list, whose subscribers hear of new ones, and
// of each what has changed since.
func TestSnapshotsAreResources(t *testing.T) {
	set, dir := withSnapshots(t, tools.Options{})
	put(t, dir, "a.txt", "one\n")
	w := newWire(t, set)
	w.initialize("2025-06-18", "{}")
	if m := w.read(1, "wsctl://snapshots"); m.Error != nil || !strings.Contains(string(m.Result), `\"total\":0`) {
		t.Errorf("got %s, %+v", m.Result, m.Error)
	}
	w.send(`{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"wsctl://snapshots"}}`)
	if m := w.answer(2); m.Error != nil {
		t.Fatalf("got %+v", m.Error)
	}
	w.send(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"snapshot_checkpoint","arguments":{"label":"first"}}}`)
	for {
		if m := w.next(); m.Method == "notifications/resources/updated" && strings.Contains(string(m.Params), "wsctl://snapshots") {
			break
		}
	}
	put(t, dir, "a.txt", "two\n")
	if m := w.read(4, "wsctl://snapshot/latest"); m.Error != nil || !strings.Contains(string(m.Result), "-one") || !strings.Contains(string(m.Result), "+two") {
		t.Errorf("got %s, %+v", m.Result, m.Error)
	}
	for i, uri := range []string{"wsctl://snapshot/none", "wsctl://snapshot/", "wsctl://snapshot/../x", "wsctl://snapshot/a%2fb", "wsctl://snapshot/latest?x", "wsctl://snapshots/", "wsctl://snapshots#x"} {
		if m := w.read(10+i, uri); m.Error == nil {
			t.Errorf("%s: got %s", uri, m.Result)
		}
	}

	// A person can ask for a review of it with one word.
	w.send(`{"jsonrpc":"2.0","id":30,"method":"prompts/get","params":{"name":"review_changes"}}`)
	if m := w.answer(30); m.Error != nil || !strings.Contains(string(m.Result), "Review what has changed") || !strings.Contains(string(m.Result), "+two") {
		t.Errorf("got %s, %+v", m.Result, m.Error)
	}
	w.send(`{"jsonrpc":"2.0","id":31,"method":"prompts/get","params":{"name":"review_changes","arguments":{"since":"../x"}}}`)
	if m := w.answer(31); m.Error == nil {
		t.Errorf("got %s", m.Result)
	}
}

// What the policy does not let the tools do, resources do not either.
func TestSnapshotsObeyThePolicy(t *testing.T) {
	policy, err := tools.ParsePolicy([]byte(`{"tools":{"snapshot_diff":"deny"}}`))
	if err != nil {
		t.Fatal(err)
	}
	set, _ := withSnapshots(t, tools.Options{Policy: policy})
	w := newWire(t, set)
	w.initialize("2025-06-18", "{}")
	w.call(1, "snapshot_checkpoint", "{}")
	if m := w.read(2, "wsctl://snapshot/latest"); m.Error == nil || !strings.Contains(m.Error.Message, "DENIED") {
		t.Errorf("got %s, %+v", m.Result, m.Error)
	}
	if m := w.read(3, "wsctl://snapshots"); m.Error != nil {
		t.Errorf("got %+v", m.Error)
	}
}
