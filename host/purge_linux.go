package host

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// PurgeTrash deletes items for good and returns those it deleted.
func (r *Root) PurgeTrash(ctx context.Context, o PurgeOptions) ([]TrashItem, error) {
	const op = "purge"
	if err := r.begin(ctx, op, TrashName); err != nil {
		return nil, err
	}
	defer r.calls.leave()
	if o.OlderThan < 0 || o.MaxBytes < 0 {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, op, TrashName, "an age or a size below 0; give 0 for no bound")
	}
	trash, err := r.openStateDir(TrashName)
	if err != nil {
		return nil, asError(op, TrashName, err)
	}
	defer closeFD(trash)
	gone, err := r.purge(ctx, trash, o)
	return gone, asError(op, TrashName, err)
}

func (r *Root) purge(ctx context.Context, trash int, o PurgeOptions) ([]TrashItem, error) {
	items, err := r.trashItems(ctx, trash)
	if err != nil {
		return nil, err
	}
	var total int64
	for _, item := range items {
		total += item.Size
	}
	var gone []TrashItem
	for _, item := range items {
		old := o.OlderThan > 0 && time.Since(item.Removed) > o.OlderThan
		large := o.MaxBytes > 0 && total > o.MaxBytes
		if !old && !large && !o.All {
			continue
		}
		if err := r.deleteItem(ctx, trash, item.ID); err != nil {
			return gone, err
		}
		total -= item.Size
		gone = append(gone, item)
	}
	if o.All {
		return gone, r.purgeDamaged(ctx, trash)
	}
	return gone, nil
}

func (r *Root) deleteItem(ctx context.Context, trash int, id string) error {
	fd, err := openAt(trash, id, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return r.deleteTree(ctx, trash, id, fd)
}

// purgeDamaged deletes what is left in the trash that is no item.
func (r *Root) purgeDamaged(ctx context.Context, trash int) error {
	fd, err := openList(trash)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return readEntries(fd, make([]byte, direntBuffer), func(e dirent) error {
		err := r.deleteItem(ctx, trash, string(e.name))
		if err == unix.ENOTDIR || err == unix.ELOOP {
			return unlinkEntry(trash, e, 0)
		}
		return err
	})
}
