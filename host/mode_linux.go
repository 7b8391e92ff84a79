package host

import (
	"context"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// Chmod implements workspace.Files. A file with several names (hard links) is
// replaced by a copy with the new mode, so that no name outside changes; a
// directory keeps its set-group and sticky bits.
func (r *Root) Chmod(ctx context.Context, name string, perm fs.FileMode) error {
	const op = "chmod"
	if err := r.begin(ctx, op, name); err != nil {
		return err
	}
	defer r.calls.leave()
	return asError(op, name, r.chmod(ctx, name, perm))
}

func (r *Root) chmod(ctx context.Context, name string, perm fs.FileMode) error {
	if perm&^fs.ModePerm != 0 {
		return refuse(workspace.ErrInvalidArgument, "mode %v has more than permission bits; special bits are never set", perm)
	}
	t, err := r.lockFile(ctx, name, want{follow: true, change: true})
	if err != nil {
		return err
	}
	defer t.close()
	switch {
	case !t.exists():
		return unix.ENOENT
	case isType(&t.st, unix.S_IFDIR):
		return r.chmodHeld(t.fd, uint32(perm)|t.st.Mode&(unix.S_ISGID|unix.S_ISVTX))
	case !isType(&t.st, unix.S_IFREG):
		return refuse(workspace.ErrNotFile, "it is %s; only files and directories have their mode changed", kindOf(&t.st))
	case t.st.Nlink > 1:
		return t.copyWithMode(ctx, name, uint32(perm))
	}
	return r.chmodHeld(t.fd, uint32(perm))
}

func (t *target) copyWithMode(ctx context.Context, name string, perm uint32) error {
	d, err := t.draft(0)
	if err != nil {
		return err
	}
	defer d.discard()
	if err := t.keepOld(ctx, d); err != nil {
		return err
	}
	// The version is that of the file as it is; the mode to copy is the
	// new one.
	if err := t.own(d); err != nil {
		return err
	}
	if err := unix.Fchmod(d.fd, perm); err != nil {
		return err
	}
	if err := d.sync(); err != nil {
		return err
	}
	if err := d.publishOver(t.place); err != nil {
		return err
	}
	return d.syncDir()
}

// Mkdir implements workspace.Files. A dangling link is never made into a
// directory and never led through: NOT_FOUND, as for Write.
func (r *Root) Mkdir(ctx context.Context, name string, o workspace.MkdirOptions) error {
	const op = "mkdir"
	if err := r.begin(ctx, op, name); err != nil {
		return err
	}
	defer r.calls.leave()
	return asError(op, name, r.mkdir(name, o))
}

func (r *Root) mkdir(name string, o workspace.MkdirOptions) error {
	perm := uint32(o.Perm.Perm())
	if perm == 0 {
		perm = 0o777
	}
	for range retries {
		p, err := r.locate(name, want{follow: o.Parents, parents: o.Parents, change: true})
		if err != nil {
			return err
		}
		if p.exists() {
			isDir := isType(&p.st, unix.S_IFDIR)
			p.close()
			if o.Parents && isDir {
				return nil
			}
			return unix.EEXIST
		}
		err = r.makeDir(p, perm)
		p.close()
		if err != unix.EEXIST || !o.Parents {
			return err
		}
		// Somebody else made it in between.
	}
	return unix.EEXIST
}

func (r *Root) makeDir(p *place, perm uint32) error {
	if err := unix.Mkdirat(p.dir, p.base, perm); err != nil {
		return err
	}
	if r.euid != 0 {
		return nil
	}
	fd, err := openAt(p.dir, p.base, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		// It was removed or replaced at once; it was made all the same.
		return nil
	}
	defer closeFD(fd)
	return r.give(fd)
}
