package host

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

const (
	// clearDepth is how deep a tree is descended into with a descriptor for
	// each level; what lies deeper is first moved up.
	clearDepth = 64
	// clearPasses is how often a directory is read again that somebody
	// keeps filling.
	clearPasses = 64
	// maxLifted bounds how many directories are moved up, so that somebody
	// who makes them as fast as they go does not keep us for ever.
	maxLifted = 1 << 20
)

// deleteTree deletes the directory name of dir, which held holds, with all
// that is in it. It goes down by descriptor, never through a link, never into
// another mount, and needs a bounded number of descriptors for any depth.
func (r *Root) deleteTree(ctx context.Context, dir int, name string, held int) error {
	c := clearing{ctx: ctx, r: r, top: -1}
	fd, err := c.open(held, ".", held)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	c.top = fd
	err = c.empty(fd, 0, func() error { return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
	if err == nil && c.failed != nil {
		return annotate(c.failed, fmt.Sprintf("%d entries could not be removed, %s the first", c.left, workspace.Printable(c.first)))
	}
	return err
}

func errRefilled() error {
	return refuse(workspace.ErrBusy, "something keeps making files in it; stop it and try again")
}

// clearing is the deletion of one tree.
type clearing struct {
	ctx  context.Context //nolint:containedctx // the life of one call
	r    *Root
	top  int // the tree's own directory
	seen int
	// lifted is how many directories were moved up to the top.
	lifted int
	bufs   [][]byte // one a level

	failed error  // the first entry that could not be removed
	first  string // its name
	left   int    // how many there were
}

// open opens a directory of the tree for reading. One that its owner cannot
// read or change is first given the bits for it.
func (c *clearing) open(dir int, name string, held int) (int, error) {
	how := c.r.beneath(unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW)
	if c.r.hooks.on(guardMounts) {
		how.Resolve |= unix.RESOLVE_NO_XDEV
	}
	fd, err := c.r.openat2(dir, name, &how)
	if err == unix.ENOSYS || err == unix.EPERM {
		fd, err = openAt(dir, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err == nil {
			err = c.sameMount(fd)
			if err != nil {
				closeFD(fd)
				fd = -1
			}
		}
	}
	switch {
	case err == unix.EXDEV:
		return -1, refuse(workspace.ErrUnsupported, "another file system is mounted in it; unmount it first")
	case err == unix.EACCES && held < 0:
		held, err := openAt(dir, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return -1, err
		}
		defer closeFD(held)
		return c.openLocked(held)
	case err == unix.EACCES:
		return c.openLocked(held)
	}
	return fd, err
}

// openLocked opens the directory that held holds after giving its owner all
// rights to it.
func (c *clearing) openLocked(held int) (int, error) {
	if err := c.r.chmodHeld(held, 0o700); err != nil {
		return -1, unix.EACCES
	}
	return openList(held)
}

// sameMount is EXDEV when fd lies in another mount than the tree.
func (c *clearing) sameMount(fd int) error {
	if c.top < 0 {
		return nil
	}
	a, err := mountOf(c.top)
	if err != nil {
		return err
	}
	b, err := mountOf(fd)
	if err == nil && a != b {
		err = unix.EXDEV
	}
	return err
}

// empty empties the directory fd, depth levels below the top, and removes it
// by rmdir. Entries that cannot be removed are counted and left; an error ends
// the whole.
func (c *clearing) empty(fd, depth int, rmdir func() error) error {
	for pass := 0; pass < clearPasses; pass++ {
		left, lifted := c.left, c.lifted
		if err := c.pass(fd, depth); err != nil {
			return err
		}
		if c.left > left {
			return nil
		}
		err := rmdir()
		if err != unix.ENOTEMPTY && err != unix.EEXIST {
			return err
		}
		if c.lifted > lifted {
			// What a deep tree brought up is work, not a refill.
			pass = 0
		}
		if _, err := unix.Seek(fd, 0, 0); err != nil {
			return err
		}
	}
	return errRefilled()
}

// pass removes what one reading of the directory finds.
func (c *clearing) pass(fd, depth int) error {
	if depth == len(c.bufs) {
		c.bufs = append(c.bufs, make([]byte, direntBuffer))
	}
	writable := false
	return readEntries(fd, c.bufs[depth], func(e dirent) error {
		if c.seen++; c.seen%256 == 0 {
			if err := c.ctx.Err(); err != nil {
				return err
			}
		}
		err := c.remove(fd, e, depth)
		if err == unix.EACCES && !writable {
			// The directory itself forbids it.
			writable = true
			if unix.Fchmod(fd, 0o700) == nil {
				err = c.remove(fd, e, depth)
			}
		}
		switch {
		case err == nil, err == unix.ENOENT:
		case c.ctx.Err() != nil:
			return err
		default:
			if c.failed == nil {
				c.failed, c.first = err, string(e.name)
			}
			c.left++
		}
		return nil
	})
}

// remove removes one entry of fd with what it holds.
func (c *clearing) remove(fd int, e dirent, depth int) error {
	if e.typ != unix.DT_DIR {
		err := unlinkEntry(fd, e, 0)
		if err != unix.EISDIR && (err != unix.EPERM || e.typ != unix.DT_UNKNOWN) {
			return err
		}
	}
	err := unlinkEntry(fd, e, unix.AT_REMOVEDIR)
	if err != unix.ENOTEMPTY && err != unix.EEXIST {
		return mountPoint(err)
	}
	name := string(e.name)
	if depth >= clearDepth {
		// The top is read again until it is empty, so what is moved
		// there is found.
		return c.lift(fd, name)
	}
	child, err := c.open(fd, name, -1)
	if err != nil {
		return err
	}
	defer closeFD(child)
	return c.empty(child, depth+1, func() error { return unlinkEntry(fd, e, unix.AT_REMOVEDIR) })
}

// lift moves a directory of fd up to the top.
func (c *clearing) lift(fd int, name string) error {
	if c.lifted++; c.lifted > maxLifted {
		return errRefilled()
	}
	err, _ := c.r.renameAt(fd, name, c.top, tempName(), 0)
	if err == unix.EACCES {
		err = c.liftLocked(fd, name)
	}
	return err
}

// liftLocked lifts a directory that its owner may not write.
func (c *clearing) liftLocked(fd int, name string) error {
	held, err := openAt(fd, name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer closeFD(held)
	if err := c.r.chmodHeld(held, 0o700); err != nil {
		return unix.EACCES
	}
	err, _ = c.r.renameAt(fd, name, c.top, tempName(), 0)
	return err
}
