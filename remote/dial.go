package remote

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// DialOptions say how a server is reached. The zero value is good.
type DialOptions struct {
	// TLS is for https; nil: what the system trusts. Pinned is a way to
	// trust one certificate.
	TLS *tls.Config
	// Socket is the path of a Unix socket to connect to, whatever the host
	// in the URL says.
	Socket string
	// Patience is how long the server may be silent before it counts as
	// unavailable. Work that takes longer is no silence. 0: 30 s.
	Patience time.Duration
	// Keepalive is how often the connection of a running command is tried;
	// 0: 15 s.
	Keepalive time.Duration
}

// Driver is a workspace on a server. It implements workspace.Driver,
// workspace.Starter and workspace.Realer, and is safe for concurrent use.
//
// Closing it ends the commands that it started. What they left with
// workspace.BackgroundKeep belongs to the served workspace and goes with that.
type Driver struct {
	client *client
	about  about
	files  *files

	ready atomic.Bool
	life  context.Context //nolint:containedctx // of all its commands
	end   context.CancelFunc
	mu    sync.Mutex
	gone  bool // guarded by mu
	wg    sync.WaitGroup
}

var (
	_ workspace.Driver  = (*Driver)(nil)
	_ workspace.Starter = (*Driver)(nil)
	_ workspace.Realer  = (*Driver)(nil)
)

// Dial asks the server at address what its workspace is, and returns a driver
// over it. The address is that of the workspace,
// "https://host:port/v1/workspaces/ID"; without a path it is the one that
// Handler serves. The token is sent in a header, never in an address.
func Dial(ctx context.Context, address string, token Token, o DialOptions) (*Driver, error) {
	u, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	if u.Path == "" {
		u.Path = "/v1/workspaces/" + DefaultID
	}
	if id, ok := strings.CutPrefix(u.Path, "/v1/workspaces/"); !ok || !ValidID(id) || u.RawPath != "" {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "open", "", "the path of a workspace's address is /v1/workspaces/ID, of a version that this program speaks")
	}
	c, err := newClient(u, token, o)
	if err != nil {
		return nil, err
	}
	d := &Driver{client: c}
	if err := c.call(ctx, "open", http.MethodGet, "", nil, nil, &d.about); err != nil {
		c.transport.CloseIdleConnections()
		return nil, err
	}
	if err := d.about.check(); err != nil {
		c.transport.CloseIdleConnections()
		return nil, err
	}
	d.files = newFiles(c)
	d.life, d.end = context.WithCancel(context.Background())
	return d, nil
}

// check refuses a server that cannot be spoken to, or says what cannot be.
func (a about) check() error {
	if a.Protocol != Protocol {
		return workspace.Errorf(workspace.ErrUnavailable, "open", "", "the server speaks version %d of the protocol, this program version %d; use the same version of wsctl on both sides", a.Protocol, Protocol)
	}
	for _, root := range []string{string(a.Root), string(a.Real)} {
		if root == "" && a.Root != "" {
			continue // no second spelling
		}
		if !path.IsAbs(root) || path.Clean(root) != root || len(root) > maxPath || strings.IndexByte(root, 0) >= 0 {
			return misbehaved("its root is %.200q", root)
		}
	}
	return nil
}

// Descriptor tells that the workspace is remote, and where.
func (d *Driver) Descriptor() workspace.Descriptor {
	return workspace.Descriptor{Kind: workspace.KindRemote, Ref: d.client.base.String(), Root: string(d.about.Root)}
}

// Real is the second spelling of the root, where the served workspace has one.
func (d *Driver) Real() string {
	if d.about.Real == "" {
		return string(d.about.Root)
	}
	return string(d.about.Real)
}

// Files is the workspace's file tree.
func (d *Driver) Files() workspace.Files { return d.files }

// Ready makes the server ready to run commands. Once it was, each command finds
// out for itself.
func (d *Driver) Ready(ctx context.Context) error {
	if d.ready.Load() {
		return nil
	}
	if err := d.client.call(ctx, "start", http.MethodPost, "/ready", nil, nothing{}, &nothing{}); err != nil {
		return err
	}
	d.ready.Store(true)
	return nil
}

// Close ends the commands that run and lets the server go.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.gone = true
	d.mu.Unlock()
	d.end()
	d.wg.Wait()
	d.client.transport.CloseIdleConnections()
	return nil
}

// parseAddress checks the address of a server, with a path or without.
func parseAddress(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, badAddress("https://HOST[:PORT]/v1/workspaces/ID")
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u, nil
}

// badAddress does not repeat the address, which could hold a credential.
func badAddress(form string) error {
	return workspace.Errorf(workspace.ErrInvalidArgument, "open", "", "the address is to be %s, without a user or a query; tokens are given apart", form)
}

// newClient returns a client of what is below u.
func newClient(u *url.URL, token Token, o DialOptions) (*client, error) {
	const op = "open"
	if u.Scheme == "http" && token != "" && o.Socket == "" && !loopback(u.Hostname()) {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "a token over plain http could be read on the way; use https")
	}
	if o.Patience == 0 {
		o.Patience = 30 * time.Second
	}
	if o.Keepalive == 0 {
		o.Keepalive = 15 * time.Second
	}
	dialer := &net.Dialer{Timeout: o.Patience}
	t := &http.Transport{
		// No proxy: libraries read no environment.
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if o.Socket != "" {
				network, addr = "unix", o.Socket
			}
			conn, err := dialer.DialContext(ctx, network, addr)
			if local, ok := conn.(*net.UnixConn); ok && err == nil {
				// A token goes to a server of the same user alone.
				if _, err := checkPeer(local); err != nil {
					_ = conn.Close()
					return nil, err
				}
			}
			return conn, err
		},
		TLSClientConfig:        o.TLS,
		TLSHandshakeTimeout:    o.Patience,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        time.Minute,
		ExpectContinueTimeout:  o.Patience,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
		ReadBufferSize:         32 << 10,
		WriteBufferSize:        32 << 10,
	}
	return &client{base: u, token: token, transport: t, opts: o}, nil
}

// loopback reports whether host is this machine by any spelling.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
