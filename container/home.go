//go:build unix

package container

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// homeRequest says whose HOME is wanted.
type homeRequest struct {
	CacheDir string
	Root     rootFacts
	User     commandUser
	// Rootless: the ids inside are the engine's own; on the host what
	// commands make belongs to the caller.
	Rootless bool
	// Fresh asks for an empty one that goes with Close.
	Fresh bool
	// Detached: the container outlives this process.
	Detached bool
}

// homeDir is the directory that is HOME inside, so that caches of tools outlive a
// container. Every root has its own: what a command of one project leaves there,
// no other project's commands run. Its content is as hostile as the root's; on the
// host it is reached through the handle alone, and nothing in it is configuration
// to anybody here.
//
// In the cache directory it is home/KEY/home, beside home/KEY/record, which tells
// whose it is and is locked while it is in use.
type homeDir struct {
	// Path is the source of the mount. Dev and Ino are its identity.
	Path     string
	Dev, Ino uint64
	// Warnings say what will not work in it.
	Warnings []string

	cache  *os.Root
	dir    *os.Root // the directory itself
	record *os.File
	key    string
	fresh  bool
	owner  int // what is made in it is given to this user and group; -1: nothing to give
	group  int
}

// clearTime bounds the removal of one old home, and with it a start or a Close.
const clearTime = 30 * time.Second

// homeAge is for how long a home is kept after its last use once its root is gone
// or another directory.
const homeAge = time.Hour

// openHome makes or finds the HOME of a root. It also removes at most one home
// whose root is gone and one whose process died.
func openHome(r homeRequest) (*homeDir, error) {
	cache, err := openCache(r.CacheDir)
	if err != nil {
		return nil, err
	}
	h := &homeDir{cache: cache, key: r.key(), fresh: r.Fresh, owner: -1, group: -1}
	if unix.Geteuid() == 0 && !r.Rootless {
		h.owner, h.group = int(r.User.UID), int(r.User.GID)
	}
	if err := h.open(r); err != nil {
		_ = h.release()
		var told *workspace.Error
		if errors.As(err, &told) {
			return nil, err
		}
		return nil, cacheError(workspace.ErrIO, r.CacheDir, "the directory for HOME: %w", err)
	}
	pruneHomes(cache)
	return h, nil
}

// key names the home. A root that was removed and made again is another root;
// device numbers are left out, as they change with a restart of the machine.
func (r homeRequest) key() string {
	if r.Fresh {
		return "fresh-" + randomName()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %d %d %s", r.Root.Real, r.Root.Ino, r.Root.Born, r.User))
	return hex.EncodeToString(sum[:12])
}

// open does the work of openHome; what it has opened on an error, release closes.
func (h *homeDir) open(r homeRequest) error {
	place := path.Join("home", h.key)
	if err := h.lock(place, homeRecord{Root: r.Root.Real, Ino: r.Root.Ino, Born: r.Root.Born, Fresh: r.Fresh, Detached: r.Detached}); err != nil {
		return err
	}
	name := path.Join(place, "home")
	if err := h.cache.Mkdir(name, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	// The commands can change the mode of the directory, not what it is: its
	// name is out of their sight.
	mode := fs.FileMode(0o700)
	if unix.Geteuid() != 0 && !r.Rootless && r.User.UID != uint32(unix.Geteuid()) {
		// It cannot be given away; the directory above keeps others out.
		mode = 0o777
		h.Warnings = append(h.Warnings, "HOME belongs to you and not to the user "+r.User.String()+" of --user; what its commands make there you cannot remove")
	}
	if err := h.cache.Chmod(name, mode); err != nil {
		return err
	}
	dir, err := h.cache.OpenRoot(name)
	if err != nil {
		return err
	}
	h.dir = dir
	return h.take(r)
}

// take gives the opened directory to its user and looks at where it is.
func (h *homeDir) take(r homeRequest) error {
	d, err := h.dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	if h.owner >= 0 {
		if err := d.Chown(h.owner, h.group); err != nil {
			return err
		}
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(d.Fd()), &st); err != nil {
		return err
	}
	h.Dev, h.Ino = uint64(st.Dev), uint64(st.Ino)
	kind := fileSystem(d)
	if kind.noexec {
		h.Warnings = append(h.Warnings, "programs in HOME cannot be run: "+workspace.Printable(r.CacheDir)+" is on a file system mounted noexec; name another cache directory")
	}
	if h.Path, err = filepath.EvalSymlinks(filepath.Join(r.CacheDir, "home", h.key, "home")); err != nil {
		return err
	}
	if id, err := identify(h.Path); err != nil || id != (fileID{h.Dev, h.Ino}) {
		return cacheError(workspace.ErrConflict, h.Path, "the directory for HOME was moved meanwhile; try again")
	}
	return nil
}

// lock makes the record of a home and holds it. A record that was removed between
// being opened and locked is not the one of that name any more.
func (h *homeDir) lock(place string, rec homeRecord) error {
	for range 100 {
		if err := h.cache.MkdirAll(place, 0o700); err != nil {
			return err
		}
		f, err := h.cache.OpenFile(path.Join(place, "record"), os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := lockShared(f); err != nil {
			_ = f.Close()
			return err
		}
		held, err := f.Stat()
		if err != nil {
			_ = f.Close()
			return err
		}
		named, err := h.cache.Lstat(path.Join(place, "record"))
		if err == nil && os.SameFile(held, named) {
			h.record = f
			return rec.write(f)
		}
		_ = f.Close()
	}
	return cacheError(workspace.ErrBusy, place, "the directory for HOME is removed again and again by somebody else; try later")
}

// makeTmp makes the directory that is TMPDIR where the image has no /tmp that can
// be written.
func (h *homeDir) makeTmp() error {
	return h.makeTarget(strings.TrimPrefix(guestHomeTmp, guestHome+"/"), true)
}

// makeTarget makes a mount point below HOME, with the directories above it, for
// the user whose home it is. Links that commands have put there are refused.
func (h *homeDir) makeTarget(rel string, dir bool) error {
	parts := strings.Split(path.Clean(rel), "/")
	for i := range parts {
		name := path.Join(parts[:i+1]...)
		wantDir := dir || i < len(parts)-1
		err := h.makeOne(name, wantDir)
		switch {
		case err == nil && h.owner >= 0:
			err = h.dir.Lchown(name, h.owner, h.group)
		case errors.Is(err, fs.ErrExist):
			err = h.checkOne(name, wantDir)
		}
		if err != nil {
			var told *workspace.Error
			if errors.As(err, &told) {
				return err
			}
			return mountError(workspace.ErrIO, path.Join(guestHome, name), "%w", err)
		}
	}
	return nil
}

// makeOne makes one directory or empty file.
func (h *homeDir) makeOne(name string, dir bool) error {
	if dir {
		return h.dir.Mkdir(name, 0o755)
	}
	f, err := h.dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// checkOne tells whether what is there can be a mount point, or above one.
func (h *homeDir) checkOne(name string, dir bool) error {
	info, err := h.dir.Lstat(name)
	if err != nil {
		return err
	}
	if info.IsDir() == dir && (dir || info.Mode().IsRegular()) {
		return nil
	}
	return mountError(workspace.ErrConflict, path.Join(guestHome, name), "an earlier command has put something else there; remove it from inside, or use a fresh home")
}

// Close lets go of the home, and removes a fresh one with all that is in it. It is
// called once, after the container is gone.
func (h *homeDir) Close() error {
	var err error
	if h.fresh {
		ctx, cancel := context.WithTimeout(context.Background(), clearTime)
		defer cancel()
		err = removeHome(ctx, h.cache, h.key)
	}
	err = errors.Join(err, h.release())
	if err != nil {
		return cacheError(workspace.ErrIO, h.Path, "the fresh HOME could not be removed whole: %w", err)
	}
	return nil
}

// release closes what is open.
func (h *homeDir) release() error {
	err := h.cache.Close()
	if h.dir != nil {
		err = errors.Join(err, h.dir.Close())
	}
	if h.record != nil {
		err = errors.Join(err, h.record.Close())
	}
	return err
}
