package host

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// Root is a directory of this machine, held open, below which files are read
// and changed. No name leads out of it, whoever changes the tree at the same
// time: a name is resolved once, to a descriptor, and what is done is done to
// the descriptor or to one entry of a held directory. It implements
// workspace.Files and is safe for concurrent use.
//
// What a process of the same user on this machine could still do: rename an
// entry of a held directory right before it is removed, moved or replaced. The
// operation then touches another entry inside the root; moves notice it and
// put it back. One that renames the state itself can read what is below it by
// a name without links or "..": only Check and StateIdentity tell.
//
// Removing, renaming and making directories is not flushed to the disk; writing
// is.
type Root struct {
	name, real string
	guests     [][]string // absolute spellings of the root, in parts
	opts       RootOptions
	log        *slog.Logger
	hooks      *hooks

	fd    int // the directory, O_PATH
	proc  int // /proc/self/fd, O_PATH
	id    identity
	mount uint64 // 0: unknown
	euid  uint32
	// owner of the directory; new files get it when this process is root.
	uid, gid uint32
	fast     bool // openat2 works

	view   view
	sweep  sweeper
	whole  *Root  // what a subtree is of; nil: it is none
	prefix string // where a subtree lies, with a slash at its end
	// A subtree shares these with the whole.
	calls *gate
	locks *lockTable
	state *stateDir
	bufs  sync.Pool // *[]byte of copyBuffer bytes

	closeOnce sync.Once
}

// copyBuffer is the size of the buffer through which file content passes.
const copyBuffer = 128 << 10

var _ workspace.Files = (*Root)(nil)

// OpenRoot opens dir and holds it until Close. It makes nothing. It looks for
// what a crash left (see Leftovers) without letting the caller wait long.
func OpenRoot(dir string, o RootOptions) (*Root, error) { return openRoot(dir, o, nil) }

func openRoot(dir string, o RootOptions, h *hooks) (_ *Root, err error) {
	const op = "open"
	if dir == "" {
		return nil, workspace.Errorf(workspace.ErrInvalidPath, op, dir, "the root is empty; name a directory")
	}
	if err := o.check(op, dir); err != nil {
		return nil, err
	}
	r := &Root{opts: o, log: o.Logger, hooks: h, fd: -1, proc: -1, euid: uint32(os.Geteuid()), calls: newGate(), locks: &lockTable{}}
	r.bufs.New = func() any { b := make([]byte, copyBuffer); return &b }
	defer func() {
		if err != nil {
			closeFD(r.fd)
			closeFD(r.proc)
			err = asError(op, dir, err)
		}
	}()
	if r.name, err = Abs(op, dir); err != nil {
		return nil, err
	}
	if r.fd, err = unix.Open(r.name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return nil, err
	}
	if r.proc, err = openProc(); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(r.fd, &st); err != nil {
		return nil, err
	}
	r.id, r.uid, r.gid = identityOf(&st), st.Uid, st.Gid
	if r.mount, err = mountOf(r.fd); err != nil && err != unix.ENOSYS {
		return nil, err
	}
	if r.real, err = filepath.EvalSymlinks(r.name); err != nil {
		return nil, err
	}
	if o.Guest != "" {
		r.guests = [][]string{split(o.Guest).parts}
	} else {
		r.guests = [][]string{split(r.name).parts, split(r.real).parts}
	}
	how := r.beneath(unix.O_PATH | unix.O_DIRECTORY)
	if fd, err := r.openat2(r.fd, ".", &how); err == nil {
		closeFD(fd)
		r.fast = true
	}
	if err = r.findState(); err != nil {
		return nil, err
	}
	r.startSweep()
	return r, nil
}

// Name is the absolute path that the root was opened by.
func (r *Root) Name() string { return r.name }

// Real is that path with its links resolved, when the root was opened.
func (r *Root) Real() string { return r.real }

// Identity is the device and inode of the directory.
func (r *Root) Identity() (dev, ino uint64) { return r.id.dev, r.id.ino }

// Check reports whether the root's name still leads to the directory that is
// held. All operations go on with the held one.
func (r *Root) Check() error {
	const op = "check"
	var st unix.Stat_t
	err := ignoreIntr(func() error { return unix.Stat(r.name, &st) })
	switch {
	case err == unix.ENOENT:
		return workspace.Errorf(workspace.ErrNotFound, op, r.name,
			"the root was moved or removed; files are still read and written in the directory that was opened: open the workspace again")
	case err != nil:
		return asError(op, r.name, err)
	case identityOf(&st) != r.id:
		return workspace.Errorf(workspace.ErrConflict, op, r.name,
			"the name now leads to another directory; files are still read and written in the one that was opened: open the workspace again")
	}
	return nil
}

// OpenDir holds a directory of the root, to be the working directory of a
// command: the descriptor is O_PATH, so it is good for fchdir and *at calls
// and cannot be read. It is DENIED when this process may not enter it.
func (r *Root) OpenDir(ctx context.Context, name string) (*os.File, error) {
	const op = "chdir"
	if err := r.begin(ctx, op, name); err != nil {
		return nil, err
	}
	defer r.calls.leave()
	fd, st, err := r.lookup(name, true)
	if err != nil {
		return nil, asError(op, name, err)
	}
	if !isType(&st, unix.S_IFDIR) {
		err = unix.ENOTDIR
	} else {
		err = unix.Faccessat(fd, ".", unix.X_OK, unix.AT_EACCESS)
	}
	if err != nil {
		closeFD(fd)
		return nil, asError(op, name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Close lets the directory go, once no call is under way. Files that were
// opened stay open. Later calls answer DISPOSED.
func (r *Root) Close() error {
	r.closeOnce.Do(func() {
		if r.whole != nil {
			r.closeSubtree()
			return
		}
		r.sweep.stop()
		r.calls.close()
		r.closeState()
		r.closeView()
		closeFD(r.fd)
		closeFD(r.proc)
	})
	return nil
}

// begin registers a call; calls.leave must follow when it succeeds.
func (r *Root) begin(ctx context.Context, op, name string) error {
	if err := ctx.Err(); err != nil {
		return &workspace.Error{Code: workspace.ErrAborted, Op: op, Path: name, Err: err}
	}
	if !r.calls.enter() {
		return workspace.Errorf(workspace.ErrDisposed, op, name, "the root is closed")
	}
	return nil
}
