//go:build unix && !linux

package host

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"github.com/wsctl/wsctl/workspace"
)

// statInfo is a FileInfo whose Sys is a *workspace.FileStat.
type statInfo struct{ fs.FileInfo }

func (i statInfo) Sys() any {
	st, ok := i.FileInfo.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	id, _ := identityOf(i.FileInfo)
	return &workspace.FileStat{
		Version: fmt.Sprintf("%d-%d-%d-%d", id.dev, id.ino, i.Size(), i.ModTime().UnixNano()),
		ID:      fmt.Sprintf("%x:%x", id.dev, id.ino),
		UID:     st.Uid,
		GID:     st.Gid,
		Links:   uint64(st.Nlink),
		Changed: i.ModTime(), // a change of the mode alone is not in it
	}
}

func identityOf(fi fs.FileInfo) (identity, bool) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return identity{}, false
	}
	return identity{uint64(st.Dev), uint64(st.Ino)}, true
}

func info(fi fs.FileInfo, err error) (fs.FileInfo, error) {
	if err != nil {
		return nil, err
	}
	return statInfo{fi}, nil
}

// file is an open regular file.
type file struct{ *os.File }

func (f file) Stat() (fs.FileInfo, error) { return info(f.File.Stat()) }

// Open implements workspace.Files.
func (r *Root) Open(ctx context.Context, name string) (workspace.File, error) {
	const op = "open"
	leave, err := r.begin(ctx, op, name)
	if err != nil {
		return nil, err
	}
	defer leave()
	f, err := r.openRegular(name)
	if err != nil {
		return nil, r.fail(op, name, err)
	}
	return file{f}, nil
}

func (r *Root) openRegular(name string) (*os.File, error) {
	f, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = refuse(workspace.ErrNotFile, "it is no regular file")
	}
	if err == nil && r.opts.HardLinks == HardLinksRefuse && linksOf(fi) > 1 {
		err = refuse(workspace.ErrDenied, "the file has several names (hard links), which the workspace refuses; copy it")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func linksOf(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

// Stat implements workspace.Files.
func (r *Root) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return r.stat(ctx, "stat", name, r.root.Stat)
}

// Lstat implements workspace.Files.
func (r *Root) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return r.stat(ctx, "lstat", name, r.root.Lstat)
}

func (r *Root) stat(ctx context.Context, op, name string, stat func(string) (fs.FileInfo, error)) (fs.FileInfo, error) {
	leave, err := r.begin(ctx, op, name)
	if err != nil {
		return nil, err
	}
	defer leave()
	fi, err := info(stat(name))
	return fi, r.fail(op, name, err)
}

// ReadLink implements workspace.Files.
func (r *Root) ReadLink(ctx context.Context, name string) (string, error) {
	const op = "readlink"
	leave, err := r.begin(ctx, op, name)
	if err != nil {
		return "", err
	}
	defer leave()
	fi, err := r.root.Lstat(name)
	if err == nil && fi.Mode().Type() != fs.ModeSymlink {
		err = refuse(workspace.ErrInvalidPath, "it is not a link")
	}
	if err != nil {
		return "", r.fail(op, name, err)
	}
	text, err := r.root.Readlink(name)
	return text, r.fail(op, name, err)
}

// ReadDir implements workspace.Files.
func (r *Root) ReadDir(ctx context.Context, name string, o workspace.ListOptions) (workspace.List, error) {
	const op = "list"
	leave, err := r.begin(ctx, op, name)
	if err != nil {
		return workspace.List{}, err
	}
	defer leave()
	d, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
	if err != nil {
		return workspace.List{}, r.fail(op, name, err)
	}
	defer d.Close()
	at, err := d.Stat()
	if err != nil {
		return workspace.List{}, r.fail(op, name, err)
	}
	infos, err := d.Readdir(-1)
	if err != nil {
		return workspace.List{}, r.fail(op, name, err)
	}
	slices.SortFunc(infos, func(a, b fs.FileInfo) int { return cmp.Compare(a.Name(), b.Name()) })
	top := os.SameFile(at, r.info)
	var list workspace.List
	for _, fi := range infos {
		if fi.Name() <= o.After || top && reserved(fi.Name()) || fi.Mode().IsRegular() && isTemp(fi.Name()) {
			continue
		}
		if o.Limit > 0 && len(list.Entries) == o.Limit {
			list.More = true
			break
		}
		list.Entries = append(list.Entries, fs.FileInfoToDirEntry(statInfo{fi}))
	}
	return list, nil
}

// Mkdir implements workspace.Files.
func (r *Root) Mkdir(ctx context.Context, name string, o workspace.MkdirOptions) error {
	const op = "mkdir"
	leave, err := r.begin(ctx, op, name)
	if err != nil {
		return err
	}
	defer leave()
	perm := o.Perm.Perm()
	if perm == 0 {
		perm = 0o777
	}
	if !o.Parents {
		return r.fail(op, name, r.root.Mkdir(name, perm))
	}
	if err := r.makeParents(name); err != nil {
		return r.fail(op, name, err)
	}
	err = r.root.Mkdir(name, perm)
	if fi, statErr := r.root.Stat(name); err != nil && statErr == nil && fi.IsDir() {
		err = nil
	}
	return r.fail(op, name, err)
}

// makeParents makes the missing directories above name, never through a
// dangling link.
func (r *Root) makeParents(name string) error {
	parts := split(name).parts
	for i := 1; i < len(parts); i++ {
		dir := path.Join(parts[:i]...)
		err := r.root.Mkdir(dir, 0o777)
		if err == nil {
			continue
		}
		if _, statErr := r.root.Stat(dir); statErr != nil {
			return statErr
		}
	}
	return nil
}

// Symlink implements workspace.Files.
func (r *Root) Symlink(ctx context.Context, target, link string) error {
	const op = "symlink"
	leave, err := r.begin(ctx, op, link)
	if err != nil {
		return err
	}
	defer leave()
	if _, err := r.root.Stat(path.Dir(link) + "/" + target); path.IsAbs(target) || r.fail("", "", err) != nil && workspace.CodeOf(r.fail("", "", err)) == workspace.ErrOutside {
		return workspace.Errorf(workspace.ErrOutside, op, link, "the target leads out of the workspace")
	}
	return r.fail(op, link, r.root.Symlink(target, link))
}

// Remove implements workspace.Files.
func (r *Root) Remove(ctx context.Context, name string, o workspace.RemoveOptions) error {
	const op = "remove"
	leave, err := r.begin(ctx, op, name)
	if err != nil {
		return err
	}
	defer leave()
	if base := path.Base(name); base == "." || base == ".." {
		return workspace.Errorf(workspace.ErrInvalidPath, op, name, `"." and ".." cannot be removed; name the entry`)
	}
	if o.Trash {
		return noTrash(op)
	}
	if _, err := r.root.Lstat(name); err != nil {
		return r.fail(op, name, err)
	}
	if o.Recursive {
		return r.fail(op, name, r.root.RemoveAll(name))
	}
	return r.fail(op, name, r.root.Remove(name))
}

// Rename implements workspace.Files.
func (r *Root) Rename(ctx context.Context, from, to string, o workspace.RenameOptions) error {
	const op = "rename"
	leave, err := r.begin(ctx, op, from)
	if err != nil {
		return err
	}
	defer leave()
	leaveTo, err := r.begin(ctx, op, to)
	if err != nil {
		return err
	}
	defer leaveTo()
	src, err := r.root.Lstat(from)
	if err != nil {
		return r.fail(op, from, err)
	}
	dst, err := r.root.Lstat(to)
	switch {
	case err != nil:
	case !o.Overwrite:
		return workspace.Errorf(workspace.ErrExists, op, to, "the name is taken")
	case src.IsDir() && !dst.IsDir():
		return workspace.Errorf(workspace.ErrNotDirectory, op, to, "a directory replaces only a directory")
	case !src.IsDir() && dst.IsDir():
		return workspace.Errorf(workspace.ErrNotFile, op, to, "only a directory replaces a directory")
	case dst.IsDir() && !os.SameFile(src, dst):
		if err := r.root.RemoveAll(to); err != nil {
			return r.fail(op, to, err)
		}
	}
	return r.fail(op, from, r.root.Rename(from, to))
}

// Chmod implements workspace.Files.
func (r *Root) Chmod(ctx context.Context, name string, perm fs.FileMode) error {
	const op = "chmod"
	leave, err := r.begin(ctx, op, name)
	if err != nil {
		return err
	}
	defer leave()
	if perm&^fs.ModePerm != 0 {
		return workspace.Errorf(workspace.ErrInvalidArgument, op, name, "mode %v has more than permission bits; special bits are never set", perm)
	}
	f, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return r.fail(op, name, err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() && !fi.IsDir() {
		err = refuse(workspace.ErrNotFile, "only files and directories have their mode changed")
	}
	if err == nil {
		err = f.Chmod(perm)
	}
	return r.fail(op, name, err)
}

// Copy implements workspace.Files.
func (r *Root) Copy(ctx context.Context, from, to string, o workspace.WriteOptions) (fs.FileInfo, error) {
	const op = "copy"
	leave, err := r.begin(ctx, op, from)
	if err != nil {
		return nil, err
	}
	defer leave()
	src, err := r.openRegular(from)
	if err != nil {
		return nil, r.fail(op, from, err)
	}
	defer src.Close()
	fi, err := src.Stat()
	if err != nil {
		return nil, r.fail(op, from, err)
	}
	if o.Perm == 0 {
		o.Perm = fi.Mode().Perm()
	}
	return r.Write(ctx, to, io.Reader(src), o)
}
