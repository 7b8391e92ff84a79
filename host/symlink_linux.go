package host

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// Symlink implements workspace.Files. The target is followed as it would be
// from the link's place; it need not be there. The check keeps callers from
// mistakes; what a link leads to is decided anew whenever it is followed.
func (r *Root) Symlink(ctx context.Context, target, link string) error {
	const op = "symlink"
	if err := r.begin(ctx, op, link); err != nil {
		return err
	}
	defer r.calls.leave()
	return asError(op, link, r.symlink(target, link))
}

func (r *Root) symlink(target, link string) error {
	if target == "" || strings.IndexByte(target, 0) >= 0 {
		return refuse(workspace.ErrInvalidArgument, "the link's target is empty or holds a NUL byte")
	}
	if err := checkName(link); err != nil {
		return err
	}
	s := split(link)
	if s.directory {
		return refuse(workspace.ErrInvalidPath, "the path names a directory; leave the slash at its end out")
	}
	base := s.parts[len(s.parts)-1]
	wk := &walker{r: r, w: want{change: true}, cur: r.fd, id: r.id, own: len(s.parts), directory: true}
	defer func() { r.drop(wk.cur) }()
	wk.push(s.parts)
	if err := wk.runDir(); err != nil {
		return err
	}
	if base == ".." {
		if err := wk.up(); err != nil {
			return err
		}
		return unix.EEXIST
	}
	if err := wk.checkState(base); err != nil {
		return err
	}
	if err := wk.checkTarget(target); err != nil {
		return err
	}
	if err := ignoreIntr(func() error { return unix.Symlinkat(target, wk.cur, base) }); err != nil {
		return err
	}
	return r.giveLink(wk.cur, base)
}

// runDir walks all parts but the last, and leaves cur at the directory that
// the last one is in.
func (wk *walker) runDir() error {
	for len(wk.pending) > 1 {
		if _, err := wk.step(); err != nil {
			return err
		}
	}
	wk.pending = wk.pending[:0]
	return nil
}

// checkTarget follows target from cur without moving cur.
func (wk *walker) checkTarget(target string) error {
	r := wk.r
	if !r.hooks.on(guardBeneath) {
		return nil
	}
	at := &walker{r: r, w: want{follow: true}, cur: r.fd, id: wk.id, path: slices.Clone(wk.path)}
	if wk.cur != r.fd {
		fd, err := unix.FcntlInt(uintptr(wk.cur), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return err
		}
		at.cur = fd
	}
	err := at.jump(target)
	if err == nil {
		var p *place
		if p, err = at.run(); err == nil {
			p.close()
			return nil
		}
	}
	r.drop(at.cur)
	if err == unix.ENOTDIR || workspace.CodeOf(err) == workspace.ErrNotFound {
		return nil
	}
	return err
}

// giveLink gives a new link to the owner of the root.
func (r *Root) giveLink(dir int, name string) error {
	if r.euid != 0 {
		return nil
	}
	fd, err := openAt(dir, name, unix.O_PATH, 0)
	if err != nil {
		return nil // removed at once
	}
	defer closeFD(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if !isType(&st, unix.S_IFLNK) || st.Nlink != 1 || st.Uid != 0 {
		return nil
	}
	return r.give(fd)
}
