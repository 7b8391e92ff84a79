package remote

import (
	"context"
	"io"
	"net/http"
	"net/url"
)

// Client makes requests to those routes of a server that are no workspace's, and
// dials workspaces by their ids. It may be used by many goroutines at once.
type Client struct {
	client *client
	dial   func(ctx context.Context, id string) (*Driver, error)
}

// NewClient returns a client of the server at address, "https://host:port". It
// makes no connection.
func NewClient(address string, token Token, o DialOptions) (*Client, error) {
	u, err := parseAddress(address)
	if err != nil || u.Path != "" && u.Path != "/" {
		return nil, badAddress("https://HOST[:PORT]")
	}
	u.Path = ""
	c, err := newClient(u, token, o)
	if err != nil {
		return nil, err
	}
	return &Client{client: c, dial: func(ctx context.Context, id string) (*Driver, error) {
		return Dial(ctx, u.JoinPath("/v1/workspaces", id).String(), token, o)
	}}, nil
}

// Call sends in as JSON, nothing when it is nil, to a path of the server, and
// decodes the answer into out. op is for errors.
func (c *Client) Call(ctx context.Context, op, method, path string, q url.Values, in, out any) error {
	return c.client.call(ctx, op, method, path, q, in, out)
}

// Send sends what r holds to a path of the server, by POST, and decodes the answer
// into out. op is for errors.
func (c *Client) Send(ctx context.Context, op, path string, r io.Reader, out any) error {
	return c.client.send(ctx, sending{op: op, method: http.MethodPost, route: path}, r, out)
}

// Dial is Dial of the workspace with that id.
func (c *Client) Dial(ctx context.Context, id string) (*Driver, error) { return c.dial(ctx, id) }

// Close lets the connections go. Calls must have ended.
func (c *Client) Close() { c.client.transport.CloseIdleConnections() }
