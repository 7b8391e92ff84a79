package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"maps"
	"net/http"
	"net/url"
	"sync"
)

// sending is a request whose body is content.
type sending struct {
	op, method, route string
	query             url.Values
	header            http.Header
}

// send sends what r holds and decodes the answer into out. What fits in a buffer
// is sent at once; more is sent once the server has said that it wants it.
func (c *client) send(ctx context.Context, s sending, r io.Reader, out any) error {
	buf := transfers.Get().(*[transferSize]byte)
	defer transfers.Put(buf)
	n, err := io.ReadFull(r, buf[:])
	whole := err == io.EOF || err == io.ErrUnexpectedEOF
	if err != nil && !whole {
		return err
	}
	w := c.watch(ctx)
	defer w.stop()
	body := &source{Reader: bytes.NewReader(buf[:n]), watch: w, hash: sha256.New()}
	if !whole {
		body.Reader = io.MultiReader(body.Reader, r)
	}
	req, err := c.request(w.ctx, s.method, s.route, s.query, body)
	if err != nil {
		return err
	}
	maps.Copy(req.Header, s.header)
	req.Header.Set("Content-Type", "application/octet-stream")
	if whole {
		req.ContentLength = int64(n)
		h := sha256.New()
		h.Write(buf[:n])
		req.Header.Set(headerDigest, digestOf(h))
		if n == 0 {
			req.Body = http.NoBody
		}
	} else {
		req.ContentLength = -1
		req.Header.Set("Expect", "100-continue")
		req.Trailer = http.Header{headerDigest: nil}
		body.trailer = req.Trailer
	}
	resp, err := c.transport.RoundTrip(req)
	// The transport may still be reading; after this it no longer is.
	if failed := body.finish(); failed != nil {
		if err == nil {
			resp.Body.Close()
		}
		return failed
	}
	if err != nil {
		return w.failed(ctx, s.op, err)
	}
	defer resp.Body.Close()
	return c.answer(ctx, w, s.op, resp, out)
}

// source is what is uploaded. It is the caller's reader for as long as the call
// takes, and no longer.
type source struct {
	io.Reader
	watch   *watch
	hash    hash.Hash
	trailer http.Header // nil: none

	mu     sync.Mutex
	done   bool
	failed error // of the caller's reader
}

func (s *source) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return 0, errors.New("the upload is over")
	}
	// How long the caller's reader takes is not the server's silence.
	s.watch.timer.Stop()
	n, err := s.Reader.Read(b)
	s.watch.alive()
	s.hash.Write(b[:n])
	switch {
	case err == io.EOF && s.trailer != nil:
		s.trailer.Set(headerDigest, digestOf(s.hash))
	case err != nil && err != io.EOF:
		s.failed = err
	}
	return n, err
}

// finish waits for a Read under way, lets none begin, and returns the error of
// the caller's reader.
func (s *source) finish() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done = true
	return s.failed
}
