package mcpserver

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// watchPause is the time between two looks at the files that somebody
	// has subscribed to; after a call that may have changed them there is
	// one at once.
	watchPause = time.Second
	// maxWatched bounds the files that are looked at.
	maxWatched = 1000
)

// watch tells subscribers of changes of files: by tools, by commands that still
// run, by anybody. It looks at what a file's version is, so that a write that
// changed nothing is no notice and no change is missed because of its way.
type watch struct {
	server *Server
	poke   chan struct{}
	begin  sync.Once

	mu    sync.Mutex
	files map[string]*watched // guarded by mu; by URI, as the client spelled it
}

// watched is one resource that somebody has subscribed to.
type watched struct {
	named    resource
	version  string
	sessions map[*mcp.ServerSession]bool
}

func newWatch(s *Server) *watch {
	return &watch{server: s, poke: make(chan struct{}, 1), files: map[string]*watched{}}
}

// subscribe implements mcp.ServerOptions.SubscribeHandler. Only what may be
// read may be subscribed to.
func (w *watch) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	uri := req.Params.URI
	named, err := resourceOf(uri)
	if err != nil {
		return resourceError(uri, err)
	}
	version := named.version(ctx, w.server.set)
	if _, err := named.read(ctx, w.server.set); err != nil {
		return resourceError(uri, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.files[uri]
	if f == nil {
		if w.forget(); len(w.files) >= maxWatched {
			return &jsonrpc.Error{Code: codeBusy, Message: "too many subscriptions; end some first"}
		}
		f = &watched{named: named, version: version, sessions: map[*mcp.ServerSession]bool{}}
		w.files[uri] = f
	}
	f.sessions[req.Session] = true
	w.begin.Do(func() { go w.look() })
	return nil
}

// unsubscribe implements mcp.ServerOptions.UnsubscribeHandler.
func (w *watch) unsubscribe(_ context.Context, req *mcp.UnsubscribeRequest) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.files[req.Params.URI]; f != nil {
		delete(f.sessions, req.Session)
	}
	w.forget()
	return nil
}

// forget drops files whose subscribers have gone; mu is held.
func (w *watch) forget() {
	alive := map[*mcp.ServerSession]bool{}
	for session := range w.server.mcp.Sessions() {
		alive[session] = true
	}
	for uri, f := range w.files {
		maps.DeleteFunc(f.sessions, func(s *mcp.ServerSession, _ bool) bool { return !alive[s] })
		if len(f.sessions) == 0 {
			delete(w.files, uri)
		}
	}
}

// changed says that files may have changed.
func (w *watch) changed() {
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// look goes on until the server closes.
func (w *watch) look() {
	life := w.server.life
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	for {
		select {
		case <-life.Done():
			return
		case <-w.poke:
		case <-tick.C:
		}
		for _, uri := range w.stale(life) {
			// That a client is gone shows elsewhere.
			_ = w.server.mcp.ResourceUpdated(life, &mcp.ResourceUpdatedNotificationParams{URI: uri})
		}
	}
}

// stale are the URIs of the files that have changed since the last look.
func (w *watch) stale(ctx context.Context) []string {
	w.mu.Lock()
	w.forget()
	all := map[string]resource{}
	for uri, f := range w.files {
		all[uri] = f.named
	}
	w.mu.Unlock()
	var changed []string
	for _, uri := range slices.Sorted(maps.Keys(all)) {
		version := all[uri].version(ctx, w.server.set)
		w.mu.Lock()
		if f := w.files[uri]; f != nil && f.version != version {
			f.version = version
			changed = append(changed, uri)
		}
		w.mu.Unlock()
	}
	return changed
}
