package remote

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// Headers of the protocol beside those of HTTP.
const (
	// headerFile describes the file that is sent (see description.go).
	headerFile = "Wsctl-File"
	// headerDigest proves that a body is whole (RFC 9530).
	headerDigest = "Content-Digest"
)

// transferSize is the size of the buffers that content passes through.
const transferSize = 64 << 10

var transfers = sync.Pool{New: func() any { return new([transferSize]byte) }}

// tag is a version as an entity tag.
func tag(version string) string { return `"` + version + `"` }

// versionIn takes the version out of an entity tag; "" when there is none.
func versionIn(header string) (string, error) {
	if header == "" {
		return "", nil
	}
	v, ok := strings.CutPrefix(header, `"`)
	v, ok2 := strings.CutSuffix(v, `"`)
	if !ok || !ok2 || v == "" || !quotable(v) {
		return "", badRequest("If-Match takes one strong entity tag")
	}
	return v, nil
}

// serveRead sends a file or one range of it.
func (s *Server) serveRead(w http.ResponseWriter, r *http.Request, c *Call) error {
	q, err := query(r, "path")
	if err != nil {
		return err
	}
	name, err := c.Path(text(q.Get("path")))
	if err != nil {
		return err
	}
	want, err := versionIn(r.Header.Get("If-Match"))
	if err != nil {
		return err
	}
	f, err := c.Workspace.Open(r.Context(), name)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	m := messageOf(fi)
	if want != "" && want != m.Version {
		return workspace.Errorf(workspace.ErrConflict, "open", name, "the file has changed since; open it again")
	}
	first, n, partial, err := rangeOf(r.Header, m.Size)
	h := w.Header()
	h.Set("ETag", tag(m.Version))
	if err != nil {
		h.Set("Content-Range", "bytes */"+strconv.FormatInt(m.Size, 10))
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return nil
	}
	h.Set(headerFile, m.description())
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
	h.Set("Content-Length", strconv.FormatInt(n, 10))
	status := http.StatusOK
	if partial {
		status = http.StatusPartialContent
		h.Set("Content-Range", "bytes "+strconv.FormatInt(first, 10)+"-"+strconv.FormatInt(first+n-1, 10)+"/"+strconv.FormatInt(m.Size, 10))
	}
	w.WriteHeader(status)
	if r.Method == http.MethodHead || n == 0 {
		return nil
	}
	return s.sendFile(r.Context(), w, f, first, n)
}

// sendFile sends n bytes of f. Who takes nothing for too long is cut off, and
// may come back for the rest.
func (s *Server) sendFile(ctx context.Context, w http.ResponseWriter, f io.ReaderAt, first, n int64) error {
	buf := transfers.Get().(*[transferSize]byte)
	defer transfers.Put(buf)
	large := n > transferSize
	control := http.NewResponseController(w)
	if large {
		defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	}
	for n > 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		part := buf[:min(n, transferSize)]
		k, err := f.ReadAt(part, first)
		if k < len(part) {
			// It became shorter. What was promised cannot be sent.
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
		if large {
			_ = control.SetWriteDeadline(time.Now().Add(s.opts.Idle))
		}
		if _, err := w.Write(part); err != nil {
			return err
		}
		first, n = first+int64(k), n-int64(k)
	}
	return nil
}

var errRange = errors.New("no such range")

// rangeOf reads the one range that a request asks for (RFC 9110, section 14.2).
// Several ranges, and what is no range, count as none.
func rangeOf(h http.Header, size int64) (first, n int64, partial bool, err error) {
	spec, ok := strings.CutPrefix(h.Get("Range"), "bytes=")
	from, to, dash := strings.Cut(spec, "-")
	if !ok || !dash || strings.Contains(spec, ",") {
		return 0, size, false, nil
	}
	digits := func(s string) (int64, bool) {
		n, err := strconv.ParseUint(s, 10, 63)
		return int64(n), err == nil
	}
	if from == "" {
		suffix, ok := digits(to)
		switch {
		case !ok:
			return 0, size, false, nil
		case suffix == 0 || size == 0:
			return 0, 0, false, errRange
		}
		n = min(suffix, size)
		return size - n, n, true, nil
	}
	first, ok = digits(from)
	last := size - 1
	if to != "" && ok {
		last, ok = digits(to)
		ok = ok && last >= first
	}
	switch {
	case !ok:
		return 0, size, false, nil
	case first >= size:
		return 0, 0, false, errRange
	}
	return first, min(last, size-1) - first + 1, true, nil
}

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
	if r.Header.Get("Content-Encoding") != "" {
		return badRequest("the body is sent as it is, without Content-Encoding")
	}
	body := &upload{r: r, control: http.NewResponseController(w), idle: s.opts.Idle, hash: sha256.New(), stop: func() {}}
	body.whole = func() {
		// The server goes on reading, to learn when the client is gone.
		_ = body.control.SetReadDeadline(time.Time{})
		body.stop = beat(w, r)
	}
	fi, err := c.Workspace.Write(r.Context(), name, body, o)
	body.stop()
	if err != nil {
		return err
	}
	send(w, http.StatusOK, messageOf(fi))
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

// permission is a mode as a caller asks for it: special bits stay in it, to be
// refused.
func permission(perm uint32) fs.FileMode {
	mode := fs.FileMode(perm & 0o777)
	for _, bit := range special {
		if perm&bit.st != 0 {
			mode |= bit.mode
		}
	}
	if perm > 0o7777 {
		mode |= fs.ModeIrregular
	}
	return mode
}

func (s *Server) serveStat(w http.ResponseWriter, r *http.Request, c *Call) error {
	q, err := query(r, "path", "follow")
	if err != nil {
		return err
	}
	name, err := c.Path(text(q.Get("path")))
	if err != nil {
		return err
	}
	stat := c.Workspace.Stat
	switch q.Get("follow") {
	case "", "true":
	case "false":
		stat = c.Workspace.Lstat
	default:
		return badRequest("follow is true or false")
	}
	return reply(w, r, func() (fileMessage, error) {
		fi, err := stat(r.Context(), name)
		if err != nil {
			return fileMessage{}, err
		}
		return messageOf(fi), nil
	})
}

func (s *Server) serveReadLink(w http.ResponseWriter, r *http.Request, c *Call) error {
	q, err := query(r, "path")
	if err != nil {
		return err
	}
	name, err := c.Path(text(q.Get("path")))
	if err != nil {
		return err
	}
	return reply(w, r, func() (linkAnswer, error) {
		target, err := c.Workspace.ReadLink(r.Context(), name)
		return linkAnswer{text(target)}, err
	})
}

func (s *Server) serveList(w http.ResponseWriter, r *http.Request, c *Call) error {
	q, err := query(r, "path", "after", "limit")
	if err != nil {
		return err
	}
	name, err := c.Path(text(q.Get("path")))
	if err != nil {
		return err
	}
	o := workspace.ListOptions{After: q.Get("after"), Limit: pageEntries}
	if v := q.Get("limit"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return badRequest("limit is a number of entries")
		}
		if n > 0 {
			o.Limit = min(n, pageEntries)
		}
	}
	return reply(w, r, func() (listMessage, error) {
		list, err := c.Workspace.ReadDir(r.Context(), name, o)
		if err != nil {
			return listMessage{}, err
		}
		m := listMessage{Entries: make([]fileMessage, 0, len(list.Entries)), More: list.More}
		for _, e := range list.Entries {
			fi, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return listMessage{}, err
			}
			m.Entries = append(m.Entries, messageOf(fi))
		}
		return m, nil
	})
}

// change answers a request that changes something and says nothing.
func change[In any](w http.ResponseWriter, r *http.Request, do func(in In) error) error {
	return answerJSON(w, r, func(in In) (nothing, error) { return nothing{}, do(in) })
}

func (s *Server) serveMkdir(w http.ResponseWriter, r *http.Request, c *Call) error {
	return change(w, r, func(in mkdirRequest) error {
		name, err := c.Path(in.Path)
		if err != nil {
			return err
		}
		return c.Workspace.Mkdir(r.Context(), name, workspace.MkdirOptions{Perm: permission(in.Perm), Parents: in.Parents})
	})
}

func (s *Server) serveSymlink(w http.ResponseWriter, r *http.Request, c *Call) error {
	return change(w, r, func(in symlinkRequest) error {
		name, err := c.Path(in.Path)
		if err != nil {
			return err
		}
		return c.Workspace.Symlink(r.Context(), string(in.Target), name)
	})
}

func (s *Server) serveRemove(w http.ResponseWriter, r *http.Request, c *Call) error {
	return change(w, r, func(in removeRequest) error {
		name, err := c.Path(in.Path)
		if err != nil {
			return err
		}
		return c.Workspace.Remove(r.Context(), name, workspace.RemoveOptions{Recursive: in.Recursive, Trash: in.Trash})
	})
}

func (s *Server) serveRename(w http.ResponseWriter, r *http.Request, c *Call) error {
	return change(w, r, func(in renameRequest) error {
		from, to, err := c.paths(in.From, in.To)
		if err != nil {
			return err
		}
		return c.Workspace.Rename(r.Context(), from, to, workspace.RenameOptions{Overwrite: in.Overwrite})
	})
}

func (c *Call) paths(from, to text) (string, string, error) {
	a, err := c.Path(from)
	if err != nil {
		return "", "", err
	}
	b, err := c.Path(to)
	return a, b, err
}

func (s *Server) serveCopy(w http.ResponseWriter, r *http.Request, c *Call) error {
	return answerJSON(w, r, func(in copyRequest) (fileMessage, error) {
		from, to, err := c.paths(in.From, in.To)
		if err != nil {
			return fileMessage{}, err
		}
		fi, err := c.Workspace.Copy(r.Context(), from, to, workspace.WriteOptions{
			Perm: permission(in.Perm), Force: in.Force, Exclusive: in.Exclusive,
			Append: in.Append, IfVersion: in.IfVersion, MaxBytes: in.MaxBytes,
		})
		if err != nil {
			return fileMessage{}, err
		}
		return messageOf(fi), nil
	})
}

func (s *Server) serveChmod(w http.ResponseWriter, r *http.Request, c *Call) error {
	return change(w, r, func(in chmodRequest) error {
		name, err := c.Path(in.Path)
		if err != nil {
			return err
		}
		return c.Workspace.Chmod(r.Context(), name, permission(in.Perm))
	})
}
