package host

import (
	"context"
	"io"
	"io/fs"
	"path"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// file is an open regular file. It has its descriptor to itself and outlives
// the Root. A file that is forgotten is closed by the garbage collector.
type file struct {
	name    string // as asked for
	cleanup runtime.Cleanup

	mu sync.RWMutex // held for reading while fd is in use
	fd int          // -1 once closed
}

var _ workspace.File = (*file)(nil)

// Open implements workspace.Files.
func (r *Root) Open(ctx context.Context, name string) (workspace.File, error) {
	const op = "open"
	if err := r.begin(ctx, op, name); err != nil {
		return nil, err
	}
	defer r.calls.leave()
	fd, _, err := r.openRegular(ctx, name)
	if err != nil {
		return nil, asError(op, name, err)
	}
	return newFile(name, fd), nil
}

// openRegular opens a regular file for reading, under the policy for hard
// links. What name leads to is held by O_PATH first, which opens no device and
// wakes nobody at a FIFO, and is opened only when it is a regular file.
func (r *Root) openRegular(ctx context.Context, name string) (int, unix.Stat_t, error) {
	held, st, err := r.lookup(name, true)
	if err != nil {
		return -1, st, err
	}
	defer closeFD(held)
	fd, err := r.openHeld(ctx, held, &st)
	return fd, st, err
}

func (r *Root) openHeld(ctx context.Context, held int, st *unix.Stat_t) (int, error) {
	if err := r.checkRegular(st); err != nil {
		return -1, err
	}
	if err := r.checkLinks(ctx, st); err != nil {
		return -1, err
	}
	return r.reopen(held, unix.O_RDONLY)
}

func (r *Root) checkRegular(st *unix.Stat_t) error {
	if isType(st, unix.S_IFREG) || !r.hooks.on(guardRegular) {
		return nil
	}
	return refuse(workspace.ErrNotFile, "it is %s, not a regular file", kindOf(st))
}

func kindOf(st *unix.Stat_t) string {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "a regular file"
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFLNK:
		return "a link"
	case unix.S_IFIFO:
		return "a FIFO"
	case unix.S_IFSOCK:
		return "a socket"
	}
	return "a device"
}

func newFile(name string, fd int) *file {
	f := &file{name: name, fd: fd}
	f.cleanup = runtime.AddCleanup(f, closeFD, fd)
	return f
}

// use runs call with the descriptor, which stays open meanwhile.
func (f *file) use(op string, call func(fd int) (int, error)) (int, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.fd < 0 {
		return 0, &workspace.Error{Code: workspace.ErrDisposed, Op: op, Path: f.name, Err: fs.ErrClosed}
	}
	for {
		n, err := call(f.fd)
		if err == unix.EINTR {
			continue
		}
		return max(n, 0), asError(op, f.name, err)
	}
}

func (f *file) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := f.use("read", func(fd int) (int, error) { return unix.Read(fd, b) })
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	if off < 0 {
		return 0, workspace.Errorf(workspace.ErrInvalidArgument, "read", f.name, "the offset is %d", off)
	}
	done := 0
	for done < len(b) {
		n, err := f.use("read", func(fd int) (int, error) { return unix.Pread(fd, b[done:], off+int64(done)) })
		done += n
		if err != nil {
			return done, err
		}
		if n == 0 {
			return done, io.EOF
		}
	}
	return done, nil
}

func (f *file) Seek(offset int64, whence int) (int64, error) {
	if whence < io.SeekStart || whence > io.SeekEnd {
		return 0, workspace.Errorf(workspace.ErrInvalidArgument, "seek", f.name, "whence is %d", whence)
	}
	var at int64
	_, err := f.use("seek", func(fd int) (_ int, err error) {
		at, err = unix.Seek(fd, offset, whence)
		return 0, err
	})
	return at, err
}

func (f *file) Stat() (fs.FileInfo, error) {
	fi := &fileInfo{name: path.Base(f.name)}
	if _, err := f.use("stat", func(fd int) (int, error) { return 0, unix.Fstat(fd, &fi.st) }); err != nil {
		return nil, err
	}
	return fi, nil
}

func (f *file) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fd < 0 {
		return &workspace.Error{Code: workspace.ErrDisposed, Op: "close", Path: f.name, Err: fs.ErrClosed}
	}
	f.cleanup.Stop()
	closeFD(f.fd)
	f.fd = -1
	return nil
}
