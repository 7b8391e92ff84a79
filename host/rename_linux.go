package host

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// Rename implements workspace.Files, for files, links and directories. Without
// Overwrite the new name must be free (EXISTS). With it, the two entries change
// places in one step, so that the new name is never without one; what was
// there is then moved into the state and deleted, a directory with what it
// holds. A file replaces anything but a directory, a directory only a
// directory. Names that are the same entry already are left as they are. The
// directory that to lies in must exist. Another file system on the way is
// UNSUPPORTED; a move of a directory below itself INVALID_ARGUMENT.
func (r *Root) Rename(ctx context.Context, from, to string, o workspace.RenameOptions) error {
	const op = "rename"
	if err := r.begin(ctx, op, from); err != nil {
		return err
	}
	defer r.calls.leave()
	for range retries {
		ok, err := r.rename(ctx, from, to, o)
		if ok || err != nil {
			return asError(op, from, mountPoint(err))
		}
	}
	return workspace.Errorf(workspace.ErrBusy, op, from, "others keep replacing the entries; try again")
}

// rename is one attempt; ok is false when the names must be resolved again.
func (r *Root) rename(ctx context.Context, from, to string, o workspace.RenameOptions) (ok bool, err error) {
	const op = "rename"
	w := want{change: true}
	src, err := r.locate(from, w)
	if err != nil {
		return false, err
	}
	defer src.close()
	dst, err := r.locate(to, w)
	if err != nil {
		return false, asError(op, to, err)
	}
	defer dst.close()
	unlock, ok, err := r.lockPlaces(ctx, w, src, dst)
	if !ok || err != nil {
		return false, err
	}
	defer unlock()
	if err := checkEntry(src, from); err != nil {
		return false, err
	}
	if err := checkNewName(src, dst, to, o); err != nil {
		return false, asError(op, to, err)
	}
	if same, err := sameEntry(src, dst); err != nil || same {
		return same, err
	}
	if dst.exists() {
		err = r.moveOver(ctx, src, dst)
	} else {
		err = r.moveTo(src, dst)
	}
	return true, err
}

func checkNewName(src, dst *place, to string, o workspace.RenameOptions) error {
	srcDir := isType(&src.st, unix.S_IFDIR)
	switch {
	case dst.base == "":
		return refuse(workspace.ErrExists, "the new name is a directory that is there already; give the entry a name in it")
	case dst.directory && !srcDir:
		return refuse(workspace.ErrNotDirectory, "the new name ends in a slash, and what is moved is no directory")
	case !dst.exists():
		return nil
	case split(to).dot || dst.linked:
		return refuse(workspace.ErrInvalidPath, "the path leads through an entry that is there already; leave the slash or dot at its end out")
	case !o.Overwrite && identityOf(&src.st) != identityOf(&dst.st):
		return unix.EEXIST
	case srcDir && !isType(&dst.st, unix.S_IFDIR):
		return refuse(workspace.ErrNotDirectory, "a directory does not replace %s; remove it first", kindOf(&dst.st))
	case !srcDir && isType(&dst.st, unix.S_IFDIR):
		return refuse(workspace.ErrNotFile, "%s does not replace a directory; give it a name in the directory, or remove that first", kindOf(&src.st))
	}
	return nil
}

// sameEntry reports whether both places are one entry. Two names of one file
// (hard links) are not; without overwriting the second is taken.
func sameEntry(a, b *place) (bool, error) {
	if !b.exists() || identityOf(&a.st) != identityOf(&b.st) || a.base != b.base {
		return false, nil
	}
	var x, y unix.Stat_t
	if err := unix.Fstat(a.dir, &x); err != nil {
		return false, err
	}
	if err := unix.Fstat(b.dir, &y); err != nil {
		return false, err
	}
	return identityOf(&x) == identityOf(&y), nil
}

// moveTo moves the entry of src to the free name of dst.
func (r *Root) moveTo(src, dst *place) error {
	restore, err := r.unlock(src)
	if err != nil {
		return err
	}
	defer restore()
	r.hooks.at("rename")
	err, noFlags := r.renameAt(src.dir, src.base, dst.dir, dst.base, unix.RENAME_NOREPLACE)
	if noFlags && err != nil {
		err = r.moveWithoutFlags(src, dst)
	}
	if err != nil {
		return err
	}
	r.hooks.at("verify")
	return r.verifyRenamed(src, dst)
}

// moveWithoutFlags is moveTo where renameat2 has no flags. A file takes its
// new name as a hard link, which replaces nothing; a directory can only be
// moved by a rename that would replace an empty one, and is not.
func (r *Root) moveWithoutFlags(src, dst *place) error {
	if isType(&src.st, unix.S_IFDIR) {
		if below, err := r.isBelow(dst.dir, identityOf(&src.st)); err != nil || below {
			return belowItself(err)
		}
		return refuse(workspace.ErrUnsupported, "this file system cannot move a directory without the risk of replacing another one; copy it")
	}
	if err := unix.Linkat(src.dir, src.base, dst.dir, dst.base, 0); err != nil {
		return err
	}
	return unix.Unlinkat(src.dir, src.base, 0)
}

// isBelow reports whether the held directory dir is the directory id or lies
// below it. It tells EINVAL for a move below itself from EINVAL for flags that
// the file system does not have.
func (r *Root) isBelow(dir int, id identity) (bool, error) {
	at := dir
	defer func() {
		if at != dir {
			closeFD(at)
		}
	}()
	for {
		var st unix.Stat_t
		if err := unix.Fstat(at, &st); err != nil {
			return false, err
		}
		here := identityOf(&st)
		if here == id {
			return true, nil
		}
		up, err := openAt(at, "..", unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return false, err
		}
		if at != dir {
			closeFD(at)
		}
		at = up
		if err := unix.Fstat(at, &st); err != nil {
			return false, err
		}
		if here == r.id || here == identityOf(&st) {
			return false, nil
		}
	}
}

func belowItself(err error) error {
	if err != nil {
		return err
	}
	return refuse(workspace.ErrInvalidArgument, "a directory cannot be moved below itself, nor replace one that it lies in")
}

// verifyRenamed undoes a rename that took another entry than the one meant.
func (r *Root) verifyRenamed(src, dst *place) error {
	moved := *src
	return r.verifyMoved(&moved, dst.dir, dst.base)
}

// moveOver moves the entry of src over that of dst.
func (r *Root) moveOver(ctx context.Context, src, dst *place) error {
	if isType(&dst.st, unix.S_IFDIR) {
		if err := r.checkNoMounts(dst.fd); err != nil {
			return err
		}
	}
	for _, p := range []*place{src, dst} {
		restore, err := r.unlock(p)
		if err != nil {
			return err
		}
		defer restore()
	}
	r.hooks.at("exchange")
	err, noFlags := r.renameAt(src.dir, src.base, dst.dir, dst.base, unix.RENAME_EXCHANGE)
	switch {
	case noFlags && err != nil:
		return r.renamePlain(src, dst)
	case err == unix.ENOENT:
		return errConflict()
	case err != nil:
		return err
	}
	r.hooks.at("verify")
	var moved, old unix.Stat_t
	err = statEntry(dst.dir, dst.base, &moved)
	if err == nil {
		err = statEntry(src.dir, src.base, &old)
	}
	if r.hooks.on(guardVerify) && (err != nil || identityOf(&moved) != identityOf(&src.st) || identityOf(&old) != identityOf(&dst.st)) {
		if err, _ := r.renameAt(src.dir, src.base, dst.dir, dst.base, unix.RENAME_EXCHANGE); err != nil {
			return annotate(errConflict(), "the two entries have changed places and could not be put back")
		}
		return errConflict()
	}
	// What was replaced now has the old name, and dst's identity.
	replaced := &place{r: r, dir: src.dir, base: src.base, fd: dst.fd, st: old}
	return r.removeReplaced(ctx, replaced)
}

// renamePlain is rename(2) as POSIX has it, where there are no flags: what has
// the new name at that moment is replaced, a directory only when it is empty.
func (r *Root) renamePlain(src, dst *place) error {
	for _, pair := range [][2]*place{{src, dst}, {dst, src}} {
		if !isType(&pair[0].st, unix.S_IFDIR) {
			continue
		}
		if below, err := r.isBelow(pair[1].dir, identityOf(&pair[0].st)); err != nil || below {
			return belowItself(err)
		}
	}
	err, _ := r.renameAt(src.dir, src.base, dst.dir, dst.base, 0)
	return err
}

// removeReplaced deletes the entry that a rename displaced. It is first moved
// into the state, where its name is ours alone.
func (r *Root) removeReplaced(ctx context.Context, p *place) error {
	pending, err := r.openPending()
	if err != nil {
		return annotate(err, "the new name is taken, but what it replaced still has the old one")
	}
	defer closeFD(pending)
	name := pendingName(kindMoved)
	err = r.moveAside(p, pending, name)
	isDir := isType(&p.st, unix.S_IFDIR)
	switch {
	case err == unix.EXDEV && isDir:
		return r.deleteTree(ctx, p.dir, p.base, p.fd)
	case err == unix.EXDEV:
		return unix.Unlinkat(p.dir, p.base, 0)
	case err != nil:
		return err
	case isDir:
		return r.deleteMoved(ctx, pending, name, p)
	}
	return unix.Unlinkat(pending, name, 0)
}
