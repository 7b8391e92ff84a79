package host

import (
	"context"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// Dir is a held directory of a root, for those who go through a whole tree or
// bring it into another state entry by entry. Its entries are named by single
// parts; no link is followed and no other mount entered. Close lets it go, and
// Root.Close waits for that. It is good for one goroutine at a time.
type Dir struct {
	r  *Root
	fd int // open for reading
	st unix.Stat_t
}

// Entry is what a directory has under one name.
type Entry struct {
	Name string
	// Mode has fs.ModeIrregular when the entry could not be looked at.
	Mode fs.FileMode
	Size int64
	// Modified and Changed are st_mtim and st_ctim (inode(7)), in nanoseconds
	// since 1970.
	Modified, Changed int64
	Dev, Ino, Links   uint64
}

// entryOf describes an entry.
func entryOf(name string, st *unix.Stat_t) Entry {
	return Entry{
		Name: name, Mode: modeOf(st.Mode), Size: st.Size, Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano(),
		Dev: uint64(st.Dev), Ino: st.Ino, Links: uint64(st.Nlink),
	}
}

// HoldDir holds the directory that name leads to without any link: "." or
// parts with a slash between them. A link, or no directory, is
// NOT_A_DIRECTORY; the state INVALID_PATH; another mount UNSUPPORTED.
func (r *Root) HoldDir(ctx context.Context, name string) (*Dir, error) {
	const op = "open"
	if err := r.begin(ctx, op, name); err != nil {
		return nil, err
	}
	d, err := r.holdDir(name)
	if err != nil {
		r.calls.leave()
		return nil, asError(op, name, err)
	}
	return d, nil
}

func (r *Root) holdDir(name string) (*Dir, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if !plain(name) {
		return nil, errState()
	}
	fd, err := r.openPlainDir(name)
	if err != nil {
		return nil, err
	}
	d := &Dir{r: r, fd: fd}
	if err := unix.Fstat(fd, &d.st); err != nil {
		closeFD(fd)
		return nil, err
	}
	if r.isState(&d.st) {
		closeFD(fd)
		return nil, errState()
	}
	return d, nil
}

// openPlainDir opens the directory for reading, without links or mounts on the
// way, in one call where there is openat2.
func (r *Root) openPlainDir(name string) (int, error) {
	if r.fast {
		how := r.beneath(unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW)
		if r.hooks.on(guardMounts) {
			how.Resolve |= unix.RESOLVE_NO_XDEV
		}
		fd, err := r.openat2(r.fd, name, &how)
		switch err {
		case unix.EXDEV:
			return -1, errMounted()
		case unix.ELOOP:
			return -1, unix.ENOTDIR
		}
		return fd, err
	}
	fd, err := openList(r.fd)
	for part := range strings.SplitSeq(name, "/") {
		if err != nil {
			return -1, err
		}
		if part == "" || part == "." {
			continue
		}
		next, openErr := openAt(fd, part, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		closeFD(fd)
		if openErr == unix.ELOOP {
			openErr = unix.ENOTDIR
		}
		if fd, err = next, openErr; err != nil {
			return -1, err
		}
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil {
			err = r.sameMount(fd, &st)
		}
		if err == nil && r.isState(&st) {
			err = errState()
		}
		if err != nil {
			closeFD(fd)
			return -1, err
		}
	}
	return fd, err
}

// Close lets the directory go.
func (d *Dir) Close() {
	if d.fd >= 0 {
		closeFD(d.fd)
		d.fd = -1
		d.r.calls.leave()
	}
}

// Self describes the directory as it was when it was opened.
func (d *Dir) Self() Entry { return entryOf("", &d.st) }

// Entries lists the directory, sorted by name; the state and temporary files
// of writes under way are left out.
func (d *Dir) Entries(ctx context.Context) ([]Entry, error) {
	buf := d.r.bufs.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer d.r.bufs.Put(buf)
	page := namePage{buf: *buf}
	if _, err := unix.Seek(d.fd, 0, io.SeekStart); err != nil {
		return nil, asError("list", "", err)
	}
	if err := page.fill(ctx, d.fd, identityOf(&d.st) == d.r.id); err != nil {
		return nil, asError("list", "", err)
	}
	entries := make([]Entry, 0, len(page.names))
	var st unix.Stat_t
	for _, name := range page.names {
		switch err := statEntry(d.fd, name, &st); err {
		case nil:
			if !isType(&st, unix.S_IFDIR) || !d.r.isState(&st) {
				entries = append(entries, entryOf(name, &st))
			}
		case unix.ENOENT:
		default:
			entries = append(entries, Entry{Name: name, Mode: fs.ModeIrregular})
		}
	}
	return entries, nil
}

// Find is one entry; NOT_FOUND when there is none.
func (d *Dir) Find(name string) (Entry, error) {
	if err := d.checkPart(name); err != nil {
		return Entry{}, asError("lstat", name, err)
	}
	var st unix.Stat_t
	if err := statEntry(d.fd, name, &st); err != nil {
		return Entry{}, asError("lstat", name, err)
	}
	return entryOf(name, &st), nil
}

// checkPart refuses what is no single name, and the names of the state.
func (d *Dir) checkPart(name string) error {
	switch {
	case name == "" || name == "." || name == "..":
		return refuse(workspace.ErrInvalidPath, "name one entry of the directory")
	case strings.ContainsAny(name, "/\x00"):
		return refuse(workspace.ErrInvalidPath, "an entry's name holds neither a slash nor a NUL byte")
	case identityOf(&d.st) == d.r.id && reserved(name) && d.r.hooks.on(guardState):
		return errState()
	}
	return nil
}

// hold is the place of an entry, which must be what old says; p.fd is the
// caller's to close. An old without a name says that there is none.
func (d *Dir) hold(name string, old Entry) (*place, error) {
	p := &place{r: d.r, dir: d.fd, base: name, fd: -1}
	if err := d.checkPart(name); err != nil {
		return nil, err
	}
	fd, err := openAt(d.fd, name, unix.O_PATH, 0)
	switch {
	case err == unix.ENOENT && old.Name == "":
		return p, nil
	case err == unix.ENOENT:
		return nil, errConflict()
	case err != nil:
		return nil, err
	}
	if err := unix.Fstat(fd, &p.st); err != nil {
		closeFD(fd)
		return nil, err
	}
	if now := entryOf(name, &p.st); now != old && !(now.Mode.IsDir() && now.Dev == old.Dev && now.Ino == old.Ino) {
		closeFD(fd)
		return nil, errConflict()
	}
	p.fd = fd
	return p, nil
}

// ReadLink is the text of the link that e describes.
func (d *Dir) ReadLink(e Entry) (string, error) {
	const op = "readlink"
	if err := d.checkPart(e.Name); err != nil {
		return "", asError(op, e.Name, err)
	}
	fd, err := openAt(d.fd, e.Name, unix.O_PATH, 0)
	if err != nil {
		return "", asError(op, e.Name, err)
	}
	defer closeFD(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", asError(op, e.Name, err)
	}
	if !isType(&st, unix.S_IFLNK) {
		return "", asError(op, e.Name, errConflict())
	}
	text, err := readLink(fd)
	return text, asError(op, e.Name, err)
}

// Content is an open regular file of a Dir. It is good for one goroutine.
type Content struct {
	r  *Root
	fd int
}

// Open opens a regular file for reading, under the root's policy for hard
// links. Anything else is NOT_A_FILE and is not opened.
func (d *Dir) Open(ctx context.Context, name string) (*Content, error) {
	const op = "open"
	if err := d.checkPart(name); err != nil {
		return nil, asError(op, name, err)
	}
	held, err := openAt(d.fd, name, unix.O_PATH, 0)
	if err != nil {
		return nil, asError(op, name, err)
	}
	defer closeFD(held)
	var st unix.Stat_t
	if err = unix.Fstat(held, &st); err == nil && d.r.hooks.on(guardMounts) {
		if uint64(st.Dev) != uint64(d.st.Dev) {
			err = errMounted()
		}
	}
	if err != nil {
		return nil, asError(op, name, err)
	}
	fd, err := d.r.openHeld(ctx, held, &st)
	if err != nil {
		return nil, asError(op, name, err)
	}
	return &Content{d.r, fd}, nil
}

// Close closes the file.
func (c *Content) Close() { closeFD(c.fd) }

// Stat describes the file now; it has no name.
func (c *Content) Stat() (Entry, error) {
	var st unix.Stat_t
	if err := unix.Fstat(c.fd, &st); err != nil {
		return Entry{}, asError("stat", "", err)
	}
	return entryOf("", &st), nil
}

func (c *Content) Read(b []byte) (int, error) { return fdReader(c.fd).Read(b) }

// Rewind goes back to the beginning.
func (c *Content) Rewind() error {
	_, err := unix.Seek(c.fd, 0, io.SeekStart)
	return asError("seek", "", err)
}

// Settle writes out what is dirty of the file. From then on the first store
// through each page of a shared mapping sets the file's times again; a page
// that is dirty already is changed without a trace (mmap(2) on st_mtime).
func (c *Content) Settle() error {
	if c.clean() {
		return nil
	}
	// To begin the writing is enough where it can be seen that no page was
	// left out; the disk need not be waited for.
	const begin = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE
	if err := c.syncRange(begin); err == nil && c.written() {
		return nil
	}
	err := c.syncRange(begin | unix.SYNC_FILE_RANGE_WAIT_AFTER)
	if err == unix.ENOSYS || err == unix.EINVAL || err == unix.ESPIPE {
		err = ignoreIntr(func() error { return unix.Fsync(c.fd) })
	}
	return asError("sync", "", err)
}

func (c *Content) syncRange(flags int) error {
	return ignoreIntr(func() error { return unix.SyncFileRange(c.fd, 0, 0, flags) })
}

// clean reports whether no page is dirty or being written (cachestat(2), Linux
// 6.5); false where the kernel does not tell.
func (c *Content) clean() bool {
	var st unix.Cachestat_t
	return unix.Cachestat(uint(c.fd), &unix.CachestatRange{}, &st, 0) == nil && st.Dirty == 0 && st.Writeback == 0
}

// written reports whether no page is dirty.
func (c *Content) written() bool {
	var st unix.Cachestat_t
	return unix.Cachestat(uint(c.fd), &unix.CachestatRange{}, &st, 0) == nil && st.Dirty == 0
}

// SeesMappedWrites reports whether Settle works on the root's file system. One
// that lives in memory writes nothing out, so a mapping changes its files
// without ever setting their times.
func (r *Root) SeesMappedWrites() bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(r.fd, &st); err != nil {
		return false
	}
	return !slices.Contains([]int64{unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.HUGETLBFS_MAGIC}, int64(st.Type)) //nolint:unconvert // its size differs by architecture
}
