//go:build linux

package remote_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// TestAPrefixHolds uses a token for a directory in every way that could lead
// out of it: by text, by links that are there, and by links that it makes.
func TestAPrefixHolds(t *testing.T) {
	served, dir := newHost(t)
	for name, content := range map[string]string{"src/api/f": "inside", "src/secret": "secret", "src/apix/f": "other", "top": "top"} {
		if _, err := served.WriteFile(t.Context(), name, []byte(content), workspace.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"out": "../secret", "outdir": "..", "abs": filepath.Join(dir, "top")} {
		if err := os.Symlink(to, filepath.Join(dir, "src/api", link)); err != nil {
			t.Fatal(err)
		}
	}
	a := authority(t)
	whole, err := a.Issue(remote.Grant{Scopes: allScopes, Workspaces: []string{"*"}, Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	token, err := whole.Narrow(remote.Grant{Prefix: "src/api"})
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, served, remote.Options{Authority: a})
	ws, err := workspace.New(dial(t, address, token), workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	ctx := t.Context()
	for name, want := range map[string]string{
		"src/api/f": "inside", "./src/api/f": "inside", "src//api///f": "inside", filepath.Join(dir, "src/api/f"): "inside",
		"src/api/../api/f": "", "src/./api/f": "", "src/api/../secret": "", "src/secret": "", "top": "", ".": "", "src": "", "src/apix/f": "", "src/ap": "",
		"src/api/../../top": "", filepath.Join(dir, "top"): "", "src/api/out": "", "src/api/outdir/secret": "", "src/api/abs": "", "../x": "", "src/api/outdir/api/f": "",
	} {
		data, err := ws.ReadFile(ctx, name, 0)
		if string(data) != want || (want == "") != (workspace.CodeOf(err) == workspace.ErrOutside) {
			t.Errorf("%s reads %q, %v", name, data, err)
		}
	}
	wantOutside := func(what string, err error) {
		t.Helper()
		if workspace.CodeOf(err) != workspace.ErrOutside {
			t.Errorf("%s: %v", what, err)
		}
	}
	wantOutside("a link out", ws.Symlink(ctx, "../secret", "src/api/l"))
	wantOutside("a move in", ws.Rename(ctx, "src/secret", "src/api/l", workspace.RenameOptions{}))
	wantOutside("a move out", ws.Rename(ctx, "src/api/f", "src/f", workspace.RenameOptions{}))
	_, err = ws.Copy(ctx, "src/secret", "src/api/l", workspace.WriteOptions{})
	wantOutside("a copy in", err)
	_, err = ws.WriteFile(ctx, "src/api/outdir/x", nil, workspace.WriteOptions{})
	wantOutside("a write through a link", err)
	_, err = ws.ReadDir(ctx, "src", workspace.ListOptions{})
	wantOutside("a list above it", err)
	list, err := ws.ReadDir(ctx, "src/api", workspace.ListOptions{})
	if err != nil || len(list.Entries) != 4 {
		t.Errorf("a list of it has %d entries, %v", len(list.Entries), err)
	}
	if _, err := ws.WriteFile(ctx, "src/api/new", []byte("x"), workspace.WriteOptions{}); err != nil {
		t.Errorf("a write in it: %v", err)
	}
	if _, err := ws.Edit(ctx, "src/api/new", workspace.EditOptions{}, func(b []byte) ([]byte, error) { return append(b, 'y'), nil }); err != nil {
		t.Errorf("an edit in it: %v", err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "src/api/new")); string(got) != "xy" {
		t.Errorf("the file is %q, %v", got, err)
	}
	if _, err := ws.Stat(ctx, "src/api/gone"); workspace.CodeOf(err) != workspace.ErrNotFound || err.(*workspace.Error).Path != "src/api/gone" {
		t.Errorf("the path of an error: %v", err)
	}
	if err := ws.Remove(ctx, "src/api/new", workspace.RemoveOptions{Trash: true}); err != nil {
		t.Errorf("a removal in it: %v", err)
	}
	if _, err := ws.Exec(ctx, workspace.Command{Args: []string{"true"}, Dir: "src/api"}); workspace.CodeOf(err) != workspace.ErrDenied {
		t.Errorf("a command: %v", err)
	}
	for _, path := range []string{"/snapshots", "/exec"} {
		if status, code, _ := ask(t, "GET", address+"/v1/workspaces/default"+path, token, ""); status != 403 || code != workspace.ErrDenied {
			t.Errorf("%s: %d %s", path, status, code)
		}
	}
}
