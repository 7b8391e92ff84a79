package mcpserver

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"
)

// bodyTime is how long a client may take to send a body.
const bodyTime = 30 * time.Second

// guard decides which requests are served: not those that a web page made a
// browser send, whatever name led it here (DNS rebinding), none without the
// token, and none that would take more memory than there is for all.
type guard struct {
	hosts    []string
	token    []byte              // its digest; nil: none is needed
	bytes    *semaphore.Weighted // of bodies
	requests *semaphore.Weighted // with a body
}

func digest(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// refuse answers a request that goes no further.
func refuse(w http.ResponseWriter, status int, why string) {
	http.Error(w, why, status)
}

func (g *guard) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		// Should a browser show it after all, nothing in it acts.
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
		h.Set("Content-Disposition", "attachment")
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		if status, why := g.check(r); status != 0 {
			if status == http.StatusUnauthorized {
				h.Set("WWW-Authenticate", "Bearer")
			}
			refuse(w, status, why)
			return
		}
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		if !g.requests.TryAcquire(1) {
			refuse(w, http.StatusServiceUnavailable, "too many requests at once; wait for answers first")
			return
		}
		defer g.requests.Release(1)
		size := r.ContentLength
		if size < 0 || size > maxLine {
			size = maxLine
		}
		if !g.bytes.TryAcquire(size) {
			refuse(w, http.StatusServiceUnavailable, "too much at once; wait for answers first")
			return
		}
		defer g.bytes.Release(size)
		if err := readBody(w, r); err != nil {
			var large *http.MaxBytesError
			if errors.As(err, &large) {
				refuse(w, http.StatusRequestEntityTooLarge, "a message is longer than 16 MiB; send less at a time")
			} else {
				refuse(w, http.StatusBadRequest, "the body did not come whole")
			}
			return
		}
		next.ServeHTTP(w, r)
	})
}

// check says why a request is refused, from its header alone; 0: it is not.
func (g *guard) check(r *http.Request) (status int, why string) {
	switch {
	case !g.knows(r.Host):
		return http.StatusForbidden, "this Host is not served; name it with --allow-host"
	case !sameOrigin(r):
		return http.StatusForbidden, "requests of web pages are not served"
	case r.URL.RawQuery != "" || r.URL.ForceQuery:
		// A token there would be in every log on the way.
		return http.StatusBadRequest, "a query is not served; a token goes into the Authorization header"
	case !g.bears(r):
		return http.StatusUnauthorized, "a bearer token is needed"
	case r.Method == http.MethodPost && simple(r.Header.Get("Content-Type")):
		return http.StatusForbidden, "a message is application/json"
	}
	return 0, ""
}

// knows reports whether a Host header names this server.
func (g *guard) knows(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	return name == "localhost" || name == "127.0.0.1" || name == "::1" ||
		slices.ContainsFunc(g.hosts, func(h string) bool { return strings.ToLower(h) == name })
}

// sameOrigin reports whether a request can come from no other site's page:
// browsers send at least one of these headers.
func sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "none" && site != "same-origin" {
		return false
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || !strings.EqualFold(u.Host, r.Host) {
			return false
		}
	}
	return true
}

// bears reports whether a request has the token. How long that takes tells
// nothing of it.
func (g *guard) bears(r *http.Request) bool {
	if g.token == nil {
		return true
	}
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(headers[0], " ")
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(digest(strings.TrimSpace(token)), g.token) == 1
}

// simple reports whether a browser sends a body of that type to another site
// without asking it first (Fetch standard, CORS-safelisted request-header).
func simple(contentType string) bool {
	base, _, err := mime.ParseMediaType(contentType)
	return err != nil || base == "text/plain" || base == "application/x-www-form-urlencoded" || base == "multipart/form-data"
}

// readBody reads the body in time, so that what is slow holds nothing.
func readBody(w http.ResponseWriter, r *http.Request) error {
	deadline := http.NewResponseController(w)
	// A writer without deadlines is one of a test.
	_ = deadline.SetReadDeadline(time.Now().Add(bodyTime))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLine))
	if err != nil {
		return err
	}
	_ = deadline.SetReadDeadline(time.Time{})
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}
