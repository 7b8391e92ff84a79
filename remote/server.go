package remote

import (
	"context"
	"errors"
	"log/slog"
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
