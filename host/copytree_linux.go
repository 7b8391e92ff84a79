package host

import (
	"context"
	"path"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// CopyTree copies a directory with all it holds, or anything else that can be
// copied: regular files with their permission bits, links as links. It is made
// in the state, where nobody sees it, flushed to the disk, and takes its name in
// one step; whatever fails, nothing of it is left. The state itself is not
// copied. What is neither file, link nor directory is NOT_A_FILE; what is
// mounted below is as Root treats mounts. Directories above to are made.
func (r *Root) CopyTree(ctx context.Context, from, to string, o CopyTreeOptions) error {
	const op = "copy"
	if err := r.begin(ctx, op, from); err != nil {
		return err
	}
	defer r.calls.leave()
	fd, st, err := r.lookup(from, false)
	if err != nil {
		return asError(op, from, err)
	}
	defer closeFD(fd)
	if err := r.copyTree(ctx, treeEntry{fd: fd, st: &st, path: path.Clean(from)}, to, o); err != nil {
		return asError(op, to, mountPoint(err))
	}
	return nil
}

// stagedCopy is the name of a copy in the directory where it is made.
const stagedCopy = "copy"

func (r *Root) copyTree(ctx context.Context, e treeEntry, to string, o CopyTreeOptions) (err error) {
	pending, err := r.openPending()
	if err != nil {
		return err
	}
	defer closeFD(pending)
	// By its name it is deleted when a crash leaves it.
	name := pendingName(kindDelete)
	stage, _, err := r.openOwn(pending, name)
	if err != nil {
		return err
	}
	defer closeFD(stage)
	defer func() {
		// The caller may have given up, and it goes all the same.
		if left := r.deleteTree(context.WithoutCancel(ctx), pending, name, stage); err == nil {
			err = left
		}
	}()
	c := treeCopy{ctx: ctx, r: r, left: o.MaxBytes, bounded: o.MaxBytes > 0}
	if err := c.entry(e, stage, stagedCopy); err != nil {
		return err
	}
	list, err := openList(stage)
	if err != nil {
		return err
	}
	defer closeFD(list)
	if err := ignoreIntr(func() error { return unix.Syncfs(list) }); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return r.publishTree(ctx, stage, to, o)
}

// publishTree gives the copy in stage its name.
func (r *Root) publishTree(ctx context.Context, stage int, to string, o CopyTreeOptions) error {
	src := &place{r: r, dir: stage, base: stagedCopy, fd: -1}
	var err error
	if src.fd, err = openAt(stage, stagedCopy, unix.O_PATH, 0); err != nil {
		return err
	}
	defer func() { closeFD(src.fd) }()
	if err := unix.Fstat(src.fd, &src.st); err != nil {
		return err
	}
	w := want{parents: true, change: true}
	t, err := r.lockFile(ctx, to, w)
	if err != nil {
		return err
	}
	defer t.close()
	if err := checkNewName(src, t.place, to, workspace.RenameOptions{Overwrite: o.Overwrite}); err != nil {
		return err
	}
	if t.exists() {
		return r.moveOver(ctx, src, t.place)
	}
	return r.moveTo(src, t.place)
}

// treeEntry is an entry that is copied, held O_PATH.
type treeEntry struct {
	fd   int
	st   *unix.Stat_t
	path string // below the root, for messages
}

// treeCopy is the copying of one tree.
type treeCopy struct {
	ctx     context.Context //nolint:containedctx // the life of one call
	r       *Root
	bounded bool
	left    int64 // what may still be copied, in bytes, when bounded
}

// entry makes name in dir a copy of e.
func (c *treeCopy) entry(e treeEntry, dir int, name string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if c.r.opts.NoMounts {
		if err := c.r.sameMount(e.fd, e.st); err != nil {
			return asError("", e.path, err)
		}
	}
	var err error
	switch e.st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return c.directory(e, dir, name)
	case unix.S_IFLNK:
		err = c.link(e, dir, name)
	default:
		err = c.file(e, dir, name)
	}
	return asError("", e.path, err)
}

func (c *treeCopy) link(e treeEntry, dir int, name string) error {
	text, err := readLink(e.fd)
	if err != nil {
		return err
	}
	if err := unix.Symlinkat(text, dir, name); err != nil {
		return err
	}
	return c.r.giveLink(dir, name)
}

func (c *treeCopy) file(e treeEntry, dir int, name string) error {
	src, err := c.r.openHeld(c.ctx, e.fd, e.st)
	if err != nil {
		return err
	}
	defer closeFD(src)
	if c.bounded && e.st.Size > c.left {
		return refuse(workspace.ErrTooLarge, "there is more to copy than the limit allows")
	}
	d := &draft{r: c.r, dir: dir}
	if d.fd, err = openAt(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600); err != nil {
		return err
	}
	defer closeFD(d.fd)
	limit := int64(0)
	if c.bounded {
		// 0 would mean no limit; one byte too many is seen all the same.
		limit = max(c.left, 1)
	}
	if err := d.copyFrom(c.ctx, src, limit); err != nil {
		return err
	}
	c.left -= d.size
	if err := c.r.give(d.fd); err != nil {
		return err
	}
	return unix.Fchmod(d.fd, e.st.Mode&0o777)
}

func (c *treeCopy) directory(e treeEntry, dir int, name string) error {
	list, err := openList(e.fd)
	if err != nil {
		return asError("", e.path, err)
	}
	defer closeFD(list)
	if err := unix.Mkdirat(dir, name, 0o700); err != nil {
		return asError("", e.path, err)
	}
	made, err := openAt(dir, name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return asError("", e.path, err)
	}
	defer closeFD(made)
	err = readEntries(list, make([]byte, direntBuffer), func(d dirent) error {
		return c.child(e, list, string(d.name), made)
	})
	if err == nil {
		err = c.r.give(made)
	}
	if err == nil {
		err = c.r.chmodHeld(made, e.st.Mode&0o777)
	}
	return asError("", e.path, err)
}

// child copies one entry of the directory parent. One that has gone since it
// was listed, our own temporary files and the state are left out.
func (c *treeCopy) child(parent treeEntry, list int, name string, made int) error {
	fd, err := openAt(list, name, unix.O_PATH, 0)
	if err == unix.ENOENT {
		return nil
	}
	e := treeEntry{fd: fd, st: new(unix.Stat_t), path: path.Join(parent.path, name)}
	if err != nil {
		return asError("", e.path, err)
	}
	defer closeFD(fd)
	if err := unix.Fstat(fd, e.st); err != nil {
		return asError("", e.path, err)
	}
	top := identityOf(parent.st) == c.r.id
	if top && reserved(name) || isType(e.st, unix.S_IFDIR) && c.r.isState(e.st) || isType(e.st, unix.S_IFREG) && isTemp(name) {
		return nil
	}
	return c.entry(e, made, name)
}
