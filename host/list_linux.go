package host

import (
	"context"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// ReadDir implements workspace.Files. The state and temporary files of writes
// under way are left out. A page costs one reading of the directory's names,
// and one fstatat for each entry on the page.
func (r *Root) ReadDir(ctx context.Context, name string, o workspace.ListOptions) (workspace.List, error) {
	const op = "list"
	if err := r.begin(ctx, op, name); err != nil {
		return workspace.List{}, err
	}
	defer r.calls.leave()
	list, err := r.readDir(ctx, name, o)
	return list, asError(op, name, err)
}

func (r *Root) readDir(ctx context.Context, name string, o workspace.ListOptions) (workspace.List, error) {
	if o.Limit < 0 {
		return workspace.List{}, refuse(workspace.ErrInvalidArgument, "the limit is %d entries; give a positive one, or 0 for all", o.Limit)
	}
	held, st, err := r.lookup(name, true)
	if err != nil {
		return workspace.List{}, err
	}
	defer closeFD(held)
	if !isType(&st, unix.S_IFDIR) {
		return workspace.List{}, unix.ENOTDIR
	}
	fd, err := openList(held)
	if err != nil {
		return workspace.List{}, err
	}
	defer closeFD(fd)
	page := namePage{after: o.After, limit: o.Limit}
	top := identityOf(&st) == r.id
	if err := page.fill(ctx, fd, top); err != nil {
		return workspace.List{}, err
	}
	return page.stat(ctx, fd)
}

// namePage are the names of a directory that come after one of them, the first
// limit of them at least.
type namePage struct {
	after string
	limit int
	names []string
	more  bool
	buf   []byte // for the system's answers; nil: one is made
}

func (p *namePage) fill(ctx context.Context, fd int, top bool) error {
	if p.buf == nil {
		p.buf = make([]byte, direntBuffer)
	}
	seen := 0
	err := readEntries(fd, p.buf, func(e dirent) error {
		if seen++; seen%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if p.after != "" && string(e.name) <= p.after {
			return nil
		}
		if hidesEntry(e, top) {
			return nil
		}
		p.names = append(p.names, string(e.name))
		// Only the smallest names are kept, so that a page of a large
		// directory needs the memory of two pages.
		if p.limit > 0 && len(p.names) >= 2*p.limit+1024 {
			p.cut()
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(p.names)
	return nil
}

func (p *namePage) cut() {
	slices.Sort(p.names)
	if len(p.names) > p.limit {
		p.names = p.names[:p.limit]
		p.more = true
	}
}

// stat describes the page's entries. One that is gone by then is left out.
func (p *namePage) stat(ctx context.Context, fd int) (workspace.List, error) {
	n := len(p.names)
	if p.limit > 0 {
		n = min(n, p.limit)
	}
	list := workspace.List{Entries: make([]fs.DirEntry, 0, n), More: p.more}
	infos := make([]fileInfo, n)
	for i, name := range p.names {
		if len(list.Entries) == n {
			list.More = true
			break
		}
		if i%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return workspace.List{}, err
			}
		}
		fi := &infos[len(list.Entries)]
		err := statEntry(fd, name, &fi.st)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return workspace.List{}, err
		}
		fi.name = name
		list.Entries = append(list.Entries, fi)
	}
	return list, nil
}
