//go:build linux

package snapshot

import (
	"context"
	"encoding/binary"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

const (
	// smallPack is the size below which packs are put together when there
	// are many.
	smallPack = 1 << 20
	// manySmall is how many of them there may be.
	manySmall = 48
)

// packUse is how much of a pack is needed.
type packUse struct {
	name string
	size int64
	live int64 // objects that are needed
	dead int64 // bytes of objects that are not
}

// sweep frees the objects that no snapshot needs. What is needed of a pack is
// written to another one first, so that at every moment the store has all that
// a snapshot needs. With lazy a pack is written anew only when that is worth
// it. The lock is held exclusively.
func (s *Store) sweep(ctx context.Context, in *session, lazy bool) (freed int64, err error) {
	records, damaged, err := s.records(ctx)
	if err != nil {
		return 0, err
	}
	if len(damaged) > 0 {
		return 0, workspace.Errorf(workspace.ErrCorrupt, "", "", "nothing was freed, since the record of snapshot %s is damaged and what it needs is not known; delete it too", damaged[0])
	}
	needed := newReachable(in)
	for i := range records {
		if err := needed.add(ctx, records[i].top.Sum); err != nil {
			if isCorrupt(err) {
				return 0, workspace.Errorf(workspace.ErrCorrupt, "", "", "nothing was freed, since snapshot %s is damaged and what it needs is not known; delete it too: %w", records[i].ID, reason(err))
			}
			return 0, err
		}
	}
	uses, err := s.uses(needed)
	if err != nil {
		return 0, err
	}
	small := 0
	for _, u := range uses {
		if u.size < smallPack {
			small++
		}
	}
	var gone, anew []packUse
	for _, u := range uses {
		switch {
		case u.live == 0:
			gone = append(gone, u)
		case u.size < smallPack && (small > manySmall || u.dead > 0),
			u.dead > 0 && (!lazy || u.dead > u.size/4):
			anew = append(anew, u)
		}
	}
	return s.rewrite(ctx, in, func(sum Sum) bool { return needed.sums[sum] }, gone, anew)
}

// uses tells of each pack what is needed of it.
func (s *Store) uses(needed *reachable) ([]packUse, error) {
	k := &s.known
	k.mu.RLock()
	defer k.mu.RUnlock()
	uses := make([]packUse, len(k.names))
	for i, name := range k.names {
		uses[i].name = name
		var st unix.Stat_t
		if err := unix.Fstatat(s.packs.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return nil, err
		}
		uses[i].size = st.Size
		uses[i].dead = st.Size - int64(len(packMagic)+trailerSize)
	}
	for sum, at := range k.objects {
		if needed.sums[sum] {
			uses[at.pack].live++
			uses[at.pack].dead -= at.stored + headSize + tableRow(at)
		}
	}
	return uses, nil
}

// tableRow is the length of an object's row in the table.
func tableRow(at location) int64 {
	var b [2 * binary.MaxVarintLen64]byte
	n := binary.PutUvarint(b[:], uint64(at.stored))
	n += binary.PutUvarint(b[n:], uint64(at.raw))
	return int64(len(Sum{}) + 1 + n)
}

// rewrite writes what is needed of the packs in anew to new ones, and removes
// both lists.
func (s *Store) rewrite(ctx context.Context, in *session, needed func(Sum) bool, gone, anew []packUse) (freed int64, err error) {
	if len(gone)+len(anew) == 0 {
		return 0, nil
	}
	sink := in.newPacker()
	defer sink.discard()
	for _, u := range anew {
		if err := s.copyLive(ctx, in, needed, u.name, sink); err != nil {
			return 0, err
		}
	}
	added := int64(0)
	for _, f := range append(slices.Clone(sink.full), sink.cur) {
		if f != nil {
			added += f.off
		}
	}
	if err := sink.finish(); err != nil {
		return 0, err
	}
	if err := s.packs.sync(); err != nil {
		return 0, err
	}
	for _, u := range append(gone, anew...) {
		if err := s.packs.remove(u.name); err != nil {
			return freed, err
		}
		freed += u.size
	}
	if err := s.packs.sync(); err != nil {
		return freed, err
	}
	return max(freed-added, 0), s.refresh()
}

// copyLive copies those objects of a pack that are needed and have no other
// place.
func (s *Store) copyLive(ctx context.Context, in *session, needed func(Sum) bool, name string, sink *packer) error {
	f, err := s.packs.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	objects, _, err := readTable(s.codec, f)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := ctx.Err(); err != nil {
			return err
		}
		at, ok := in.find(o.sum)
		if !ok || !needed(o.sum) || in.packName(at.pack) != name || at.off != o.off {
			continue
		}
		if err := sink.copy(f, o); err != nil {
			return err
		}
	}
	return nil
}

// copy adds an object as it is stored in another pack.
func (p *packer) copy(f *os.File, o object) error {
	if o.stored > wholeObject {
		return p.copyLarge(f, o)
	}
	b := make([]byte, o.stored)
	if _, err := f.ReadAt(b, o.off); err != nil {
		return err
	}
	return p.append(o, b)
}

// copyLarge copies an object into a pack of its own.
func (p *packer) copyLarge(f *os.File, o object) error {
	out, err := newPackFile(p.s.store.packs)
	if err != nil {
		return err
	}
	section := io.NewSectionReader(f, o.off, o.stored)
	out.buf = appendHead(out.buf, &o)
	out.off += headSize
	o.off = out.off
	err = out.flush()
	if err == nil {
		_, err = io.Copy(out.f, section)
	}
	if err != nil {
		out.discard()
		return err
	}
	out.off += o.stored
	out.objects = append(out.objects, o)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	p.bytes += o.stored + headSize
	p.full = append(p.full, out)
	return nil
}
