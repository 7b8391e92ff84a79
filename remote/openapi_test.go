//go:build unix

package remote_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// schemas resolves the schemas of the description.
type schemas struct {
	t    testing.TB
	defs json.RawMessage

	mu   sync.Mutex
	done map[string]*jsonschema.Resolved
}

func newSchemas(t testing.TB) *schemas {
	t.Helper()
	var doc struct {
		Components struct{ Schemas json.RawMessage }
	}
	if err := json.Unmarshal(remote.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	return &schemas{t: t, defs: doc.Components.Schemas, done: map[string]*jsonschema.Resolved{}}
}

// check validates a body against a schema of the description.
func (s *schemas) check(what string, schema json.RawMessage, body []byte) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	resolved := s.done[string(schema)]
	if resolved == nil {
		text := fmt.Sprintf(`{"$defs":%s,"allOf":[%s]}`, s.defs, schema)
		text = strings.ReplaceAll(text, "#/components/schemas/", "#/$defs/")
		var parsed jsonschema.Schema
		if err := json.Unmarshal([]byte(text), &parsed); err != nil {
			s.t.Fatalf("%s: %v", what, err)
		}
		var err error
		if resolved, err = parsed.Resolve(nil); err != nil {
			s.t.Fatalf("%s: %v", what, err)
		}
		s.done[string(schema)] = resolved
	}
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		s.t.Errorf("%s: %v: %.200s", what, err, body)
		return
	}
	if err := resolved.Validate(v); err != nil {
		s.t.Errorf("%s is not as described: %v: %.300s", what, err, body)
	}
}

// TestBodiesAreAsDescribed makes every kind of request that there is with a
// real client and validates what goes both ways, refusals included.
func TestBodiesAreAsDescribed(t *testing.T) {
	d, err := host.New(t.TempDir(), host.Options{Env: []string{hostEnv}})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.New(d, workspace.Options{Snapshots: canned{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	h, err := remote.Handler(ws, remote.Options{Anonymous: true})
	if err != nil {
		t.Fatal(err)
	}
	all, described := newSchemas(t), operations(t)
	var mu sync.Mutex
	seen := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.Replace(r.URL.Path, "/workspaces/default", "/workspaces/{workspace}", 1)
		path = strings.NewReplacer("/snapshots/latest", "/snapshots/{snapshot}", "/snapshots/gone", "/snapshots/{snapshot}").Replace(path)
		key := r.Method + " " + path
		op, ok := described[key]
		if !ok {
			t.Errorf("a client asks for %s, which is not described", key)
		}
		if strings.HasSuffix(path, "/exec") {
			h.ServeHTTP(w, r) // frames have a test of their own
			return
		}
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if op.RequestBody != nil {
			if c, ok := op.RequestBody.Content["application/json"]; ok {
				all.check("the request of "+key, c.Schema, body)
			}
		} else if len(body) > 0 {
			t.Errorf("%s has a body that is not described", key)
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if got := rec.Header().Get("Content-Type"); got == "application/json" {
			answer, ok := op.Responses[fmt.Sprint(rec.Code)]
			schema := json.RawMessage(`{"$ref":"#/components/schemas/Problem"}`)
			if ok {
				schema = answer.Content["application/json"].Schema
			}
			if schema != nil {
				all.check(fmt.Sprint("the answer ", rec.Code, " of ", key), schema, rec.Body.Bytes())
			}
		}
		mu.Lock()
		seen[fmt.Sprint(key, " ", rec.Code)] = true
		mu.Unlock()
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	}))
	t.Cleanup(server.Close)
	driver := dial(t, server.URL, "")
	client, err := workspace.New(driver, workspace.Options{Snapshots: driver.Snapshots()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	exercise(t.Context(), client)
	ask(t, "GET", server.URL+"/v1/openapi.json", "", "")
	if err := client.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	for key := range described {
		good := false
		for _, code := range []string{" 200", " 206"} {
			good = good || seen[key+code]
		}
		if !good && !strings.HasSuffix(key, "/exec") {
			t.Errorf("%s was never answered well", key)
		}
	}
}

// exercise calls everything, with names of any bytes, and lets it fail too.
func exercise(ctx context.Context, ws *workspace.Workspace) {
	for _, name := range []string{"plain", "\xff\xfe", "new\nline", `quo"te`, "\ufffd", "é"} {
		ws.WriteFile(ctx, name, []byte("content"), workspace.WriteOptions{})
		ws.WriteFile(ctx, name, []byte("content"), workspace.WriteOptions{Exclusive: true, Perm: 0o600, Append: true, Force: true, MaxBytes: 100})
		ws.Stat(ctx, name)
		ws.Lstat(ctx, name+"gone")
		ws.ReadFile(ctx, name, 0)
		if f, err := ws.Open(ctx, name); err == nil {
			f.ReadAt(make([]byte, 3), 2)
			f.Close()
		}
		ws.Mkdir(ctx, name+"dir", workspace.MkdirOptions{Perm: 0o700, Parents: true})
		ws.Symlink(ctx, name, name+"link")
		ws.ReadLink(ctx, name+"link")
		ws.ReadLink(ctx, name)
		ws.Copy(ctx, name, name+"copy", workspace.WriteOptions{Perm: 0o600})
		ws.Rename(ctx, name+"copy", name+"moved", workspace.RenameOptions{Overwrite: true})
		ws.Rename(ctx, name+"gone", name+"moved", workspace.RenameOptions{})
		ws.Chmod(ctx, name+"moved", 0o640)
		ws.Remove(ctx, name+"moved", workspace.RemoveOptions{Trash: true})
		ws.Remove(ctx, name+"gone", workspace.RemoveOptions{Recursive: true})
		ws.Edit(ctx, name, workspace.EditOptions{}, func(b []byte) ([]byte, error) { return append(b, '!'), nil })
	}
	ws.ReadFile(ctx, "../outside", 0)
	ws.ReadDir(ctx, ".", workspace.ListOptions{})
	ws.ReadDir(ctx, ".", workspace.ListOptions{After: "a", Limit: 1})
	ws.ReadDir(ctx, "plain", workspace.ListOptions{})
	snapshots, err := ws.Snapshots()
	if err != nil {
		return
	}
	snapshots.Save(ctx, workspace.SaveOptions{Label: "l", Turn: "t", Metadata: json.RawMessage(`{"a":1}`), Exclude: []string{"\xff"}, MaxFileBytes: 5})
	snapshots.Save(ctx, workspace.SaveOptions{Label: "fail"})
	snapshots.List(ctx)
	snapshots.Get(ctx, "latest")
	snapshots.Get(ctx, "gone")
	snapshots.Diff(ctx, "latest", "", workspace.DiffOptions{Paths: []string{"\xff"}, Context: -1, MaxBytes: 100, NamesOnly: true})
	snapshots.Restore(ctx, "latest", workspace.RestoreOptions{DryRun: true, Paths: []string{"\xff"}, WhileRunning: workspace.PauseWhileRunning})
	snapshots.Delete(ctx, "latest")
}

// canned is a snapshotter that answers with all that an answer can hold.
type canned struct{}

func (canned) snapshot() workspace.Snapshot {
	return workspace.Snapshot{
		ID: "s1", WorkspaceID: "w", Created: time.Unix(1, 0).UTC(), Label: "l", Turn: "t", Metadata: json.RawMessage(`{"a":1}`),
		Exclude: []string{"\xfe*"}, MaxFileBytes: 9, Skipped: []workspace.SkippedEntry{{Path: "d/\xff", Reason: "r", Size: 3}}, Changed: []string{"\xff"},
		Stats: workspace.SnapshotStats{Files: 1, Bytes: 2},
	}
}

func (c canned) Save(_ context.Context, o workspace.SaveOptions) (workspace.Snapshot, error) {
	if o.Label == "fail" {
		return workspace.Snapshot{}, workspace.Errorf(workspace.ErrBusy, "save", "", "no")
	}
	return c.snapshot(), nil
}

func (c canned) Restore(context.Context, string, workspace.RestoreOptions) (workspace.Restored, error) {
	return workspace.Restored{
		Snapshot: c.snapshot(), DryRun: true, Restored: []string{"a\xff"}, Deleted: []string{"b\xff"},
		Kept: []workspace.SkippedEntry{{Path: "c", Reason: "r"}}, Backup: "s2", Busy: true,
	}, nil
}

func (canned) Diff(context.Context, string, string, workspace.DiffOptions) (workspace.Diff, error) {
	return workspace.Diff{Truncated: true, Changes: []workspace.Change{{
		Path: "\xff", Kind: workspace.Modified, OldMode: 0o644, NewMode: 0o755, OldSize: 1, NewSize: 2, Binary: true, Patch: "-\xff\n",
	}}}, nil
}

func (c canned) List(context.Context) ([]workspace.Snapshot, error) {
	return []workspace.Snapshot{c.snapshot()}, nil
}

func (c canned) Get(_ context.Context, id string) (workspace.Snapshot, error) {
	if id == "gone" {
		return workspace.Snapshot{}, workspace.Errorf(workspace.ErrNotFound, "snapshot", "", "no such snapshot")
	}
	return c.snapshot(), nil
}
func (canned) Delete(context.Context, ...string) error { return nil }

// TestSnapshotsComeThroughAsTheyAre compares what a dialled snapshotter gives
// with what the served one gives.
func TestSnapshotsComeThroughAsTheyAre(t *testing.T) {
	d, err := host.New(t.TempDir(), host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.New(d, workspace.Options{Snapshots: canned{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	driver := dial(t, serve(t, ws, remote.Options{}), "")
	t.Cleanup(func() { _ = driver.Close() })
	ctx, far := t.Context(), driver.Snapshots()
	same := func(what string, got, want any, err error) {
		t.Helper()
		if g, w := fmt.Sprintf("%#v", got), fmt.Sprintf("%#v", want); g != w || err != nil {
			t.Errorf("%s is, %v,\n%s\nwant\n%s", what, err, g, w)
		}
	}
	one, err := far.Save(ctx, workspace.SaveOptions{})
	same("Save", one, canned{}.snapshot(), err)
	list, err := far.List(ctx)
	same("List", list, []workspace.Snapshot{canned{}.snapshot()}, err)
	got, err := far.Get(ctx, "s1")
	same("Get", got, canned{}.snapshot(), err)
	diff, err := far.Diff(ctx, "s1", "", workspace.DiffOptions{})
	want, _ := canned{}.Diff(ctx, "", "", workspace.DiffOptions{})
	same("Diff", diff, want, err)
	if _, err := far.Get(ctx, "gone"); workspace.CodeOf(err) != workspace.ErrNotFound {
		t.Errorf("a snapshot that is not there: %v", err)
	}
	if _, err := far.Get(ctx, "../../x"); workspace.CodeOf(err) != workspace.ErrNotFound {
		t.Errorf("an id that is none: %v", err)
	}
	restored, err := far.Restore(ctx, "s1", workspace.RestoreOptions{})
	wantRestored, _ := canned{}.Restore(ctx, "s1", workspace.RestoreOptions{})
	same("Restore", restored, wantRestored, err)
	if err := far.Delete(ctx, "s1", "s2"); err != nil {
		t.Errorf("Delete: %v", err)
	}
}
