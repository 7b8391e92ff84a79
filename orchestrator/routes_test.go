//go:build linux

package orchestrator_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// served is a server of an orchestrator, with the authority of its tokens.
func served(t *testing.T, o *orchestrator.Orchestrator) (*httptest.Server, *remote.Authority) {
	t.Helper()
	a, err := remote.NewAuthority(remote.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	s, err := remote.New(o, remote.Options{Authority: a, Routes: o.Routes()})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		h.Close()
	})
	return h, a
}

func token(t *testing.T, a *remote.Authority, g remote.Grant) remote.Token {
	t.Helper()
	if g.Expires.IsZero() {
		g.Expires = time.Now().Add(time.Hour)
	}
	tok, err := a.Issue(g)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func clientOf(t *testing.T, h *httptest.Server, tok remote.Token) *orchestrator.Client {
	t.Helper()
	c, err := orchestrator.NewClient(h.URL, tok, remote.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

var all = []string{remote.AllWorkspaces}

// A client makes, finds, uses, changes and removes workspaces over the wire, and
// the log says who did.
func TestOverTheWire(t *testing.T) {
	c := hostConfig(t)
	o := open(t, c)
	h, a := served(t, o)
	cl := clientOf(t, h, token(t, a, remote.Grant{Name: "alice", Scopes: []remote.Scope{remote.Admin, remote.Exec, remote.Read, remote.Write}, Workspaces: all}))
	ctx := t.Context()
	w, err := cl.Create(ctx, hostSpec("a"))
	if err != nil {
		t.Fatal(err)
	}
	if w.Owner != "alice" {
		t.Errorf("the owner is %q", w.Owner)
	}
	if _, err := cl.Create(ctx, hostSpec("a")); !errors.Is(err, workspace.ErrExists) {
		t.Errorf("the name again: %v", err)
	}
	d, err := cl.Open(ctx, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := ws.Exec(ctx, workspace.Command{Shell: "echo x > f; cat f; exit 3"})
	if err != nil || string(out.Stdout) != "x\n" || out.ExitCode != 3 {
		t.Errorf("got %+v, %v", out, err)
	}
	if err := ws.Close(); err != nil {
		t.Error(err)
	}
	for _, ref := range []string{"a", w.ID, w.ID[:6]} {
		if got, err := cl.Find(ctx, ref); err != nil || got.ID != w.ID {
			t.Errorf("%s: %+v, %v", ref, got, err)
		}
	}
	name := "b"
	if got, err := cl.Update(ctx, w.ID, orchestrator.Change{Name: &name}); err != nil || got.Name != "b" {
		t.Errorf("got %+v, %v", got, err)
	}
	if err := cl.Stop(ctx, w.ID); err != nil {
		t.Error(err)
	}
	if err := cl.Pause(ctx, w.ID); !errors.Is(err, workspace.ErrUnsupported) {
		t.Errorf("pause: %v", err)
	}
	list, err := cl.Events(ctx, 0)
	if err != nil || len(list) != 3 || list[2].Type != "stopped" {
		t.Errorf("events: %+v, %v", list, err)
	}
	entries, last, err := cl.Audit(ctx, 0, 3)
	if err != nil || len(entries) != 3 || last != 3 || entries[0].Who != "alice" || entries[0].Token == "" {
		t.Errorf("audit: %+v, %d, %v", entries, last, err)
	}
	if err := cl.Remove(ctx, w.ID); err != nil {
		t.Error(err)
	}
	if _, err := cl.Get(ctx, w.ID); !errors.Is(err, workspace.ErrNotFound) {
		t.Errorf("after the removal: %v", err)
	}
}

// Whoever may use one workspace sees that one alone, and may not make, change or
// remove any, nor read what others do.
func TestNarrowTokens(t *testing.T) {
	o := open(t, hostConfig(t))
	mine, other := create(t, o, hostSpec("mine")), create(t, o, hostSpec("other"))
	h, a := served(t, o)
	ctx := t.Context()
	user := clientOf(t, h, token(t, a, remote.Grant{Scopes: []remote.Scope{remote.Read, remote.Exec}, Workspaces: []string{mine.ID}}))
	if list, err := user.List(ctx); err != nil || len(list) != 1 || list[0].ID != mine.ID {
		t.Errorf("listed: %+v, %v", list, err)
	}
	_, err := user.Get(ctx, other.ID)
	wantCode(t, "another's", err, workspace.ErrNotFound)
	_, err = user.Open(ctx, other.ID)
	wantCode(t, "open another's", err, workspace.ErrNotFound)
	_, err = user.Create(ctx, hostSpec("x"))
	wantCode(t, "create", err, workspace.ErrDenied)
	_, err = user.Update(ctx, mine.ID, orchestrator.Change{})
	wantCode(t, "update", err, workspace.ErrDenied)
	wantCode(t, "remove", user.Remove(ctx, mine.ID), workspace.ErrDenied)
	wantCode(t, "stop", user.Stop(ctx, mine.ID), workspace.ErrDenied)
	_, err = user.Events(ctx, 0)
	wantCode(t, "events", err, workspace.ErrDenied)
	_, _, err = user.Audit(ctx, 0, 0)
	wantCode(t, "audit", err, workspace.ErrDenied)

	admin := clientOf(t, h, token(t, a, remote.Grant{Scopes: []remote.Scope{remote.Admin}, Workspaces: []string{mine.ID}}))
	_, err = admin.Create(ctx, hostSpec("x"))
	wantCode(t, "create with admin of one", err, workspace.ErrDenied)
	wantCode(t, "remove another's", admin.Remove(ctx, other.ID), workspace.ErrNotFound)
	if err := admin.Remove(ctx, mine.ID); err != nil {
		t.Errorf("remove one's own: %v", err)
	}
	if _, err := o.Get(other.ID); err != nil {
		t.Errorf("the other one: %v", err)
	}
}

// Every route says who may use it, and refuses who holds nothing.
func TestRoutesAreClosed(t *testing.T) {
	o := open(t, hostConfig(t))
	w := create(t, o, hostSpec("w"))
	h, a := served(t, o)
	nobody := token(t, a, remote.Grant{Scopes: []remote.Scope{remote.Read}, Workspaces: []string{"none"}})
	for _, r := range o.Routes() {
		path := strings.NewReplacer("{workspace}", w.ID, "{job}", "aaaa").Replace(r.Path)
		for what, header := range map[string]string{"no token": "", "a token for another": "Bearer " + string(nobody)} {
			req, err := http.NewRequestWithContext(context.Background(), r.Method, h.URL+path, strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", "application/json")
			if header != "" {
				req.Header.Set("Authorization", header)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			open := header != "" && r.Path == "/v1/workspaces" && r.Method == "GET"
			if open {
				if resp.StatusCode != 200 || strings.Contains(string(body), w.ID) {
					t.Errorf("%s %s with %s: %s %s", r.Method, r.Path, what, resp.Status, body)
				}
				continue
			}
			if resp.StatusCode != 401 && resp.StatusCode != 403 && resp.StatusCode != 404 {
				t.Errorf("%s %s with %s: %s %s", r.Method, r.Path, what, resp.Status, body)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
