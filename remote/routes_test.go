//go:build unix

package remote_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

var allScopes = []remote.Scope{remote.Read, remote.Write, remote.Exec, remote.Admin}

// authority returns an authority of tokens.
func authority(t testing.TB) *remote.Authority {
	t.Helper()
	a, err := remote.NewAuthority(remote.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// issue makes a token for one workspace, good for an hour.
func issue(t testing.TB, a *remote.Authority, id string, scopes ...remote.Scope) remote.Token {
	t.Helper()
	token, err := a.Issue(remote.Grant{Name: "test", Scopes: scopes, Workspaces: []string{id}, Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// ask makes a request as a stranger would, with a token unless it is empty.
func ask(t testing.TB, method, url string, token remote.Token, body string) (status int, code workspace.Code, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+string(token))
	}
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var problem struct{ Error struct{ Code workspace.Code } }
	_ = json.Unmarshal(data, &problem)
	return resp.StatusCode, problem.Error.Code, resp.Header
}

// target is a path of a route, for a workspace.
func target(route remote.Route, id string) string {
	return strings.NewReplacer("{workspace}", id, "{snapshot}", "latest").Replace(route.Path)
}

// TestEveryRouteAsksForItsScopes tries every route of the router with every
// scope, for the token's own workspace and for another, and without a token.
func TestEveryRouteAsksForItsScopes(t *testing.T) {
	ws, _ := newHost(t)
	a := authority(t)
	address := serve(t, ws, remote.Options{Authority: a})
	h, err := remote.Handler(ws, remote.Options{Authority: a})
	if err != nil {
		t.Fatal(err)
	}
	own, other := map[remote.Scope]remote.Token{}, map[remote.Scope]remote.Token{}
	for _, s := range allScopes {
		own[s], other[s] = issue(t, a, remote.DefaultID, s), issue(t, a, "another", s)
	}
	everything := issue(t, a, remote.DefaultID, allScopes...)
	forged := issue(t, authority(t), remote.DefaultID, allScopes...)
	for _, route := range h.Routes() {
		t.Run(route.Method+" "+route.Path, func(t *testing.T) {
			body := ""
			if route.Method == http.MethodPost {
				body = "{}"
			}
			url := address + target(route, remote.DefaultID)
			if route.Public {
				if status, _, _ := ask(t, route.Method, url, "", body); status != http.StatusOK {
					t.Errorf("a public route answers %d without a token", status)
				}
				return
			}
			for _, token := range []remote.Token{"", "wsctl1.x", forged} {
				if status, code, _ := ask(t, route.Method, url, token, body); status != http.StatusUnauthorized || code != workspace.ErrDenied {
					t.Errorf("without a good token it answers %d %s", status, code)
				}
			}
			for _, scope := range allScopes {
				enough := route.Open || len(route.Scopes) == 1 && route.Scopes[0] == scope
				status, code, _ := ask(t, route.Method, url, own[scope], body)
				if refused := status == http.StatusForbidden || status == http.StatusUnauthorized; refused == enough {
					t.Errorf("with %s alone it answers %d %s; it needs %v", scope, status, code, route.Scopes)
				}
				status, code, _ = ask(t, route.Method, address+target(route, "another"), own[scope], body)
				if want := map[bool]int{true: http.StatusNotFound, false: http.StatusForbidden}[enough]; status != want {
					t.Errorf("another workspace, with %s, answers %d %s, want %d", scope, status, code, want)
				}
				if status, code, _ = ask(t, route.Method, url, other[scope], body); status != http.StatusNotFound && status != http.StatusForbidden {
					t.Errorf("a token for another workspace, with %s, is answered %d %s", scope, status, code)
				}
			}
			if status, code, _ := ask(t, route.Method, url, everything, body); status == http.StatusForbidden || status == http.StatusUnauthorized {
				t.Errorf("with every scope it answers %d %s", status, code)
			}
		})
	}
}

func TestARouteSaysWhoMayUseIt(t *testing.T) {
	ws, _ := newHost(t)
	answer := func(http.ResponseWriter, *http.Request, *remote.Call) error { return nil }
	const path = "/v1/workspaces/{workspace}/x"
	for what, route := range map[string]remote.Route{
		"no scope":              {Method: "GET", Path: path, Serve: answer},
		"public and owner's":    {Method: "GET", Path: "/v1/x", Public: true, Owner: true, Serve: answer},
		"owner's and scoped":    {Method: "GET", Path: "/v1/x", Owner: true, Scopes: allScopes, Serve: answer},
		"public and scoped":     {Method: "GET", Path: "/v1/x", Public: true, Scopes: allScopes, Serve: answer},
		"a public workspace":    {Method: "GET", Path: path, Public: true, Serve: answer},
		"no version":            {Method: "GET", Path: "/x", Scopes: allScopes, Serve: answer},
		"no method":             {Path: path, Scopes: allScopes, Serve: answer},
		"files of nothing":      {Method: "GET", Path: path, Scopes: allScopes, Files: true, Serve: answer},
		"opens what it has not": {Method: "GET", Path: "/v1/x", Scopes: allScopes, Opens: true, Serve: answer},
	} {
		if _, err := remote.Handler(ws, remote.Options{Routes: []remote.Route{route}}); workspace.CodeOf(err) != workspace.ErrInvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
	route := remote.Route{Method: "GET", Path: "/v1/more", Scopes: []remote.Scope{remote.Admin}, Serve: func(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
		return c.Reply(w, r, func() (any, error) { return map[string]string{"who": c.Who.Name}, nil })
	}}
	a := authority(t)
	address := serve(t, ws, remote.Options{Authority: a, Routes: []remote.Route{route}})
	if status, _, _ := ask(t, "GET", address+"/v1/more", issue(t, a, "*", remote.Read), ""); status != http.StatusForbidden {
		t.Errorf("a route of somebody else's, without its scope: %d", status)
	}
	if status, _, _ := ask(t, "GET", address+"/v1/more", issue(t, a, "*", remote.Admin), ""); status != http.StatusOK {
		t.Errorf("a route of somebody else's: %d", status)
	}
}

// openAPI is what a test needs of the description.
type openAPI struct {
	Paths map[string]map[string]json.RawMessage
}

type operation struct {
	Security    []map[string][]remote.Scope
	RequestBody *struct {
		Content map[string]struct{ Schema json.RawMessage }
	}
	Responses map[string]struct {
		Content map[string]struct{ Schema json.RawMessage }
	}
}

// operations are the described operations by "METHOD path".
func operations(t testing.TB) map[string]operation {
	t.Helper()
	var doc openAPI
	if err := json.Unmarshal(remote.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	ops := map[string]operation{}
	for path, item := range doc.Paths {
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			var op operation
			if err := json.Unmarshal(raw, &op); err != nil {
				t.Fatal(err)
			}
			ops[strings.ToUpper(method)+" "+path] = op
		}
	}
	return ops
}

// TestTheDescriptionIsOfTheseRoutes compares the OpenAPI file with the router,
// both ways, scopes included.
func TestTheDescriptionIsOfTheseRoutes(t *testing.T) {
	ws, _ := newHost(t)
	h, err := remote.Handler(ws, remote.Options{Anonymous: true})
	if err != nil {
		t.Fatal(err)
	}
	described := operations(t)
	for _, route := range h.Routes() {
		key := route.Method + " " + route.Path
		op, ok := described[key]
		if !ok {
			t.Errorf("%s is served and not described", key)
			continue
		}
		delete(described, key)
		var want []remote.Scope
		if !route.Public {
			if len(op.Security) != 1 {
				t.Errorf("%s is described without a token", key)
				continue
			}
			want = op.Security[0]["token"]
		} else if len(op.Security) != 0 {
			t.Errorf("%s needs no token and is described with one", key)
		}
		if !slices.Equal(route.Scopes, want) {
			t.Errorf("%s needs %v and is described with %v", key, route.Scopes, want)
		}
	}
	for key := range described {
		t.Errorf("%s is described and not served", key)
	}
	address := serve(t, ws, remote.Options{})
	resp, err := http.Get(address + "/v1/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(body, remote.OpenAPI()) {
		t.Errorf("the description is served with %d bytes of %d, %v", len(body), len(remote.OpenAPI()), err)
	}
}
