//go:build linux

package snapshot

import "context"

// reachable gathers what snapshots need.
type reachable struct {
	in   *session
	sums map[Sum]bool
	// bytes is what the objects take in the store.
	bytes int64
}

func newReachable(in *session) *reachable { return &reachable{in: in, sums: map[Sum]bool{}} }

// add adds everything that a directory needs. A listing that is damaged hides
// what it needs: CORRUPT.
func (r *reachable) add(ctx context.Context, dir Sum) error {
	if r.sums[dir] {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := r.in.listing(dir)
	if err != nil {
		return err
	}
	r.one(dir)
	for i := range entries {
		e := &entries[i]
		switch {
		case e.Mode.IsDir():
			if err := r.add(ctx, e.Sum); err != nil {
				return err
			}
		case e.Mode.IsRegular():
			r.one(e.Sum)
		}
	}
	return nil
}

func (r *reachable) one(sum Sum) {
	if r.sums[sum] {
		return
	}
	r.sums[sum] = true
	if at, ok := r.in.find(sum); ok {
		r.bytes += at.cost()
	}
}

// cost is what an object takes in the store, its row in the table included.
func (at location) cost() int64 { return at.stored + headSize + int64(len(Sum{})) + 8 }
