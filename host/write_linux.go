package host

import (
	"context"
	"io"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// Write implements workspace.Files. The content goes to a draft in the file's
// own directory, is flushed to the disk, takes the name in one step, and the
// directory is flushed. A file that somebody else changes after the call began
// is left as they made it: CONFLICT. The old file's extended attributes and
// access control lists are not kept. Directories above it that were made stay
// when the write fails.
func (r *Root) Write(ctx context.Context, name string, rd io.Reader, o workspace.WriteOptions) (fs.FileInfo, error) {
	const op = "write"
	if err := r.begin(ctx, op, name); err != nil {
		return nil, err
	}
	defer r.calls.leave()
	fi, err := r.write(ctx, name, rd, o)
	if err != nil {
		return nil, asError(op, name, err)
	}
	return fi, nil
}

func (r *Root) write(ctx context.Context, name string, rd io.Reader, o workspace.WriteOptions) (fs.FileInfo, error) {
	t, err := r.openTarget(ctx, name, o)
	if err != nil {
		return nil, err
	}
	defer t.close()
	d, err := t.begin(ctx, o, 0o666)
	if err != nil {
		return nil, err
	}
	defer d.discard()
	if err := d.fill(ctx, rd, o.MaxBytes); err != nil {
		return nil, err
	}
	return t.commit(ctx, d, name)
}

// target is the place of a file that is about to be written, locked against
// other calls of this Root.
type target struct {
	*place
	unlock func()
}

func (t *target) close() {
	t.unlock()
	t.place.close()
}

// openTarget resolves name, waits for other calls that write the same file,
// and checks that the file may be written.
func (r *Root) openTarget(ctx context.Context, name string, o workspace.WriteOptions) (*target, error) {
	// As with O_EXCL, a link is something that is there.
	w := want{follow: !o.Exclusive, parents: true, change: true}
	t, err := r.lockFile(ctx, name, w)
	if err != nil {
		return nil, err
	}
	if err := t.check(o); err != nil {
		t.close()
		return nil, err
	}
	return t, nil
}

// lockFile resolves name and takes its locks: first that of its entry, which
// stays the same whoever replaces the file, then that of the file there.
func (r *Root) lockFile(ctx context.Context, name string, w want) (*target, error) {
	for range retries {
		p, err := r.locate(name, w)
		if err != nil {
			return nil, err
		}
		unlock, ok, err := r.lockPlaces(ctx, w, p)
		if err == nil && ok {
			return &target{p, unlock}, nil
		}
		p.close()
		if err != nil {
			return nil, err
		}
	}
	return nil, refuse(workspace.ErrBusy, "others keep replacing the file; try again")
}

// lockPlaces takes the locks of one or two places and brings the places up to
// date: who held the locks may have replaced the files. ok is false when the
// names must be resolved again; nothing is locked then.
func (r *Root) lockPlaces(ctx context.Context, w want, places ...*place) (unlock func(), ok bool, err error) {
	if !r.hooks.on(guardLocks) {
		return func() {}, true, nil
	}
	var entries, files []lockKey
	for _, p := range places {
		if p.base == "" {
			continue
		}
		var st unix.Stat_t
		if err := unix.Fstat(p.dir, &st); err != nil {
			return nil, false, err
		}
		entries = append(entries, lockKey{identityOf(&st), p.base})
	}
	unlockEntries, err := r.locks.lock(ctx, sortedKeys(entries)...)
	if err != nil {
		return nil, false, err
	}
	for _, p := range places {
		if ok, err := p.reload(w); !ok || err != nil {
			unlockEntries()
			return nil, false, err
		}
		if p.exists() {
			files = append(files, lockKey{id: identityOf(&p.st)})
		}
	}
	unlockFiles, err := r.locks.lock(ctx, sortedKeys(files)...)
	if err != nil {
		unlockEntries()
		return nil, false, err
	}
	unlock = func() { unlockFiles(); unlockEntries() }
	for _, p := range places {
		// Only another spelling of the same entry, on a file system that
		// folds case, can have replaced the file in between.
		if same, err := p.refresh(); !same || err != nil {
			unlock()
			return nil, false, err
		}
	}
	return unlock, true, nil
}

// refresh reports whether the place still holds what it held, and brings st up
// to date.
func (p *place) refresh() (bool, error) {
	if p.base == "" {
		return true, nil
	}
	var now unix.Stat_t
	err := statEntry(p.dir, p.base, &now)
	if err == unix.ENOENT {
		return !p.exists(), nil
	}
	if err != nil {
		return false, err
	}
	if !p.exists() || identityOf(&now) != identityOf(&p.st) {
		return false, nil
	}
	p.st = now
	return true, nil
}

// reload makes the place hold what its entry is now. ok is false when that is
// a link that must be followed.
func (p *place) reload(w want) (ok bool, err error) {
	if same, err := p.refresh(); same || err != nil {
		return same, err
	}
	fd, err := openAt(p.dir, p.base, unix.O_PATH, 0)
	if err != nil && err != unix.ENOENT {
		return false, err
	}
	closeFD(p.fd)
	p.fd = fd
	if err == unix.ENOENT {
		p.fd = -1
		return true, nil
	}
	if err := unix.Fstat(fd, &p.st); err != nil {
		return false, err
	}
	if p.r.opts.NoMounts {
		if err := p.r.sameMount(fd, &p.st); err != nil {
			return false, err
		}
	}
	return !w.follow || !isType(&p.st, unix.S_IFLNK), nil
}

// check refuses what cannot or may not be written.
func (t *target) check(o workspace.WriteOptions) error {
	switch {
	case o.Exclusive && t.exists():
		return unix.EEXIST
	case t.exists() && !isType(&t.st, unix.S_IFREG):
		if isType(&t.st, unix.S_IFDIR) || t.r.hooks.on(guardRegular) {
			return refuse(workspace.ErrNotFile, "it is %s, not a regular file", kindOf(&t.st))
		}
	case t.directory:
		return refuse(workspace.ErrInvalidPath, "the path ends in a slash and so names a directory; leave the slash out")
	}
	if o.IfVersion != "" && (!t.exists() || versionOf(&t.st) != o.IfVersion) {
		return refuse(workspace.ErrConflict, "the file is not the version that was asked for; read it again")
	}
	if t.exists() && !o.Force {
		return t.r.checkWritable(t.fd, &t.st)
	}
	return nil
}

// checkWritable refuses a file that its owner may not write, whoever this
// process is: the mode is what says "leave it". For others' files the system
// is asked.
func (r *Root) checkWritable(fd int, st *unix.Stat_t) error {
	if !r.hooks.on(guardReadOnly) {
		return nil
	}
	denied := st.Mode&unix.S_IWUSR == 0
	if !denied && r.euid != 0 && st.Uid != r.euid {
		err := unix.Faccessat(fd, "", unix.W_OK, unix.AT_EACCESS|unix.AT_EMPTY_PATH)
		denied = err == unix.EACCES
	}
	if denied {
		return refuse(workspace.ErrDenied, "the file is read-only (mode %#o); use force to replace it, or change its mode", st.Mode&0o777)
	}
	return nil
}

// draft makes a draft beside the target. For a new file the umask applies to
// perm; a draft of an old one is private until it has the old one's mode.
func (t *target) draft(perm uint32) (*draft, error) {
	if t.exists() {
		perm = 0o600
	}
	return t.r.newDraft(t.dir, perm)
}

// begin makes the draft that o asks for: with its mode, usual where it names none,
// and with Append the old content at the start.
func (t *target) begin(ctx context.Context, o workspace.WriteOptions, usual uint32) (*draft, error) {
	perm := uint32(o.Perm.Perm())
	if perm == 0 {
		perm = usual
	}
	d, err := t.draft(perm)
	if err != nil {
		return nil, err
	}
	if o.Append && t.exists() {
		if err := t.keepOld(ctx, d); err != nil {
			d.discard()
			return nil, err
		}
	}
	return d, nil
}

// keepOld puts the target's old content at the start of the draft.
func (t *target) keepOld(ctx context.Context, d *draft) error {
	fd, err := t.r.openHeld(ctx, t.fd, &t.st)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return d.copyFrom(ctx, fd, 0)
}

// commit gives the draft owner and mode, makes it durable, and puts it in its
// place.
func (t *target) commit(ctx context.Context, d *draft, name string) (fs.FileInfo, error) {
	if err := t.own(d); err != nil {
		return nil, err
	}
	if err := d.sync(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var err error
	if t.exists() {
		err = d.publishOver(t.place)
	} else {
		err = d.publishNew(t.base)
		if err == unix.EEXIST {
			err = refuse(workspace.ErrExists, "somebody else made the file meanwhile; read it and repeat the write")
		}
	}
	if err != nil {
		return nil, err
	}
	if err := d.syncDir(); err != nil {
		return nil, err
	}
	fi := &fileInfo{name: path.Base(name)}
	if err := unix.Fstat(d.fd, &fi.st); err != nil {
		return nil, err
	}
	return fi, nil
}

// own gives the draft the owner and mode of the file it replaces, or the
// owner of the root. A mode has no special bits: fchown takes them away and
// they are not set again.
func (t *target) own(d *draft) error {
	t.r.hooks.at("own")
	if !t.exists() {
		return t.r.give(d.fd)
	}
	if t.r.euid == 0 {
		if err := chownHeld(d.fd, t.st.Uid, t.st.Gid); err != nil && err != unix.EPERM && err != unix.EINVAL {
			return err
		}
	}
	mask := uint32(0o777)
	if !t.r.hooks.on(guardSpecial) {
		mask = 0o7777
	}
	return unix.Fchmod(d.fd, t.st.Mode&mask)
}
