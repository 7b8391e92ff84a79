package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// Bounds of what a connection may cost that has not said who it is from.
const (
	headerTime = 10 * time.Second
	headerSize = 32 << 10
	idleTime   = 2 * time.Minute
)

// Listen listens at an address: "unix:/path/to/socket", or "host:port". config
// is for TLS; nil: none.
//
// Beyond loopback it refuses to listen without TLS and tokens. A Unix socket
// takes connections of this process's user, and root, alone, and who connects
// needs no token.
func (s *Server) Listen(address string, config *tls.Config) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return listenUnix(path, s.log)
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "listen", "", "the address %.100q is neither HOST:PORT nor unix:PATH", address)
	}
	tokens := s.opts.Authority != nil && !s.opts.Anonymous
	switch {
	case !loopback(host) && (config == nil || !tokens):
		return nil, workspace.Errorf(workspace.ErrDenied, "listen", "", "%.100q can be reached from other machines; that needs TLS and tokens: give a certificate and an authority, or listen on 127.0.0.1 or a Unix socket", address)
	case !tokens && !s.opts.Anonymous:
		return nil, workspace.Errorf(workspace.ErrDenied, "listen", "", "nobody could be let in at %.100q: give an authority of tokens, or listen on a Unix socket", address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrUnavailable, "listen", "", "%w", err)
	}
	if !loopback(host) {
		return tls.NewListener(l, config), nil
	}
	// A name may resolve to more than it says.
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		_ = l.Close()
		return nil, workspace.Errorf(workspace.ErrDenied, "listen", "", "%.100q is not on this machine", address)
	}
	if config != nil {
		return tls.NewListener(l, config), nil
	}
	return l, nil
}

// Serve answers requests on l until ctx ends, and then ends those under way. It
// closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	conns := &connections{most: s.opts.MaxConnections, quiet: map[net.Conn]time.Time{}}
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerSize,
		ConnState:         conns.changed,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if _, ok := c.(*ownerConn); ok {
				return context.WithValue(ctx, ownerKey{}, true)
			}
			return ctx
		},
		ErrorLog: nil,
	}
	server.ErrorLog = quietLog(s.log)
	stop := context.AfterFunc(ctx, func() {
		s.Close()
		late, cancel := context.WithTimeout(context.Background(), headerTime)
		defer cancel()
		if server.Shutdown(late) != nil {
			_ = server.Close()
		}
	})
	defer stop()
	err := server.Serve(l)
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		s.Close()
		return nil
	}
	return workspace.Errorf(workspace.ErrUnavailable, "serve", "", "%w", err)
}

// connections holds the number of connections down, so that whoever opens many
// and says nothing shuts nobody out.
type connections struct {
	most int

	mu    sync.Mutex
	total int
	quiet map[net.Conn]time.Time // without a request, since when
}

func (k *connections) changed(c net.Conn, state http.ConnState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch state {
	case http.StateNew:
		k.total++
		k.quiet[c] = time.Now()
		if k.total > k.most {
			k.drop()
		}
	case http.StateIdle:
		k.quiet[c] = time.Now()
	case http.StateActive:
		delete(k.quiet, c)
	case http.StateHijacked, http.StateClosed:
		k.total--
		delete(k.quiet, c)
	}
}

// drop ends the connection that has been quiet for longest.
func (k *connections) drop() {
	var oldest net.Conn
	var since time.Time
	for c, t := range k.quiet {
		if oldest == nil || t.Before(since) {
			oldest, since = c, t
		}
	}
	if oldest != nil {
		delete(k.quiet, oldest)
		_ = oldest.Close()
	}
}

type ownerKey struct{}

// isOwner reports whether a request came over a socket that this process's user
// alone can use.
func isOwner(ctx context.Context) bool {
	owner, _ := ctx.Value(ownerKey{}).(bool)
	return owner
}
