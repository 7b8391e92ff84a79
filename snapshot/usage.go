//go:build linux

package snapshot

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// Usage is what a store takes.
type Usage struct {
	// Bytes is the length of all its files.
	Bytes int64 `json:"bytes"`
	// Objects counts contents and listings, Raw what they would take
	// uncompressed.
	Objects int   `json:"objects"`
	Raw     int64 `json:"raw"`
	// Unneeded is what no snapshot needs and the next prune frees.
	Unneeded  int64           `json:"unneeded"`
	Snapshots []SnapshotUsage `json:"snapshots"`
}

// SnapshotUsage is what one snapshot takes.
type SnapshotUsage struct {
	workspace.Snapshot
	// Own is what nobody else needs, so what deleting it frees; Shared what
	// others need too. Both as stored.
	Own    int64 `json:"own"`
	Shared int64 `json:"shared"`
}

// Usage measures the store, the newest snapshot first.
func (s *Store) Usage(ctx context.Context) (Usage, error) {
	const op = "measure snapshots"
	u := Usage{Snapshots: []SnapshotUsage{}}
	in, err := s.shared(ctx)
	if err != nil {
		return u, err
	}
	defer in.end()
	records, _, err := s.records(ctx)
	if err != nil {
		return u, asError(op, "", err)
	}
	if u.Bytes, err = s.length(); err != nil {
		return u, asError(op, "", err)
	}
	// owners says which snapshot needs an object, or that several do.
	owners := map[Sum]int{}
	totals := make([]int64, len(records))
	for i := range records {
		r := newReachable(in)
		if err := r.add(ctx, records[i].top.Sum); err != nil {
			return u, asError(op, "", err)
		}
		totals[i] = r.bytes
		for sum := range r.sums {
			if _, ok := owners[sum]; ok {
				owners[sum] = severalOwners
			} else {
				owners[sum] = i
			}
		}
	}
	own := make([]int64, len(records))
	s.known.mu.RLock()
	defer s.known.mu.RUnlock()
	for sum, at := range s.known.objects {
		u.Objects++
		u.Raw += at.raw
		switch i, needed := owners[sum]; {
		case !needed:
			u.Unneeded += at.cost()
		case i != severalOwners:
			own[i] += at.cost()
		}
	}
	for i := range records {
		u.Snapshots = append(u.Snapshots, SnapshotUsage{records[i].Snapshot, own[i], totals[i] - own[i]})
	}
	return u, nil
}

const severalOwners = -1

// length is that of all files of the store.
func (s *Store) length() (int64, error) {
	total := int64(0)
	for _, d := range []directory{s.dir, s.packs, s.snaps} {
		names, temporary, err := d.names()
		if err != nil {
			return 0, err
		}
		for _, name := range append(names, temporary...) {
			var st unix.Stat_t
			err := unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
			if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
				total += st.Size
			}
			if err != nil && err != unix.ENOENT {
				return 0, err
			}
		}
	}
	return total, nil
}
