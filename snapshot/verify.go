//go:build linux

package snapshot

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/wsctl/wsctl/workspace"
)

// Verified is what a check of the whole store has found.
type Verified struct {
	// Snapshots, Objects and Bytes count what was read.
	Snapshots int   `json:"snapshots"`
	Objects   int   `json:"objects"`
	Bytes     int64 `json:"bytes"`
	// Problems are what is damaged; none: the store is whole.
	Problems []Problem `json:"problems"`
}

// Problem is something in a store that is damaged.
type Problem struct {
	// Snapshot is one that needs it; empty: none does.
	Snapshot string `json:"snapshot,omitempty"`
	// Path is the file or directory in it that cannot be read; for a
	// directory, all that is below it.
	Path   string `json:"path,omitempty"`
	Reason string `json:"reason"`
}

// Verify reads everything that snapshots need. The error is of a check that
// could not be made; what is damaged is no error.
func (s *Store) Verify(ctx context.Context) (Verified, error) {
	const op = "verify snapshots"
	v := Verified{Problems: []Problem{}}
	in, err := s.shared(ctx)
	if err != nil {
		return v, err
	}
	defer in.end()
	records, damaged, err := s.records(ctx)
	if err != nil {
		return v, asError(op, "", err)
	}
	for _, id := range damaged {
		v.Problems = append(v.Problems, Problem{Snapshot: id, Reason: "the record is damaged"})
	}
	for name := range s.damagedPacks() {
		v.Problems = append(v.Problems, Problem{Reason: "the table of packs/" + name + " is damaged"})
	}
	c := &checking{in: in, v: &v, seen: map[Sum]string{}}
	g, reading := errgroup.WithContext(ctx)
	g.SetLimit(workers())
	for i := range records {
		v.Snapshots++
		if err := c.directory(reading, g, records[i].ID, ".", records[i].top.Sum); err != nil {
			return v, asError(op, "", err)
		}
	}
	if err := g.Wait(); err != nil {
		return v, asError(op, "", err)
	}
	// The other snapshots that need what is damaged.
	for i := range records {
		if err := c.name(ctx, records[i].ID, ".", records[i].top.Sum); err != nil {
			return v, asError(op, "", err)
		}
	}
	return v, nil
}

func (s *Store) damagedPacks() map[string]bool {
	s.known.mu.RLock()
	defer s.known.mu.RUnlock()
	names := map[string]bool{}
	for name := range s.known.damaged {
		names[name] = true
	}
	return names
}

// checking reads each object once.
type checking struct {
	in *session

	mu   sync.Mutex
	v    *Verified
	seen map[Sum]string // what is wrong with it; "": nothing
}

// first reports whether nobody has come by the object before.
func (c *checking) first(sum Sum) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.seen[sum]; ok {
		return false
	}
	c.seen[sum] = ""
	return true
}

// result notes how the reading of an object went; an error is one that is not
// about the object.
func (c *checking) result(sum Sum, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && !isCorrupt(err) {
		return err
	}
	c.v.Objects++
	if at, ok := c.in.find(sum); ok {
		c.v.Bytes += at.raw
	}
	if err != nil {
		c.seen[sum] = workspace.Printable(reason(err).Error())
	}
	return nil
}

func (c *checking) directory(ctx context.Context, g *errgroup.Group, id, path string, sum Sum) error {
	if !c.first(sum) {
		return nil
	}
	entries, err := c.in.listing(sum)
	if err := c.result(sum, err); err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case e.Mode.IsDir():
			if err := c.directory(ctx, g, id, join(path, e.Name), e.Sum); err != nil {
				return err
			}
		case e.Mode.IsRegular() && c.first(e.Sum):
			g.Go(func() error { return c.result(e.Sum, c.in.check(ctx, e.Sum)) })
		}
	}
	return ctx.Err()
}

// name names what is damaged in one snapshot.
func (c *checking) name(ctx context.Context, id, path string, sum Sum) error {
	any := false
	for _, why := range c.seen {
		any = any || why != ""
	}
	if !any {
		return nil
	}
	return c.nameBelow(ctx, id, path, sum)
}

func (c *checking) nameBelow(ctx context.Context, id, path string, sum Sum) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if why := c.seen[sum]; why != "" {
		c.v.Problems = append(c.v.Problems, Problem{Snapshot: id, Path: path, Reason: why})
		return nil
	}
	entries, err := c.in.listing(sum)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch {
		case e.Mode.IsDir():
			if err := c.nameBelow(ctx, id, join(path, e.Name), e.Sum); err != nil {
				return err
			}
		case e.Mode.IsRegular() && c.seen[e.Sum] != "":
			c.v.Problems = append(c.v.Problems, Problem{Snapshot: id, Path: join(path, e.Name), Reason: c.seen[e.Sum]})
		}
	}
	return nil
}
