package mcpserver

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/semaphore"
)

const (
	// Path takes requests of every revision: those before 2026-07-28 in
	// sessions, with questions to the user and notices of changes.
	Path = "/mcp"
	// StatelessPath has no sessions in any revision: each request stands
	// for itself.
	StatelessPath = Path + "/stateless"
)

const (
	// stateless is the first revision without sessions. Clients name it in
	// a header of every request.
	stateless     = "2026-07-28"
	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"

	headerTime  = 10 * time.Second
	idleTime    = 2 * time.Minute
	sessionIdle = time.Hour
	maxHeader   = 32 << 10
	// maxSessions bounds sessions and requests without one.
	maxSessions = 256
	// shutdownTime is how long answers may still be on their way when the
	// server ends.
	shutdownTime = time.Second
)

// HTTPOptions say who may use a server over HTTP.
type HTTPOptions struct {
	// Token is what clients send as "Authorization: Bearer TOKEN". It may be
	// empty on a loopback address only.
	Token string
	// TLS has the certificate; nil: plain HTTP, on a loopback address only.
	TLS *tls.Config
	// Hosts are names under which clients reach the server, beside those of
	// a loopback address and the address itself.
	Hosts []string
}

// ServeHTTP serves clients on l, which it closes, until ctx ends.
func (s *Server) ServeHTTP(ctx context.Context, l net.Listener, o HTTPOptions) error {
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ok || !addr.IP.IsLoopback() {
		if o.Token == "" || o.TLS == nil {
			return errors.Join(errors.New("beyond a loopback address clients need a token, and TLS to send it over"), l.Close())
		}
	}
	if o.TLS != nil {
		l = tls.NewListener(l, o.TLS)
	}
	hosts := o.Hosts
	if ok {
		hosts = append(hosts[:len(hosts):len(hosts)], addr.IP.String())
	}
	server := &http.Server{
		Handler:           s.handler(o.Token, hosts),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	s.end()
	// Streams of notices never end by themselves.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close()
	}
	return nil
}

// handler is the way of a request: who asks, from where, how much of it, and
// then the SDK.
func (s *Server) handler(token string, hosts []string) http.Handler {
	get := func(*http.Request) *mcp.Server { return s.mcp }
	// The body has been read by then, in bounds of our own; so has the
	// check of the Host header been made.
	options := mcp.StreamableHTTPOptions{
		Logger:                     s.log,
		SessionTimeout:             sessionIdle,
		MaxRequestBodyBytes:        maxLine,
		DisableLocalhostProtection: true,
		// A client that has gone reads no result.
		PropagateRequestCancellation: true,
	}
	sessions := mcp.NewStreamableHTTPHandler(get, &options)
	options.Stateless = true
	alone := mcp.NewStreamableHTTPHandler(get, &options)

	route := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.EscapedPath() == StatelessPath, r.URL.EscapedPath() == Path && r.Header.Get(versionHeader) >= stateless:
			alone.ServeHTTP(w, r)
		case r.URL.EscapedPath() == Path:
			id := r.Header.Get(sessionHeader)
			if r.Method == http.MethodDelete {
				// The SDK waits for the calls of the session.
				s.calls.endSession(id)
			}
			if id == "" && s.sessions() >= maxSessions {
				refuse(w, http.StatusServiceUnavailable, "too many sessions; end one first")
				return
			}
			sessions.ServeHTTP(w, r)
		default:
			refuse(w, http.StatusNotFound, "there is nothing here; use "+Path)
		}
	})
	g := &guard{hosts: hosts, bytes: semaphore.NewWeighted(maxPendingBytes), requests: semaphore.NewWeighted(maxSessions)}
	if token != "" {
		g.token = digest(token)
	}
	return g.wrap(route)
}

// sessions counts those that there are.
func (s *Server) sessions() int {
	n := 0
	for range s.mcp.Sessions() {
		n++
	}
	return n
}
