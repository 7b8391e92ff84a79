//go:build unix

package container

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// placePolicy names the directories of this machine that commands must not get
// by way of a mount. Empty fields protect nothing.
type placePolicy struct {
	// Homes are home directories: what the caller's environment says and
	// what homesOf finds.
	Homes []string
	// CacheDir is where wsctl keeps the homes of all roots and the keepers.
	CacheDir string
	// EngineRoot is the engine's data directory.
	EngineRoot string
	// EngineSocket is the path of the engine's socket, when it has one.
	EngineSocket string
}

// homesOf returns the home directories that the user database of this machine
// gives the users. It reads no environment.
func homesOf(uids ...uint32) []string {
	var homes []string
	for _, uid := range uids {
		u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10))
		if err == nil && filepath.IsAbs(u.HomeDir) && !slices.Contains(homes, u.HomeDir) {
			homes = append(homes, u.HomeDir)
		}
	}
	return homes
}

// firstPerson is the first user id of a person (UID_MIN in login.defs(5)). The
// homes of services, as /var/www, are where their projects are.
const firstPerson = 1000

// fileID is the identity of a file, whatever names lead to it.
type fileID struct{ dev, ino uint64 }

// identify returns the identity of what path leads to, links followed.
func identify(path string) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fileID{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return fileID{uint64(st.Dev), uint64(st.Ino)}, nil
}

// rootFacts is what checkRoot has found out about a root. It holds at the moment
// of the check: whoever opens the directory afterwards compares Dev and Ino.
type rootFacts struct {
	// Name is the absolute path as given, Real the one without links.
	Name, Real string
	Dev, Ino   uint64
	// Born is when the directory was made, in nanoseconds of Unix time; 0
	// where the file system does not tell.
	Born int64
	// UID and GID own it.
	UID, GID uint32
	// Warnings say what works less well there, each for the caller's eyes.
	Warnings []string
}

// checkRoot tells whether commands may be given the directory dir, and refuses it
// when they would get more than a project with it. It makes nothing and opens
// nothing but directories, so it does not block on what else may be there.
//
// Errors: NOT_FOUND, NOT_A_DIRECTORY; INVALID_ARGUMENT when the name cannot be
// told to the engine; DENIED when the place must not be used; CONFLICT when the
// name leads elsewhere while it is looked at.
func checkRoot(ctx context.Context, dir string, p placePolicy) (rootFacts, error) {
	name, err := host.Abs("root", dir)
	if err != nil {
		return rootFacts{}, err
	}
	if dir == "" || strings.ContainsRune(dir, 0) {
		return rootFacts{}, rootError(workspace.ErrInvalidArgument, dir, "name a directory")
	}
	d, st, err := openDirectory(name)
	if err != nil {
		return rootFacts{}, openRootError(name, err)
	}
	defer d.Close()
	// A link that commands of another workspace have planted is not followed.
	real, err := followed(name, "")
	if errors.Is(err, errPlanted) {
		return rootFacts{}, rootError(workspace.ErrDenied, name, "%w", err)
	}
	if err != nil {
		return rootFacts{}, openRootError(name, err)
	}
	f := rootFacts{Name: name, Real: real, Dev: uint64(st.Dev), Ino: uint64(st.Ino), UID: st.Uid, GID: st.Gid, Born: birthTime(d)}
	id := fileID{f.Dev, f.Ino}
	if now, err := identify(real); err != nil || now != id {
		return rootFacts{}, rootError(workspace.ErrConflict, name, "the name leads elsewhere by now; try again when nobody moves it")
	}
	if !utf8.ValidString(real) {
		// The API is JSON, and a path through /proc/self/fd would be
		// resolved by the engine among its own descriptors.
		return rootFacts{}, rootError(workspace.ErrInvalidArgument, name, "the real path %q is not UTF-8, and the engine's API cannot carry other names; rename the directory, or use the host driver", real)
	}
	if st.Uid >= firstPerson {
		// For root, the owner of the root is the one whom commands run as.
		p.Homes = append(slices.Clone(p.Homes), homesOf(st.Uid)...)
	}
	if err := p.refusePlace(real, id); err != nil {
		return rootFacts{}, rootError(workspace.ErrDenied, name, "%w", err)
	}
	if err := refuseAncestors(real, st.Uid, st.Gid); err != nil {
		return rootFacts{}, rootError(workspace.ErrDenied, name, "%w", err)
	}
	if err := p.refuseSockets(ctx, d, id); err != nil {
		if ctx.Err() != nil {
			return rootFacts{}, rootError(workspace.ErrAborted, name, "%w", ctx.Err())
		}
		return rootFacts{}, rootError(workspace.ErrDenied, name, "%w", err)
	}
	if st.Mode&unix.S_IWOTH != 0 {
		f.Warnings = append(f.Warnings, "every user of this machine can write to the root "+workspace.Printable(name)+"; consider chmod o-w")
	}
	kind := fileSystem(d)
	if kind.kernel {
		return rootFacts{}, rootError(workspace.ErrDenied, name, "this is a view into the kernel (%s), not a place for files; name a project directory", kind.name)
	}
	if kind.remote {
		f.Warnings = append(f.Warnings, "the root "+workspace.Printable(name)+" is on "+kind.name+": renames may not be atomic there, the engine may lack access to it, and its bytes may lag behind; a local file system is better")
	}
	return f, nil
}

// rootError is an error of the check of a root.
func rootError(code workspace.Code, path, format string, args ...any) error {
	return workspace.Errorf(code, "root", path, format, args...)
}

// openRootError tells why a root could not be opened.
func openRootError(name string, err error) error {
	switch {
	case errors.Is(err, unix.ENOTDIR):
		return rootError(workspace.ErrNotDirectory, name, "it is no directory; name one")
	case errors.Is(err, fs.ErrNotExist):
		return rootError(workspace.ErrNotFound, name, "there is no such directory; make it first, or name another")
	case errors.Is(err, fs.ErrPermission):
		return rootError(workspace.ErrDenied, name, "it cannot be opened: %w; give yourself read and search permission", err)
	case errors.Is(err, unix.ELOOP):
		return rootError(workspace.ErrInvalidArgument, name, "its links lead in a circle")
	case errors.Is(err, unix.ENAMETOOLONG):
		return rootError(workspace.ErrInvalidArgument, name, "the name is too long")
	}
	return rootError(workspace.ErrIO, name, "%w", err)
}

// openDirectory opens a directory, and nothing else: O_DIRECTORY is checked
// before a FIFO or a device would be opened (open(2)).
func openDirectory(path string) (*os.File, unix.Stat_t, error) {
	return openDirectoryAt(unix.AT_FDCWD, path, 0)
}

// openDirectoryAt is openDirectory below a descriptor, with more flags.
func openDirectoryAt(at int, path string, flags int) (*os.File, unix.Stat_t, error) {
	var st unix.Stat_t
	fd, err := unix.Openat(at, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC|unix.O_NONBLOCK|flags, 0)
	if err != nil {
		return nil, st, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if err := unix.Fstat(fd, &st); err != nil {
		_ = unix.Close(fd)
		return nil, st, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), st, nil
}

// refusePlace refuses the places themselves, by identity: a bind mount of the
// home directory elsewhere is the home directory. real is the place's path
// without links.
func (p placePolicy) refusePlace(real string, id fileID) error {
	if real == "/" || passes("/", id) {
		return errors.New("this is the whole machine; name a project directory")
	}
	if slices.Contains(systemDirectories, real) {
		return errors.New("this is a directory of the operating system; name a project directory")
	}
	for _, home := range p.Homes {
		if home = resolvePlace(home); home != "/" && passes(home, id) {
			return errors.New("this is the home directory " + workspace.Printable(home) + " or above it, with the keys and settings of a person; name a project directory below it")
		}
	}
	if p.EngineRoot != "" {
		if engine := resolvePlace(p.EngineRoot); passes(engine, id) || underneath(real, engine) {
			return errors.New("this holds or belongs to the engine's own data in " + workspace.Printable(engine) + "; name a project directory elsewhere")
		}
	}
	if p.CacheDir != "" {
		if cache := resolvePlace(p.CacheDir); passes(cache, id) || underneath(real, cache) {
			return errors.New("this holds or belongs to the directory in which wsctl keeps what all workspaces use, " + workspace.Printable(cache) + "; name a project directory, or another cache directory")
		}
	}
	return nil
}

// systemDirectories are refused themselves; what is below them may be a project.
var systemDirectories = []string{
	"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var",
	"/usr/bin", "/usr/lib", "/usr/lib64", "/usr/local", "/usr/local/bin", "/usr/sbin", "/usr/share", "/var/lib", "/var/run",
}

// resolvePlace returns the path without links as far as it exists.
func resolvePlace(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(resolvePlace(parent), filepath.Base(path))
	}
	return path
}

// passes tells whether id is path, a path without links, or one of the
// directories above it.
func passes(path string, id fileID) bool {
	for {
		if at, err := identify(path); err == nil && at == id {
			return true
		}
		parent := filepath.Dir(path)
		if parent == path {
			return false
		}
		path = parent
	}
}

// underneath tells whether path is dir or lies below it, both without links.
func underneath(path, dir string) bool {
	if below(path, dir) {
		return true
	}
	id, err := identify(dir)
	return err == nil && passes(path, id)
}

// refuseAncestors refuses a root when somebody else could put another directory
// in its place: when one of the directories above it can be written by other
// users and is not sticky, or belongs to a stranger. uid and gid own the root.
func refuseAncestors(real string, uid, gid uint32) error {
	caller, group := uint32(unix.Geteuid()), uint32(unix.Getegid())
	for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
		var st unix.Stat_t
		if err := unix.Lstat(dir, &st); err != nil {
			return &fs.PathError{Op: "stat", Path: dir, Err: err}
		}
		mode := uint32(st.Mode)
		trusted := st.Uid == 0 || st.Uid == caller || st.Uid == uid || st.Uid == overflowID
		// A group of the same number as the owner is that user's own, as
		// useradd(8) makes them.
		ownGroup := st.Gid == 0 || st.Gid == group || st.Gid == gid || st.Gid == st.Uid && trusted
		sticky := mode&unix.S_ISVTX != 0
		switch {
		case mode&unix.S_IWOTH != 0 && !sticky:
			return errors.New("every user of this machine can rename what is in " + workspace.Printable(dir) + ", which is above the root; chmod o-w or chmod +t it")
		case mode&unix.S_IWGRP != 0 && !sticky && !ownGroup:
			return errors.New("the group " + strconv.FormatUint(uint64(st.Gid), 10) + " can rename what is in " + workspace.Printable(dir) + ", which is above the root; chmod g-w or chmod +t it")
		case !trusted:
			return errors.New("the directory " + workspace.Printable(dir) + " above the root belongs to the user " + strconv.FormatUint(uint64(st.Uid), 10) + ", who can put something else in its place; move the root to a directory of your own")
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// overflowID is what owners outside the user namespace are shown as
// (/proc/sys/kernel/overflowuid): in a rootless container that is the machine's
// root.
const overflowID = 65534
