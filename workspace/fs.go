package workspace

import (
	"context"
	"io"
	"io/fs"
)

// FS returns the files as an fs.FS, for code that takes one. It takes names as
// fs.ValidPath allows and no others. Opening never blocks: what is neither a
// regular file nor a directory fails at once. It implements fs.StatFS,
// fs.ReadDirFS, fs.ReadFileFS and fs.ReadLinkFS. Errors are *fs.PathError
// around an *Error. Calls end with ctx and with Close.
func (w *Workspace) FS(ctx context.Context) fs.FS { return &workspaceFS{ctx, w} }

type workspaceFS struct {
	ctx context.Context //nolint:containedctx // io/fs has no context of its own
	w   *Workspace
}

var (
	_ fs.StatFS     = (*workspaceFS)(nil)
	_ fs.ReadDirFS  = (*workspaceFS)(nil)
	_ fs.ReadFileFS = (*workspaceFS)(nil)
	_ fs.ReadLinkFS = (*workspaceFS)(nil)
)

// Open implements fs.FS.
func (f *workspaceFS) Open(name string) (fs.File, error) {
	fi, err := f.Stat(name)
	if err != nil {
		return nil, reop("open", err)
	}
	if fi.IsDir() {
		return &dirFile{fs: f, name: name, info: fi}, nil
	}
	file, err := f.w.Open(f.ctx, name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return file, nil
}

// Stat implements fs.StatFS.
func (f *workspaceFS) Stat(name string) (fs.FileInfo, error) {
	return fsCall("stat", name, func() (fs.FileInfo, error) { return f.w.Stat(f.ctx, name) })
}

// Lstat implements fs.ReadLinkFS.
func (f *workspaceFS) Lstat(name string) (fs.FileInfo, error) {
	return fsCall("lstat", name, func() (fs.FileInfo, error) { return f.w.Lstat(f.ctx, name) })
}

// ReadLink implements fs.ReadLinkFS.
func (f *workspaceFS) ReadLink(name string) (string, error) {
	return fsCall("readlink", name, func() (string, error) { return f.w.ReadLink(f.ctx, name) })
}

// ReadFile implements fs.ReadFileFS. It is bounded by Options.MaxFileBytes.
func (f *workspaceFS) ReadFile(name string) ([]byte, error) {
	return fsCall("read", name, func() ([]byte, error) { return f.w.ReadFile(f.ctx, name, 0) })
}

// ReadDir implements fs.ReadDirFS.
func (f *workspaceFS) ReadDir(name string) ([]fs.DirEntry, error) {
	return fsCall("readdir", name, func() ([]fs.DirEntry, error) {
		list, err := f.w.ReadDir(f.ctx, name, ListOptions{})
		return list.Entries, err
	})
}

// fsCall refuses names that io/fs does not allow and gives errors its shape.
func fsCall[T any](op, name string, call func() (T, error)) (T, error) {
	var zero T
	if !fs.ValidPath(name) {
		err := Errorf(ErrInvalidPath, op, name, "the name is not one of io/fs: relative, clean, slashes only")
		return zero, &fs.PathError{Op: op, Path: name, Err: err}
	}
	v, err := call()
	if err != nil {
		return zero, &fs.PathError{Op: op, Path: name, Err: err}
	}
	return v, nil
}

func reop(op string, err error) error {
	if e, ok := err.(*fs.PathError); ok {
		e.Op = op
	}
	return err
}

// dirFile is an open directory. Like any fs.File it is for one goroutine.
type dirFile struct {
	fs     *workspaceFS
	name   string
	info   fs.FileInfo
	after  string
	done   bool
	closed bool
}

func (d *dirFile) Stat() (fs.FileInfo, error) { return d.info, nil }

func (d *dirFile) Read([]byte) (int, error) {
	err := Errorf(ErrNotFile, "read", d.name, "it is a directory")
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: err}
}

func (d *dirFile) Close() error {
	if d.closed {
		return &fs.PathError{Op: "close", Path: d.name, Err: fs.ErrClosed}
	}
	d.closed = true
	return nil
}

// ReadDir implements fs.ReadDirFile, page after page.
func (d *dirFile) ReadDir(n int) ([]fs.DirEntry, error) {
	switch {
	case d.closed:
		return nil, &fs.PathError{Op: "readdir", Path: d.name, Err: fs.ErrClosed}
	case d.done && n > 0:
		return nil, io.EOF
	case d.done:
		return nil, nil
	}
	list, err := d.fs.w.ReadDir(d.fs.ctx, d.name, ListOptions{After: d.after, Limit: max(n, 0)})
	if err != nil {
		return nil, &fs.PathError{Op: "readdir", Path: d.name, Err: err}
	}
	d.done = !list.More
	if k := len(list.Entries); k > 0 {
		d.after = list.Entries[k-1].Name()
	} else if n > 0 {
		return nil, io.EOF
	}
	return list.Entries, nil
}
