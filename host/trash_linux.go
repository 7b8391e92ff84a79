package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

const (
	trashEntry = "entry"
	trashInfo  = "info.json"
	// maxTrashInfo bounds what is read of an item's file, in bytes.
	maxTrashInfo = 64 << 10
)

// trashRecord is how an item is stored. The path is bytes, which JSON carries
// as base64, because a name need not be text.
type trashRecord struct {
	Path    []byte      `json:"path"`
	Removed time.Time   `json:"removed"`
	Size    int64       `json:"size"`
	Mode    fs.FileMode `json:"mode"`
}

// moveToTrash takes the entry of p out of the tree.
func (r *Root) moveToTrash(ctx context.Context, p *place, name string) (string, error) {
	if isType(&p.st, unix.S_IFDIR) {
		if err := r.checkNoMounts(p.fd); err != nil {
			return "", err
		}
	}
	trash, err := r.openStateDir(TrashName)
	if err != nil {
		return "", err
	}
	defer closeFD(trash)
	now := time.Now().UTC()
	var salt [4]byte
	rand.Read(salt[:])
	id := now.Format("20060102T150405.000000000") + "-" + hex.EncodeToString(salt[:])
	item, _, err := r.openOwn(trash, id)
	if err != nil {
		return "", err
	}
	defer closeFD(item)
	size, err := r.sizeOf(ctx, p)
	if err == nil {
		err = r.writeTrashInfo(item, trashRecord{[]byte(r.prefix + name), now, size, modeOf(p.st.Mode)})
	}
	if err == nil {
		err = r.moveAside(p, item, trashEntry)
	}
	if err != nil {
		// Only what we made is removed: an entry that could not be put
		// back stays.
		_ = unix.Unlinkat(item, trashInfo, 0)
		_ = unix.Unlinkat(trash, id, unix.AT_REMOVEDIR)
		return "", err
	}
	return id, nil
}

func (r *Root) writeTrashInfo(item int, rec trashRecord) error {
	b, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	d, err := r.newDraft(item, 0o600)
	if err != nil {
		return err
	}
	defer d.discard()
	if err := d.write(b); err != nil {
		return err
	}
	if err := r.keepPrivate(d.fd); err != nil {
		return err
	}
	return d.publishNew(trashInfo)
}

// sizeOf is the size of the regular files at p, as far as they can be seen.
func (r *Root) sizeOf(ctx context.Context, p *place) (int64, error) {
	if !isType(&p.st, unix.S_IFDIR) {
		if isType(&p.st, unix.S_IFREG) {
			return p.st.Size, nil
		}
		return 0, nil
	}
	fd, err := openList(p.fd)
	if err != nil {
		return 0, nil
	}
	defer closeFD(fd)
	return treeSize(ctx, fd, 0)
}

// treeSize adds up the regular files below fd, as deep as descriptors are
// spent on it.
func treeSize(ctx context.Context, fd, depth int) (int64, error) {
	var total int64
	err := readEntries(fd, make([]byte, direntBuffer), func(e dirent) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		name := string(e.name)
		var st unix.Stat_t
		if e.typ == unix.DT_LNK || statEntry(fd, name, &st) != nil {
			return nil
		}
		switch {
		case isType(&st, unix.S_IFREG):
			total += st.Size
		case isType(&st, unix.S_IFDIR) && depth < clearDepth:
			child, err := openAt(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
			if err != nil {
				return nil
			}
			defer closeFD(child)
			n, err := treeSize(ctx, child, depth+1)
			total += n
			return err
		}
		return nil
	})
	return total, err
}

// Trash lists what is in the trash, the oldest first. Items that are damaged,
// or still being made, are left out.
func (r *Root) Trash(ctx context.Context) ([]TrashItem, error) {
	const op = "trash"
	if err := r.begin(ctx, op, TrashName); err != nil {
		return nil, err
	}
	defer r.calls.leave()
	trash, err := r.openStateDir(TrashName)
	if err != nil {
		return nil, asError(op, TrashName, err)
	}
	defer closeFD(trash)
	items, err := r.trashItems(ctx, trash)
	return items, asError(op, TrashName, err)
}

func (r *Root) trashItems(ctx context.Context, trash int) ([]TrashItem, error) {
	fd, err := openList(trash)
	if err != nil {
		return nil, err
	}
	defer closeFD(fd)
	var items []TrashItem
	err = readEntries(fd, make([]byte, direntBuffer), func(e dirent) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		id := string(e.name)
		item, err := openAt(trash, id, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return nil
		}
		defer closeFD(item)
		rec, err := r.readTrashInfo(item)
		var st unix.Stat_t
		if err != nil || statEntry(item, trashEntry, &st) != nil {
			return nil
		}
		items = append(items, TrashItem{id, string(rec.Path), rec.Removed, rec.Size, rec.Mode})
		return nil
	})
	slices.SortFunc(items, func(a, b TrashItem) int { return cmp.Compare(a.ID, b.ID) })
	return items, err
}

func (r *Root) readTrashInfo(item int) (trashRecord, error) {
	var rec trashRecord
	fd, err := r.openStateFile(item, trashInfo, unix.O_RDONLY)
	if err != nil {
		return rec, err
	}
	defer closeFD(fd)
	b, err := io.ReadAll(io.LimitReader(fdReader(fd), maxTrashInfo))
	if err != nil {
		return rec, err
	}
	if err := json.Unmarshal(b, &rec); err != nil {
		return rec, refuse(workspace.ErrCorrupt, "the item's record is damaged; purge it: %w", err)
	}
	return rec, nil
}

// openTrashItem holds the directory of an item.
func (r *Root) openTrashItem(id string) (trash, item int, err error) {
	if split(id).directory || len(split(id).parts) != 1 || id != split(id).parts[0] || id == ".." {
		return -1, -1, refuse(workspace.ErrInvalidArgument, "%q is no id of an item in the trash; list it", id)
	}
	if trash, err = r.openStateDir(TrashName); err != nil {
		return -1, -1, err
	}
	if item, err = openAt(trash, id, unix.O_PATH|unix.O_DIRECTORY, 0); err != nil {
		closeFD(trash)
		return -1, -1, err
	}
	return trash, item, nil
}

// RestoreTrash moves an item back into the tree: to the path it had when to is
// empty. Directories above it are made; a name that is taken is EXISTS.
func (r *Root) RestoreTrash(ctx context.Context, id, to string) error {
	const op = "restore"
	if err := r.begin(ctx, op, id); err != nil {
		return err
	}
	defer r.calls.leave()
	return asError(op, id, r.restoreTrash(id, to))
}

func (r *Root) restoreTrash(id, to string) error {
	trash, item, err := r.openTrashItem(id)
	if err != nil {
		return err
	}
	defer closeFD(trash)
	defer closeFD(item)
	if to == "" {
		rec, err := r.readTrashInfo(item)
		if err != nil {
			return err
		}
		to = string(rec.Path)
	}
	dst, err := r.locate(to, want{parents: true, change: true})
	if err != nil {
		return err
	}
	defer dst.close()
	if dst.exists() || dst.base == "" {
		return refuse(workspace.ErrExists, "%s is there already; restore to another path", workspace.Printable(to))
	}
	src := &place{r: r, dir: item, base: trashEntry, fd: -1}
	if src.fd, err = openAt(item, trashEntry, unix.O_PATH, 0); err != nil {
		return err
	}
	defer closeFD(src.fd)
	if err := unix.Fstat(src.fd, &src.st); err != nil {
		return err
	}
	if err := r.moveTo(src, dst); err != nil {
		return err
	}
	_ = unix.Unlinkat(item, trashInfo, 0)
	_ = unix.Unlinkat(trash, id, unix.AT_REMOVEDIR)
	return nil
}
