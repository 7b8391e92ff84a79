//go:build unix

package main

import (
	"context"
	"io"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// routes are those about the server itself: whether it is well for everybody, what
// it does for its owner.
func (s *service) routes() []remote.Route {
	plain := func(h http.HandlerFunc) func(http.ResponseWriter, *http.Request, *remote.Call) error {
		return func(w http.ResponseWriter, r *http.Request, _ *remote.Call) error {
			h(w, r)
			return nil
		}
	}
	return []remote.Route{
		{Method: "GET", Path: "/healthz", Public: true, Serve: plain(well)},
		{Method: "GET", Path: "/readyz", Public: true, Serve: s.serveReady},
		{Method: "GET", Path: "/metrics", Owner: true, Serve: plain(s.orchestrator.Metrics().ServeHTTP)},
		{Method: "GET", Path: "/debug/pprof", Owner: true, Serve: plain(pprof.Index)},
		{Method: "GET", Path: "/debug/pprof/cmdline", Owner: true, Serve: plain(pprof.Cmdline)},
		{Method: "GET", Path: "/debug/pprof/profile", Owner: true, Serve: plain(pprof.Profile)},
		{Method: "GET", Path: "/debug/pprof/trace", Owner: true, Serve: plain(pprof.Trace)},
		{Method: "GET", Path: "/debug/pprof/{profile}", Owner: true, Serve: plain(func(w http.ResponseWriter, r *http.Request) {
			pprof.Handler(r.PathValue("profile")).ServeHTTP(w, r)
		})},
	}
}

func well(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ok\n") // who asked may be gone
}

// serveReady tells whether commands could be run now.
func (s *service) serveReady(w http.ResponseWriter, r *http.Request, _ *remote.Call) error {
	if s.draining.Load() {
		return workspace.Errorf(workspace.ErrUnavailable, "ready", "", "the server is going down")
	}
	if !s.probe.answers(r.Context()) {
		return workspace.Errorf(workspace.ErrUnavailable, "ready", "", "the engine does not answer")
	}
	well(w, r)
	return nil
}

// engineProbe asks the engine whether it is there, at most once a second: who asks
// needs no token.
type engineProbe struct {
	engine *container.Engine

	mu    sync.Mutex
	asked time.Time // guarded by mu
	well  bool      // guarded by mu
}

const (
	probeEvery = time.Second
	probeTime  = 2 * time.Second
)

func (p *engineProbe) answers(ctx context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.asked) < probeEvery {
		return p.well
	}
	// The answer is everybody's, so that of who goes away counts too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTime)
	defer cancel()
	_, err := p.engine.API().Ping(ctx)
	p.asked, p.well = time.Now(), err == nil
	return p.well
}
