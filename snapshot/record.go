//go:build linux

package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"

	"github.com/wsctl/wsctl/workspace"
)

// record is a snapshot as it lies in the store: JSON, and after it a line with
// the SHA-256 of that.
type record struct {
	workspace.Snapshot
	// Top is the root directory: its permission bits, its time, the sum of
	// its listing.
	Top struct {
		Perm     fs.FileMode `json:"perm"`
		Modified int64       `json:"modified"`
		Listing  string      `json:"listing"`
	} `json:"top"`

	top Entry
}

// maxRecord bounds a record, whose lists of skipped entries can be long.
const maxRecord = 256 << 20

func (r *record) encode() ([]byte, error) {
	r.Top.Perm, r.Top.Modified, r.Top.Listing = r.top.Mode.Perm(), r.top.Modified, r.top.Sum.String()
	b, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	return append(b, sumOf(b).String()+"\n"...), nil
}

func parseRecord(id string, b []byte) (r record, err error) {
	wrong := workspace.Errorf(workspace.ErrCorrupt, "", "", "the record of snapshot %s is damaged; delete the snapshot", id)
	text, check, found := bytes.Cut(b, []byte("\n"))
	if !found || sumOf(b[:len(text)+1]).String()+"\n" != string(check) {
		return r, wrong
	}
	if err := json.Unmarshal(text, &r); err != nil || r.ID != id {
		return r, wrong
	}
	r.top = Entry{Mode: fs.ModeDir | r.Top.Perm.Perm(), Modified: r.Top.Modified}
	if r.top.Sum, err = parseSum(r.Top.Listing); err != nil {
		return r, wrong
	}
	return r, nil
}

// readRecord reads the record of a snapshot; NOT_FOUND when there is none.
func (s *Store) readRecord(id string) (record, error) {
	if !idPattern.MatchString(id) {
		return record{}, errNoSnapshot(id)
	}
	b, err := s.snaps.read(id, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, errNoSnapshot(id)
	}
	if err != nil {
		return record{}, err
	}
	return parseRecord(id, b)
}

func errNoSnapshot(id string) error {
	return workspace.Errorf(workspace.ErrNotFound, "", "", "there is no snapshot %s; list them", workspace.Printable(id))
}

// record is the record of the snapshot that id names.
func (s *Store) record(ctx context.Context, id string) (record, error) {
	if id != Latest {
		return s.readRecord(id)
	}
	records, _, err := s.records(ctx)
	if err != nil {
		return record{}, err
	}
	for _, r := range records {
		if !r.Backup {
			return r, nil
		}
	}
	return record{}, workspace.Errorf(workspace.ErrNotFound, "", "", "there is no snapshot yet")
}

// records reads all records, the newest first; damaged are the ids of those
// that cannot be read.
func (s *Store) records(ctx context.Context) (records []record, damaged []string, err error) {
	names, _, err := s.snaps.names()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		r, err := s.readRecord(name)
		switch {
		case err == nil:
			records = append(records, r)
		case isCorrupt(err):
			damaged = append(damaged, name)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, nil, err
		}
	}
	slices.SortStableFunc(records, func(a, b record) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID))
	})
	return records, damaged, nil
}

// writeRecord makes a snapshot part of the store, durably, and after the names
// of the packs that it needs.
func (s *Store) writeRecord(r *record) error {
	b, err := r.encode()
	if err != nil {
		return err
	}
	return s.snaps.publish(r.ID, publishing{fresh: true, sync: true, before: s.packs.sync}, text(b))
}
