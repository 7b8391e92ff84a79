package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/wsctl/wsctl/workspace"
)

// Requests are read strictly: what two programs on the way could read in two
// ways is refused, not interpreted.

func badRequest(format string, args ...any) error {
	return workspace.Errorf(workspace.ErrInvalidArgument, "request", "", format, args...)
}

// checkTarget refuses a request target that is not spelled in the one plain
// way. Paths of the API need no escapes; paths of files are in the query or the
// body. So nothing here is decoded, cleaned or redirected.
func checkTarget(r *http.Request) error {
	raw, _, _ := strings.Cut(r.RequestURI, "?")
	if raw == "" {
		raw = r.URL.EscapedPath() // a request that was not read from a connection
	}
	if raw == "" || raw[0] != '/' {
		return badRequest("the request target is no path")
	}
	for part := range strings.SplitSeq(raw[1:], "/") {
		if part == "" || part[0] == '.' || len(part) > 128 {
			return badRequest("the request path has an empty, dotted or over-long part; paths of files go into the query")
		}
		for i := range len(part) {
			if !plainByte(part[i]) {
				return badRequest("the request path holds a byte that needs no place in it; paths of files go into the query")
			}
		}
	}
	if strings.Contains(r.RequestURI, "#") {
		return badRequest("the request target holds a fragment")
	}
	return nil
}

func plainByte(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.'
}

// query reads the query: known keys alone, each once.
func query(r *http.Request, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest("the query is malformed; escape each value")
	}
	for key, list := range values {
		found := false
		for _, k := range known {
			found = found || k == key
		}
		if !found {
			return nil, badRequest("this request takes no %.40q in its query", key)
		}
		if len(list) > 1 {
			return nil, badRequest("%q is given %d times", key, len(list))
		}
	}
	return values, nil
}

// checkSender refuses what a web page can make a browser send: a name of this
// server that is not one of its own (DNS rebinding), a foreign origin, a fetch
// from another site.
func (s *Server) checkSender(r *http.Request) error {
	if !s.ownName(r.Host) {
		return denied("the Host %.100q is no name of this server; list it in Options.Hosts", r.Host)
	}
	for _, o := range r.Header.Values("Origin") {
		if !s.origins[o] {
			return denied("the origin %.100q is not served", o)
		}
	}
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
	default:
		if !s.origins[r.Header.Get("Origin")] {
			return denied("a fetch from another site is not served")
		}
	}
	return nil
}

// ownName reports whether host, with or without a port, is a name of this
// server.
func (s *Server) ownName(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if ip := net.ParseIP(name); ip != nil && ip.IsLoopback() {
		return true
	}
	return s.hosts[strings.ToLower(name)]
}

func denied(format string, args ...any) error {
	return workspace.Errorf(workspace.ErrDenied, "request", "", format, args...)
}

// readJSON reads the body of a request into v.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	if ct := r.Header.Values("Content-Type"); len(ct) != 1 || ct[0] != "application/json" {
		return denied("the body of this request is application/json, and says so")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return badRequest("the body ended early: %w", err)
	}
	// The deadline was for the body alone: from here on the server reads only
	// to learn when the client is gone.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if len(body) > maxBody {
		return workspace.Errorf(workspace.ErrTooLarge, "request", "", "the body has more than %d bytes", maxBody)
	}
	if err := decodeStrict(body, v); err != nil {
		return badRequest("the body is not what this request takes: %w", err)
	}
	return nil
}

// decodeStrict decodes one JSON value: UTF-8, no key twice, no unknown field,
// nothing after it.
func decodeStrict(data []byte, v any) error {
	if !utf8.Valid(data) {
		return errors.New("it is not UTF-8")
	}
	if err := uniqueKeys(data); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the value")
	}
	return nil
}

// maxDepth bounds how deep values nest.
const maxDepth = 16

// uniqueKeys refuses an object that names a key twice, which decoders read in
// different ways, also in another case, which this one takes for the same.
func uniqueKeys(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	type level struct {
		keys map[string]bool // nil: an array
		key  bool            // a key comes next
	}
	var stack []level
	for {
		t, err := d.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		top := len(stack) - 1
		if delim, ok := t.(json.Delim); ok {
			switch delim {
			case '{', '[':
				if top >= 0 && stack[top].keys != nil {
					stack[top].key = true
				}
				if len(stack) == maxDepth {
					return fmt.Errorf("it nests deeper than %d", maxDepth)
				}
				l := level{}
				if delim == '{' {
					l = level{keys: map[string]bool{}, key: true}
				}
				stack = append(stack, l)
			default:
				stack = stack[:top]
			}
			continue
		}
		if top < 0 || stack[top].keys == nil {
			continue
		}
		if !stack[top].key {
			stack[top].key = true
			continue
		}
		key := strings.ToLower(t.(string))
		if stack[top].keys[key] {
			return fmt.Errorf("it has the key %.40q twice", key)
		}
		stack[top].keys[key], stack[top].key = true, false
	}
}
