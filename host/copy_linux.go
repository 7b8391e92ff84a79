package host

import (
	"context"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// Copy implements workspace.Files. A new file gets the permission bits of the
// old one, or o.Perm less the umask. The content is shared with the old file
// until one of them changes, where the file system can do that.
func (r *Root) Copy(ctx context.Context, from, to string, o workspace.WriteOptions) (fs.FileInfo, error) {
	const op = "copy"
	if err := r.begin(ctx, op, from); err != nil {
		return nil, err
	}
	defer r.calls.leave()
	src, st, err := r.openRegular(ctx, from)
	if err != nil {
		return nil, asError(op, from, err)
	}
	defer closeFD(src)
	fi, err := r.copyTo(ctx, src, &st, to, o)
	if err != nil {
		return nil, asError(op, to, err)
	}
	return fi, nil
}

func (r *Root) copyTo(ctx context.Context, src int, st *unix.Stat_t, to string, o workspace.WriteOptions) (fs.FileInfo, error) {
	t, err := r.openTarget(ctx, to, o)
	if err != nil {
		return nil, err
	}
	defer t.close()
	if t.exists() && identityOf(&t.st) == identityOf(st) {
		return nil, refuse(workspace.ErrInvalidArgument, "both names are the same file")
	}
	// The source's mode is set when the bytes are there.
	d, err := t.begin(ctx, o, 0o600)
	if err != nil {
		return nil, err
	}
	defer d.discard()
	if err := d.copyFrom(ctx, src, o.MaxBytes); err != nil {
		return nil, err
	}
	if !t.exists() && o.Perm == 0 {
		if err := unix.Fchmod(d.fd, st.Mode&0o777); err != nil {
			return nil, err
		}
	}
	return t.commit(ctx, d, to)
}
