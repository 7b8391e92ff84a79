//go:build unix

package container

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// openCache opens wsctl's directory for what outlives a process, and makes it,
// with what is missing above it, for this user alone. Everything in it is reached
// through the handle.
func openCache(dir string) (*os.Root, error) {
	if !filepath.IsAbs(dir) {
		return nil, cacheError(workspace.ErrInvalidArgument, dir, "the cache directory must be an absolute path")
	}
	existing := filepath.Clean(dir)
	for {
		if _, err := os.Stat(existing); !errors.Is(err, fs.ErrNotExist) || existing == filepath.Dir(existing) {
			break
		}
		existing = filepath.Dir(existing)
	}
	r, err := os.OpenRoot(existing)
	if err != nil {
		return nil, cacheError(workspace.ErrIO, dir, "%w", err)
	}
	rest, err := filepath.Rel(existing, filepath.Clean(dir))
	if err != nil || rest == "." {
		return r, nil
	}
	defer r.Close()
	if err := r.MkdirAll(rest, 0o700); err != nil {
		return nil, cacheError(workspace.ErrIO, dir, "%w", err)
	}
	made, err := r.OpenRoot(rest)
	if err != nil {
		return nil, cacheError(workspace.ErrIO, dir, "%w", err)
	}
	return made, nil
}

// cacheError is an error of the cache directory.
func cacheError(code workspace.Code, subject, format string, args ...any) error {
	return workspace.Errorf(code, "cache", subject, format, args...)
}

// randomName is a name that nobody has.
func randomName() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}

// lockShared and lockAlone lock an open file against other processes (flock(2));
// the lock goes with the file.
func lockShared(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_SH) }
func lockAlone(f *os.File) error  { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// lockWaiting is lockAlone that waits for its turn.
func lockWaiting(ctx context.Context, f *os.File) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := lockAlone(f)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// clearDirectory removes everything in r, of which anything may have been made by
// commands: links are removed and not followed, directories without permissions
// get them, and however deep the tree, two directories are open at a time: the
// directories of a directory are moved up before it is removed.
func clearDirectory(ctx context.Context, r *os.Root) error {
	for {
		names, err := entriesOf(r)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if err := ctx.Err(); err != nil {
				return err
			}
			if r.Remove(name) == nil {
				continue
			}
			if err := hoist(r, name); err != nil {
				return err
			}
			if err := r.Remove(name); err != nil {
				return err
			}
		}
	}
}

// hoist empties the directory name of r; the directories in it become r's.
func hoist(r *os.Root, name string) error {
	if err := r.Chmod(name, 0o700); err != nil {
		return err
	}
	d, err := r.OpenRoot(name)
	if err != nil {
		return err
	}
	defer d.Close()
	for {
		names, err := entriesOf(d)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, e := range names {
			if d.Remove(e) == nil {
				continue
			}
			// To move a directory is to write its "..".
			if err := d.Chmod(e, 0o700); err != nil {
				return err
			}
			if err := r.Rename(path.Join(name, e), randomName()); err != nil {
				return err
			}
		}
	}
}

// entriesOf reads some names of a directory, none when it is empty.
func entriesOf(r *os.Root) ([]string, error) {
	d, err := r.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(1024)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}
