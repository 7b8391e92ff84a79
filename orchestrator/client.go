package orchestrator

import (
	"context"
	"io"
	"net/url"
	"strconv"

	"github.com/wsctl/wsctl/remote"
)

// Client is the other side of Routes: an orchestrator on a server. Its methods
// mean what those of Orchestrator do, but that ids are taken, not names, where a
// path names a workspace; Find turns one into the other.
type Client struct{ remote *remote.Client }

// NewClient returns a client of the server at address. It makes no connection.
func NewClient(address string, token remote.Token, o remote.DialOptions) (*Client, error) {
	c, err := remote.NewClient(address, token, o)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// Close lets the connections go.
func (c *Client) Close() { c.remote.Close() }

func path(id string) string { return "/v1/workspaces/" + url.PathEscape(id) }

// List returns the workspaces that the token reaches.
func (c *Client) List(ctx context.Context) ([]Workspace, error) {
	var m listMessage
	err := c.remote.Call(ctx, "list", "GET", "/v1/workspaces", nil, nil, &m)
	return m.Workspaces, err
}

// Find returns the workspace with that id, name, or beginning of an id that no
// other has, of four characters or more. NOT_FOUND when there is none.
func (c *Client) Find(ctx context.Context, ref string) (Workspace, error) {
	list, err := c.List(ctx)
	if err != nil {
		return Workspace{}, err
	}
	return Find(list, ref)
}

// Create makes a workspace.
func (c *Client) Create(ctx context.Context, s Spec) (w Workspace, err error) {
	err = c.remote.Call(ctx, "create", "POST", "/v1/workspaces", nil, s, &w)
	return w, err
}

// Upload sends a tar or a git bundle that a workspace is to begin with.
func (c *Client) Upload(ctx context.Context, r io.Reader) (u Upload, err error) {
	err = c.remote.Send(ctx, "upload", "/v1/uploads", r, &u)
	return u, err
}

// Get returns one workspace.
func (c *Client) Get(ctx context.Context, id string) (w Workspace, err error) {
	err = c.remote.Call(ctx, "get", "GET", path(id)+"/info", nil, nil, &w)
	return w, err
}

// Update changes one.
func (c *Client) Update(ctx context.Context, id string, change Change) (w Workspace, err error) {
	err = c.remote.Call(ctx, "update", "PATCH", path(id), nil, change, &w)
	return w, err
}

// Remove removes one.
func (c *Client) Remove(ctx context.Context, id string) error {
	return c.remote.Call(ctx, "remove", "DELETE", path(id), nil, nil, &nothing{})
}

// Pause stops the processes of one.
func (c *Client) Pause(ctx context.Context, id string) error { return c.step(ctx, id, "pause") }

// Resume lets them go on.
func (c *Client) Resume(ctx context.Context, id string) error { return c.step(ctx, id, "resume") }

// Stop ends what runs in one.
func (c *Client) Stop(ctx context.Context, id string) error { return c.step(ctx, id, "stop") }

func (c *Client) step(ctx context.Context, id, op string) error {
	return c.remote.Call(ctx, op, "POST", path(id)+"/"+op, nil, nothing{}, &nothing{})
}

// Open returns a driver over one.
func (c *Client) Open(ctx context.Context, id string) (*remote.Driver, error) {
	return c.remote.Dial(ctx, id)
}

// Events returns what happened after the event with that number, or none after
// some seconds without one.
func (c *Client) Events(ctx context.Context, after int64) ([]Event, error) {
	var m eventsMessage
	q := url.Values{"after": {strconv.FormatInt(after, 10)}}
	err := c.remote.Call(ctx, "events", "GET", "/v1/events", q, nil, &m)
	return m.Events, err
}

// Audit returns at most limit entries after the one with that number, 0: as many
// as come in one answer, and the number of the last.
func (c *Client) Audit(ctx context.Context, after int64, limit int) (list []Entry, last int64, err error) {
	var m auditMessage
	q := url.Values{"after": {strconv.FormatInt(after, 10)}, "limit": {strconv.Itoa(limit)}}
	err = c.remote.Call(ctx, "audit", "GET", "/v1/audit", q, nil, &m)
	return m.Entries, m.Last, err
}
