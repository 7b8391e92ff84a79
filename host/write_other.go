//go:build unix && !linux

package host

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"github.com/wsctl/wsctl/workspace"
)

// maxLinks is how many links at the end of a name a write goes through.
const maxLinks = 8

// Write implements workspace.Files.
func (r *Root) Write(ctx context.Context, name string, rd io.Reader, o workspace.WriteOptions) (fs.FileInfo, error) {
	const op = "write"
	leave, err := r.begin(ctx, op, name)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := r.makeParents(name); err != nil {
		return nil, r.fail(op, name, err)
	}
	fi, err := r.replace(ctx, name, o, func(old *os.File, w io.Writer) error {
		if old != nil && o.Append {
			if _, err := io.Copy(w, old); err != nil {
				return err
			}
		}
		return copyBounded(ctx, w, rd, o.MaxBytes)
	})
	return fi, r.fail(op, name, err)
}

// copyBounded copies rd, at most limit bytes of it unless that is 0.
func copyBounded(ctx context.Context, w io.Writer, rd io.Reader, limit int64) error {
	if limit > 0 {
		rd = io.LimitReader(rd, limit+1)
	}
	n, err := io.Copy(w, rd)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil && limit > 0 && n > limit {
		err = refuse(workspace.ErrTooLarge, "the content is larger than the limit of %d bytes", limit)
	}
	return err
}

// Edit implements workspace.Files.
func (r *Root) Edit(ctx context.Context, name string, o workspace.EditOptions, change func(old []byte) ([]byte, error)) (fs.FileInfo, error) {
	const op = "edit"
	leave, err := r.begin(ctx, op, name)
	if err != nil {
		return nil, err
	}
	defer leave()
	var changeErr error
	fi, err := r.replace(ctx, name, workspace.WriteOptions{Force: o.Force, IfVersion: o.IfVersion}, func(old *os.File, w io.Writer) error {
		if old == nil {
			return fs.ErrNotExist
		}
		var b bytes.Buffer
		if err := copyBounded(ctx, &b, old, o.MaxBytes); err != nil {
			return err
		}
		var content []byte
		if content, changeErr = change(b.Bytes()); changeErr != nil {
			return changeErr
		}
		return copyBounded(ctx, w, bytes.NewReader(content), o.MaxBytes)
	})
	if changeErr != nil {
		return nil, changeErr
	}
	return fi, r.fail(op, name, err)
}

// replace puts what fill writes in the place of the file name, in one step.
func (r *Root) replace(ctx context.Context, name string, o workspace.WriteOptions, fill func(old *os.File, w io.Writer) error) (fs.FileInfo, error) {
	name, err := r.followLast(name)
	if err != nil {
		return nil, err
	}
	dir, err := r.root.Stat(path.Dir(name))
	if err != nil {
		return nil, err
	}
	id, _ := identityOf(dir)
	unlock, err := r.locks.lock(ctx, sortedKeys([]lockKey{{id, path.Base(name)}})...)
	if err != nil {
		return nil, err
	}
	defer unlock()
	was, err := r.root.Lstat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	old, err := r.openOld(name, was, o)
	if err != nil {
		return nil, err
	}
	if old != nil {
		defer old.Close()
	}
	temp := path.Join(path.Dir(name), tempName())
	perm := o.Perm.Perm()
	if perm == 0 {
		perm = 0o666
	}
	f, err := r.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.root.Remove(temp) }() // gone already when it took the name
	defer f.Close()
	if err := fill(old, f); err != nil {
		return nil, err
	}
	if was != nil {
		if err := f.Chmod(was.Mode().Perm()); err != nil {
			return nil, err
		}
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	if err := r.publish(temp, name, was); err != nil {
		return nil, err
	}
	if d, err := r.root.Open(path.Dir(name)); err == nil {
		_ = d.Sync() // not every system can sync a directory
		d.Close()
	}
	return info(f.Stat())
}

// openOld opens the file that is replaced, and checks that it may be.
func (r *Root) openOld(name string, was fs.FileInfo, o workspace.WriteOptions) (*os.File, error) {
	switch {
	case was == nil && o.IfVersion == "":
		return nil, nil
	case was == nil:
		return nil, refuse(workspace.ErrConflict, "the file is gone; read again")
	case o.Exclusive:
		return nil, fs.ErrExist
	case !was.Mode().IsRegular():
		return nil, refuse(workspace.ErrNotFile, "it is no regular file")
	case o.IfVersion != "" && workspace.VersionOf(statInfo{was}) != o.IfVersion:
		return nil, refuse(workspace.ErrConflict, "the file is not the version that was asked for; read it again")
	case was.Mode()&0o200 == 0 && !o.Force:
		return nil, refuse(workspace.ErrDenied, "the file is read-only (mode %#o); use force to replace it, or change its mode", was.Mode().Perm())
	}
	return r.openRegular(name)
}

// publish gives the temporary file its name.
func (r *Root) publish(temp, name string, was fs.FileInfo) error {
	if was == nil {
		return r.root.Link(temp, name)
	}
	now, err := r.root.Lstat(name)
	if err != nil || workspace.VersionOf(statInfo{now}) != workspace.VersionOf(statInfo{was}) {
		return refuse(workspace.ErrConflict, "the file was changed by somebody else meanwhile; read it again and repeat the change")
	}
	return r.root.Rename(temp, name)
}

// followLast replaces a name that ends at a link by what the link leads to.
func (r *Root) followLast(name string) (string, error) {
	for range maxLinks {
		fi, err := r.root.Lstat(name)
		if err != nil || fi.Mode().Type() != fs.ModeSymlink {
			return name, nil
		}
		if _, err := r.root.Stat(name); err != nil {
			// It leads out, to nothing, or in a circle.
			return "", err
		}
		text, err := r.root.Readlink(name)
		if err != nil {
			return "", err
		}
		name = path.Dir(name) + "/" + text
	}
	return "", refuse(workspace.ErrInvalidPath, "the links lead in a circle, or there are too many")
}
