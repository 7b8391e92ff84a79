package host

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// fileInfo is what was known of a file at one moment.
type fileInfo struct {
	name string
	st   unix.Stat_t
}

var (
	_ fs.FileInfo = (*fileInfo)(nil)
	_ fs.DirEntry = (*fileInfo)(nil)
)

func (i *fileInfo) Name() string               { return i.name }
func (i *fileInfo) Size() int64                { return i.st.Size }
func (i *fileInfo) Mode() fs.FileMode          { return modeOf(i.st.Mode) }
func (i *fileInfo) ModTime() time.Time         { return time.Unix(i.st.Mtim.Unix()) }
func (i *fileInfo) IsDir() bool                { return isType(&i.st, unix.S_IFDIR) }
func (i *fileInfo) Type() fs.FileMode          { return i.Mode().Type() }
func (i *fileInfo) Info() (fs.FileInfo, error) { return i, nil }

// String describes the entry as fs.FormatDirEntry does.
func (i *fileInfo) String() string { return fs.FormatDirEntry(i) }

// Sys returns a *workspace.FileStat.
func (i *fileInfo) Sys() any {
	return &workspace.FileStat{
		Version: versionOf(&i.st),
		ID:      fmt.Sprintf("%x:%x", uint64(i.st.Dev), i.st.Ino),
		UID:     i.st.Uid,
		GID:     i.st.Gid,
		Links:   uint64(i.st.Nlink),
		Changed: time.Unix(i.st.Ctim.Unix()),
	}
}

// versionOf is made of the file's identity, its size and both times that a
// change of its content moves. The change time cannot be set by a caller. A
// write through an old memory mapping can come without any of them.
func versionOf(st *unix.Stat_t) string {
	b := make([]byte, 0, 64)
	for i, v := range [...]uint64{
		uint64(st.Dev), st.Ino, uint64(st.Size),
		uint64(st.Mtim.Nano()), uint64(st.Ctim.Nano()),
	} {
		if i > 0 {
			b = append(b, '-')
		}
		b = strconv.AppendUint(b, v, 36)
	}
	return string(b)
}

// modeOf is the FileMode of a st_mode (inode(7)).
func modeOf(m uint32) fs.FileMode {
	mode := fs.FileMode(m & 0o777)
	switch m & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	}
	if m&unix.S_ISUID != 0 {
		mode |= fs.ModeSetuid
	}
	if m&unix.S_ISGID != 0 {
		mode |= fs.ModeSetgid
	}
	if m&unix.S_ISVTX != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

// Stat implements workspace.Files.
func (r *Root) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	return r.stat(ctx, "stat", name, true)
}

// Lstat implements workspace.Files.
func (r *Root) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return r.stat(ctx, "lstat", name, false)
}

func (r *Root) stat(ctx context.Context, op, name string, follow bool) (fs.FileInfo, error) {
	if err := r.begin(ctx, op, name); err != nil {
		return nil, err
	}
	defer r.calls.leave()
	fi := &fileInfo{name: path.Base(name)}
	done, err := r.statTop(name, follow, &fi.st)
	if !done {
		done, err = r.statViewed(name, follow, &fi.st)
	}
	if done {
		if err != nil {
			return nil, asError(op, name, err)
		}
		return fi, nil
	}
	fd, err := r.lookupStat(name, follow, &fi.st)
	if err != nil {
		return nil, asError(op, name, err)
	}
	closeFD(fd)
	return fi, nil
}

// statTop describes an entry of the root itself: a name of one part leads
// nowhere else when it is not followed, so nothing need be held. done is false
// when the name needs more than that.
func (r *Root) statTop(name string, follow bool, st *unix.Stat_t) (done bool, err error) {
	if strings.IndexByte(name, '/') >= 0 || name == "." || !plain(name) {
		return false, nil
	}
	if r.opts.NoMounts && r.hooks.on(guardMounts) {
		if done, err := r.statUnmounted(name, st); !done || err != nil {
			return done, err
		}
	} else if err := statEntry(r.fd, name, st); err != nil {
		return true, err
	}
	return !follow && !isType(st, unix.S_IFDIR) || isType(st, unix.S_IFREG), nil
}

// statUnmounted is statEntry of the root that also asks which mount the entry
// lies in (statx(2), Linux 5.8). done is false when that is another than the
// root's, or is not told: then the name is resolved.
func (r *Root) statUnmounted(name string, st *unix.Stat_t) (done bool, err error) {
	var x unix.Statx_t
	err = ignoreIntr(func() error {
		return unix.Statx(r.fd, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &x)
	})
	const needed = unix.STATX_BASIC_STATS | unix.STATX_MNT_ID
	switch {
	case err == unix.ENOENT:
		return true, err
	case err != nil, x.Mask&needed != needed, r.mount == 0, x.Mnt_id != r.mount:
		return false, nil
	}
	st.Dev, st.Ino = unix.Mkdev(x.Dev_major, x.Dev_minor), x.Ino
	st.Mode, st.Size = uint32(x.Mode), int64(x.Size)
	st.Uid, st.Gid = x.Uid, x.Gid
	setField(&st.Nlink, x.Nlink)
	setTime(&st.Mtim, x.Mtime)
	setTime(&st.Ctim, x.Ctime)
	return true, nil
}

// setField sets a field whose type differs between architectures.
func setField[F, V int32 | int64 | uint32 | uint64](field *F, v V) { *field = F(v) }

func setTime(field *unix.Timespec, t unix.StatxTimestamp) {
	setField(&field.Sec, t.Sec)
	setField(&field.Nsec, t.Nsec)
}

// ReadLink implements workspace.Files.
func (r *Root) ReadLink(ctx context.Context, name string) (string, error) {
	const op = "readlink"
	if err := r.begin(ctx, op, name); err != nil {
		return "", err
	}
	defer r.calls.leave()
	fd, st, err := r.lookup(name, false)
	if err != nil {
		return "", asError(op, name, err)
	}
	defer closeFD(fd)
	if !isType(&st, unix.S_IFLNK) {
		return "", asError(op, name, refuse(workspace.ErrInvalidPath, "it is not a link"))
	}
	text, err := readLink(fd)
	return text, asError(op, name, err)
}
