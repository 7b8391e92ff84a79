package host

import (
	"context"
	"io"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// draft is a file under way to its name: without a name where the file system
// can do that (O_TMPFILE), else under a random one, in the directory where it
// will be.
type draft struct {
	r    *Root
	dir  int
	fd   int    // open for writing
	temp string // its name in dir; empty: none
	size int64
}

// newDraft makes an empty file in dir. The umask applies to perm.
func (r *Root) newDraft(dir int, perm uint32) (*draft, error) {
	r.hooks.at("create")
	d := &draft{r: r, dir: dir}
	var err error
	if r.hooks == nil || !r.hooks.noTmpfile {
		d.fd, err = openAt(dir, ".", unix.O_TMPFILE|unix.O_WRONLY, perm)
		switch err {
		case nil:
			return d, nil
		case unix.EOPNOTSUPP, unix.EISDIR, unix.ENOENT, unix.EINVAL:
			// open(2) lists them for file systems and kernels
			// without O_TMPFILE.
		case unix.EPERM:
			// ext4's answer in a directory that has been removed
			// meanwhile; a named file tells what it is.
		default:
			return nil, err
		}
	}
	d.temp = tempName()
	d.fd, err = openAt(dir, d.temp, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, perm)
	if err != nil {
		return nil, err
	}
	return d, nil
}

// discard closes the draft and removes its temporary name, if it has one.
func (d *draft) discard() {
	if d.temp != "" {
		_ = unix.Unlinkat(d.dir, d.temp, 0)
		d.temp = ""
	}
	closeFD(d.fd)
	d.fd = -1
}

func (d *draft) write(b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(d.fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		d.size += int64(n)
		b = b[n:]
	}
	return nil
}

// fill writes what rd holds, at most limit bytes of it unless that is 0.
func (d *draft) fill(ctx context.Context, rd io.Reader, limit int64) error {
	buf := d.r.bufs.Get().(*[]byte) //nolint:forcetypeassert // the pool holds nothing else
	defer d.r.bufs.Put(buf)
	start := d.size
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := rd.Read(*buf)
		if limit > 0 && d.size-start+int64(n) > limit {
			return refuse(workspace.ErrTooLarge, "the content is larger than the limit of %d bytes", limit)
		}
		d.r.hooks.at("write")
		if err := d.write((*buf)[:n]); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// copyChunk is how much the kernel copies between two looks at the context.
const copyChunk = 8 << 20

// copyFrom writes what is left of the open file src, at most limit bytes of it
// unless that is 0: shared with the source where the file system can, else
// copied in the kernel, else through a buffer.
func (d *draft) copyFrom(ctx context.Context, src int, limit int64) error {
	d.r.hooks.at("write")
	if limit == 0 && d.size == 0 && unix.IoctlFileClone(d.fd, src) == nil {
		n, err := unix.Seek(d.fd, 0, io.SeekEnd)
		d.size = n
		return err
	}
	start := d.size
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := unix.CopyFileRange(src, nil, d.fd, nil, copyChunk, 0)
		if err == unix.EINTR {
			continue
		}
		if err == unix.ENOSPC || err == unix.EFBIG || err == unix.EDQUOT || err == unix.EIO {
			return err
		}
		// No progress is either the end or a file system that cannot;
		// reading tells which.
		if err != nil || n == 0 {
			break
		}
		d.size += int64(n)
		if limit > 0 && d.size-start > limit {
			return refuse(workspace.ErrTooLarge, "the file is larger than the limit of %d bytes", limit)
		}
	}
	if limit > 0 {
		// 0 would mean no limit; one byte too many is seen all the same.
		limit = max(limit-(d.size-start), 1)
		if d.size-start >= limit && limit == 1 {
			return d.expectEnd(src)
		}
	}
	return d.fill(ctx, fdReader(src), limit)
}

// expectEnd fails when src has another byte.
func (d *draft) expectEnd(src int) error {
	var b [1]byte
	n, err := fdReader(src).Read(b[:])
	if n > 0 {
		return refuse(workspace.ErrTooLarge, "the file is larger than the limit")
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// fdReader reads a descriptor that somebody else closes.
type fdReader int

func (fd fdReader) Read(b []byte) (int, error) {
	for {
		n, err := unix.Read(int(fd), b)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, err
		case n == 0 && len(b) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// link gives a draft without a name the name in its directory; EEXIST when it
// is taken by anything.
func (d *draft) link(name string) error {
	// By way of /proc: AT_EMPTY_PATH needs a capability before Linux 6.10.
	return ignoreIntr(func() error {
		return unix.Linkat(d.r.proc, strconv.Itoa(d.fd), d.dir, name, unix.AT_SYMLINK_FOLLOW)
	})
}

// sync makes the content durable.
func (d *draft) sync() error {
	d.r.hooks.at("fsync")
	return ignoreIntr(func() error { return unix.Fsync(d.fd) })
}

// syncDir makes the directory's entries durable.
func (d *draft) syncDir() error {
	d.r.hooks.at("fsync directory")
	fd, err := openList(d.dir)
	if err == unix.EACCES {
		// A directory that may be written but not read can only be
		// synced with its whole file system.
		return ignoreIntr(func() error { return unix.Syncfs(d.fd) })
	}
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return ignoreIntr(func() error { return unix.Fsync(fd) })
}
