//go:build linux

package snapshot

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// merge puts small packs together when there are many, whatever of them is
// needed: each save leaves one, and every use of the store reads the tables of
// all. It gives way to whoever else uses the store; the next save tries again.
func (s *Store) merge(ctx context.Context) error {
	if small, err := s.smallPacks(); err != nil || len(small) <= manySmall {
		return err
	}
	in, err := s.exclusiveNow(ctx)
	if errors.Is(err, workspace.ErrBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.end()
	small, err := s.smallPacks()
	if err != nil || len(small) <= manySmall {
		return err
	}
	_, err = s.rewrite(ctx, in, func(Sum) bool { return true }, nil, small)
	return err
}

// smallPacks are the small ones of the packs that are known and intact.
func (s *Store) smallPacks() ([]packUse, error) {
	k := &s.known
	k.mu.RLock()
	defer k.mu.RUnlock()
	if len(k.names) <= manySmall {
		return nil, nil
	}
	var small []packUse
	for _, name := range k.names {
		var st unix.Stat_t
		err := unix.Fstatat(s.packs.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
		switch {
		case err == unix.ENOENT: // another process has merged it
		case err != nil:
			return nil, err
		case st.Size < smallPack && !k.damaged[name]:
			small = append(small, packUse{name: name, size: st.Size})
		}
	}
	return small, nil
}
