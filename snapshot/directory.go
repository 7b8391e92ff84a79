//go:build linux

package snapshot

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// directory is a held directory of a store. Its entries are reached by one
// name, never through a link, and only regular files are opened: a store in a
// root may have come with a repository.
type directory struct {
	fd  int
	uid uint32 // its owner, who gets what is made in it
	gid uint32
}

// openDirectory makes the directory name, and what is missing above it, and
// holds it.
func openDirectory(name string) (directory, error) {
	if err := os.MkdirAll(name, 0o700); err != nil {
		return directory{fd: -1}, err
	}
	return holdDirectory(unix.AT_FDCWD, name, 0)
}

func holdDirectory(at int, name string, flags int) (directory, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|flags, 0)
	})
	if err != nil {
		return directory{fd: -1}, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return directory{fd: -1}, err
	}
	d := directory{fd, st.Uid, st.Gid}
	if euid := uint32(os.Geteuid()); euid != 0 && st.Uid != euid {
		d.close()
		return d, workspace.Errorf(workspace.ErrDenied, "open", name, "the snapshot store belongs to user %d; use one of your own", st.Uid)
	}
	if st.Mode&0o7777 != 0o700 {
		if err := unix.Fchmod(fd, 0o700); err != nil {
			d.close()
			return d, err
		}
	}
	return d, nil
}

// sub makes and holds a directory of d.
func (d directory) sub(name string) (directory, error) {
	err := unix.Mkdirat(d.fd, name, 0o700)
	if err != nil && err != unix.EEXIST {
		return directory{fd: -1}, err
	}
	s, held := holdDirectory(d.fd, name, unix.O_NOFOLLOW)
	if held != nil {
		return s, held
	}
	if err == nil {
		held = d.give(s.fd)
		s.uid, s.gid = d.uid, d.gid
	}
	return s, held
}

// give makes what was made belong to the directory's owner.
func (d directory) give(fd int) error {
	if os.Geteuid() != 0 || d.uid == 0 && d.gid == 0 {
		return nil
	}
	return unix.Fchown(fd, int(d.uid), int(d.gid))
}

func (d directory) close() { unix.Close(d.fd) }

// open opens a regular file for reading.
func (d directory) open(name string) (*os.File, error) {
	return d.openFile(name, unix.O_RDONLY)
}

func (d directory) openFile(name string, flags int) (*os.File, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	})
	if err != nil && err != unix.ELOOP && err != unix.ENXIO {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	var st unix.Stat_t
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		if fd >= 0 {
			unix.Close(fd)
		}
		return nil, workspace.Errorf(workspace.ErrCorrupt, "open", name, "%s in the snapshot store is no regular file", name)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// create makes a file that must not be there.
func (d directory) create(name string) (*os.File, error) {
	fd, err := retry(func() (int, error) {
		return unix.Openat(d.fd, name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	})
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: name, Err: err}
	}
	if err := d.give(fd); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// read is all of a regular file, which may not be larger than limit.
func (d directory) read(name string, limit int64) ([]byte, error) {
	f, err := d.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if fi.Size() > limit {
		return nil, workspace.Errorf(workspace.ErrCorrupt, "read", name, "%s in the snapshot store has %d bytes, more than any of ours", name, fi.Size())
	}
	b := make([]byte, fi.Size())
	_, err = io.ReadFull(f, b)
	return b, err
}

// publish makes name a file with what write writes, in one step.
func (d directory) publish(name string, how publishing, write func(io.Writer) error) error {
	temp := tempName()
	f, err := d.create(temp)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil && how.sync {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil && how.before != nil {
		err = how.before()
	}
	if err == nil {
		err = d.rename(temp, name, how.fresh)
	}
	if err != nil {
		_ = d.remove(temp)
		return err
	}
	if how.sync {
		return d.sync()
	}
	return nil
}

// publishing says how a file is published.
type publishing struct {
	// fresh: the name must be free, else fs.ErrExist. sync: content and name
	// are on the disk when publish returns.
	fresh, sync bool
	// before is called when the content is on the disk and the name not yet
	// there; nil: nothing.
	before func() error
}

// text writes b.
func text(b []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	}
}

func (d directory) rename(from, to string, fresh bool) error {
	flags := uint(0)
	if fresh {
		flags = unix.RENAME_NOREPLACE
	}
	err := unix.Renameat2(d.fd, from, d.fd, to, flags)
	if fresh && (err == unix.EINVAL || err == unix.ENOSYS) {
		// The link is made only when the name is free.
		if err = unix.Linkat(d.fd, from, d.fd, to, 0); err == nil {
			return d.remove(from)
		}
	}
	if err != nil {
		return &fs.PathError{Op: "rename", Path: to, Err: err}
	}
	return nil
}

func (d directory) remove(name string) error {
	if err := unix.Unlinkat(d.fd, name, 0); err != nil {
		return &fs.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

// sync makes the names durable.
func (d directory) sync() error { return unix.Fsync(d.fd) }

// names lists the directory, sorted, without what is being made.
func (d directory) names() (done, temporary []string, err error) {
	fd, err := retry(func() (int, error) { return unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	all, err := f.Readdirnames(-1)
	for _, name := range all {
		if strings.HasPrefix(name, tempPrefix) {
			temporary = append(temporary, name)
		} else {
			done = append(done, name)
		}
	}
	slices.Sort(done)
	return done, temporary, err
}

const tempPrefix = "tmp-"

func tempName() string { return tempPrefix + randomID() }

func randomID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != unix.EINTR {
			return n, err
		}
	}
}
