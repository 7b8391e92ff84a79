package remote

import (
	"net/http"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

// Route is one method of one path, with what a token must hold for it. There is
// no other way to be served: what has no route is not there, and a route without
// a scope is refused when the server is made.
type Route struct {
	Method string
	// Path is a pattern of http.ServeMux. "{workspace}" in it is the id of
	// the workspace that the token must cover.
	Path string
	// Scopes are what the token must hold, all of them.
	Scopes []Scope
	// Open says that a token is enough, whatever it holds; Public that none
	// is needed.
	Open, Public bool
	// Owner says that no token is enough: it is for who comes over the Unix
	// socket, without one, which is this process's user.
	Owner bool
	// Files says that the route reaches nothing but files by paths that it
	// hands to Call.Path, so that a token with a prefix may use it. It needs
	// Opens.
	Files bool
	// Opens finds the workspace: Call.Workspace.
	Opens bool
	// Serve answers. An error that it returns is sent, unless an answer has
	// begun.
	Serve func(w http.ResponseWriter, r *http.Request, c *Call) error
}

// check refuses a route that does not say who may use it.
func (t Route) check() error {
	named := strings.Contains(t.Path, "{workspace}")
	// What other programs look for by name has no version.
	plain := (t.Public || t.Owner) && strings.HasPrefix(t.Path, "/")
	switch {
	case t.Serve == nil, t.Method == "", !plain && !strings.HasPrefix(t.Path, "/v1/"):
	case t.Public && (t.Open || t.Owner || len(t.Scopes) > 0 || named):
	case t.Owner && (t.Open || len(t.Scopes) > 0):
	case !t.Public && !t.Open && !t.Owner && len(t.Scopes) == 0:
	case t.Opens && !named, t.Files && !t.Opens:
	default:
		return nil
	}
	return workspace.Errorf(workspace.ErrInvalidArgument, "serve", t.Path, "the route %s does not say who may use it", t.Method)
}

const base = "/v1/workspaces/{workspace}"

// routes are those of this package.
func (s *Server) routes() []Route {
	read, write, exec := []Scope{Read}, []Scope{Write}, []Scope{Exec}
	return []Route{
		{Method: "GET", Path: "/v1/openapi.json", Public: true, Serve: serveOpenAPI},
		{Method: "GET", Path: base, Open: true, Opens: true, Serve: s.serveAbout},
		{Method: "POST", Path: base + "/ready", Scopes: exec, Opens: true, Serve: s.serveReady},
		{Method: "GET", Path: base + "/exec", Scopes: exec, Opens: true, Serve: s.serveExec},

		{Method: "GET", Path: base + "/file", Scopes: read, Opens: true, Files: true, Serve: s.serveRead},
		{Method: "PUT", Path: base + "/file", Scopes: write, Opens: true, Files: true, Serve: s.serveWrite},
		{Method: "GET", Path: base + "/stat", Scopes: read, Opens: true, Files: true, Serve: s.serveStat},
		{Method: "GET", Path: base + "/link", Scopes: read, Opens: true, Files: true, Serve: s.serveReadLink},
		{Method: "GET", Path: base + "/list", Scopes: read, Opens: true, Files: true, Serve: s.serveList},
		{Method: "POST", Path: base + "/mkdir", Scopes: write, Opens: true, Files: true, Serve: s.serveMkdir},
		{Method: "POST", Path: base + "/symlink", Scopes: write, Opens: true, Files: true, Serve: s.serveSymlink},
		{Method: "POST", Path: base + "/remove", Scopes: write, Opens: true, Files: true, Serve: s.serveRemove},
		{Method: "POST", Path: base + "/rename", Scopes: write, Opens: true, Files: true, Serve: s.serveRename},
		{Method: "POST", Path: base + "/copy", Scopes: []Scope{Read, Write}, Opens: true, Files: true, Serve: s.serveCopy},
		{Method: "POST", Path: base + "/chmod", Scopes: write, Opens: true, Files: true, Serve: s.serveChmod},

		{Method: "GET", Path: base + "/snapshots", Scopes: read, Opens: true, Serve: s.serveSnapshots},
		{Method: "POST", Path: base + "/snapshots", Scopes: write, Opens: true, Serve: s.serveSave},
		{Method: "POST", Path: base + "/snapshots/delete", Scopes: write, Opens: true, Serve: s.serveDelete},
		{Method: "GET", Path: base + "/snapshots/{snapshot}", Scopes: read, Opens: true, Serve: s.serveSnapshot},
		{Method: "POST", Path: base + "/snapshots/{snapshot}/restore", Scopes: write, Opens: true, Serve: s.serveRestore},
		{Method: "POST", Path: base + "/diff", Scopes: read, Opens: true, Serve: s.serveDiff},
	}
}
