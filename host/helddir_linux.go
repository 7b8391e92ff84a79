package host

import (
	"context"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// dirReader is a held directory. Every name is resolved from its descriptor without
// any link, so that nothing can lead out of it.
type dirReader struct {
	r   *Root
	top bool // it is the root, in which the state lies

	mu sync.RWMutex // held for reading while fd is in use
	fd int          // O_PATH; -1 once closed
}

var (
	_ workspace.DirHolder = (*Root)(nil)
	_ workspace.HeldDir   = (*dirReader)(nil)
)

// OpenHeldDir implements workspace.DirHolder.
func (r *Root) OpenHeldDir(ctx context.Context, name string) (workspace.HeldDir, error) {
	const op = "list"
	if err := r.begin(ctx, op, name); err != nil {
		return nil, err
	}
	defer r.calls.leave()
	fd, st, err := r.lookup(name, true)
	if err != nil {
		return nil, asError(op, name, err)
	}
	if !isType(&st, unix.S_IFDIR) {
		closeFD(fd)
		return nil, asError(op, name, unix.ENOTDIR)
	}
	return &dirReader{r: r, top: identityOf(&st) == r.id, fd: fd}, nil
}

func (d *dirReader) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	closeFD(d.fd)
	d.fd = -1
	return nil
}

// begin registers a call; end must follow when it succeeds.
func (d *dirReader) begin(ctx context.Context, op, name string) error {
	if err := d.r.begin(ctx, op, name); err != nil {
		return err
	}
	d.mu.RLock()
	if d.fd < 0 {
		d.end()
		return workspace.Errorf(workspace.ErrDisposed, op, name, "the directory is closed")
	}
	return nil
}

func (d *dirReader) end() {
	d.mu.RUnlock()
	d.r.calls.leave()
}

// hold holds what name is, O_PATH, and describes it.
func (d *dirReader) hold(name string, st *unix.Stat_t) (int, error) {
	if !plainBelow(name, d.top) {
		return -1, refuse(workspace.ErrInvalidPath, `give a name below the directory, without "..", that is not the workspace's own state`)
	}
	fd, err := d.open(name)
	if err != nil {
		return -1, err
	}
	if err := unix.Fstat(fd, st); err != nil {
		closeFD(fd)
		return -1, err
	}
	if isType(st, unix.S_IFDIR) && d.r.isState(st) {
		closeFD(fd)
		return -1, errState()
	}
	return fd, nil
}

func (d *dirReader) open(name string) (int, error) {
	if d.r.fast {
		how := d.r.beneath(unix.O_PATH | unix.O_NOFOLLOW)
		fd, err := d.r.openat2(d.fd, name, &how)
		if err == unix.EXDEV {
			err = errMounted()
		}
		return fd, err
	}
	parts := split(name).parts
	if len(parts) == 0 {
		parts = []string{"."}
	}
	fd := d.fd
	for _, part := range parts {
		next, err := openAt(fd, part, unix.O_PATH, 0)
		if fd != d.fd {
			closeFD(fd)
		}
		if err != nil {
			return -1, err
		}
		fd = next
		if err := d.stays(fd); err != nil {
			closeFD(fd)
			return -1, err
		}
	}
	return fd, nil
}

// stays fails when fd lies in a mount that is closed.
func (d *dirReader) stays(fd int) error {
	if !d.r.opts.NoMounts {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	return d.r.sameMount(fd, &st)
}

// Dir implements workspace.HeldDir.
func (d *dirReader) Dir(ctx context.Context, name string) (workspace.HeldDir, error) {
	const op = "list"
	if err := d.begin(ctx, op, name); err != nil {
		return nil, err
	}
	defer d.end()
	var st unix.Stat_t
	fd, err := d.hold(name, &st)
	if err == nil && !isType(&st, unix.S_IFDIR) {
		closeFD(fd)
		err = unix.ENOTDIR
	}
	if err != nil {
		return nil, asError(op, name, notFollowed(err))
	}
	return &dirReader{r: d.r, top: identityOf(&st) == d.r.id, fd: fd}, nil
}

// notFollowed says that a link on the way is none: it is no directory.
func notFollowed(err error) error {
	if err == unix.ELOOP {
		return unix.ENOTDIR
	}
	return err
}

// Names implements workspace.HeldDir.
func (d *dirReader) Names(ctx context.Context, name string) ([]workspace.DirName, error) {
	const op = "list"
	if err := d.begin(ctx, op, name); err != nil {
		return nil, err
	}
	defer d.end()
	names, err := d.names(ctx, name)
	return names, asError(op, name, notFollowed(err))
}

func (d *dirReader) names(ctx context.Context, name string) ([]workspace.DirName, error) {
	at, top := d.fd, d.top
	if name != "." {
		var st unix.Stat_t
		held, err := d.hold(name, &st)
		if err != nil {
			return nil, err
		}
		defer closeFD(held)
		at, top = held, identityOf(&st) == d.r.id
	}
	fd, err := openList(at)
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	return d.r.readNames(ctx, fd, top)
}

// readNames are the entries of an open directory, but for the state and
// temporary files of writes under way. All names share one string.
func (r *Root) readNames(ctx context.Context, fd int, top bool) ([]workspace.DirName, error) {
	buf := r.bufs.Get().(*[]byte)
	defer r.bufs.Put(buf)
	var text []byte
	type entry struct {
		end int
		typ byte
	}
	var entries []entry
	err := readEntries(fd, *buf, func(e dirent) error {
		if len(entries)%1024 == 1023 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if hidesEntry(e, top) {
			return nil
		}
		text = append(text, e.name...)
		entries = append(entries, entry{len(text), e.typ})
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := string(text)
	names := make([]workspace.DirName, 0, len(entries))
	start := 0
	for _, e := range entries {
		name := all[start:e.end]
		start = e.end
		typ, ok := typeOf(e.typ)
		if !ok {
			var st unix.Stat_t
			if statEntry(fd, name, &st) != nil {
				continue // it is gone
			}
			typ = modeOf(st.Mode).Type()
		}
		names = append(names, workspace.DirName{Name: name, Type: typ})
	}
	slices.SortFunc(names, func(a, b workspace.DirName) int { return strings.Compare(a.Name, b.Name) })
	return names, nil
}

// hidesEntry reports whether an entry is not listed: the state at the top, and
// a temporary file of a write anywhere. A directory of that name is somebody's
// own.
func hidesEntry(e dirent, top bool) bool {
	if top && reserved(string(e.name)) {
		return true
	}
	return e.name[0] == '.' && (e.typ == unix.DT_REG || e.typ == unix.DT_UNKNOWN) && isTemp(e.name)
}

// typeOf turns a d_type of readdir(3) into type bits.
func typeOf(typ byte) (mode fs.FileMode, ok bool) {
	switch typ {
	case unix.DT_REG:
		return 0, true
	case unix.DT_DIR:
		return fs.ModeDir, true
	case unix.DT_LNK:
		return fs.ModeSymlink, true
	case unix.DT_FIFO:
		return fs.ModeNamedPipe, true
	case unix.DT_SOCK:
		return fs.ModeSocket, true
	case unix.DT_CHR:
		return fs.ModeDevice | fs.ModeCharDevice, true
	case unix.DT_BLK:
		return fs.ModeDevice, true
	}
	return 0, false
}

// Lstat implements workspace.HeldDir.
func (d *dirReader) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	const op = "lstat"
	if err := d.begin(ctx, op, name); err != nil {
		return nil, err
	}
	defer d.end()
	fi := &fileInfo{name: path.Base(name)}
	fd, err := d.hold(name, &fi.st)
	if err != nil {
		return nil, asError(op, name, notFollowed(err))
	}
	closeFD(fd)
	return fi, nil
}

// Open implements workspace.HeldDir.
func (d *dirReader) Open(ctx context.Context, name string) (workspace.File, error) {
	const op = "open"
	if err := d.begin(ctx, op, name); err != nil {
		return nil, err
	}
	defer d.end()
	var st unix.Stat_t
	fd, err := d.openRegular(ctx, name, &st)
	if err != nil {
		return nil, asError(op, name, notFollowed(err))
	}
	return newFile(name, fd), nil
}

// openRegular opens a regular file for reading, under the policy for hard
// links. As everywhere, it is held first: what is no regular file is not opened.
func (d *dirReader) openRegular(ctx context.Context, name string, st *unix.Stat_t) (int, error) {
	held, err := d.hold(name, st)
	if err != nil {
		return -1, err
	}
	defer closeFD(held)
	return d.r.openHeld(ctx, held, st)
}

// ReadHead implements workspace.HeldDir. The entry is opened at once, which takes
// half the time of holding it first. The open waits for nothing; a FIFO or a
// device that took the file's place since it was listed is closed unread.
func (d *dirReader) ReadHead(ctx context.Context, e workspace.DirName, b []byte) (int, int64, error) {
	const op = "read"
	if err := d.begin(ctx, op, e.Name); err != nil {
		return 0, 0, err
	}
	defer d.end()
	n, size, err := d.readHead(ctx, e, b)
	if err == unix.ELOOP {
		err = refuse(workspace.ErrNotFile, "it is a link by now")
	}
	return n, size, asError(op, e.Name, err)
}

func (d *dirReader) readHead(ctx context.Context, e workspace.DirName, b []byte) (int, int64, error) {
	var st unix.Stat_t
	fd, err := d.openEntry(e)
	if err != nil {
		return 0, 0, err
	}
	defer closeFD(fd)
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, 0, err
	}
	if err := d.r.checkRegular(&st); err != nil {
		return 0, 0, err
	}
	if err := d.r.checkLinks(ctx, &st); err != nil {
		return 0, 0, err
	}
	done := 0
	for done < len(b) {
		n, err := unix.Read(fd, b[done:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, st.Size, err
		}
		done += n
		// A file that has given as much as it said it has is not asked
		// again: what is added now comes after the read began.
		if n == 0 || int64(done) == st.Size {
			break
		}
	}
	return done, st.Size, nil
}

// openEntry opens an entry that was listed as a regular file.
func (d *dirReader) openEntry(e workspace.DirName) (int, error) {
	const flags = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_NOFOLLOW
	switch {
	case e.Type != 0:
		return -1, refuse(workspace.ErrNotFile, "it was listed as something else than a regular file")
	case strings.IndexByte(e.Name, '/') >= 0 || !plainBelow(e.Name, d.top):
		return -1, refuse(workspace.ErrInvalidPath, "give an entry of the directory itself")
	case d.r.fast:
		how := d.r.beneath(flags)
		fd, err := d.r.openat2(d.fd, e.Name, &how)
		if err == unix.EXDEV {
			err = errMounted()
		}
		return fd, err
	}
	fd, err := openAt(d.fd, e.Name, flags, 0)
	if err != nil {
		return -1, err
	}
	if err := d.stays(fd); err != nil {
		closeFD(fd)
		return -1, err
	}
	return fd, nil
}
