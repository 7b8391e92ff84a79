//go:build linux

package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// Store is a directory of snapshots, of one root. Its methods may be called by
// many goroutines, and by many processes over one directory, at once.
type Store struct {
	name   string
	header header
	dir    directory
	packs  directory
	snaps  directory
	codec  *codec
	known  known
}

const (
	headerName = "store.json"
	packsName  = "packs"
	snapsName  = "snapshots"
	indexName  = "index"
	// format and version are what a store says of itself.
	format  = "wsctl snapshot store"
	version = 1
)

// header tells what a store is, and whose.
type header struct {
	Format  string    `json:"format"`
	Version int       `json:"version"`
	Created time.Time `json:"created"`
	// WorkspaceID, Root (the root's real path), Dev and Ino tell whose
	// snapshots these are.
	WorkspaceID string `json:"workspaceId"`
	Root        string `json:"root"`
	Dev         uint64 `json:"dev"`
	Ino         uint64 `json:"ino"`
}

// Place says where a root's store is. The zero value is in the root itself:
// .wsctl/snapshots.
type Place struct {
	// Dir is the store's own directory.
	Dir string
	// Beside is a directory of stores, in which each workspace has one by
	// its id; usually "wsctl/snapshots" in the user's state directory.
	Beside string
	// Adopt takes over a store that belongs to another root. Without it one
	// in Dir, or in the root, is CONFLICT; Beside has another one for each.
	Adopt bool
}

// Open opens the store of a root, and makes it when there is none.
//
// The id of a workspace lies in its root, where it can be copied along with
// everything else. So a store knows its root by path and by device and inode as
// well, and only a root that has the id and one of the two gets it.
func Open(root *host.Root, at Place) (*Store, error) {
	const op = "open snapshots"
	if at.Dir != "" && at.Beside != "" {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "both Dir and Beside are given; use one")
	}
	id, err := root.ID()
	if err != nil {
		return nil, err
	}
	dev, ino := root.Identity()
	want := header{Format: format, Version: version, Created: time.Now().UTC(), WorkspaceID: id, Root: root.Real(), Dev: dev, Ino: ino}
	if at.Beside != "" {
		return openBeside(at.Beside, want)
	}
	name, hold := at.Dir, func() (directory, error) { return openDirectory(at.Dir) }
	if at.Dir == "" {
		name = filepath.Join(root.Real(), host.StateName, snapsName)
		hold = func() (directory, error) {
			state, err := root.State()
			if err != nil {
				return directory{}, err
			}
			defer state.Close()
			held, err := holdDirectory(int(state.Fd()), ".", 0)
			if err != nil {
				return held, err
			}
			defer held.close()
			return held.sub(snapsName)
		}
	}
	s, err := openStore(name, hold, want)
	if err != nil {
		return nil, asError(op, name, err)
	}
	if !s.header.belongs(want) {
		if !at.Adopt {
			s.Close()
			return nil, workspace.Errorf(workspace.ErrConflict, op, name,
				"the snapshot store belongs to the workspace at %s; use another directory, or adopt it", workspace.Printable(s.header.Root))
		}
		s.header.WorkspaceID = id
	}
	if err := s.bind(want); err != nil {
		s.Close()
		return nil, asError(op, name, err)
	}
	return s, nil
}

// maxBeside bounds how many roots with one id are told apart.
const maxBeside = 1000

// openBeside opens the store for a root among the stores of all roots that have
// or had its id.
func openBeside(dir string, want header) (*Store, error) {
	const op = "open snapshots"
	for n := 1; n <= maxBeside; n++ {
		name := filepath.Join(dir, want.WorkspaceID)
		if n > 1 {
			name = fmt.Sprintf("%s-%d", name, n)
		}
		s, err := openStore(name, func() (directory, error) { return openDirectory(name) }, want)
		if err != nil {
			return nil, asError(op, name, err)
		}
		if s.header.belongs(want) {
			if err := s.bind(want); err != nil {
				s.Close()
				return nil, asError(op, name, err)
			}
			return s, nil
		}
		s.Close()
	}
	return nil, workspace.Errorf(workspace.ErrTooMany, op, dir, "%d other directories have this workspace's id; remove %s/id in this one for a new id", maxBeside, host.StateName)
}

// belongs reports whether the store is that of the root that want describes: it
// has its id, and lies where it lay, or is the same directory in another place.
func (h header) belongs(want header) bool {
	return h.WorkspaceID == want.WorkspaceID && (h.Root == want.Root || h.Dev == want.Dev && h.Ino == want.Ino)
}

// bind records where the root is now.
func (s *Store) bind(want header) error {
	h := s.header
	h.WorkspaceID, h.Root, h.Dev, h.Ino = want.WorkspaceID, want.Root, want.Dev, want.Ino
	if h == s.header {
		return nil
	}
	s.header = h
	return s.dir.publish(headerName, publishing{sync: true}, text(h.encode()))
}

func (h header) encode() []byte {
	b, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		panic(err) // plain fields
	}
	return append(b, '\n')
}

// openStore opens a store, and makes it for the root that fresh describes when
// there is none.
func openStore(name string, hold func() (directory, error), fresh header) (*Store, error) {
	s := &Store{name: name, codec: newCodec(), dir: directory{fd: -1}, packs: directory{fd: -1}, snaps: directory{fd: -1}}
	err := s.open(hold, fresh)
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) open(hold func() (directory, error), fresh header) (err error) {
	if s.dir, err = hold(); err != nil {
		return err
	}
	b, err := s.dir.read(headerName, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		if err = s.checkEmpty(); err != nil {
			return err
		}
		// Another process may be first; then its header holds.
		if err = s.dir.publish(headerName, publishing{fresh: true, sync: true}, text(fresh.encode())); err == nil || errors.Is(err, fs.ErrExist) {
			b, err = s.dir.read(headerName, 1<<20)
		}
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &s.header); err != nil || s.header.Format != format {
		return workspace.Errorf(workspace.ErrCorrupt, "", "", "%s is damaged or of another program; use another directory", headerName)
	}
	if s.header.Version != version {
		return workspace.Errorf(workspace.ErrUnsupported, "", "", "the store is of version %d and this program knows version %d; use a newer one", s.header.Version, version)
	}
	if s.packs, err = s.dir.sub(packsName); err != nil {
		return err
	}
	s.snaps, err = s.dir.sub(snapsName)
	return err
}

// checkEmpty keeps a store from being made among other files.
func (s *Store) checkEmpty() error {
	names, _, err := s.dir.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		switch name {
		case headerName, packsName, snapsName, lockName, indexName:
		default:
			return workspace.Errorf(workspace.ErrNotEmpty, "", "", "the directory is no snapshot store and holds %s; use an empty one", workspace.Printable(name))
		}
	}
	return nil
}

// Name is the store's directory.
func (s *Store) Name() string { return s.name }

// Close lets the directory go. No call may be under way.
func (s *Store) Close() {
	for _, d := range []*directory{&s.dir, &s.packs, &s.snaps} {
		if d.fd >= 0 {
			d.close()
			d.fd = -1
		}
	}
}

// List returns the snapshots, the newest first. Those whose record is damaged
// are left out; Verify names them.
func (s *Store) List(ctx context.Context) ([]workspace.Snapshot, error) {
	records, _, err := s.records(ctx)
	if err != nil {
		return nil, asError("list snapshots", "", err)
	}
	list := make([]workspace.Snapshot, len(records))
	for i := range records {
		list[i] = records[i].Snapshot
	}
	return list, nil
}

// Get returns one snapshot: by its id, or "latest".
func (s *Store) Get(ctx context.Context, id string) (workspace.Snapshot, error) {
	r, err := s.record(ctx, id)
	return r.Snapshot, asError("show snapshot", "", err)
}

// Latest names the newest snapshot.
const Latest = "latest"

var idPattern = regexp.MustCompile(`^[0-9]{8}t[0-9]{6}-[0-9a-f]{16}$`)

// newID names a snapshot; names sort by time.
func newID(at time.Time) string { return at.UTC().Format("20060102t150405") + "-" + randomID() }
