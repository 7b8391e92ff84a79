package remote

import (
	"context"
	"net/http"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

// admit checks who asks, and for what, before anything of the request is read.
// end ends the request.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, t Route, end context.CancelCauseFunc) error {
	c := &Call{server: s}
	if !t.Public {
		who, done, err := s.identify(r, end)
		if err != nil {
			w.Header().Set("WWW-Authenticate", "Bearer")
			return err
		}
		defer done()
		r = r.WithContext(context.WithValue(r.Context(), callerKey{}, who))
		c.Who = who
		if t.Owner && (!isOwner(r.Context()) || who.Token != "") {
			return workspace.Errorf(workspace.ErrDenied, "request", "", "this is for the owner of the server, over its Unix socket and without a token")
		}
		if !t.Open && !who.has(t.Scopes...) {
			return workspace.Errorf(workspace.ErrDenied, "request", "", "the token lacks a scope; this needs %v", t.Scopes)
		}
		if who.Prefix != "" && !t.Files && !t.Open {
			return workspace.Errorf(workspace.ErrDenied, "request", "", "the token is for files below %s alone", workspace.Printable(who.Prefix))
		}
	}
	if c.ID = r.PathValue("workspace"); strings.Contains(t.Path, "{workspace}") && !c.Who.Covers(c.ID) {
		return noWorkspace()
	}
	if t.Opens {
		ws, release, err := s.source.Open(r.Context(), c.ID)
		if err != nil {
			return err
		}
		defer release()
		c.Workspace = ws
		if c.Who.Prefix != "" && t.Files {
			closePart, err := c.enter(r.Context())
			if err != nil {
				return err
			}
			defer closePart()
		}
	}
	err := t.Serve(w, r, c)
	if why := whyEnded(r.Context()); err != nil && why != nil {
		return why
	}
	return c.given(err)
}

// callerKey is the key of the Identity in the context of a request.
type callerKey struct{}

// Caller returns who the request is from that a context belongs to, as routes and
// sources see it; false: it belongs to none.
func Caller(ctx context.Context) (Identity, bool) {
	who, ok := ctx.Value(callerKey{}).(Identity)
	return who, ok
}

// everyone is who asks a server that asks for no token.
var everyone = Identity{Grant: Grant{Scopes: scopes, Workspaces: []string{AllWorkspaces}}}

// identify tells who a request is from. The token stands in the Authorization
// header and nowhere else.
func (s *Server) identify(r *http.Request, end context.CancelCauseFunc) (Identity, func(), error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		if s.opts.Anonymous || isOwner(r.Context()) {
			return everyone, func() {}, nil
		}
		return Identity{}, nil, unauthorized{badToken("there is none; send it in the Authorization header, as Bearer")}
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return Identity{}, nil, unauthorized{badToken("it is sent once, as Bearer")}
	}
	if s.opts.Authority == nil {
		return Identity{}, nil, unauthorized{badToken("this server takes none")}
	}
	who, done, err := s.opts.Authority.admit(Token(token), end)
	if err != nil {
		return Identity{}, nil, unauthorized{err}
	}
	return who, done, nil
}

// unauthorized is an error about who asks, rather than about what is asked for.
type unauthorized struct{ error }

func (u unauthorized) Unwrap() error { return u.error }
