package host

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// view is the root once more, as a mount of its own that its descriptor holds
// and that appears nowhere. No link is followed in it (MOUNT_ATTR_NOSYMFOLLOW,
// mount_setattr(2), Linux 5.14) and ".." does not leave it, so one fstatat
// there is as safe as openat2, fstat and close. Other mounts below the root are
// not in it: while there is one, it is not used. Only root may make a view; a
// Root without one resolves every name.
//
// A mount that comes in with a directory that is moved into the root is no
// event for the kernel: until the next one a stat tells what the mount covers.
type view struct {
	wanted atomic.Int32 // how often it would have been of use, up to viewAfter

	mu     sync.Mutex
	opened bool           // or tried
	fd     int            // -1: there is none
	mounts int            // mountinfo; poll(2) tells that it changed
	poll   [1]unix.PollFd // kept, so that a call allocates none
	alone  bool           // nothing was mounted below the root when mountinfo was read
}

// viewAfter is how many stats come before a view pays: to make one costs as much
// as it saves a hundred of them.
const viewAfter = 100

// openView sets the view up. Where it cannot be had there is none.
func (r *Root) openView() {
	v := &r.view
	v.opened, v.fd, v.mounts = true, -1, -1
	if !r.fast {
		return
	}
	mounts, err := unix.Open("/proc/thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	fd, err := unix.OpenTree(r.fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err == nil && r.hooks.on(guardView) {
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{
			Attr_set: unix.MOUNT_ATTR_NOSYMFOLLOW, Propagation: unix.MS_PRIVATE,
		})
	}
	if err != nil {
		closeFD(fd)
		closeFD(mounts)
		return
	}
	v.fd, v.mounts = fd, mounts
	v.alone = r.nothingMounted()
}

func (r *Root) closeView() {
	if v := &r.view; v.opened {
		closeFD(v.fd)
		closeFD(v.mounts)
	}
}

// nothingMounted reports whether no other mount lies below the root.
func (r *Root) nothingMounted() bool {
	dir, err := r.pathOf(r.fd)
	if err != nil {
		return false
	}
	below, err := mountBelow(dir)
	return err == nil && below == ""
}

// viewed reports whether the view shows all that is below the root. It is false
// too while another call finds that out.
func (r *Root) viewed() bool {
	v := &r.view
	if v.wanted.Load() < viewAfter {
		v.wanted.Add(1)
		return false
	}
	if !v.mu.TryLock() {
		return false
	}
	defer v.mu.Unlock()
	if !v.opened {
		r.openView()
	}
	if v.fd < 0 || !r.hooks.on(guardView) {
		return v.fd >= 0
	}
	v.poll[0] = unix.PollFd{Fd: int32(v.mounts), Events: unix.POLLPRI}
	switch n, err := unix.Poll(v.poll[:], 0); {
	case err != nil:
		return false
	case n > 0:
		v.alone = r.nothingMounted()
	}
	return v.alone
}

// statViewed describes what a plain name leads to. done is false when the name
// must be resolved: a link is in it or at its end, or something is mounted.
func (r *Root) statViewed(name string, follow bool, st *unix.Stat_t) (done bool, err error) {
	if !plain(name) || !r.viewed() {
		return false, nil
	}
	err = ignoreIntr(func() error {
		return unix.Fstatat(r.view.fd, name, st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT)
	})
	switch {
	case err == unix.ENOENT:
		return true, err
	case err != nil, follow && isType(st, unix.S_IFLNK):
		return false, nil
	case isType(st, unix.S_IFDIR) && r.isState(st):
		return true, errState()
	}
	return true, nil
}
