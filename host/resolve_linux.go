package host

import (
	"strings"

	"golang.org/x/sys/unix"
)

// want says how far a name is resolved.
type want struct {
	// follow the last part when it is a link.
	follow bool
	// parents that are missing are made.
	parents bool
	// change: the operation changes something, so that no part of the state
	// is open to it.
	change bool
}

// place is where a name led: an entry of a held directory and what is there.
type place struct {
	r *Root
	// dir is the directory, O_PATH. It may be the root's own descriptor.
	dir int
	// base is the entry's name in dir; empty when the place is dir itself,
	// reached by "." or "..": then there is no entry to change.
	base string
	// fd holds what is there, O_PATH; -1: nothing. It may be dir.
	fd int
	st unix.Stat_t
	// directory: the name demands a directory, by a slash at its end.
	directory bool
	// linked: the entry was reached through a link that was the last part.
	linked bool
}

func (p *place) close() {
	if p.fd != p.dir {
		closeFD(p.fd)
	}
	p.r.drop(p.dir)
	p.fd, p.dir = -1, -1
}

// drop closes a descriptor of a directory unless it is the root's.
func (r *Root) drop(fd int) {
	if fd != r.fd {
		closeFD(fd)
	}
}

func (p *place) exists() bool { return p.fd >= 0 }

// checkName refuses names that the contract keeps from a driver, for callers
// that come without a Workspace.
func checkName(name string) error {
	switch {
	case name == "":
		return refuse("INVALID_PATH", `the path is empty; "." is the root`)
	case strings.IndexByte(name, 0) >= 0:
		return refuse("INVALID_PATH", "the path holds a NUL byte")
	case len(name) > maxPath:
		return unix.ENAMETOOLONG
	case name[0] == '/':
		return refuse("OUTSIDE_ROOT", "the path is absolute; give it relative to the root")
	}
	return nil
}

// lookup holds what name leads to, for reading.
func (r *Root) lookup(name string, follow bool) (int, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := r.lookupStat(name, follow, &st)
	return fd, st, err
}

func (r *Root) lookupStat(name string, follow bool, st *unix.Stat_t) (int, error) {
	if r.fast && plain(name) {
		flags := unix.O_PATH
		if !follow {
			flags |= unix.O_NOFOLLOW
		}
		how := r.beneath(flags)
		fd, err := r.openat2(r.fd, name, &how)
		if err == nil {
			if err = unix.Fstat(fd, st); err == nil && isType(st, unix.S_IFDIR) && r.isState(st) {
				err = errState()
			}
			if err != nil {
				closeFD(fd)
				return -1, err
			}
			return fd, nil
		}
		if !r.walkInstead(err) {
			return -1, r.lookupError(err)
		}
	}
	p, err := r.walk(name, want{follow: follow})
	if err != nil {
		return -1, err
	}
	if !p.exists() {
		p.close()
		return -1, unix.ENOENT
	}
	*st = p.st
	return p.keep()
}

// keep closes the place but for what is there.
func (p *place) keep() (int, error) {
	if p.fd != p.dir {
		p.r.drop(p.dir)
		return p.fd, nil
	}
	if p.fd == p.r.fd {
		// The root's own descriptor stays with the root.
		return unix.FcntlInt(uintptr(p.fd), unix.F_DUPFD_CLOEXEC, 0)
	}
	return p.fd, nil
}

// walkInstead reports whether a failed openat2 leaves the answer to the walk:
// a link is in the way, or the system call does not work here.
func (r *Root) walkInstead(err error) bool {
	switch err {
	case unix.ELOOP, unix.ENOSYS, unix.EPERM:
		return true
	case unix.EXDEV:
		// Without links and "..", only a mount point crosses.
		return !r.opts.NoMounts
	}
	return false
}

func (r *Root) lookupError(err error) error {
	if err == unix.EXDEV {
		return errMounted()
	}
	return err
}

// locate holds the directory and the entry that name leads to, for changing.
// The entry need not be there.
func (r *Root) locate(name string, w want) (*place, error) {
	dir, base, ok := splitPlain(name)
	if !ok || !r.fast {
		return r.walk(name, w)
	}
	p := &place{r: r, dir: r.fd, base: base, fd: -1}
	if dir != "" {
		how := r.beneath(unix.O_PATH | unix.O_DIRECTORY)
		fd, err := r.openat2(r.fd, dir, &how)
		switch {
		case err == nil:
			p.dir = fd
		case r.walkInstead(err), err == unix.ENOENT && w.parents:
			return r.walk(name, w)
		default:
			return nil, r.lookupError(err)
		}
	}
	how := r.beneath(unix.O_PATH | unix.O_NOFOLLOW)
	fd, err := r.openat2(p.dir, base, &how)
	switch {
	case err == unix.ENOENT:
		return p, nil
	case err != nil:
		p.close()
		if r.walkInstead(err) {
			return r.walk(name, w)
		}
		return nil, r.lookupError(err)
	}
	p.fd = fd
	if err := unix.Fstat(fd, &p.st); err != nil {
		p.close()
		return nil, err
	}
	switch {
	case w.follow && isType(&p.st, unix.S_IFLNK):
		p.close()
		return r.walk(name, w)
	case isType(&p.st, unix.S_IFDIR) && r.isState(&p.st):
		p.close()
		return nil, errState()
	}
	return p, nil
}
