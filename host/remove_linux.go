package host

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// Remove implements workspace.Files. A directory that is removed with what it
// holds is first moved out of the tree in one step, into the state, so that
// nobody sees half of it and nobody reaches it by its old name; then it is
// deleted. When that fails part of the way, what is left is put back. When ctx
// ends part of the way, what is left stays in the state, and the next opening
// of the root deletes it. In another file system that is mounted below the
// root it is deleted where it is.
func (r *Root) Remove(ctx context.Context, name string, o workspace.RemoveOptions) error {
	const op = "remove"
	if o.Trash {
		_, err := r.RemoveToTrash(ctx, name)
		return err
	}
	if err := r.begin(ctx, op, name); err != nil {
		return err
	}
	defer r.calls.leave()
	t, err := r.openEntry(ctx, name)
	if err != nil {
		return asError(op, name, err)
	}
	defer t.close()
	if isType(&t.st, unix.S_IFDIR) {
		err = r.removeDir(ctx, t.place, o.Recursive)
	} else {
		r.hooks.at("unlink")
		err = unix.Unlinkat(t.dir, t.base, 0)
	}
	return asError(op, name, mountPoint(err))
}

// RemoveToTrash is Remove with Trash. It returns the id by which RestoreTrash
// puts the entry back.
func (r *Root) RemoveToTrash(ctx context.Context, name string) (id string, err error) {
	const op = "remove"
	if err := r.begin(ctx, op, name); err != nil {
		return "", err
	}
	defer r.calls.leave()
	t, err := r.openEntry(ctx, name)
	if err != nil {
		return "", asError(op, name, err)
	}
	defer t.close()
	id, err = r.moveToTrash(ctx, t.place, name)
	return id, asError(op, name, mountPoint(err))
}

// mountPoint tells what EBUSY means for an entry that is moved or removed.
func mountPoint(err error) error {
	if errors.Is(err, unix.EBUSY) {
		return refuse(workspace.ErrUnsupported, "another file system is mounted there; unmount it first")
	}
	return err
}

// openEntry resolves the name of an entry that is to be moved or removed, and
// takes its lock. The last link is not followed.
func (r *Root) openEntry(ctx context.Context, name string) (*target, error) {
	t, err := r.lockFile(ctx, name, want{change: true})
	if err != nil {
		return nil, err
	}
	if err := checkEntry(t.place, name); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

func checkEntry(p *place, name string) error {
	switch {
	case p.base == "":
		return refuse(workspace.ErrInvalidPath, `"." and ".." cannot be moved or removed; name the entry`)
	case !p.exists():
		return unix.ENOENT
	case split(name).dot, p.linked:
		return refuse(workspace.ErrInvalidPath, "the path leads through the entry itself; name the entry without a slash or dot at its end")
	}
	return nil
}

func (r *Root) removeDir(ctx context.Context, p *place, recursive bool) error {
	r.hooks.at("rmdir")
	err := unix.Unlinkat(p.dir, p.base, unix.AT_REMOVEDIR)
	if err != unix.ENOTEMPTY && err != unix.EEXIST || !recursive {
		return err
	}
	if err := r.checkNoMounts(p.fd); err != nil {
		return err
	}
	pending, err := r.openPending()
	if err != nil {
		return err
	}
	defer closeFD(pending)
	name := pendingName(kindMoved)
	switch err := r.moveAside(p, pending, name); err {
	case nil:
	case unix.EXDEV:
		return r.deleteTree(ctx, p.dir, p.base, p.fd)
	default:
		return err
	}
	return r.deleteMoved(ctx, pending, name, p)
}

// deleteMoved deletes a tree that was moved aside. The name it gets says that
// nothing of it is wanted any more.
func (r *Root) deleteMoved(ctx context.Context, pending int, name string, p *place) error {
	doomed := pendingName(kindDelete)
	if err, _ := r.renameAt(pending, name, pending, doomed, 0); err != nil {
		return err
	}
	err := r.deleteTree(ctx, pending, doomed, p.fd)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &workspace.Error{Code: workspace.ErrAborted, Err: errors.Join(ctx.Err(),
			errors.New("the directory is gone from its place; what is left of it in "+StateName+"/"+PendingName+"/"+doomed+" is deleted when the workspace is opened the next time"))}
	}
	if back, _ := r.renameAt(pending, doomed, p.dir, p.base, unix.RENAME_NOREPLACE); back != nil {
		kept := pendingName(kindQuarantine)
		if back, _ = r.renameAt(pending, doomed, pending, kept, 0); back != nil {
			kept = doomed
		}
		return annotate(err, "what is left is kept as "+StateName+"/"+PendingName+"/"+kept)
	}
	return annotate(err, "what is left is back in its place")
}

// annotate adds to the text of err and keeps its code.
func annotate(err error, text string) error {
	e, ok := asError("", "", err).(*workspace.Error) //nolint:errorlint // asError returns that type
	if !ok {
		return err
	}
	return workspace.Errorf(e.Code, e.Op, e.Path, "%w; %s", e.Err, text)
}
