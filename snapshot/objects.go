//go:build linux

package snapshot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// location is where an object lies.
type location struct {
	pack        uint32 // of Store.names
	flags       byte
	off         int64
	stored, raw int64
}

// known is what a Store knows of its packs. Packs never change, so it is brought
// up to date by their names alone.
type known struct {
	mu      sync.RWMutex
	objects map[Sum]location
	names   []string // of packs
	packs   map[string]uint32
	damaged map[string]bool // packs whose table could not be read
}

// refresh learns of packs that came, and forgets those that went.
func (s *Store) refresh() error {
	names, _, err := s.packs.names()
	if err != nil {
		return err
	}
	k := &s.known
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.objects == nil {
		k.objects, k.packs, k.damaged = map[Sum]location{}, map[string]uint32{}, map[string]bool{}
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		there[name] = true
	}
	for name := range k.packs {
		if !there[name] {
			// What it held may by now be in another one that is known.
			k.objects, k.names, k.packs, k.damaged = map[Sum]location{}, nil, map[string]uint32{}, map[string]bool{}
			break
		}
	}
	for _, name := range names {
		if _, ok := k.packs[name]; ok {
			continue
		}
		objects, intact, err := s.readPack(name)
		if err != nil && !isCorrupt(err) {
			return err
		}
		s.learnLocked(name, objects)
		if !intact {
			k.damaged[name] = true
		}
	}
	return nil
}

func (s *Store) readPack(name string) ([]object, bool, error) {
	f, err := s.packs.open(name)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	return readTable(s.codec, f)
}

// learn adds a pack to what is known.
func (s *Store) learn(name string, objects []object) {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	s.learnLocked(name, objects)
}

func (s *Store) learnLocked(name string, objects []object) {
	k := &s.known
	if _, ok := k.packs[name]; ok {
		return
	}
	pack := uint32(len(k.names))
	k.names = append(k.names, name)
	k.packs[name] = pack
	for _, o := range objects {
		if _, ok := k.objects[o.sum]; !ok {
			k.objects[o.sum] = location{pack, o.flags, o.off, o.stored, o.raw}
		}
	}
}

// session is a use of a store's objects under its lock.
type session struct {
	store *Store
	lock  *os.File

	mu   sync.Mutex
	open map[uint32]*os.File
}

// openPacks is how many packs a session has open at once.
const openPacks = 64

// shared begins a use that adds and reads; any number go on at once.
func (s *Store) shared(ctx context.Context) (*session, error) { return s.begin(ctx, unix.LOCK_SH) }

// exclusive begins a use that deletes.
func (s *Store) exclusive(ctx context.Context) (*session, error) { return s.begin(ctx, unix.LOCK_EX) }

// exclusiveNow is exclusive, but BUSY when anybody else uses the store.
func (s *Store) exclusiveNow(ctx context.Context) (*session, error) {
	return s.begin(ctx, unix.LOCK_EX|unix.LOCK_NB)
}

func (s *Store) begin(ctx context.Context, how int) (*session, error) {
	lock, err := s.lock(ctx, how)
	if err != nil {
		return nil, asError("lock", "", err)
	}
	if err := s.refresh(); err != nil {
		lock.Close()
		return nil, asError("open", "", err)
	}
	return &session{store: s, lock: lock, open: map[uint32]*os.File{}}, nil
}

// end gives the lock back.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.open {
		f.Close()
	}
	s.open = nil
	s.lock.Close()
}

func (s *session) find(sum Sum) (location, bool) {
	k := &s.store.known
	k.mu.RLock()
	defer k.mu.RUnlock()
	at, ok := k.objects[sum]
	return at, ok
}

func (s *session) has(sum Sum) bool {
	_, ok := s.find(sum)
	return ok
}

func (s *session) packName(i uint32) string {
	s.store.known.mu.RLock()
	defer s.store.known.mu.RUnlock()
	return s.store.known.names[i]
}

// pack opens a pack, or finds it open.
func (s *session) pack(i uint32) (*os.File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.open[i]; f != nil {
		return f, nil
	}
	f, err := s.store.packs.open(s.packName(i))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = damaged(err)
		}
		return nil, err
	}
	if len(s.open) >= openPacks {
		// Others may be reading from one of them; the last user's
		// reference closes it.
		clear(s.open)
	}
	s.open[i] = f
	return f, nil
}

// locate is where an object is to be read from.
func (s *session) locate(sum Sum) (*os.File, object, error) {
	at, ok := s.find(sum)
	if !ok {
		return nil, object{}, workspace.Errorf(workspace.ErrCorrupt, "", "", "object %s is missing from the snapshot store", sum)
	}
	f, err := s.pack(at.pack)
	return f, object{sum: sum, flags: at.flags, off: at.off, stored: at.stored, raw: at.raw}, err
}

// content opens an object for reading; CORRUPT when it is not what was stored,
// at the latest in the stead of io.EOF.
func (s *session) content(sum Sum) (io.ReadCloser, error) {
	f, o, err := s.locate(sum)
	if err != nil {
		return nil, err
	}
	r, err := s.store.codec.open(f, o)
	if err != nil {
		return nil, s.inPack(err, sum)
	}
	return r, nil
}

// whole reads an object into memory.
func (s *session) whole(sum Sum) ([]byte, error) {
	f, o, err := s.locate(sum)
	if err != nil {
		return nil, err
	}
	if o.raw <= wholeObject {
		b, err := s.store.codec.whole(f, o)
		return b, s.inPack(err, sum)
	}
	r, err := s.store.codec.stream(f, o)
	if err != nil {
		return nil, s.inPack(err, sum)
	}
	defer r.Close()
	var b bytes.Buffer
	_, err = io.Copy(&b, r)
	return b.Bytes(), s.inPack(err, sum)
}

// inPack tells which object of which pack an error is about.
func (s *session) inPack(err error, sum Sum) error {
	if err == nil || !isCorrupt(err) {
		return err
	}
	at, ok := s.find(sum)
	if !ok {
		return err
	}
	return workspace.Errorf(workspace.ErrCorrupt, "", "", "object %s in packs/%s: %w", sum, s.packName(at.pack), reason(err))
}

// listing reads a directory's listing.
func (s *session) listing(sum Sum) ([]Entry, error) {
	b, err := s.whole(sum)
	if err != nil {
		return nil, err
	}
	entries, err := parseListing(b)
	return entries, s.inPack(err, sum)
}

// check reads an object to its end.
func (s *session) check(ctx context.Context, sum Sum) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := s.content(sum)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(io.Discard, r)
	return s.inPack(err, sum)
}
