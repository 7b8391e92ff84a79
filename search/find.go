package search

import (
	"cmp"
	"context"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// Kind tells what an entry is.
type Kind string

const (
	File      Kind = "file"
	Directory Kind = "directory"
	Link      Kind = "link"
	// Special is a FIFO, a socket or a device.
	Special Kind = "special"
)

func kindOf(mode fs.FileMode) Kind {
	switch mode.Type() {
	case 0:
		return File
	case fs.ModeDir:
		return Directory
	case fs.ModeSymlink:
		return Link
	}
	return Special
}

// Entry is one entry of the tree.
type Entry struct {
	// Path is relative to the root. It holds any bytes but NUL.
	Path string
	Kind Kind
	// Size, Mode and Modified are known with FindOptions.Details, Modified
	// also with ByTime. They are zero when the entry has gone meanwhile.
	Size     int64
	Mode     fs.FileMode
	Modified time.Time
	// Target is the text of a link, with Details.
	Target string
}

// Select says which entries are wanted.
type Select string

const (
	// Anything takes all of them.
	Anything Select = "any"
	// Files takes all but directories: links too, which are not followed.
	Files Select = "file"
	// Directories takes directories alone.
	Directories Select = "directory"
)

// Order says how entries are sorted.
type Order string

const (
	// ByName is the byte order of the paths.
	ByName Order = "name"
	// ByTime puts what was modified last first.
	ByTime Order = "time"
)

// FindOptions say how List and Glob look, and what they return.
type FindOptions struct {
	Scope
	// Select is what is wanted; empty: Anything for List, Files for Glob.
	Select Select
	// Order is how it is sorted; empty: ByName.
	Order Order
	// Details asks for more than names.
	Details bool
	// Offset leaves out that many entries at the front, for paging; Limit
	// is the largest number returned, 0: all.
	Offset, Limit int
}

func (o *FindOptions) check(op string, wanted Select) error {
	o.Select = cmp.Or(o.Select, wanted)
	o.Order = cmp.Or(o.Order, ByName)
	switch {
	case o.Offset < 0 || o.Limit < 0:
		return workspace.Errorf(workspace.ErrInvalidArgument, op, o.Path, "the offset is %d and the limit %d; give positive ones, or 0", o.Offset, o.Limit)
	case !slices.Contains([]Select{Anything, Files, Directories}, o.Select):
		return workspace.Errorf(workspace.ErrInvalidArgument, op, o.Path, "select %q: choose any, file or directory", string(o.Select))
	case !slices.Contains([]Order{ByName, ByTime}, o.Order):
		return workspace.Errorf(workspace.ErrInvalidArgument, op, o.Path, "order %q: choose name or time", string(o.Order))
	}
	return o.Scope.check(op)
}

// Found is one page of entries.
type Found struct {
	Entries []Entry
	// Total is the number on all pages.
	Total int
	// More: entries follow behind this page.
	More bool
	// Incomplete: the tree has more entries than Scope.MaxEntries, and the
	// rest was not looked at.
	Incomplete bool
	Skipped    Skipped
}

// List lists a directory, and what lies below it, down to Scope.Depth.
func List(ctx context.Context, ws *workspace.Workspace, o FindOptions) (*Found, error) {
	if err := o.check("list", Anything); err != nil {
		return nil, err
	}
	return find(ctx, ws, "list", nil, o)
}

// Glob finds the entries whose path below Scope.Path matches the pattern. A
// pattern may begin with directories that are meant as they are spelled, and
// be absolute below the root of the workspace. When they are not there, that
// is an error and not "nothing found".
func Glob(ctx context.Context, ws *workspace.Workspace, pattern string, o FindOptions) (*Found, error) {
	if err := o.check("glob", Files); err != nil {
		return nil, err
	}
	base, rest := splitPattern(pattern)
	names, err := CompilePattern(rest)
	if err != nil {
		return nil, err
	}
	switch {
	case strings.HasPrefix(base, "/"):
		if o.Path != "." {
			return nil, workspace.Errorf(workspace.ErrInvalidArgument, "glob", o.Path, "the pattern is absolute; give it relative to the path, or no path")
		}
		o.Path = base
	case base != "":
		o.Path = joined(strings.TrimRight(o.Path, "/"), base)
	}
	return find(ctx, ws, "glob", names, o)
}

// splitPattern takes off the directories that a pattern begins with and that
// have no special characters.
func splitPattern(pattern string) (base, rest string) {
	for {
		i := strings.IndexByte(pattern[len(base):], '/')
		if i < 0 || strings.ContainsAny(pattern[len(base):len(base)+i], special) {
			break
		}
		base = pattern[:len(base)+i+1]
	}
	rest = pattern[len(base):]
	if rest == "" && base != "" {
		// "dir/" names the directory itself.
		trimmed := strings.TrimRight(base, "/")
		i := strings.LastIndexByte(trimmed, '/')
		return base[:i+1], trimmed[i+1:]
	}
	if len(base) > 1 {
		base = strings.TrimRight(base, "/")
	}
	return base, rest
}

// find is List with a pattern.
func find(ctx context.Context, ws *workspace.Workspace, op string, names *Pattern, o FindOptions) (*Found, error) {
	at, err := ws.Rel(o.Path)
	if err != nil {
		return nil, named(err, op, o.Path)
	}
	w := walk[Entry]{
		scope: o.Scope, names: names, batch: 1024,
		directories: o.Select != Files, irregular: o.Select != Directories,
		weigh: func(e Entry) int { return 128 + len(e.Path) },
	}
	w.visit = func(ctx context.Context, v *visit, entries []workspace.DirName, found []Entry) []Entry {
		for _, e := range entries {
			if o.Select == Directories && !e.Type.IsDir() {
				continue
			}
			f := Entry{Path: joined(v.path, e.Name), Kind: kindOf(e.Type)}
			if o.Order == ByTime {
				if fi, err := v.dir.Lstat(ctx, e.Name); err == nil {
					f.Modified = fi.ModTime()
				}
			}
			found = append(found, f)
		}
		return found
	}
	out := &Found{Entries: []Entry{}}
	keep := func(e Entry) {
		if o.Limit == 0 || len(out.Entries) < o.Limit {
			out.Entries = append(out.Entries, e)
		}
	}
	var all []Entry
	done, err := w.run(ctx, ws, at, func(e Entry) bool {
		out.Total++
		switch {
		case o.Order == ByTime:
			all = append(all, e)
		case out.Total > o.Offset:
			keep(e)
		}
		return true
	})
	if err != nil {
		return nil, named(err, op, o.Path)
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(b.Modified.Compare(a.Modified), strings.Compare(a.Path, b.Path))
	})
	for _, e := range all[min(o.Offset, len(all)):] {
		keep(e)
	}
	out.Skipped, out.Incomplete = done.skipped, done.incomplete
	out.More = min(o.Offset, out.Total)+len(out.Entries) < out.Total
	if o.Details {
		for i := range out.Entries {
			if err := out.Entries[i].describe(ctx, ws); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// describe fills in the details of an entry.
func (e *Entry) describe(ctx context.Context, ws *workspace.Workspace) error {
	fi, err := ws.Lstat(ctx, e.Path)
	if err != nil {
		// It has gone, or become part of a longer path than there can be.
		return ctx.Err()
	}
	e.Kind, e.Size, e.Mode, e.Modified = kindOf(fi.Mode()), fi.Size(), fi.Mode(), fi.ModTime()
	if e.Kind == Link {
		if e.Target, err = ws.ReadLink(ctx, e.Path); err != nil {
			return ctx.Err()
		}
	}
	return nil
}

// named gives an error the verb, and the path as the caller spelled it.
func named(err error, op, path string) error {
	if e, ok := err.(*workspace.Error); ok {
		same := *e
		same.Op, same.Path = op, path
		return &same
	}
	return err
}
