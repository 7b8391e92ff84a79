package remote

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// Options say how workspaces are served.
type Options struct {
	// Authority checks tokens; nil: no token is good.
	Authority *Authority
	// Anonymous lets everybody who reaches the server do everything, without
	// a token. It is for a server that only its owner can reach.
	Anonymous bool
	// Hosts are the names that the server may be called by, without a port.
	// Loopback addresses and "localhost" always are.
	Hosts []string
	// Origins are those of web pages that may call it, as a browser spells
	// them ("https://example.org"); usually none.
	Origins []string
	// Routes are served beside those of this package.
	Routes []Route
	// Keepalive is how often a connection that may be silent is tried; who
	// does not answer for as long again is gone. 0: 15 s.
	Keepalive time.Duration
	// Idle is how long a transfer may stand still. 0: a minute.
	Idle time.Duration
	// MaxConnections are held at once by Serve. One more ends the one that
	// has been without a request for longest. 0: 1024.
	MaxConnections int
	// Logger is told what no answer tells; nil: silent.
	Logger *slog.Logger
}

// Source finds workspaces by id.
type Source interface {
	// Open returns the workspace with that id, and a function that is called
	// when the request is done with it. NOT_FOUND when there is none.
	Open(ctx context.Context, id string) (ws *workspace.Workspace, release func(), err error)
}

// Server serves workspaces. It closes none: whoever opened one does.
type Server struct {
	source  Source
	opts    Options
	log     *slog.Logger
	mux     *http.ServeMux
	table   []Route
	hosts   map[string]bool
	origins map[string]bool

	life context.Context //nolint:containedctx // of all requests
	end  context.CancelCauseFunc
	mu   sync.Mutex
	wg   sync.WaitGroup // requests under way
	gone bool           // guarded by mu
}

// Call is one request that was let in.
type Call struct {
	// Who it is from.
	Who Identity
	// ID is the id of the workspace in the path, "" when there is none.
	ID string
	// Workspace is set when the route says Opens. With a token that has a
	// prefix it is the directory of that prefix.
	Workspace *workspace.Workspace

	server *Server
	root   string // of the whole workspace, when Workspace is a part of it
}

// DefaultID is the id under which Handler serves its one workspace.
const DefaultID = "default"

// Handler serves one workspace, with the id DefaultID.
func Handler(ws *workspace.Workspace, o Options) (*Server, error) {
	return New(single{ws}, o)
}

// single is a Source of one workspace.
type single struct{ ws *workspace.Workspace }

func (s single) Open(_ context.Context, id string) (*workspace.Workspace, func(), error) {
	if id != DefaultID {
		return nil, nil, noWorkspace()
	}
	return s.ws, func() {}, nil
}

func noWorkspace() error {
	return workspace.Errorf(workspace.ErrNotFound, "request", "", "there is no such workspace, or the token is not for it")
}

// New returns a server of what source finds. It is a http.Handler; Serve serves
// it with bounds on what a connection may cost.
func New(source Source, o Options) (*Server, error) {
	if o.Keepalive == 0 {
		o.Keepalive = 15 * time.Second
	}
	if o.Idle == 0 {
		o.Idle = time.Minute
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 1024
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{source: source, opts: o, log: o.Logger, mux: http.NewServeMux(), hosts: map[string]bool{"localhost": true}, origins: map[string]bool{}}
	s.life, s.end = context.WithCancelCause(context.Background())
	for _, h := range o.Hosts {
		s.hosts[strings.ToLower(h)] = true
	}
	for _, origin := range o.Origins {
		s.origins[origin] = true
	}
	s.table = append(s.routes(), o.Routes...)
	for _, t := range s.table {
		if err := t.check(); err != nil {
			return nil, err
		}
		s.mux.HandleFunc(t.Method+" "+t.Path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, t) })
	}
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.fail(w, r, workspace.Errorf(workspace.ErrNotFound, "request", "", "there is no such path, or it does not take the method %.20q", r.Method))
	})
	return s, nil
}

// Routes returns the table of routes.
func (s *Server) Routes() []Route { return slices.Clone(s.table) }

// Close ends the requests under way, and with them the commands that they run,
// and returns when they have ended. Later ones answer UNAVAILABLE.
func (s *Server) Close() {
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	s.end(errServerCloses)
	s.wg.Wait()
}

var errServerCloses = errors.New("the server is closing")

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setSafe(w.Header())
	if err := checkTarget(r); err != nil {
		s.fail(w, r, err)
		return
	}
	if err := s.checkSender(r); err != nil {
		s.fail(w, r, err)
		return
	}
	s.mu.Lock()
	if s.gone {
		s.mu.Unlock()
		s.fail(w, r, workspace.Errorf(workspace.ErrUnavailable, "request", "", "%w", errServerCloses))
		return
	}
	s.wg.Add(1)
	s.mu.Unlock()
	defer s.wg.Done()
	if r.ContentLength != 0 {
		// Whoever reads the body takes this back when it is whole.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.opts.Idle))
	}
	s.mux.ServeHTTP(w, r)
}

// setSafe sets the headers of every answer. What a workspace holds is somebody
// else's: no browser may take it for a page of this server.
func setSafe(h http.Header) {
	values := [...]string{"nosniff", "sandbox; default-src 'none'; frame-ancestors 'none'", "no-store"}
	for i, key := range [...]string{"X-Content-Type-Options", "Content-Security-Policy", "Cache-Control"} {
		h[key] = values[i : i+1 : i+1] // one allocation for all
	}
}

// serve lets a request to a route in and answers it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, t Route) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(errServerCloses) })()
	a := &answer{ResponseWriter: w}
	defer func() {
		p := recover()
		if p == nil || p == http.ErrAbortHandler {
			if p != nil {
				panic(p)
			}
			return
		}
		s.log.Error("a request made the server panic", "method", t.Method, "path", t.Path, "panic", p, "stack", string(debug.Stack()))
		if a.begun {
			panic(http.ErrAbortHandler)
		}
		s.fail(w, r, workspace.Errorf(workspace.ErrIO, "request", "", "the server failed; its log says how"))
	}()
	err := s.admit(a, r.WithContext(ctx), t, cancel)
	switch {
	case err == nil:
	case a.begun:
		panic(http.ErrAbortHandler) // what was sent is no whole answer
	default:
		s.fail(w, r, err)
	}
}

// answer is a http.ResponseWriter that knows whether an answer has begun.
type answer struct {
	http.ResponseWriter
	begun bool
}

func (a *answer) WriteHeader(status int) {
	a.begun = a.begun || status >= 200 || status == http.StatusSwitchingProtocols
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.begun = true
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

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

// ownName reports whether host, with or without a port, is a name of this
// server.
func (s *Server) ownName(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() {
		return true
	}
	return s.hosts[strings.ToLower(name)]
}

// fail sends an error.
func (s *Server) fail(w http.ResponseWriter, _ *http.Request, err error) {
	f := failureOf(err)
	status, known := statuses[f.Code]
	if !known {
		status = http.StatusInternalServerError
	}
	var u unauthorized
	if errors.As(err, &u) {
		status = http.StatusUnauthorized
	}
	w.Header().Del("Content-Disposition")
	send(w, status, problem{f})
}

// send sends v as JSON.
func send(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"error":{"code":"IO","message":"the answer cannot be sent"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // who asked may be gone
}

// heartbeat is how often a slow answer says that it is still coming.
const heartbeat = 5 * time.Second

// reply does the work of a request and sends what came of it. While that takes
// long it sends "102 Processing" (RFC 2518, section 10.1), so that the other
// side knows slow from dead. The body of the request must have been read.
func reply[T any](w http.ResponseWriter, r *http.Request, work func() (T, error)) error {
	stop := beat(w, r)
	v, err := work()
	stop()
	if err != nil {
		return err
	}
	send(w, http.StatusOK, v)
	return nil
}

// beat sends the heartbeat until stop is called.
func beat(w http.ResponseWriter, r *http.Request) (stop func()) {
	if !r.ProtoAtLeast(1, 1) {
		return func() {}
	}
	var mu sync.Mutex
	stopped := false
	var timer *time.Timer
	mu.Lock()
	timer = time.AfterFunc(heartbeat, func() {
		mu.Lock()
		defer mu.Unlock()
		if !stopped {
			w.WriteHeader(http.StatusProcessing)
			timer.Reset(heartbeat)
		}
	})
	mu.Unlock()
	return func() {
		timer.Stop()
		mu.Lock()
		stopped = true
		mu.Unlock()
	}
}

// nothing is the answer of what has none.
type nothing struct{}

// ReadJSON reads the body of a request strictly: application/json, UTF-8, no
// unknown field, no key twice, at most 1 MiB.
func (c *Call) ReadJSON(w http.ResponseWriter, r *http.Request, v any) error {
	return readJSON(w, r, v)
}

// Reply does the work of a request, whose body was read, and sends what it
// returns as JSON. While it takes long the other side is told that it goes on.
func (c *Call) Reply(w http.ResponseWriter, r *http.Request, work func() (any, error)) error {
	return reply(w, r, work)
}

func (s *Server) serveAbout(w http.ResponseWriter, r *http.Request, c *Call) error {
	if _, err := query(r); err != nil {
		return err
	}
	d := c.Workspace.Descriptor()
	a := about{Protocol: Protocol, ID: c.ID, Kind: d.Kind, Ref: d.Ref, Root: text(d.Root)}
	if real, ok := c.Workspace.Driver().(workspace.Realer); ok {
		a.Real = text(real.Real())
	}
	_, a.Start = c.Workspace.Driver().(workspace.Starter)
	_, err := c.Workspace.Snapshots()
	a.Snapshot = err == nil
	send(w, http.StatusOK, a)
	return nil
}

func (s *Server) serveReady(w http.ResponseWriter, r *http.Request, c *Call) error {
	return change(w, r, func(nothing) error { return c.Workspace.Ready(r.Context()) })
}
