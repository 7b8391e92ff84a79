package host

import (
	"errors"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// retries bounds how often a call is tried again that a concurrent change
// made fail; the caller then gets BUSY.
const retries = 16

// ignoreIntr repeats f while a signal interrupts it.
func ignoreIntr(f func() error) error {
	for {
		err := f()
		if err != unix.EINTR {
			return err
		}
	}
}

// openAt is openat(2), close-on-exec, not following a last link.
func openAt(dir int, name string, flags int, perm uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, perm)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// beneath is how one openat2 resolves a name that has no "..": without any
// link, so that its text alone says where it leads.
func (r *Root) beneath(flags int) unix.OpenHow {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_SYMLINKS,
	}
	if r.opts.NoMounts && r.hooks.on(guardMounts) {
		how.Resolve |= unix.RESOLVE_NO_XDEV
	}
	if !r.hooks.on(guardBeneath) {
		how.Resolve = 0
	}
	return how
}

// openat2 is openat2(2). EAGAIN, the answer to a rename that came in between,
// is tried again. The name has no NUL byte.
func (r *Root) openat2(dir int, name string, how *unix.OpenHow) (int, error) {
	if r.hooks != nil && r.hooks.openat2 != nil {
		return -1, r.hooks.openat2
	}
	// Most names fit here, and then nothing is allocated.
	var short [256]byte
	path := short[:0]
	if len(name) >= len(short) {
		path = make([]byte, 0, len(name)+1)
	}
	path = append(append(path, name...), 0)
	for try := 0; ; {
		fd, _, no := unix.Syscall6(unix.SYS_OPENAT2, uintptr(dir), uintptr(unsafe.Pointer(unsafe.SliceData(path))),
			uintptr(unsafe.Pointer(how)), unix.SizeofOpenHow, 0, 0)
		switch {
		case no == 0:
			return int(fd), nil
		case no == unix.EINTR:
		case no == unix.EAGAIN && try < retries:
			try++
		default:
			return -1, no
		}
	}
}

// closeFD closes a descriptor that nothing was written to. That never waits,
// so the scheduler need not know.
func closeFD(fd int) {
	if fd >= 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
	}
}

// reopen opens what the O_PATH descriptor fd holds, by the descriptor alone:
// through /proc/self/fd, which leads to that very file whatever its name is by
// now (proc(5)).
func (r *Root) reopen(fd, flags int) (int, error) {
	if r.proc < 0 {
		return -1, errNoProc
	}
	name := strconv.Itoa(fd)
	for {
		out, err := unix.Openat(r.proc, name, flags|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOCTTY, 0)
		if err != unix.EINTR {
			return out, err
		}
	}
}

var errNoProc = refuse("UNSUPPORTED", "%w", errors.New("/proc is not mounted, and files are opened through it; mount it"))

// openProc holds /proc/self/fd. It must be a real proc file system: what is
// reached through it is trusted.
func openProc() (int, error) {
	fd, err := unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, errNoProc
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil || st.Type != unix.PROC_SUPER_MAGIC {
		closeFD(fd)
		return -1, errNoProc
	}
	return fd, nil
}

// chmodHeld sets the mode of what the O_PATH descriptor fd holds.
func (r *Root) chmodHeld(fd int, perm uint32) error {
	err := unix.Fchmodat(fd, "", perm, unix.AT_EMPTY_PATH)
	if err == unix.ENOSYS || err == unix.EOPNOTSUPP || err == unix.EINVAL {
		// fchmodat2 is of Linux 6.6; before, the descriptor's own entry
		// in /proc leads to the same file and no other.
		err = unix.Fchmodat(r.proc, strconv.Itoa(fd), perm, 0)
	}
	return err
}

// chownHeld sets the owner of what the descriptor fd holds.
func chownHeld(fd int, uid, gid uint32) error {
	return unix.Fchownat(fd, "", int(uid), int(gid), unix.AT_EMPTY_PATH)
}

// mountOf is the id of the mount that fd lies in, 0 where the kernel does not
// tell (before 5.8).
func mountOf(fd int) (uint64, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil {
		return 0, err
	}
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return 0, nil
	}
	return st.Mnt_id, nil
}

// sameMount fails with UNSUPPORTED when what fd holds lies in another mount
// than the root.
func (r *Root) sameMount(fd int, st *unix.Stat_t) error {
	if !r.hooks.on(guardMounts) {
		return nil
	}
	if uint64(st.Dev) == r.id.dev {
		if r.mount == 0 {
			return nil
		}
		if id, err := mountOf(fd); err != nil || id == r.mount {
			return err
		}
	}
	return errMounted()
}

func errMounted() error {
	return refuse("UNSUPPORTED", "another file system is mounted there, which the workspace's commands do not see; unmount it or use a path outside it")
}

func isType(st *unix.Stat_t, typ uint32) bool { return st.Mode&unix.S_IFMT == typ }

func identityOf(st *unix.Stat_t) identity { return identity{uint64(st.Dev), st.Ino} }
