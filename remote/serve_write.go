package remote

import (
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// serveWrite makes the body of a request a file. A body that ends early makes
// none: its length must be known before, or its digest come after it.
func (s *Server) serveWrite(w http.ResponseWriter, r *http.Request, c *Call) error {
	q, err := query(r, "path", "perm", "force", "append", "maxBytes")
	if err != nil {
		return err
	}
	name, err := c.Path(text(q.Get("path")))
	if err != nil {
		return err
	}
	o := workspace.WriteOptions{Force: q.Get("force") == "true", Append: q.Get("append") == "true"}
	for _, key := range []string{"force", "append"} {
		if v := q.Get(key); v != "" && v != "true" && v != "false" {
			return badRequest("%s is true or false", key)
		}
	}
	if o.IfVersion, err = versionIn(r.Header.Get("If-Match")); err != nil {
		return err
	}
	switch v := r.Header.Get("If-None-Match"); v {
	case "":
	case "*":
		o.Exclusive = true
	default:
		return badRequest("If-None-Match takes * alone")
	}
	if v := q.Get("perm"); v != "" {
		perm, err := strconv.ParseUint(v, 8, 12)
		if err != nil {
			return badRequest("perm is octal")
		}
		o.Perm = permission(uint32(perm))
	}
	if v := q.Get("maxBytes"); v != "" {
		if o.MaxBytes, err = strconv.ParseInt(v, 10, 64); err != nil {
			return badRequest("maxBytes is a number")
		}
	}
	return c.Receive(w, r, func(body io.Reader) (any, error) {
		fi, err := c.Workspace.Write(r.Context(), name, body, o)
		if err != nil {
			return nil, err
		}
		return messageOf(fi), nil
	})
}

// Receive does the work of a request whose body is content, and sends what it
// returns as JSON. The reader ends well only when the body was whole: its length
// must be known before, or its digest come after it. While the work goes on after
// that, the other side is told so.
func (c *Call) Receive(w http.ResponseWriter, r *http.Request, work func(body io.Reader) (any, error)) error {
	if r.Header.Get("Content-Encoding") != "" {
		return badRequest("the body is sent as it is, without Content-Encoding")
	}
	body := &upload{r: r, control: http.NewResponseController(w), idle: c.server.opts.Idle, hash: sha256.New(), stop: func() {}}
	body.whole = func() {
		// The server goes on reading, to learn when the client is gone.
		_ = body.control.SetReadDeadline(time.Time{})
		body.stop = beat(w, r)
	}
	v, err := work(body)
	body.stop()
	if err != nil {
		return err
	}
	send(w, http.StatusOK, v)
	return nil
}

// upload is the body of a request, checked at its end. Who sends nothing for
// too long is cut off.
type upload struct {
	r       *http.Request
	control *http.ResponseController
	idle    time.Duration
	hash    hash.Hash
	read    int64
	whole   func() // called once, at its good end
	stop    func()
	end     error // what Read returns from here on
	waited  time.Time
}

func (u *upload) Read(b []byte) (int, error) {
	if u.end != nil {
		return 0, u.end
	}
	// A deadline for every Read would cost more than the reading.
	if now := time.Now(); now.Sub(u.waited) > u.idle/4 {
		u.waited = now
		_ = u.control.SetReadDeadline(now.Add(u.idle))
	}
	n, err := u.r.Body.Read(b)
	u.hash.Write(b[:n])
	u.read += int64(n)
	switch {
	case err == io.EOF:
		if u.end = u.check(); u.end == nil {
			u.end = io.EOF
			u.whole()
		}
		return n, u.end
	case err != nil:
		u.end = badRequest("the body ended early: %w", err)
		return n, u.end
	}
	return n, nil
}

func (u *upload) check() error {
	digest := u.r.Header.Get(headerDigest)
	if digest == "" {
		digest = u.r.Trailer.Get(headerDigest)
	}
	switch {
	case digest == "" && u.r.ContentLength < 0:
		return badRequest("a body of unknown length needs a Content-Digest in its trailer, to show that it is whole")
	case u.r.ContentLength >= 0 && u.read != u.r.ContentLength:
		return badRequest("the body has %d bytes of %d", u.read, u.r.ContentLength)
	case digest != "" && digest != digestOf(u.hash):
		return badRequest("the body is not the one that its Content-Digest is of")
	}
	return nil
}

// digestOf is a sum as Content-Digest has it (RFC 9530, section 2).
func digestOf(h hash.Hash) string {
	return "sha-256=:" + base64.StdEncoding.EncodeToString(h.Sum(nil)) + ":"
}
