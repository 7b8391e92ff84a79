//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// privateDir is a directory of files that are their owner's alone: keys, tokens,
// contexts. A file in it is replaced in one step and is on the disk then.
type privateDir struct{ root *host.Root }

// maxPrivate bounds such a file, in bytes.
const maxPrivate = 16 << 20

// makePrivate opens the directory, and makes it when it is missing.
func makePrivate(dir string) (privateDir, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return privateDir{}, workspace.Errorf(workspace.ErrIO, "open", dir, "%w", err)
	}
	return openPrivate(dir)
}

// openPrivate opens the directory; NOT_FOUND when it is missing.
func openPrivate(dir string) (privateDir, error) {
	root, err := host.OpenRoot(dir, host.RootOptions{LeftoverAge: -1})
	return privateDir{root}, err
}

func (d privateDir) close() { _ = d.root.Close() }

// read returns a file's content; NOT_FOUND when there is none. One that others
// could have read or changed is DENIED.
func (d privateDir) read(ctx context.Context, name string) ([]byte, error) {
	f, err := d.root.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case fi.Mode().Perm()&0o077 != 0:
		return nil, workspace.Errorf(workspace.ErrDenied, "read", name, "others may read or change it (mode %#o); chmod 600 it if you trust what it holds", fi.Mode().Perm())
	case fi.Size() > maxPrivate:
		return nil, workspace.Errorf(workspace.ErrTooLarge, "read", name, "it has more than %d bytes", maxPrivate)
	}
	b := make([]byte, fi.Size())
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, workspace.Errorf(workspace.ErrIO, "read", name, "%w", err)
	}
	return b, nil
}

// write makes content the file's.
func (d privateDir) write(ctx context.Context, name string, content []byte) error {
	_, err := d.root.Write(ctx, name, bytes.NewReader(content), workspace.WriteOptions{Perm: 0o600})
	return err
}

// readJSON decodes a file into v, which stays as it is when there is none.
func (d privateDir) readJSON(ctx context.Context, name string, v any) error {
	text, err := d.read(ctx, name)
	if errors.Is(err, workspace.ErrNotFound) {
		return nil
	}
	if err == nil {
		if err = json.Unmarshal(text, v); err != nil {
			err = workspace.Errorf(workspace.ErrCorrupt, "read", name, "%w; mend it, or move it aside", err)
		}
	}
	return err
}

// writeJSON is write of v.
func (d privateDir) writeJSON(ctx context.Context, name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return workspace.Errorf(workspace.ErrIO, "write", name, "%w", err)
	}
	return d.write(ctx, name, append(text, '\n'))
}
