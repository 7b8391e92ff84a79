//go:build linux

package snapshot

import (
	"context"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

// Tree reads what one snapshot holds. Nothing of it is deleted before Close. Its
// methods may be called by many goroutines at once.
type Tree struct {
	in  *session
	rec record
}

// Tree opens a snapshot, by its id or "latest", for reading.
func (s *Store) Tree(ctx context.Context, id string) (*Tree, error) {
	const op = "read snapshot"
	in, err := s.shared(ctx)
	if err != nil {
		return nil, err
	}
	rec, err := s.record(ctx, id)
	if err != nil {
		in.end()
		return nil, asError(op, "", err)
	}
	return &Tree{in, rec}, nil
}

// Close lets the snapshot go; readers that were opened may not be used after.
func (t *Tree) Close() { t.in.end() }

// Snapshot describes it.
func (t *Tree) Snapshot() workspace.Snapshot { return t.rec.Snapshot }

// Top is the root directory; it has no name.
func (t *Tree) Top() Entry { return t.rec.top }

// ReadDir lists a directory of the snapshot, sorted by name. CORRUPT when its
// listing is damaged.
func (t *Tree) ReadDir(ctx context.Context, dir Entry) ([]Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, asError("read snapshot", dir.Name, err)
	}
	entries, err := t.in.listing(dir.Sum)
	return entries, asError("read snapshot", dir.Name, err)
}

// Open reads the content of a file of the snapshot. What is read is what was
// saved only once Read has answered io.EOF; else it answers CORRUPT.
func (t *Tree) Open(ctx context.Context, file Entry) (io.ReadCloser, error) {
	if err := ctx.Err(); err != nil {
		return nil, asError("read snapshot", file.Name, err)
	}
	r, err := t.in.content(file.Sum)
	return r, asError("read snapshot", file.Name, err)
}

// Lookup is the entry at a path below the root; NOT_FOUND when there is none.
func (t *Tree) Lookup(ctx context.Context, path string) (Entry, error) {
	at := t.rec.top
	if path == "." {
		return at, nil
	}
	for part := range strings.SplitSeq(path, "/") {
		if !at.Mode.IsDir() {
			return Entry{}, errNotThere(path)
		}
		entries, err := t.ReadDir(ctx, at)
		if err != nil {
			return Entry{}, err
		}
		i, ok := slices.BinarySearchFunc(entries, part, func(e Entry, name string) int { return strings.Compare(e.Name, name) })
		if !ok {
			return Entry{}, errNotThere(path)
		}
		at = entries[i]
	}
	return at, nil
}

func errNotThere(path string) error {
	return workspace.Errorf(workspace.ErrNotFound, "read snapshot", path, "the snapshot has no such file or directory")
}

// Walk calls visit for every entry below the root, a directory before what is
// in it, sorted by name in each. fs.SkipDir leaves out a directory.
func (t *Tree) Walk(ctx context.Context, visit func(path string, e Entry) error) error {
	return t.walk(ctx, ".", t.rec.top, visit)
}

func (t *Tree) walk(ctx context.Context, dir string, e Entry, visit func(string, Entry) error) error {
	if err := ctx.Err(); err != nil {
		return asError("read snapshot", dir, err)
	}
	entries, err := t.in.listing(e.Sum)
	if err != nil {
		return asError("read snapshot", dir, err)
	}
	for _, c := range entries {
		path := join(dir, c.Name)
		err := visit(path, c)
		if err == fs.SkipDir && c.Mode.IsDir() {
			continue
		}
		if err == nil && c.Mode.IsDir() {
			err = t.walk(ctx, path, c, visit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
