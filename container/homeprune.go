//go:build unix

package container

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// homeRecord says whose a home is.
type homeRecord struct {
	Root     string `json:"root"`
	Ino      uint64 `json:"ino"`
	Born     int64  `json:"born"`
	Fresh    bool   `json:"fresh,omitempty"`
	Detached bool   `json:"detached,omitempty"`
}

// write replaces what the open record says; its time of change becomes now. Equal
// owners of one home write equal bytes, so they do not mind each other.
func (rec homeRecord) write(f *os.File) error {
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if err := f.Truncate(int64(len(text))); err != nil {
		return err
	}
	_, err = f.WriteAt(text, 0)
	return err
}

// stale tells whether nobody needs the home any more, given that no process holds
// it: a fresh one whose process died, or one whose root is gone or was made anew.
// A detached container may hold it without a process of ours, so that one stays
// for a week.
func (rec homeRecord) stale(unused time.Duration) bool {
	if rec.Detached {
		return unused > 7*24*time.Hour && !rec.rootThere()
	}
	return rec.Fresh || unused > homeAge && !rec.rootThere()
}

// rootThere tells whether the root is still the directory it was.
func (rec homeRecord) rootThere() bool {
	d, st, err := openDirectory(rec.Root)
	if err != nil {
		// A disk that is away or a permission that is missing is not the
		// end of the root.
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer d.Close()
	return uint64(st.Ino) == rec.Ino && birthTime(d) == rec.Born
}

// pruneHomes removes one home that nobody needs any more. That it fails is no
// reason not to start: the next one tries again.
func pruneHomes(cache *os.Root) {
	ctx, cancel := context.WithTimeout(context.Background(), clearTime)
	defer cancel()
	names, err := fs.ReadDir(cache.FS(), "home")
	if err != nil {
		return
	}
	for _, e := range names {
		if pruneHome(ctx, cache, e.Name()) || ctx.Err() != nil {
			return
		}
	}
}

// pruneHome removes the home of that key if nobody needs it, and tells whether it
// has tried to.
func pruneHome(ctx context.Context, cache *os.Root, key string) bool {
	f, err := cache.Open(path.Join("home", key, "record"))
	if err != nil {
		return false // being made, or being removed
	}
	defer f.Close()
	if lockAlone(f) != nil {
		return false
	}
	text, err := io.ReadAll(io.LimitReader(f, 1<<16))
	if err != nil {
		return false
	}
	var rec homeRecord
	info, err := f.Stat()
	if err != nil || json.Unmarshal(text, &rec) != nil || rec.Root == "" {
		// Not written yet by who makes it.
		return false
	}
	if rec.Fresh != strings.HasPrefix(key, "fresh-") || !rec.stale(time.Since(info.ModTime())) {
		return false
	}
	_ = removeHome(ctx, cache, key)
	return true
}

// removeFreshHome removes the home of a detached container that is gone.
func removeFreshHome(ctx context.Context, cacheDir, key string) error {
	if !strings.HasPrefix(key, "fresh-") || path.Base(key) != key {
		return nil
	}
	cache, err := openCache(cacheDir)
	if err != nil {
		return err
	}
	defer cache.Close()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), clearTime)
	defer cancel()
	if err := removeHome(bounded, cache, key); err != nil {
		return cacheError(workspace.ErrIO, cacheDir, "the fresh HOME of the workspace could not be removed whole: %w", err)
	}
	return nil
}

// removeHome removes a home, its record last, so that a removal that was cut short
// is taken up again.
func removeHome(ctx context.Context, cache *os.Root, key string) error {
	place := path.Join("home", key)
	name := path.Join(place, "home")
	if err := cache.Chmod(name, 0o700); err == nil {
		dir, err := cache.OpenRoot(name)
		if err != nil {
			return err
		}
		err = clearDirectory(ctx, dir)
		if err := errors.Join(err, dir.Close()); err != nil {
			return err
		}
	}
	for _, n := range []string{name, path.Join(place, "record"), place} {
		if err := cache.Remove(n); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return nil
}
