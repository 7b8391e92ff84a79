package workspace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
)

// The file verbs take paths as a caller spells them: relative to the root, or
// absolute below Root. They work whether or not commands can run. Every error
// is an *Error with the path as it was given.

// Open opens a regular file for reading. Anything else is NOT_A_FILE, without
// being opened. The caller closes the file.
func (w *Workspace) Open(ctx context.Context, path string) (File, error) {
	return fileCall(w, ctx, "open", path, func(ctx context.Context, f Files, name string) (File, error) {
		return f.Open(ctx, name)
	})
}

// ReadFile returns the content of a regular file of at most limit bytes; 0:
// Options.MaxFileBytes. A larger one is TOO_LARGE; Open reads it in parts.
func (w *Workspace) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	const op = "read"
	if limit < 0 {
		return nil, Errorf(ErrInvalidArgument, op, path, "the limit is %d bytes; give a positive one, or 0 for %d", limit, w.opts.MaxFileBytes)
	}
	if limit == 0 {
		limit = w.opts.MaxFileBytes
	}
	return fileCall(w, ctx, op, path, func(ctx context.Context, f Files, name string) ([]byte, error) {
		file, err := f.Open(ctx, name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		fi, err := file.Stat()
		if err != nil {
			return nil, err
		}
		if fi.Size() > limit {
			return nil, Errorf(ErrTooLarge, op, path, "the file has %d bytes; the limit is %d: read it in parts", fi.Size(), limit)
		}
		// The file may grow while it is read; one byte over the limit
		// tells. A sparse one may say any size, so little is believed.
		limit = min(limit, math.MaxInt64-1)
		room := min(fi.Size(), DefaultMaxFileBytes) + bytes.MinRead
		b := bytes.NewBuffer(make([]byte, 0, room))
		if _, err := b.ReadFrom(io.LimitReader(&ctxReader{ctx, file}, limit+1)); err != nil {
			return nil, err
		}
		if int64(b.Len()) > limit {
			return nil, Errorf(ErrTooLarge, op, path, "the file grew over the limit of %d bytes: read it in parts", limit)
		}
		return b.Bytes(), nil
	})
}

// Stat describes what path leads to, Lstat the last link itself. Sys of the
// result is a *FileStat.
func (w *Workspace) Stat(ctx context.Context, path string) (fs.FileInfo, error) {
	return fileCall(w, ctx, "stat", path, func(ctx context.Context, f Files, name string) (fs.FileInfo, error) {
		return f.Stat(ctx, name)
	})
}

// Lstat is Stat that does not follow a last link.
func (w *Workspace) Lstat(ctx context.Context, path string) (fs.FileInfo, error) {
	return fileCall(w, ctx, "lstat", path, func(ctx context.Context, f Files, name string) (fs.FileInfo, error) {
		return f.Lstat(ctx, name)
	})
}

// ReadLink returns the text of a link, wherever it points.
func (w *Workspace) ReadLink(ctx context.Context, path string) (string, error) {
	return fileCall(w, ctx, "readlink", path, func(ctx context.Context, f Files, name string) (string, error) {
		return f.ReadLink(ctx, name)
	})
}

// ReadDir lists a directory, sorted by name, one page of it when o says so.
func (w *Workspace) ReadDir(ctx context.Context, path string, o ListOptions) (List, error) {
	if o.Limit < 0 {
		return List{}, Errorf(ErrInvalidArgument, "list", path, "the limit is %d entries; give a positive one, or 0 for all", o.Limit)
	}
	return fileCall(w, ctx, "list", path, func(ctx context.Context, f Files, name string) (List, error) {
		return f.ReadDir(ctx, name, o)
	})
}

// WriteFile replaces or makes a regular file, atomically and durably: whatever
// fails, the old file is there, whole, or the new one. Directories above it are
// made. It returns what the new file is.
func (w *Workspace) WriteFile(ctx context.Context, path string, data []byte, o WriteOptions) (fs.FileInfo, error) {
	return w.Write(ctx, path, bytes.NewReader(data), o)
}

// Write is WriteFile from a reader, in constant memory.
func (w *Workspace) Write(ctx context.Context, path string, r io.Reader, o WriteOptions) (_ fs.FileInfo, err error) {
	const op = "write"
	defer w.change(ctx, op, path, "")(&err)
	if err := checkPerm(op, path, o.Perm); err != nil {
		return nil, err
	}
	if o.MaxBytes < 0 {
		return nil, Errorf(ErrInvalidArgument, op, path, "MaxBytes is %d; give a size in bytes, or 0 for none", o.MaxBytes)
	}
	return fileCall(w, ctx, op, path, func(ctx context.Context, f Files, name string) (fs.FileInfo, error) {
		return f.Write(ctx, name, &ctxReader{ctx, r}, o)
	})
}

// Edit replaces a file by what change makes of its content. Edits and writes
// of one file wait for each other, by whatever names they reach it; a change
// by a command in between is CONFLICT. An error of change is returned as it is
// and nothing is written. At most MaxFileBytes are read or written.
func (w *Workspace) Edit(ctx context.Context, path string, o EditOptions, change func(old []byte) ([]byte, error)) (_ fs.FileInfo, err error) {
	const op = "edit"
	defer w.change(ctx, op, path, "")(&err)
	if o.MaxBytes < 0 {
		return nil, Errorf(ErrInvalidArgument, op, path, "MaxBytes is %d; give a size in bytes, or 0 for %d", o.MaxBytes, w.opts.MaxFileBytes)
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = w.opts.MaxFileBytes
	}
	var changeErr error
	fi, err := fileCall(w, ctx, op, path, func(ctx context.Context, f Files, name string) (fs.FileInfo, error) {
		return f.Edit(ctx, name, o, func(old []byte) ([]byte, error) {
			var out []byte
			out, changeErr = change(old)
			return out, changeErr
		})
	})
	if changeErr != nil {
		return nil, changeErr
	}
	return fi, err
}

// Mkdir makes a directory.
func (w *Workspace) Mkdir(ctx context.Context, path string, o MkdirOptions) (err error) {
	defer w.change(ctx, "mkdir", path, "")(&err)
	if err := checkPerm("mkdir", path, o.Perm); err != nil {
		return err
	}
	return w.fileDo(ctx, "mkdir", path, func(ctx context.Context, f Files, name string) error {
		return f.Mkdir(ctx, name, o)
	})
}

// Symlink makes link a symbolic link with the text target, which must lead to
// a place inside: relative to the link's directory, or absolute below Root.
func (w *Workspace) Symlink(ctx context.Context, target, link string) (err error) {
	defer w.change(ctx, "symlink", link, target)(&err)
	return w.fileDo(ctx, "symlink", link, func(ctx context.Context, f Files, name string) error {
		return f.Symlink(ctx, target, name)
	})
}

// Remove removes a file, a link (never what it leads to) or a directory.
func (w *Workspace) Remove(ctx context.Context, path string, o RemoveOptions) (err error) {
	defer w.change(ctx, "remove", path, "")(&err)
	return w.fileDo(ctx, "remove", path, func(ctx context.Context, f Files, name string) error {
		return f.Remove(ctx, name, o)
	})
}

// Rename moves a file, a link or a directory.
func (w *Workspace) Rename(ctx context.Context, from, to string, o RenameOptions) (err error) {
	defer w.change(ctx, "rename", from, to)(&err)
	toName, err := w.name("rename", to)
	if err != nil {
		return err
	}
	return w.fileDo(ctx, "rename", from, func(ctx context.Context, f Files, name string) error {
		return asGiven(f.Rename(ctx, name, toName, o), toName, to)
	})
}

// Copy copies a regular file, its mode without special bits.
func (w *Workspace) Copy(ctx context.Context, from, to string, o WriteOptions) (_ fs.FileInfo, err error) {
	defer w.change(ctx, "copy", from, to)(&err)
	if err := checkPerm("copy", to, o.Perm); err != nil {
		return nil, err
	}
	toName, err := w.name("copy", to)
	if err != nil {
		return nil, err
	}
	return fileCall(w, ctx, "copy", from, func(ctx context.Context, f Files, name string) (fs.FileInfo, error) {
		fi, err := f.Copy(ctx, name, toName, o)
		return fi, asGiven(err, toName, to)
	})
}

// Chmod sets the permission bits of a file or directory.
func (w *Workspace) Chmod(ctx context.Context, path string, perm fs.FileMode) (err error) {
	defer w.change(ctx, "chmod", path, "")(&err)
	if err := checkPerm("chmod", path, perm); err != nil {
		return err
	}
	return w.fileDo(ctx, "chmod", path, func(ctx context.Context, f Files, name string) error {
		return f.Chmod(ctx, name, perm)
	})
}

func checkPerm(op, path string, perm fs.FileMode) error {
	if perm&^fs.ModePerm != 0 {
		return Errorf(ErrInvalidArgument, op, path, "mode %v has more than permission bits; special bits are never set", perm)
	}
	return nil
}

// fileCall runs one file operation: it registers it with Close, spells the
// path, and makes every failure an *Error with the path as the caller gave it.
func fileCall[T any](w *Workspace, ctx context.Context, op, path string, f func(context.Context, Files, string) (T, error)) (T, error) {
	var zero T
	call, err := w.begin(ctx, op)
	if err != nil {
		return zero, withPath(err, path)
	}
	defer call.finish()
	name, err := w.name(op, path)
	if err != nil {
		return zero, err
	}
	v, err := f(call, w.driver.Files(), name)
	if err != nil {
		return zero, w.fileError(call, asGiven(err, name, path), op, path)
	}
	return v, nil
}

func (w *Workspace) fileDo(ctx context.Context, op, path string, f func(context.Context, Files, string) error) error {
	_, err := fileCall(w, ctx, op, path, func(ctx context.Context, files Files, name string) (struct{}, error) {
		return struct{}{}, f(ctx, files, name)
	})
	return err
}

// asGiven returns err with path where a driver names what it was asked for.
func asGiven(err error, name, path string) error {
	var e *Error
	if errors.As(err, &e) && e.Path == name {
		return withPath(err, path)
	}
	return err
}

// fileError makes err an *Error for the caller's op and path.
func (w *Workspace) fileError(ctx context.Context, err error, op, path string) error {
	if cause := ctx.Err(); cause != nil && errors.Is(err, cause) {
		return w.stopped(ctx, op, path)
	}
	var e *Error
	if errors.As(err, &e) {
		named := *e
		named.Op = op
		// A driver names another path only when that one is at fault: the
		// second of a rename, an entry below a directory.
		if named.Path == "" {
			named.Path = path
		}
		return &named
	}
	return &Error{Code: codeOfStandard(err), Op: op, Path: path, Err: err}
}

// codeOfStandard is the code for an error that no driver has classified.
func codeOfStandard(err error) Code {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ErrNotFound
	case errors.Is(err, fs.ErrExist):
		return ErrExists
	case errors.Is(err, fs.ErrPermission):
		return ErrDenied
	case errors.Is(err, fs.ErrClosed), errors.Is(err, os.ErrProcessDone):
		return ErrDisposed
	case errors.Is(err, errors.ErrUnsupported):
		return ErrUnsupported
	}
	return ErrIO
}

func withPath(err error, path string) error {
	var e *Error
	if errors.As(err, &e) {
		named := *e
		named.Path = path
		return &named
	}
	return err
}

// ctxReader fails once its context has ended, so that a long copy can be
// stopped between two reads.
type ctxReader struct {
	ctx context.Context //nolint:containedctx // the life of one call
	r   io.Reader
}

func (c *ctxReader) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}
