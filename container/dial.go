package container

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
)

// handshakeTimeout bounds the engine's answer to a request for a connection to
// a process's streams.
const handshakeTimeout = 15 * time.Second

// dialer makes the connections to the engine. It does TLS itself, so that a
// connection handed out for a process's streams obeys the same bounds.
type dialer struct {
	network, address string
	tls              *tls.Config // nil: none
}

// dial ignores what it is told to dial: there is one engine.
func (d dialer) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	plain := net.Dialer{KeepAlive: 30 * time.Second}
	conn, err := plain.DialContext(bounded, d.network, d.address)
	if err != nil {
		return nil, err
	}
	if d.tls != nil {
		secured := tls.Client(conn, d.tls)
		if err := secured.HandshakeContext(bounded); err != nil {
			_ = conn.Close()
			return nil, err
		}
		conn = secured
	}
	if h, ok := ctx.Value(handshakeKey{}).(*handshake); ok {
		h.watch(ctx, conn)
	}
	return conn, nil
}

// try makes a connection and gives it up, for the error.
func (d dialer) try(ctx context.Context) error {
	conn, err := d.dial(ctx, d.network, d.address)
	if err != nil {
		return err
	}
	return conn.Close()
}

// handshakeKey is the context key of a *handshake.
type handshakeKey struct{}

// handshake ends the reads and writes on one new connection when its context
// does. The Docker client's own attach does not look at the context once it
// has a connection.
type handshake struct {
	conn net.Conn
	stop func() bool
}

func (h *handshake) watch(ctx context.Context, conn net.Conn) {
	h.conn = conn
	h.stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
}

// hijack makes a call of the Docker client that turns a connection into a
// process's streams, bounded by ctx and handshakeTimeout. Later, ctx has no hold
// on the connection any more.
func hijack(ctx context.Context, call func(context.Context) (types.HijackedResponse, error)) (types.HijackedResponse, error) {
	h := &handshake{}
	bounded, cancel := context.WithTimeout(context.WithValue(ctx, handshakeKey{}, h), handshakeTimeout)
	defer cancel()
	resp, err := call(bounded)
	if err != nil {
		switch {
		case bounded.Err() != nil:
			err = bounded.Err()
		case strings.HasSuffix(err.Error(), "received 409"):
			// The client tells the status in its text alone.
			err = fmt.Errorf("%w: %w", errdefs.ErrConflict, err)
		}
		return types.HijackedResponse{}, err
	}
	// The deadline may only be cleared when it will not be set afterwards.
	if h.stop != nil && !h.stop() {
		resp.Close()
		return types.HijackedResponse{}, bounded.Err()
	}
	return resp, nil
}
