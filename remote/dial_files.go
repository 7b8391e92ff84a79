package remote

import (
	"context"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"sync/atomic"

	"github.com/wsctl/wsctl/workspace"
)

// files is the file tree of a workspace on a server.
type files struct {
	client *client
	edits  locks
	// changes counts the writes and edits of this client that have ended.
	changes atomic.Uint64
}

var _ workspace.Files = (*files)(nil)

func newFiles(c *client) *files { return &files{client: c, edits: locks{held: map[string]*lock{}}} }

func at(name string) url.Values { return url.Values{"path": {name}} }

// Stat implements workspace.Files.
func (f *files) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return f.stat(ctx, "stat", name, at(name))
}

// Lstat implements workspace.Files.
func (f *files) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	q := at(name)
	q.Set("follow", "false")
	return f.stat(ctx, "lstat", name, q)
}

func (f *files) stat(ctx context.Context, op, name string, q url.Values) (fs.FileInfo, error) {
	var m fileMessage
	if err := f.client.call(ctx, op, http.MethodGet, "/stat", q, nil, &m); err != nil {
		return nil, err
	}
	return asInfo(m.info(path.Base(name)))
}

// asInfo keeps a nil *fileInfo from becoming a FileInfo that is not nil.
func asInfo(fi *fileInfo, err error) (fs.FileInfo, error) {
	if err != nil {
		return nil, err
	}
	return fi, nil
}

// ReadLink implements workspace.Files.
func (f *files) ReadLink(ctx context.Context, name string) (string, error) {
	var a linkAnswer
	if err := f.client.call(ctx, "readlink", http.MethodGet, "/link", at(name), nil, &a); err != nil {
		return "", err
	}
	if a.Target == "" || len(a.Target) > maxPath {
		return "", misbehaved("it sends the text of a link with %d bytes", len(a.Target))
	}
	return string(a.Target), nil
}

// maxEntries bounds what a directory can have, so that a server cannot fill the
// memory of who lists one.
const maxEntries = 4 << 20

// ReadDir implements workspace.Files, page by page.
func (f *files) ReadDir(ctx context.Context, name string, o workspace.ListOptions) (workspace.List, error) {
	list := workspace.List{Entries: []fs.DirEntry{}}
	after := o.After
	for {
		q := at(name)
		q.Set("after", after)
		if o.Limit > 0 {
			q.Set("limit", strconv.Itoa(o.Limit-len(list.Entries)))
		}
		var m listMessage
		if err := f.client.call(ctx, "list", http.MethodGet, "/list", q, nil, &m); err != nil {
			return workspace.List{}, err
		}
		if m.More && len(m.Entries) == 0 || len(m.Entries) > pageEntries {
			return workspace.List{}, misbehaved("it sends a page of %d entries, more follow: %v", len(m.Entries), m.More)
		}
		for _, e := range m.Entries {
			// A name is joined to a path by whoever walks a tree. In
			// order, the list comes to an end.
			if s := string(e.Name); !validName(s) || s <= after {
				return workspace.List{}, misbehaved("it lists an entry %.300q after %.300q", s, after)
			}
			fi, err := e.info(string(e.Name))
			if err != nil {
				return workspace.List{}, err
			}
			list.Entries = append(list.Entries, fi)
			after = fi.name
		}
		switch {
		case !m.More:
			return list, nil
		case o.Limit > 0 && len(list.Entries) >= o.Limit:
			if len(list.Entries) > o.Limit {
				return workspace.List{}, misbehaved("it sends more entries than it was asked for")
			}
			list.More = true
			return list, nil
		case len(list.Entries) > maxEntries:
			return workspace.List{}, workspace.Errorf(workspace.ErrTooLarge, "list", name, "the directory has more than %d entries; list it in pages", maxEntries)
		}
	}
}

// Write implements workspace.Files.
func (f *files) Write(ctx context.Context, name string, r io.Reader, o workspace.WriteOptions) (fs.FileInfo, error) {
	const op = "write"
	if o.IfVersion != "" && !quotable(o.IfVersion) {
		return nil, workspace.Errorf(workspace.ErrConflict, op, name, "no file has such a version")
	}
	conditions := http.Header{}
	if o.IfVersion != "" {
		conditions.Set("If-Match", tag(o.IfVersion))
	}
	if o.Exclusive {
		conditions.Set("If-None-Match", "*")
	}
	var m fileMessage
	if err := f.client.send(ctx, sending{op: op, method: http.MethodPut, route: "/file", query: writeQuery(name, o), header: conditions}, r, &m); err != nil {
		return nil, err
	}
	f.changes.Add(1)
	return asInfo(m.info(path.Base(name)))
}

func writeQuery(name string, o workspace.WriteOptions) url.Values {
	q := at(name)
	if o.Perm != 0 {
		q.Set("perm", strconv.FormatUint(uint64(o.Perm.Perm()), 8))
	}
	if o.Force {
		q.Set("force", "true")
	}
	if o.Append {
		q.Set("append", "true")
	}
	if o.MaxBytes > 0 {
		q.Set("maxBytes", strconv.FormatInt(o.MaxBytes, 10))
	}
	return q
}

// Mkdir implements workspace.Files.
func (f *files) Mkdir(ctx context.Context, name string, o workspace.MkdirOptions) error {
	return f.change(ctx, "mkdir", mkdirRequest{Path: text(name), Perm: uint32(o.Perm.Perm()), Parents: o.Parents})
}

// Symlink implements workspace.Files.
func (f *files) Symlink(ctx context.Context, target, link string) error {
	return f.change(ctx, "symlink", symlinkRequest{Path: text(link), Target: text(target)})
}

// Remove implements workspace.Files.
func (f *files) Remove(ctx context.Context, name string, o workspace.RemoveOptions) error {
	return f.change(ctx, "remove", removeRequest{Path: text(name), Recursive: o.Recursive, Trash: o.Trash})
}

// Rename implements workspace.Files.
func (f *files) Rename(ctx context.Context, from, to string, o workspace.RenameOptions) error {
	return f.change(ctx, "rename", renameRequest{From: text(from), To: text(to), Overwrite: o.Overwrite})
}

// Chmod implements workspace.Files.
func (f *files) Chmod(ctx context.Context, name string, perm fs.FileMode) error {
	return f.change(ctx, "chmod", chmodRequest{Path: text(name), Perm: uint32(perm.Perm())})
}

// change asks for one of the changes that answer nothing.
func (f *files) change(ctx context.Context, op string, in any) error {
	return f.client.call(ctx, op, http.MethodPost, "/"+op, nil, in, &nothing{})
}

// Copy implements workspace.Files.
func (f *files) Copy(ctx context.Context, from, to string, o workspace.WriteOptions) (fs.FileInfo, error) {
	var m fileMessage
	if err := f.client.call(ctx, "copy", http.MethodPost, "/copy", nil, copyRequest{
		From: text(from), To: text(to), Perm: uint32(o.Perm.Perm()), Force: o.Force, Exclusive: o.Exclusive,
		Append: o.Append, IfVersion: o.IfVersion, MaxBytes: o.MaxBytes,
	}, &m); err != nil {
		return nil, err
	}
	f.changes.Add(1)
	return asInfo(m.info(path.Base(to)))
}
