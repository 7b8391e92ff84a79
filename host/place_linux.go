package host

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// PutOptions say what file Dir.Put makes.
type PutOptions struct {
	// Perm are the permission bits, without the umask; Modified is the
	// modification time in nanoseconds since 1970.
	Perm     fs.FileMode
	Modified int64
	// Old is the regular file that is replaced, as it was last seen; without
	// a name: there must be none.
	Old Entry
	// Sync flushes the file to the disk before it gets its name.
	Sync bool
}

// Put makes name a regular file with what rd holds: whole, or not at all. Long
// runs of zeros become holes. What was there must still be o.Old, else
// CONFLICT; a hard link is replaced, not written through.
func (d *Dir) Put(ctx context.Context, name string, rd io.Reader, o PutOptions) error {
	return d.put(ctx, name, o, func(new *draft) error { return new.fillSparse(ctx, rd) })
}

// PutClone is Put of what the open file from holds, which both share until one
// of them changes (ioctl_ficlone(2)). UNSUPPORTED where the file systems cannot
// do that; CONFLICT when from is no longer what is says, but for its name.
func (d *Dir) PutClone(ctx context.Context, name string, from *Content, is Entry, o PutOptions) error {
	return d.put(ctx, name, o, func(new *draft) error {
		if err := ignoreIntr(func() error { return unix.IoctlFileClone(new.fd, from.fd) }); err != nil {
			return refuse(workspace.ErrUnsupported, "the content cannot be shared: %w", err)
		}
		// A change sets the times before it is made, so what looks as it
		// did after the sharing was the same before it.
		now, err := from.Stat()
		now.Name = is.Name
		if err == nil && now != is {
			err = errConflict()
		}
		return err
	})
}

// put makes a file that fill fills.
func (d *Dir) put(ctx context.Context, name string, o PutOptions, fill func(*draft) error) error {
	return asError("restore", name, d.locked(ctx, name, o.Old, func(p *place) error {
		t := target{place: p}
		if p.exists() && !isType(&p.st, unix.S_IFREG) {
			return errConflict()
		}
		draft, err := d.r.newDraft(d.fd, 0o600)
		if err != nil {
			return err
		}
		defer draft.discard()
		if err := fill(draft); err != nil {
			return err
		}
		if err := t.own(draft); err != nil {
			return err
		}
		if err := unix.Fchmod(draft.fd, uint32(o.Perm.Perm())); err != nil {
			return err
		}
		if err := d.r.setModified(draft.fd, o.Modified); err != nil {
			return err
		}
		if o.Sync {
			if err := draft.sync(); err != nil {
				return err
			}
		}
		if p.exists() {
			return draft.publishOver(p)
		}
		return taken(draft.publishNew(name))
	}))
}

// taken is CONFLICT for a name that was free when the caller looked.
func taken(err error) error {
	if err == unix.EEXIST {
		return errConflict()
	}
	return err
}

// locked runs change with the place of name, which must be what old says, while
// no other call of this Root changes that entry or file.
func (d *Dir) locked(ctx context.Context, name string, old Entry, change func(p *place) error) error {
	p, err := d.hold(name, old)
	if err != nil {
		return err
	}
	defer func() { closeFD(p.fd) }()
	unlock, ok, err := d.r.lockPlaces(ctx, want{change: true}, p)
	if err != nil {
		return err
	}
	if !ok {
		return errConflict()
	}
	defer unlock()
	// Who held the locks may have changed the file.
	if now := entryOf(name, &p.st); p.exists() != (old.Name != "") || p.exists() && !now.Mode.IsDir() && now != old {
		return errConflict()
	}
	return change(p)
}

// holeBlock is the run of zeros that becomes a hole.
const holeBlock = 64 << 10

var zeros [holeBlock]byte

// fillSparse writes what rd holds and leaves holes for blocks of zeros.
func (d *draft) fillSparse(ctx context.Context, rd io.Reader) error {
	buf := d.r.bufs.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer d.r.bufs.Put(buf)
	for hole := false; ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.ReadFull(rd, (*buf)[:holeBlock])
		b := (*buf)[:n]
		d.r.hooks.at("write")
		switch {
		case n == holeBlock && bytes.Equal(b, zeros[:]):
			hole = true
			d.size += int64(n)
			if _, err := unix.Seek(d.fd, d.size, io.SeekStart); err != nil {
				return err
			}
		case n > 0:
			hole = false
			if err := d.write(b); err != nil {
				return err
			}
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			if hole {
				return ignoreIntr(func() error { return unix.Ftruncate(d.fd, d.size) })
			}
			return nil
		default:
			return err
		}
	}
}

// setModified sets the modification time of what the descriptor fd holds, a
// link included, and leaves the access time.
func (r *Root) setModified(fd int, ns int64) error {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(ns)}
	return unix.UtimesNanoAt(r.proc, strconv.Itoa(fd), times, 0)
}

// PutLink makes name a link with that text, which is not judged: what a link
// leads to is decided whenever it is followed. The name must be free, else
// CONFLICT.
func (d *Dir) PutLink(ctx context.Context, name, text string, modified int64) error {
	return asError("restore", name, d.locked(ctx, name, Entry{}, func(*place) error {
		if err := taken(ignoreIntr(func() error { return unix.Symlinkat(text, d.fd, name) })); err != nil {
			return err
		}
		if err := d.r.giveLink(d.fd, name); err != nil {
			return err
		}
		fd, err := openAt(d.fd, name, unix.O_PATH, 0)
		if err != nil {
			return err
		}
		defer closeFD(fd)
		return d.r.setModified(fd, modified)
	}))
}

// PutDir makes a directory, mode 0700 until Set says otherwise. The name must
// be free, else CONFLICT.
func (d *Dir) PutDir(ctx context.Context, name string) error {
	return asError("restore", name, d.locked(ctx, name, Entry{}, func(p *place) error {
		return taken(d.r.makeDir(p, 0o700))
	}))
}

// Delete deletes the entry e: a directory only when it is empty (NOT_EMPTY).
// Anything else passes through the state's pending directory, where it is
// checked that it is e; another entry, or a file changed since, is put back:
// CONFLICT.
func (d *Dir) Delete(ctx context.Context, e Entry) error {
	return asError("delete", e.Name, d.locked(ctx, e.Name, e, func(p *place) error {
		if isType(&p.st, unix.S_IFDIR) {
			return mountPoint(unix.Unlinkat(d.fd, e.Name, unix.AT_REMOVEDIR))
		}
		pending, err := d.r.openPending()
		if err != nil {
			return err
		}
		defer closeFD(pending)
		name := pendingName(kindMoved)
		if err := d.r.moveAside(p, pending, name); err != nil {
			return mountPoint(err)
		}
		var now unix.Stat_t
		if err := statEntry(pending, name, &now); err != nil {
			return err
		}
		if d.r.hooks.on(guardConflict) && !sameContent(&now, &p.st) {
			if err, _ := d.r.renameAt(pending, name, d.fd, e.Name, unix.RENAME_NOREPLACE); err != nil {
				return refuse(workspace.ErrConflict, "it was changed by somebody else meanwhile; it is kept in %s/%s", StateName, PendingName)
			}
			return errConflict()
		}
		return unix.Unlinkat(pending, name, 0)
	}))
}

// Trash moves the entry e to the trash, whatever it holds. name is its path
// below the root.
func (d *Dir) Trash(ctx context.Context, e Entry, name string) error {
	return asError("delete", e.Name, d.locked(ctx, e.Name, e, func(p *place) error {
		_, err := d.r.moveToTrash(ctx, p, name)
		return err
	}))
}

// Set gives the file, link or directory e its permission bits (a link has none)
// and its modification time. A directory keeps its set-group and sticky bits; a
// file with several names is UNSUPPORTED: put it anew.
func (d *Dir) Set(ctx context.Context, e Entry, perm fs.FileMode, modified int64) error {
	return asError("restore", e.Name, d.locked(ctx, e.Name, e, func(p *place) error {
		switch {
		case isType(&p.st, unix.S_IFREG) && p.st.Nlink > 1:
			return refuse(workspace.ErrUnsupported, "the file has other names, which would change too")
		case !isType(&p.st, unix.S_IFLNK):
			if err := d.r.chmodPlain(p.fd, &p.st, perm); err != nil {
				return err
			}
		}
		return d.r.setModified(p.fd, modified)
	}))
}

// SetSelf is Set for the directory itself.
func (d *Dir) SetSelf(perm fs.FileMode, modified int64) error {
	err := d.r.chmodPlain(d.fd, &d.st, perm)
	if err == nil {
		err = d.r.setModified(d.fd, modified)
	}
	return asError("restore", "", err)
}

// chmodPlain sets the permission bits where they differ.
func (r *Root) chmodPlain(fd int, st *unix.Stat_t, perm fs.FileMode) error {
	keep := uint32(0)
	if isType(st, unix.S_IFDIR) {
		keep = st.Mode & (unix.S_ISGID | unix.S_ISVTX)
	}
	return r.chmodHeld(fd, uint32(perm.Perm())|keep)
}

// Unlock lets this process change the directory's entries when it is the
// directory's owner and the mode forbids it. SetSelf gives it its mode back.
func (d *Dir) Unlock() error {
	const need = unix.S_IRWXU
	if d.r.euid == 0 || d.st.Mode&need == need || d.st.Uid != d.r.euid {
		return nil
	}
	return asError("restore", "", d.r.chmodHeld(d.fd, d.st.Mode&0o7777|need))
}

// Sync flushes the directory to the disk.
func (d *Dir) Sync() error {
	return asError("sync", "", ignoreIntr(func() error { return unix.Fsync(d.fd) }))
}

// Sync flushes all that was changed in the root's file system to the disk, by
// whomever.
func (r *Root) Sync() error {
	const op = "sync"
	if !r.calls.enter() {
		return workspace.Errorf(workspace.ErrDisposed, op, ".", "the root is closed")
	}
	defer r.calls.leave()
	fd, err := openList(r.fd)
	if err != nil {
		return asError(op, ".", err)
	}
	defer closeFD(fd)
	return asError(op, ".", ignoreIntr(func() error { return unix.Syncfs(fd) }))
}
