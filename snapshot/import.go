//go:build linux

package snapshot

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/wsctl/wsctl/workspace"
)

// ImportOptions bound what an archive may cost. The zero value is good.
type ImportOptions struct {
	// MaxBytes bounds the files together, in bytes; 0: 64 GiB.
	MaxBytes int64
	// MaxEntries bounds how many files, directories and links there are; 0:
	// four million.
	MaxEntries int
	// MaxNames bounds their names and the texts of links together, which are
	// in memory until the end, in bytes; 0: 256 MiB.
	MaxNames int64
}

const (
	defaultImportBytes   = 64 << 30
	defaultImportEntries = 4 << 20
	defaultImportNames   = 256 << 20
	// maxArchiveWindow bounds the memory that an archive can ask for.
	maxArchiveWindow = 128 << 20
	maxImportDepth   = 1000
	// maxLinkText is PATH_MAX less its NUL.
	maxLinkText = 4095
)

// Import adds the snapshot of an archive to the store, under an id of its own. The
// archive can come from anybody: a name that would lead out of the tree, a name
// twice, a hard link, a device, an entry in what is no directory, or more than
// the bounds, is CORRUPT or TOO_LARGE, and nothing of it is kept.
func (s *Store) Import(ctx context.Context, r io.Reader, o ImportOptions) (workspace.Snapshot, error) {
	snap, err := s.importFrom(ctx, r, o)
	return snap, asError("import snapshot", "", err)
}

func (s *Store) importFrom(ctx context.Context, r io.Reader, o ImportOptions) (snap workspace.Snapshot, err error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultImportBytes
	}
	if o.MaxEntries == 0 {
		o.MaxEntries = defaultImportEntries
	}
	if o.MaxNames == 0 {
		o.MaxNames = defaultImportNames
	}
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxArchiveWindow), zstd.WithDecoderLowmem(true))
	if err != nil {
		return snap, err
	}
	defer z.Close()
	in, err := s.shared(ctx)
	if err != nil {
		return snap, err
	}
	defer in.end()
	i := importing{ctx: ctx, sink: in.newPacker(), room: o.MaxBytes, left: o.MaxEntries, names: o.MaxNames, top: &branch{}}
	defer i.sink.discard()
	head, err := i.read(tar.NewReader(z))
	if err != nil {
		return snap, err
	}
	return i.keep(s, head)
}

// importing reads one archive into a store.
type importing struct {
	ctx  context.Context //nolint:containedctx // the life of one import
	sink *packer
	// room, left and names are what ImportOptions allow yet.
	room  int64
	left  int
	names int64
	top   *branch
	b     buffers

	stats workspace.SnapshotStats
}

// branch is a directory of the archive.
type branch struct {
	e    Entry
	dirs map[string]*branch
	rest map[string]Entry
}

func refused(format string, args ...any) error {
	return workspace.Errorf(workspace.ErrCorrupt, "", "", "the archive is no snapshot that can be taken in: "+format, args...)
}

func (i *importing) read(t *tar.Reader) (head archiveHead, err error) {
	h, err := t.Next()
	if err != nil {
		return head, i.broken(err)
	}
	if h.Name != archiveRecord || h.Typeflag != tar.TypeReg || h.Size > maxMetadata {
		return head, refused("it does not begin with %s", archiveRecord)
	}
	dec := json.NewDecoder(io.LimitReader(t, h.Size))
	if err := dec.Decode(&head); err != nil {
		return head, refused("%s: %v", archiveRecord, err)
	}
	if head.Format != archiveFormat {
		return head, refused("its format is %d, and this program knows %d; use a newer wsctl", head.Format, archiveFormat)
	}
	topSeen := false
	for {
		if err := i.ctx.Err(); err != nil {
			return head, err
		}
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			if !topSeen {
				return head, refused("it ends before its tree")
			}
			return head, nil
		}
		if err != nil {
			return head, i.broken(err)
		}
		if !topSeen {
			if h.Name != archiveTree || h.Typeflag != tar.TypeDir {
				return head, refused("its tree does not begin with %s", archiveTree)
			}
			topSeen = true
			i.top.e = dirEntry("", h)
			continue
		}
		if err := i.entry(t, h); err != nil {
			return head, err
		}
	}
}

// broken is the error of an archive that cannot be read on.
func (i *importing) broken(err error) error {
	if i.ctx.Err() != nil {
		return i.ctx.Err()
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return refused("%v", err)
}

func dirEntry(name string, h *tar.Header) Entry {
	return Entry{Name: name, Mode: fs.ModeDir | fs.FileMode(h.Mode).Perm(), Modified: nanoseconds(h.ModTime)}
}

// nanoseconds is a time as listings keep it; what they cannot hold is 0.
func nanoseconds(t time.Time) int64 {
	const last = math.MaxInt64 / int64(time.Second)
	if s := t.Unix(); s <= -last || s >= last {
		return 0
	}
	return t.UnixNano()
}

// entry takes one entry in.
func (i *importing) entry(t *tar.Reader, h *tar.Header) error {
	if i.left--; i.left < 0 {
		return workspace.Errorf(workspace.ErrTooLarge, "", "", "the archive has more files than may be taken in")
	}
	if i.names -= int64(len(h.Name) + len(h.Linkname)); i.names < 0 {
		return workspace.Errorf(workspace.ErrTooLarge, "", "", "the names and links of the archive are longer together than may be taken in")
	}
	name, err := i.name(h)
	if err != nil {
		return err
	}
	parent, base, err := i.place(name)
	if err != nil {
		return err
	}
	if _, taken := parent.rest[base]; taken || parent.dirs[base] != nil {
		return refused("%.200q is in it twice", name)
	}
	e := Entry{Name: base, Mode: fs.FileMode(h.Mode).Perm(), Modified: nanoseconds(h.ModTime)}
	switch h.Typeflag {
	case tar.TypeDir:
		if parent.dirs == nil {
			parent.dirs = map[string]*branch{}
		}
		parent.dirs[base] = &branch{e: dirEntry(base, h)}
		i.stats.Directories++
		return nil
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) > maxLinkText || strings.IndexByte(h.Linkname, 0) >= 0 {
			return refused("the text of the link %.200q cannot be one", name)
		}
		e.Mode, e.Target = fs.ModeSymlink, h.Linkname
		i.stats.Links++
	case tar.TypeReg:
		if e.Sum, err = i.content(t, h); err != nil {
			return asError("", name, err)
		}
		e.Size = h.Size
		i.stats.Files++
		i.stats.Bytes += h.Size
	default:
		return refused("%.200q is a %s; there are files, directories and symbolic links in a snapshot, nothing else", name, kindOfHeader(h.Typeflag))
	}
	if parent.rest == nil {
		parent.rest = map[string]Entry{}
	}
	parent.rest[base] = e
	return nil
}

func kindOfHeader(flag byte) string {
	switch flag {
	case tar.TypeLink:
		return "hard link"
	case tar.TypeChar, tar.TypeBlock:
		return "device"
	case tar.TypeFifo:
		return "FIFO"
	}
	return fmt.Sprintf("entry of type %q", flag)
}

// name is the path of an entry below the tree, exactly as listings spell paths.
func (i *importing) name(h *tar.Header) (string, error) {
	name, below := strings.CutPrefix(h.Name, archiveTree)
	if h.Typeflag == tar.TypeDir {
		name = strings.TrimSuffix(name, "/")
	}
	if !below || name == "" || name != path.Clean(name) || path.IsAbs(name) || name == ".." || name == "." || strings.HasPrefix(name, "../") || strings.IndexByte(name, 0) >= 0 {
		return "", refused("the name %.200q would lead out of the tree, or is spelled as none is", h.Name)
	}
	parts := strings.Split(name, "/")
	if len(parts) > maxImportDepth {
		return "", refused("the name %.200q has %d parts", h.Name, len(parts))
	}
	for _, p := range parts {
		if len(p) > 255 || alwaysLeftOut(p) {
			return "", refused("%.200q has a part that no snapshot holds", h.Name)
		}
	}
	return name, nil
}

// place is the directory in which name lies, which must have come before it.
func (i *importing) place(name string) (parent *branch, base string, err error) {
	parent = i.top
	dir, base := path.Split(name)
	if dir == "" {
		return parent, base, nil
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(dir, "/"), "/") {
		if parent = parent.dirs[part]; parent == nil {
			return nil, "", refused("%.200q lies in no directory of it", name)
		}
	}
	return parent, base, nil
}

// content adds what a file holds.
func (i *importing) content(t *tar.Reader, h *tar.Header) (Sum, error) {
	if h.Size < 0 || h.Size > i.room {
		return Sum{}, workspace.Errorf(workspace.ErrTooLarge, "", "", "the archive's files are larger together than may be taken in")
	}
	i.room -= h.Size
	if h.Size > packBuffer {
		sum, n, err := i.sink.stream(i.ctx, t, func(int64) bool { return true })
		if err == nil && n != h.Size {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			err = i.broken(err)
		}
		return sum, err
	}
	i.b.content = slices.Grow(i.b.content[:0], int(h.Size))[:h.Size]
	if _, err := io.ReadFull(t, i.b.content); err != nil {
		return Sum{}, i.broken(err)
	}
	sum, stored, err := i.sink.add(i.b.content, i.b.stored, 0)
	i.b.stored = stored
	return sum, err
}

// listing adds the listing of a directory and of those below it.
func (i *importing) listing(b *branch) error {
	entries := make([]Entry, 0, len(b.dirs)+len(b.rest))
	for _, e := range b.rest {
		entries = append(entries, e)
	}
	for _, d := range b.dirs {
		if err := i.listing(d); err != nil {
			return err
		}
		entries = append(entries, d.e)
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	i.b.content = i.b.content[:0]
	for j := range entries {
		i.b.content = appendEntry(i.b.content, &entries[j])
	}
	var err error
	b.e.Sum, i.b.stored, err = i.sink.add(i.b.content, i.b.stored, flagListing)
	return err
}

// keep makes the snapshot part of the store. What the archive says of it is taken
// over, but for what is not its business: where and when it is kept.
func (i *importing) keep(s *Store, head archiveHead) (workspace.Snapshot, error) {
	rules, err := newRules(head.MaxFileBytes, head.Exclude...)
	if err != nil {
		return workspace.Snapshot{}, refused("%v", reason(err))
	}
	if len(head.Metadata) > 0 && !json.Valid(head.Metadata) {
		return workspace.Snapshot{}, refused("its metadata is no JSON")
	}
	if err := i.listing(i.top); err != nil {
		return workspace.Snapshot{}, err
	}
	now := time.Now().UTC()
	snap := workspace.Snapshot{
		ID: newID(now), WorkspaceID: s.header.WorkspaceID, Created: now,
		Label: head.Label, Turn: head.Turn, Metadata: head.Metadata,
		Exclude: rules.exclude, MaxFileBytes: rules.max, Skipped: head.Skipped, Changed: head.Changed,
	}
	i.stats.Read, i.stats.Added, i.stats.AddedBytes = i.stats.Files, i.sink.count, i.sink.bytes
	snap.Stats = i.stats
	if err := i.sink.finish(); err != nil {
		return workspace.Snapshot{}, err
	}
	rec := record{Snapshot: snap, top: i.top.e}
	return snap, s.writeRecord(&rec)
}
