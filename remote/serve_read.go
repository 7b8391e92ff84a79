package remote

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

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
