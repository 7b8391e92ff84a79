package remote

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"sync"

	"github.com/wsctl/wsctl/workspace"
)

// file is an open file of a server. It is what was opened: once the file there
// is another, reading more of it is CONFLICT. Reading on from where a
// connection broke is not noticed.
type file struct {
	files *files
	name  string
	info  *fileInfo
	ctx   context.Context //nolint:containedctx // ends with Close
	close context.CancelFunc

	mu     sync.Mutex
	offset int64
	stream *stream // nil: none
	closed bool
}

// stream is the content of a file as it arrives.
type stream struct {
	body  io.ReadCloser
	watch *watch
	at    int64 // of the next byte
}

// Open implements workspace.Files.
func (f *files) Open(ctx context.Context, name string) (workspace.File, error) {
	file, err := f.open(ctx, name)
	if err != nil {
		return nil, err
	}
	return file, nil
}

func (f *files) open(ctx context.Context, name string) (*file, error) {
	// What is open outlives the call that opened it.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	o := &file{files: f, name: name, ctx: life, close: end}
	stop := context.AfterFunc(ctx, end)
	defer stop()
	var err error
	if o.stream, err = o.from(0); err != nil {
		end()
		if ctx.Err() != nil {
			return nil, &workspace.Error{Code: workspace.ErrAborted, Op: "open", Path: name, Err: ctx.Err()}
		}
		return nil, err
	}
	return o, nil
}

// from asks for the content from a byte on. The first call sets o.info.
func (o *file) from(first int64) (*stream, error) {
	r := ""
	if first > 0 {
		r = "bytes=" + strconv.FormatInt(first, 10) + "-"
	}
	return o.get(first, -1, r)
}

// get asks for n bytes from first on, all when n is negative.
func (o *file) get(first, n int64, bytes string) (*stream, error) {
	const op = "read"
	c := o.files.client
	w := c.watch(o.ctx)
	fail := func(err error) (*stream, error) { w.stop(); return nil, err }
	req, err := c.request(w.ctx, http.MethodGet, "/file", at(o.name), nil)
	if err != nil {
		return fail(err)
	}
	if bytes != "" {
		req.Header.Set("Range", bytes)
	}
	if o.info != nil && o.info.stat.Version != "" {
		req.Header.Set("If-Match", tag(o.info.stat.Version))
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return fail(w.failed(o.ctx, op, err))
	}
	want := http.StatusOK
	if bytes != "" {
		want = http.StatusPartialContent
	}
	if resp.StatusCode != want {
		defer resp.Body.Close()
		if resp.StatusCode < 300 {
			return fail(misbehaved("it answers a request for a part of a file with %s", printableStatus(resp.StatusCode)))
		}
		return fail(c.answer(o.ctx, w, op, resp, &nothing{}))
	}
	info, err := describedBy(resp, path.Base(o.name))
	if err == nil && o.info != nil && info.stat.Version != o.info.stat.Version {
		err = workspace.Errorf(workspace.ErrConflict, op, o.name, "the file has changed since it was opened; open it again")
	}
	if err == nil {
		if n < 0 {
			n = info.size - first
		}
		err = extent(resp, bytes != "", first, n, info.size)
	}
	if err != nil {
		resp.Body.Close()
		return fail(err)
	}
	if o.info == nil {
		o.info = info
	}
	w.timer.Stop()
	return &stream{resp.Body, w, first}, nil
}

// describedBy is what an answer says of the file that it carries.
func describedBy(resp *http.Response, name string) (*fileInfo, error) {
	m, ok := describedIn(resp.Header.Get(headerFile))
	if !ok {
		return nil, misbehaved("it sends a file and does not describe it")
	}
	info, err := m.info(name)
	if err != nil {
		return nil, err
	}
	if !info.mode.IsRegular() {
		return nil, misbehaved("it sends what is no regular file")
	}
	return info, nil
}

// extent checks that an answer carries n bytes from first on, no more, no less.
func extent(resp *http.Response, partial bool, first, n, size int64) error {
	if n < 0 || resp.ContentLength != n {
		return misbehaved("it sends %d bytes of %d", resp.ContentLength, n)
	}
	d := func(v int64) string { return strconv.FormatInt(v, 10) }
	if got := resp.Header.Get("Content-Range"); partial && got != "bytes "+d(first)+"-"+d(first+n-1)+"/"+d(size) {
		return misbehaved("it sends the range %.80q", got)
	}
	return nil
}

func (s *stream) Read(b []byte) (int, error) {
	s.watch.alive()
	n, err := s.body.Read(b)
	s.watch.timer.Stop()
	s.at += int64(n)
	return n, err
}

func (s *stream) Close() {
	s.watch.stop()
	_ = s.body.Close()
}

// Stat implements fs.File. It tells what was opened.
func (o *file) Stat() (fs.FileInfo, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, o.isClosed("stat")
	}
	return o.info, nil
}

func (o *file) isClosed(op string) error {
	return &workspace.Error{Code: workspace.ErrDisposed, Op: op, Path: o.name, Err: fs.ErrClosed}
}

// Read implements fs.File.
func (o *file) Read(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return 0, o.isClosed("read")
	case len(b) == 0:
		return 0, nil
	case o.offset >= o.info.size:
		o.drop()
		return 0, io.EOF
	}
	var err error
	for range 3 {
		if o.stream != nil && o.stream.at != o.offset {
			o.drop()
		}
		if o.stream == nil {
			if o.stream, err = o.from(o.offset); err != nil {
				if errors.Is(err, workspace.ErrUnavailable) {
					continue
				}
				return 0, err
			}
		}
		var n int
		n, err = o.stream.Read(b[:min(int64(len(b)), o.info.size-o.offset)])
		if n > 0 {
			if o.offset += int64(n); err != nil || o.offset == o.info.size {
				o.end()
			}
			return n, nil
		}
		if err != nil {
			err = o.stream.watch.failed(o.ctx, "read", err)
			o.drop()
		}
	}
	if err == nil {
		err = misbehaved("it sends nothing")
	}
	return 0, err
}

// end lets go of a stream that was read to its end, so that its connection can
// be used again.
func (o *file) end() {
	if o.stream != nil && o.stream.at == o.info.size {
		var one [1]byte
		_, _ = o.stream.Read(one[:])
	}
	o.drop()
}

func (o *file) drop() {
	if o.stream != nil {
		o.stream.Close()
		o.stream = nil
	}
}

// ReadAt implements io.ReaderAt, each call by a request of its own.
func (o *file) ReadAt(b []byte, off int64) (int, error) {
	o.mu.Lock()
	closed := o.closed
	o.mu.Unlock()
	switch {
	case closed:
		return 0, o.isClosed("read")
	case off < 0:
		return 0, workspace.Errorf(workspace.ErrInvalidArgument, "read", o.name, "the offset is negative")
	case len(b) == 0:
		return 0, nil
	case off >= o.info.size:
		return 0, io.EOF
	}
	n := min(int64(len(b)), o.info.size-off)
	s, err := o.get(off, n, "bytes="+strconv.FormatInt(off, 10)+"-"+strconv.FormatInt(off+n-1, 10))
	if err != nil {
		return 0, err
	}
	defer s.Close()
	k, err := io.ReadFull(s, b[:n])
	switch {
	case err != nil:
		return k, s.watch.failed(o.ctx, "read", err)
	case k < len(b):
		return k, io.EOF
	}
	return k, nil
}

// Seek implements io.Seeker.
func (o *file) Seek(offset int64, whence int) (int64, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 0, o.isClosed("seek")
	}
	from := map[int]int64{io.SeekStart: 0, io.SeekCurrent: o.offset, io.SeekEnd: o.info.size}
	start, known := from[whence]
	if !known || start+offset < 0 {
		return 0, workspace.Errorf(workspace.ErrInvalidArgument, "seek", o.name, "there is no such offset")
	}
	o.offset = start + offset
	return o.offset, nil
}

// Close implements fs.File.
func (o *file) Close() error {
	o.close() // a Read under way ends
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return o.isClosed("close")
	}
	o.closed = true
	o.drop()
	return nil
}
