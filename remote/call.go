package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strconv"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// client makes requests to one workspace of one server.
type client struct {
	base      *url.URL
	token     Token
	transport *http.Transport
	opts      DialOptions
}

var errSilent = errors.New("the server is silent")

// watch ends a request when the server has been silent for too long. Whatever
// arrives is a sign of life.
type watch struct {
	ctx      context.Context //nolint:containedctx // of one request
	cancel   context.CancelCauseFunc
	timer    *time.Timer
	patience time.Duration
}

func (c *client) watch(ctx context.Context) *watch {
	w := &watch{patience: c.opts.Patience}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(w.patience, func() { w.cancel(errSilent) })
	w.ctx = httptrace.WithClientTrace(w.ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error { w.alive(); return nil },
	})
	return w
}

func (w *watch) alive() { w.timer.Reset(w.patience) }

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// failed is the error of a request that got no answer. ctx is the caller's.
func (w *watch) failed(ctx context.Context, op string, err error) error {
	switch {
	case ctx.Err() != nil:
		return &workspace.Error{Code: workspace.ErrAborted, Op: op, Err: ctx.Err()}
	case context.Cause(w.ctx) == errSilent:
		return workspace.Errorf(workspace.ErrUnavailable, op, "", "%w, for %v; what was asked for may or may not have been done", errSilent, w.patience)
	}
	var e *workspace.Error
	if errors.As(err, &e) {
		return err
	}
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return workspace.Errorf(workspace.ErrUnavailable, op, "", "no server answers there; start one with wsctl serve, or give another address: %w", err)
	}
	return workspace.Errorf(workspace.ErrUnavailable, op, "", "the connection to the server failed; what was asked for may or may not have been done: %w", err)
}

// request makes a request to a route of the workspace.
func (c *client) request(ctx context.Context, method, route string, q url.Values, body io.Reader) (*http.Request, error) {
	u := *c.base
	u.Path += route
	u.RawQuery = q.Encode()
	r, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, err
	}
	c.sign(r.Header)
	return r, nil
}

func (c *client) sign(h http.Header) {
	if c.token != "" {
		h.Set("Authorization", "Bearer "+string(c.token))
	}
}

// call sends in as JSON, nothing when it is nil, and decodes the answer into
// out.
func (c *client) call(ctx context.Context, op, method, route string, q url.Values, in, out any) error {
	w := c.watch(ctx)
	defer w.stop()
	var body io.Reader
	if in != nil {
		data, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(data)
	}
	r, err := c.request(w.ctx, method, route, q, body)
	if err != nil {
		return err
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.transport.RoundTrip(r)
	if err != nil {
		return w.failed(ctx, op, err)
	}
	defer resp.Body.Close()
	return c.answer(ctx, w, op, resp, out)
}

// answer decodes the answer to a request.
func (c *client) answer(ctx context.Context, w *watch, op string, resp *http.Response, out any) error {
	limit := int64(maxAnswer)
	if resp.StatusCode != http.StatusOK {
		limit = maxBody
	}
	body, err := readBounded(&lively{resp.Body, w}, limit, resp.ContentLength)
	if err != nil {
		return w.failed(ctx, op, err)
	}
	if resp.StatusCode != http.StatusOK {
		var p problem
		if err := decodeStrict(body, &p); err != nil || p.Error.Code == "" {
			return workspace.Errorf(workspace.ErrUnavailable, op, "", "the answer is %s, and not one of this protocol: is this address that of a server of wsctl?", printableStatus(resp.StatusCode))
		}
		return p.Error.err()
	}
	if resp.Header.Get("Content-Type") != "application/json" {
		return misbehaved("its answer is no JSON")
	}
	// Fields that a later server adds are passed over.
	if err := uniqueKeys(body); err != nil {
		return misbehaved("its answer is damaged: %v", err)
	}
	if err := json.Unmarshal(body, out); err != nil {
		return misbehaved("its answer is damaged: %v", err)
	}
	return nil
}

func printableStatus(code int) string {
	return strconv.Itoa(code) + " " + http.StatusText(code)
}

// lively is an answer's body, each byte of which is a sign of life.
type lively struct {
	io.Reader
	w *watch
}

func (l *lively) Read(b []byte) (int, error) {
	n, err := l.Reader.Read(b)
	if n > 0 {
		l.w.alive()
	}
	return n, err
}

var errTooMuch = misbehaved("its answer is larger than any can be")

// readBounded reads a body of at most limit bytes.
func readBounded(r io.Reader, limit, length int64) ([]byte, error) {
	if length > limit {
		return nil, errTooMuch
	}
	if length >= 0 {
		// The transport has it that no more come, and tells when less do.
		b := make([]byte, length)
		_, err := io.ReadFull(r, b)
		return b, err
	}
	b, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = errTooMuch
	}
	return b, err
}
