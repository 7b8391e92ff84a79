package host

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// stateDir is the directory of the workspace's own state, once it is known.
type stateDir struct {
	root int // the directory that it is in, O_PATH: the whole root's

	mu sync.RWMutex
	fd int // O_PATH; -1: not known
	id identity
}

// findState looks whether the state is there already, without making it and
// without judging it: what is wrong with it is told to those who need it.
func (r *Root) findState() error {
	r.state = &stateDir{root: r.fd, fd: -1}
	fd, err := openAt(r.fd, StateName, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		closeFD(fd)
		return err
	}
	r.state.fd, r.state.id = fd, identityOf(&st)
	return nil
}

func (r *Root) closeState() {
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	closeFD(r.state.fd)
	r.state.fd = -1
}

// stateID is the identity of the state, when it is known.
func (r *Root) stateID() (identity, bool) {
	if !r.hooks.on(guardState) {
		return identity{}, false
	}
	r.state.mu.RLock()
	defer r.state.mu.RUnlock()
	return r.state.id, r.state.fd >= 0
}

func (r *Root) isState(st *unix.Stat_t) bool {
	id, ok := r.stateID()
	return ok && identityOf(st) == id
}

// State makes the state's directory when it is missing, checks it, and returns
// it, O_PATH; the caller closes it. It is refused when it is a link, not a
// directory, or belongs neither to this process's user nor to the owner of the
// root.
func (r *Root) State() (*os.File, error) {
	const op = "state"
	if !r.calls.enter() {
		return nil, workspace.Errorf(workspace.ErrDisposed, op, StateName, "the root is closed")
	}
	defer r.calls.leave()
	fd, err := r.openState()
	if err != nil {
		return nil, asError(op, StateName, err)
	}
	return os.NewFile(uintptr(fd), StateName), nil
}

// StateIdentity makes the state when it is missing and returns the device and
// inode of its directory.
func (r *Root) StateIdentity() (dev, ino uint64, err error) {
	f, err := r.State()
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	r.state.mu.RLock()
	defer r.state.mu.RUnlock()
	return r.state.id.dev, r.state.id.ino, nil
}

// LockFile opens a file of the state that is there to be locked (flock(2)), made
// when it is missing; the caller closes it.
func (r *Root) LockFile(name string) (*os.File, error) {
	const op = "lock"
	if !r.calls.enter() {
		return nil, workspace.Errorf(workspace.ErrDisposed, op, StateName, "the root is closed")
	}
	defer r.calls.leave()
	state, err := r.openState()
	if err != nil {
		return nil, asError(op, StateName, err)
	}
	defer closeFD(state)
	fd, err := r.openStateFile(state, name, unix.O_RDWR)
	if err == unix.ENOENT {
		if err = r.makeStateFile(state, name, nil); err == nil {
			fd, err = r.openStateFile(state, name, unix.O_RDWR)
		}
	}
	if err != nil {
		return nil, asError(op, StateName+"/"+name, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// openState is State for calls under way; the caller closes the descriptor.
func (r *Root) openState() (int, error) {
	fd, made, err := r.openOwn(r.state.root, StateName)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		closeFD(fd)
		return -1, err
	}
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	if r.state.fd < 0 || r.state.id != identityOf(&st) {
		held, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			closeFD(fd)
			return -1, err
		}
		closeFD(r.state.fd)
		r.state.fd, r.state.id = held, identityOf(&st)
		made = true
	}
	if made {
		if err := r.ignoreState(fd); err != nil {
			closeFD(fd)
			return -1, err
		}
	}
	return fd, nil
}

// openOwn makes and holds a directory of ours: mode 0700, owned by the owner
// of the root, no link, nobody else's.
func (r *Root) openOwn(dir int, name string) (fd int, made bool, err error) {
	switch err := unix.Mkdirat(dir, name, 0o700); err {
	case nil:
		made = true
	case unix.EEXIST:
	default:
		return -1, false, err
	}
	fd, err = openAt(dir, name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		return -1, false, refuse(workspace.ErrInvalidPath, "%s is kept for the workspace's own state and is no directory; remove it", name)
	}
	if err != nil {
		return -1, false, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil {
		err = r.ownState(fd, name, made, &st)
	}
	if err != nil {
		closeFD(fd)
		return -1, false, err
	}
	return fd, made, nil
}

func (r *Root) ownState(fd int, name string, made bool, st *unix.Stat_t) error {
	if uint64(st.Dev) != r.id.dev {
		return refuse(workspace.ErrUnsupported, "%s is on another file system than the root; unmount it", name)
	}
	if st.Uid != r.euid && st.Uid != r.uid {
		return refuse(workspace.ErrDenied, "%s belongs to user %d; it must be this process's or the root's owner's: remove it", name, st.Uid)
	}
	// A umask can take bits from a new directory.
	if st.Mode&0o7777 != 0o700 {
		if err := r.chmodHeld(fd, 0o700); err != nil {
			return err
		}
	}
	if made {
		return r.give(fd)
	}
	return nil
}

// give makes what we made belong to the owner of the root, when this process
// is root; else it is this process's already.
func (r *Root) give(fd int) error {
	if r.euid != 0 || (r.uid == 0 && r.gid == 0) {
		return nil
	}
	err := chownHeld(fd, r.uid, r.gid)
	if err == unix.EPERM || err == unix.EINVAL {
		// A root that is none on this file system (a user namespace, an
		// NFS export): the file is whose the system made it.
		r.log.Warn("a new file cannot be given to the root's owner", "root", r.name, "uid", r.uid, "gid", r.gid, "error", err)
		return nil
	}
	return err
}

// ignoreState keeps git from listing the state.
func (r *Root) ignoreState(state int) error {
	const name, content = ".gitignore", "*\n"
	fd, err := openAt(state, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
	if err == unix.EEXIST {
		return nil
	}
	if err != nil {
		return err
	}
	defer closeFD(fd)
	if _, err := unix.Write(fd, []byte(content)); err != nil {
		return err
	}
	return r.keepPrivate(fd)
}

// keepPrivate gives a file of the state its mode, whatever the umask took from
// it, and its owner.
func (r *Root) keepPrivate(fd int) error {
	if err := unix.Fchmod(fd, 0o600); err != nil {
		return err
	}
	return r.give(fd)
}

// Lengths of a workspace's id: random bytes, and their text.
const (
	idBytes = 16
	idText  = 2 * idBytes
)

// ID is the workspace's id, 32 hexadecimal digits, kept in the state: made by
// the first who asks, the same for all processes.
func (r *Root) ID() (string, error) {
	const op, name = "id", "id"
	if !r.calls.enter() {
		return "", workspace.Errorf(workspace.ErrDisposed, op, StateName, "the root is closed")
	}
	defer r.calls.leave()
	state, err := r.openState()
	if err != nil {
		return "", asError(op, StateName, err)
	}
	defer closeFD(state)
	id, err := r.readID(state, name)
	if err == unix.ENOENT {
		if err = r.makeID(state, name); err == nil {
			id, err = r.readID(state, name)
		}
	}
	return id, asError(op, StateName+"/"+name, err)
}

// openStateFile opens a file of the state. A repository may bring a
// state along: what is no regular file is not opened.
func (r *Root) openStateFile(dir int, name string, how int) (int, error) {
	held, err := openAt(dir, name, unix.O_PATH, 0)
	if err != nil {
		return -1, err
	}
	defer closeFD(held)
	var st unix.Stat_t
	if err := unix.Fstat(held, &st); err != nil {
		return -1, err
	}
	if !isType(&st, unix.S_IFREG) {
		return -1, refuse(workspace.ErrCorrupt, "%s is %s and must be a regular file; remove it", name, kindOf(&st))
	}
	return r.reopen(held, how)
}

func (r *Root) readID(state int, name string) (string, error) {
	fd, err := r.openStateFile(state, name, unix.O_RDONLY)
	if err != nil {
		return "", err
	}
	defer closeFD(fd)
	b := make([]byte, idText+2)
	n, err := unix.Read(fd, b)
	if err != nil {
		return "", err
	}
	id := strings.TrimSuffix(string(b[:n]), "\n")
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != idBytes {
		return "", refuse(workspace.ErrCorrupt, "the workspace's id is damaged; remove the file and a new one is made")
	}
	return id, nil
}

// makeID makes the file of the id.
func (r *Root) makeID(state int, name string) error {
	b := make([]byte, idBytes)
	rand.Read(b)
	return r.makeStateFile(state, name, []byte(hex.EncodeToString(b)+"\n"))
}

// makeStateFile makes a file whole and then gives it its name, so that another
// process reads all of it or makes none. It is no failure that another one has.
func (r *Root) makeStateFile(state int, name string, content []byte) error {
	d, err := r.newDraft(state, 0o600)
	if err != nil {
		return err
	}
	defer d.discard()
	if err := d.write(content); err != nil {
		return err
	}
	if err := r.keepPrivate(d.fd); err != nil {
		return err
	}
	if err := d.publishNew(name); err != nil && err != unix.EEXIST {
		return err
	}
	return nil
}
