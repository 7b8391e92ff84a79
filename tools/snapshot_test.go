//go:build linux

package tools_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

// withSnapshots is a bench whose workspace has a store of snapshots.
func withSnapshots(t *testing.T) *bench {
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
	return &bench{T: t, dir: dir, ws: ws, set: newSet(t, ws, tools.Options{})}
}

// A checkpoint brings back what edits and commands have done since.
func TestSnapshots(t *testing.T) {
	b := withSnapshots(t)
	b.put("src/a.go", "one\n")
	b.put("keep", "same\n")
	if got := b.ok("snapshot_list", args{}); got["total"] != 0.0 {
		t.Errorf("got %v", got)
	}
	kept := b.ok("snapshot_checkpoint", args{"label": "before\nthe change"})
	if kept["files"] != 2.0 || kept["label"] != "before\nthe change" {
		t.Errorf("got %v", kept)
	}
	b.ok("edit_file", edit1("src/a.go", "one", "two"))
	b.ok("run_command", args{"command": "rm keep; echo new > new"})
	list := b.ok("snapshot_list", args{"limit": 1})["snapshots"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["id"] != kept["id"] {
		t.Errorf("got %v", list)
	}
	diff := b.ok("snapshot_diff", args{"paths": []string{"src", "new"}})["changes"].([]any)
	if len(diff) != 2 || !strings.Contains(diff[1].(map[string]any)["patch"].(string), "-one\n+two\n") {
		t.Errorf("differs: %v", diff)
	}
	// As commands see it, and so as a model may spell it.
	diff = b.ok("snapshot_diff", args{"paths": []string{b.ws.Root() + "/new", "./src/../none"}})["changes"].([]any)
	if len(diff) != 1 || diff[0].(map[string]any)["path"] != "new" {
		t.Errorf("differs: %v", diff)
	}
	b.fails("snapshot_diff", args{"paths": []string{"../x"}}, workspace.ErrOutside)
	plan := b.ok("snapshot_restore", args{"id": "latest", "dry_run": true})
	if plan["dry_run"] != true || b.get("src/a.go") != "two\n" {
		t.Errorf("a dry run: %v", plan)
	}
	// Of one path alone.
	b.ok("snapshot_restore", args{"id": kept["id"], "paths": []string{"src"}})
	if b.get("src/a.go") != "one\n" || b.get("new") != "new\n" {
		t.Error("a restore of src did something else")
	}
	done := b.ok("snapshot_restore", args{"id": kept["id"]})
	if _, err := os.Stat(filepath.Join(b.dir, "new")); err == nil || b.get("keep") != "same\n" {
		t.Errorf("got %v", done)
	}
	// A restore can be undone.
	b.ok("snapshot_restore", args{"id": done["backup"]})
	if b.get("new") != "new\n" {
		t.Error("the state before the restore did not come back")
	}
	b.fails("snapshot_restore", args{"id": "none"}, workspace.ErrNotFound)
}

// A restore beside a process is refused, unless it is asked for.
func TestSnapshotRestoreWhileAProcessRuns(t *testing.T) {
	b := withSnapshots(t)
	defer b.set.Close()
	b.put("f", "one\n")
	id := b.ok("snapshot_checkpoint", args{})["id"]
	b.put("f", "two\n")
	b.ok("process_start", args{"command": "sleep 60"})
	b.fails("snapshot_restore", args{"id": id}, workspace.ErrBusy)
	if got := b.ok("snapshot_restore", args{"id": id, "dry_run": true}); got["busy"] != true || b.get("f") != "two\n" {
		t.Errorf("got %v", got)
	}
	b.ok("snapshot_restore", args{"id": id, "while_running": "proceed"})
	if b.get("f") != "one\n" {
		t.Error("the file did not come back")
	}
}

// A policy of paths is asked about a restore, which may reach them all.
func TestPolicyOfRestores(t *testing.T) {
	b := withSnapshots(t)
	const policy = `{"rules":[{"action":"deny","paths":["secrets/**"]}]}`
	for _, c := range []struct {
		paths []string
		want  tools.Action
	}{{nil, tools.Ask}, {[]string{"src"}, tools.Allow}, {[]string{"secrets"}, tools.Deny}, {[]string{"src", "./secrets/x"}, tools.Deny}} {
		a := args{"id": "latest"}
		if c.paths != nil {
			a["paths"] = c.paths
		}
		p, err := tools.ParsePolicy([]byte(policy))
		if err != nil {
			t.Fatal(err)
		}
		asked := false
		set := newSet(t, b.ws, tools.Options{Policy: p, Ask: func(context.Context, tools.Question) (bool, error) {
			asked = true
			return false, nil
		}})
		r := b.callIn(set, "snapshot_restore", a)
		got := tools.Allow // there is no such state, which is told after the decision
		if asked {
			got = tools.Ask
		} else if r.Code == workspace.ErrDenied {
			got = tools.Deny
		}
		if got != c.want {
			t.Errorf("%v: %s, want %s: %s", c.paths, got, c.want, strings.TrimSpace(r.Text))
		}
	}
}
