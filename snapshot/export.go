//go:build linux

package snapshot

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/wsctl/wsctl/workspace"
)

// An archive is one tar file (pax, POSIX.1-2001) in zstd (RFC 8878): first
// archiveRecord with what is told of the snapshot as JSON, then archiveTree with
// its entries, each directory before what is in it. Any tar reads it.
const (
	archiveRecord = "wsctl-snapshot.json"
	archiveTree   = "tree/"
	archiveFormat = 1
)

// archiveHead is the content of archiveRecord.
type archiveHead struct {
	Format int `json:"wsctlSnapshot"`
	workspace.Snapshot
}

// Export writes a snapshot, by its id or "latest", to w as one archive.
func (s *Store) Export(ctx context.Context, id string, w io.Writer) (workspace.Snapshot, error) {
	snap, err := s.export(ctx, id, w)
	return snap, asError("export snapshot", "", err)
}

func (s *Store) export(ctx context.Context, id string, w io.Writer) (workspace.Snapshot, error) {
	t, err := s.Tree(ctx, id)
	if err != nil {
		return workspace.Snapshot{}, err
	}
	defer t.Close()
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(workers()))
	if err != nil {
		return workspace.Snapshot{}, err
	}
	out := tar.NewWriter(z)
	err = t.export(ctx, out)
	err = errors.Join(err, out.Close())
	return t.Snapshot(), errors.Join(err, z.Close())
}

func (t *Tree) export(ctx context.Context, out *tar.Writer) error {
	head, err := json.MarshalIndent(archiveHead{archiveFormat, t.Snapshot()}, "", "  ")
	if err != nil {
		return err
	}
	if err := out.WriteHeader(&tar.Header{Name: archiveRecord, Mode: 0o600, Size: int64(len(head)), ModTime: t.Snapshot().Created, Typeflag: tar.TypeReg, Format: tar.FormatPAX}); err != nil {
		return err
	}
	if _, err := out.Write(head); err != nil {
		return err
	}
	if err := t.exportEntry(ctx, out, archiveTree, t.Top()); err != nil {
		return err
	}
	return t.Walk(ctx, func(path string, e Entry) error {
		return asError("", path, t.exportEntry(ctx, out, archiveTree+path, e))
	})
}

func (t *Tree) exportEntry(ctx context.Context, out *tar.Writer, name string, e Entry) error {
	h := &tar.Header{Name: name, Mode: int64(e.Mode.Perm()), ModTime: time.Unix(0, e.Modified), Format: tar.FormatPAX}
	switch {
	case e.Mode.IsDir():
		h.Typeflag = tar.TypeDir
		if name != archiveTree {
			h.Name += "/"
		}
	case e.Mode&fs.ModeSymlink != 0:
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.Target, 0o777
	default:
		h.Typeflag, h.Size = tar.TypeReg, e.Size
	}
	if err := out.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	r, err := t.Open(ctx, e)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(out, r)
	return err
}
