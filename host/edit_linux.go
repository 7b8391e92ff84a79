package host

import (
	"context"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// Edit implements workspace.Files. Other writes of the file through this Root
// wait while change runs; change must not write the same file itself.
func (r *Root) Edit(ctx context.Context, name string, o workspace.EditOptions, change func(old []byte) ([]byte, error)) (fs.FileInfo, error) {
	const op = "edit"
	if err := r.begin(ctx, op, name); err != nil {
		return nil, err
	}
	defer r.calls.leave()
	var changeErr error
	fi, err := r.edit(ctx, name, o, func(old []byte) ([]byte, error) {
		var out []byte
		out, changeErr = change(old)
		return out, changeErr
	})
	switch {
	case changeErr != nil:
		return nil, changeErr
	case err != nil:
		return nil, asError(op, name, err)
	}
	return fi, nil
}

func (r *Root) edit(ctx context.Context, name string, o workspace.EditOptions, change func([]byte) ([]byte, error)) (fs.FileInfo, error) {
	t, err := r.lockFile(ctx, name, want{follow: true, change: true})
	if err != nil {
		return nil, err
	}
	defer t.close()
	if !t.exists() {
		return nil, unix.ENOENT
	}
	if err := t.check(workspace.WriteOptions{Force: o.Force, IfVersion: o.IfVersion}); err != nil {
		return nil, err
	}
	old, err := t.readAll(ctx, o.MaxBytes)
	if err != nil {
		return nil, err
	}
	content, err := change(old)
	if err != nil {
		return nil, err
	}
	if o.MaxBytes > 0 && int64(len(content)) > o.MaxBytes {
		return nil, refuse(workspace.ErrTooLarge, "the edited file has %d bytes; the limit is %d", len(content), o.MaxBytes)
	}
	d, err := t.draft(0)
	if err != nil {
		return nil, err
	}
	defer d.discard()
	r.hooks.at("write")
	if err := d.write(content); err != nil {
		return nil, err
	}
	return t.commit(ctx, d, name)
}

// readAll reads the target, at most limit bytes unless that is 0.
func (t *target) readAll(ctx context.Context, limit int64) ([]byte, error) {
	tooLarge := func(size int64) error {
		return refuse(workspace.ErrTooLarge, "the file has %d bytes; the limit is %d", size, limit)
	}
	if limit > 0 && t.st.Size > limit {
		return nil, tooLarge(t.st.Size)
	}
	fd, err := t.r.openHeld(ctx, t.fd, &t.st)
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	// The size is only where to start: the file may grow, or, where there is
	// no limit, claim more than memory holds.
	b := make([]byte, 0, min(t.st.Size, max(limit, copyBuffer))+1)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := fdReader(fd).Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if limit > 0 && int64(len(b)) > limit {
			return nil, tooLarge(int64(len(b)))
		}
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
