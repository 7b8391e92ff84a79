//go:build linux

package snapshot

import (
	"context"
	"errors"
	"io/fs"

	"github.com/wsctl/wsctl/workspace"
)

// Copy copies a snapshot, by its id or "latest", into another store, where it
// keeps its id. Only what the other does not have is copied, and that is checked
// on the way. A snapshot that is there already is a success.
func (s *Store) Copy(ctx context.Context, id string, to *Store) (workspace.Snapshot, error) {
	snap, err := s.copy(ctx, id, to)
	return snap, asError("copy snapshot", "", err)
}

func (s *Store) copy(ctx context.Context, id string, to *Store) (workspace.Snapshot, error) {
	from, err := s.shared(ctx)
	if err != nil {
		return workspace.Snapshot{}, err
	}
	defer from.end()
	rec, err := s.record(ctx, id)
	if err != nil {
		return workspace.Snapshot{}, err
	}
	in, err := to.shared(ctx)
	if err != nil {
		return workspace.Snapshot{}, err
	}
	defer in.end()
	if there, err := to.readRecord(rec.ID); err == nil {
		return there.Snapshot, nil
	}
	c := copying{ctx: ctx, from: from, sink: in.newPacker()}
	defer c.sink.discard()
	if err := c.directory(".", rec.top.Sum); err != nil {
		return workspace.Snapshot{}, err
	}
	if err := c.sink.finish(); err != nil {
		return workspace.Snapshot{}, err
	}
	if err := to.writeRecord(&rec); err != nil && !errors.Is(err, fs.ErrExist) {
		return workspace.Snapshot{}, err
	}
	return rec.Snapshot, nil
}

// copying copies objects from one store to another.
type copying struct {
	ctx  context.Context //nolint:containedctx // the life of one copy
	from *session
	sink *packer
}

// directory copies what a directory needs, and its listing last.
func (c *copying) directory(path string, sum Sum) error {
	entries, err := c.from.listing(sum)
	if err != nil {
		return asError("", path, err)
	}
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Mode.IsDir():
			err = c.directory(join(path, e.Name), e.Sum)
		case e.Mode.IsRegular():
			err = c.object(join(path, e.Name), e.Sum)
		}
		if err != nil {
			return err
		}
	}
	return c.object(path, sum)
}

func (c *copying) object(path string, sum Sum) error {
	if !c.sink.claim(sum) {
		return nil
	}
	err := c.from.check(c.ctx, sum)
	if err == nil {
		f, o, findErr := c.from.locate(sum)
		if err = findErr; err == nil {
			err = c.sink.copy(f, o)
		}
	}
	return asError("", path, err)
}
