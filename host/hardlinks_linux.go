package host

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// Bounds of the search for a file's other names.
const (
	maxLinkSearch      = 2_000_000 // entries
	maxLinkSearchDepth = 128       // directories, each with an open descriptor
)

// checkLinks applies the policy for hard links to a file that is held.
func (r *Root) checkLinks(ctx context.Context, st *unix.Stat_t) error {
	if st.Nlink <= 1 || r.opts.HardLinks == HardLinksAllow || !isType(st, unix.S_IFREG) || !r.hooks.on(guardLinks) {
		return nil
	}
	if r.opts.HardLinks == HardLinksRefuse {
		return refuse(workspace.ErrDenied, "the file has %d names (hard links), which the workspace refuses; copy it", st.Nlink)
	}
	s := linkSearch{ctx: ctx, r: r, id: identityOf(st)}
	fd, err := openList(r.fd)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	if err := s.search(fd, 0); err != nil {
		return err
	}
	if s.found < uint64(st.Nlink) {
		return refuse(workspace.ErrDenied, "the file has %d names (hard links) and only %d were found in the workspace; copy it", st.Nlink, s.found)
	}
	return nil
}

// linkSearch counts the names of one file below a directory, other mounts and
// the state left out.
type linkSearch struct {
	ctx   context.Context //nolint:containedctx // the life of one search
	r     *Root
	id    identity
	found uint64
	seen  int
}

func (s *linkSearch) search(fd, depth int) error {
	if depth > maxLinkSearchDepth {
		return nil
	}
	return readEntries(fd, make([]byte, direntBuffer), func(e dirent) error {
		if s.seen++; s.seen > maxLinkSearch {
			return refuse(workspace.ErrTooMany, "the file has several names (hard links) and the workspace has too many entries to find them all; copy it")
		}
		if s.seen%1024 == 0 {
			if err := s.ctx.Err(); err != nil {
				return err
			}
		}
		if depth == 0 && reserved(string(e.name)) {
			return nil
		}
		if e.typ == unix.DT_DIR || e.typ == unix.DT_UNKNOWN {
			return s.enter(fd, string(e.name), depth, e)
		}
		return s.count(fd, e)
	})
}

func (s *linkSearch) count(fd int, e dirent) error {
	if e.ino != s.id.ino {
		return nil
	}
	var st unix.Stat_t
	if err := statEntry(fd, string(e.name), &st); err == nil && identityOf(&st) == s.id {
		s.found++
	}
	return nil
}

func (s *linkSearch) enter(fd int, name string, depth int, e dirent) error {
	child, err := openAt(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	switch err {
	case nil:
	case unix.ENOTDIR, unix.ELOOP:
		return s.count(fd, e)
	default:
		// What cannot be searched has none of the names: the read is
		// refused, not allowed.
		return nil
	}
	defer closeFD(child)
	var st unix.Stat_t
	if err := unix.Fstat(child, &st); err != nil || uint64(st.Dev) != s.id.dev {
		return nil
	}
	return s.search(child, depth+1)
}
