//go:build linux

package snapshot

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// Retention says which snapshots are too many. Each bound that is set removes
// those beyond it; the newest snapshot always stays.
type Retention struct {
	// KeepLast is how many of the newest stay; 0: no bound.
	KeepLast int `json:"keepLast,omitempty"`
	// MaxAge removes older ones; 0: no bound.
	MaxAge time.Duration `json:"maxAgeNs,omitempty"`
	// MaxBytes removes the oldest until the rest needs at most so much room
	// in the store; 0: no bound.
	MaxBytes int64 `json:"maxBytes,omitempty"`
	// KeepLabel is a glob (path.Match) of labels that always stay.
	KeepLabel string `json:"keepLabel,omitempty"`
}

// PruneOptions say what Prune removes.
type PruneOptions struct {
	Retention
	// Label removes none but those whose label it matches (path.Match);
	// without another bound it removes all of them. Empty: whatever label.
	Label string
	// DryRun tells what would be removed.
	DryRun bool
}

// Pruned is what Prune removed, or with DryRun would remove.
type Pruned struct {
	// Removed are the snapshots, the newest first.
	Removed []workspace.Snapshot `json:"removed"`
	// Freed is what the store's files have become smaller by, in bytes; of a
	// dry run, what no other snapshot needs.
	Freed int64 `json:"freed"`
}

// Delete removes snapshots and frees what no other one needs. An id that is not
// there is NOT_FOUND, and nothing is removed then.
func (s *Store) Delete(ctx context.Context, ids ...string) error {
	const op = "delete snapshot"
	in, err := s.exclusive(ctx)
	if err != nil {
		return err
	}
	defer in.end()
	names, _, err := s.snaps.names()
	if err != nil {
		return asError(op, "", err)
	}
	doomed := make([]string, 0, len(ids))
	for _, id := range ids {
		if id == Latest {
			r, err := s.record(ctx, id)
			if err != nil {
				return asError(op, "", err)
			}
			id = r.ID
		}
		if !idPattern.MatchString(id) || !slices.Contains(names, id) {
			return asError(op, "", errNoSnapshot(id))
		}
		doomed = append(doomed, id)
	}
	_, err = s.forget(ctx, in, doomed, false)
	return asError(op, "", err)
}

// Prune removes the snapshots that the options say, and frees what no other one
// needs.
func (s *Store) Prune(ctx context.Context, o PruneOptions) (Pruned, error) {
	p, err := s.prune(ctx, o.Retention, pruning{label: o.Label, dry: o.DryRun})
	return p, asError("prune snapshots", "", err)
}

// pruning says how a retention is applied.
type pruning struct {
	label string
	dry   bool
	// lazy leaves a little waste rather than write much anew.
	lazy bool
	// spare is a snapshot that stays.
	spare string
}

func (s *Store) prune(ctx context.Context, keep Retention, how pruning) (Pruned, error) {
	for _, pattern := range []string{keep.KeepLabel, how.label} {
		if _, err := path.Match(pattern, ""); err != nil {
			return Pruned{}, workspace.Errorf(workspace.ErrInvalidArgument, "", "", "the label %q is no pattern", pattern)
		}
	}
	if keep.KeepLast < 0 || keep.MaxAge < 0 || keep.MaxBytes < 0 {
		return Pruned{}, workspace.Errorf(workspace.ErrInvalidArgument, "", "", "a bound is negative; give a positive one, or 0 for none")
	}
	if how.lazy && keep.MaxBytes == 0 && !s.tooMany(ctx, keep, how) {
		return Pruned{}, nil
	}
	begin := s.exclusive
	if how.dry {
		begin = s.shared
	}
	in, err := begin(ctx)
	if err != nil {
		return Pruned{}, err
	}
	defer in.end()
	records, _, err := s.records(ctx)
	if err != nil {
		return Pruned{}, err
	}
	doomed, err := choose(ctx, in, records, keep, how)
	if err != nil {
		return Pruned{}, err
	}
	p := Pruned{Removed: []workspace.Snapshot{}}
	var ids []string
	for _, r := range records {
		if doomed[r.ID] {
			p.Removed = append(p.Removed, r.Snapshot)
			ids = append(ids, r.ID)
		}
	}
	if how.dry {
		p.Freed, err = wouldFree(ctx, in, records, doomed)
		return p, err
	}
	p.Freed, err = s.forget(ctx, in, ids, how.lazy)
	return p, err
}

// tooMany is a look without the lock, so that a save usually need not wait for
// it.
func (s *Store) tooMany(ctx context.Context, keep Retention, how pruning) bool {
	records, _, err := s.records(ctx)
	if err != nil {
		return true
	}
	doomed, err := choose(ctx, nil, records, keep, how)
	return err != nil || len(doomed) > 0
}

// choose picks the snapshots that the bounds exclude.
func choose(ctx context.Context, in *session, records []record, keep Retention, how pruning) (map[string]bool, error) {
	doomed := map[string]bool{}
	bounded := keep.KeepLast > 0 || keep.MaxAge > 0 || keep.MaxBytes > 0
	needed := newReachable(in)
	rank, now := 0, time.Now()
	for i := range records {
		r := &records[i]
		if how.label != "" && !matches(how.label, r.Label) {
			continue
		}
		stays := r.ID == how.spare || keep.KeepLabel != "" && matches(keep.KeepLabel, r.Label)
		if bounded && rank == 0 {
			stays = true
		}
		rank++
		remove := !bounded && how.label != "" ||
			keep.KeepLast > 0 && rank > keep.KeepLast ||
			keep.MaxAge > 0 && now.Sub(r.Created) > keep.MaxAge
		if keep.MaxBytes > 0 && (stays || !remove) {
			if err := needed.add(ctx, r.top.Sum); err != nil && !isCorrupt(err) {
				return nil, err
			}
			remove = remove || needed.bytes > keep.MaxBytes
		}
		if remove && !stays {
			doomed[r.ID] = true
		}
	}
	return doomed, nil
}

func matches(pattern, label string) bool {
	ok, err := path.Match(pattern, label)
	return ok && err == nil
}

// wouldFree is what the doomed snapshots need and no other one does.
func wouldFree(ctx context.Context, in *session, records []record, doomed map[string]bool) (int64, error) {
	all, rest := newReachable(in), newReachable(in)
	for _, r := range records {
		if err := all.add(ctx, r.top.Sum); err != nil {
			return 0, err
		}
		if !doomed[r.ID] {
			if err := rest.add(ctx, r.top.Sum); err != nil {
				return 0, err
			}
		}
	}
	return all.bytes - rest.bytes, nil
}

// forget removes records, and then what no other one needs. A crash after the
// first leaves objects that nobody needs, which the next one frees.
func (s *Store) forget(ctx context.Context, in *session, ids []string, lazy bool) (freed int64, err error) {
	if err := s.removeTemporary(); err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := s.snaps.remove(id); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
	}
	if err := s.snaps.sync(); err != nil {
		return 0, err
	}
	return s.sweep(ctx, in, lazy)
}

// removeTemporary removes what crashed processes left: nobody else is at work
// while the lock is held exclusively.
func (s *Store) removeTemporary() error {
	for _, d := range []directory{s.dir, s.packs, s.snaps} {
		_, temporary, err := d.names()
		if err != nil {
			return err
		}
		for _, name := range temporary {
			if err := d.remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
