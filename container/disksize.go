//go:build unix

package container

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// maxTreeDepth bounds the descriptors that a measurement holds. What is deeper
// cannot be measured.
const maxTreeDepth = 512

// treeSize is how much a tree has on disk, as du(1) counts.
type treeSize struct {
	// Bytes are those of the blocks of all files, each file once.
	Bytes int64
	// Closed counts directories that could not be looked into.
	Closed int
	// Files counts entries.
	Files int
}

// treeWalk measures one tree. Nothing in it is opened but directories, no link is
// followed, and no other file system is entered, since a mount that is not
// recursive does not show it.
type treeWalk struct {
	ctx  context.Context //nolint:containedctx // the walk's own
	dev  uint64
	size treeSize
	// seen are files with several names.
	seen map[uint64]struct{}
}

// measureTree measures what is below an open directory. The tree may change
// meanwhile; what comes and goes is counted or not. The error is the context's, or
// about the directory itself.
func measureTree(ctx context.Context, dir *os.File) (treeSize, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return treeSize{}, err
	}
	w := &treeWalk{ctx: ctx, dev: uint64(st.Dev), seen: map[uint64]struct{}{}}
	// A descriptor of its own: reading a directory moves its offset.
	d, _, err := openDirectoryAt(int(dir.Fd()), ".", unix.O_NOFOLLOW)
	if err != nil {
		return treeSize{}, err
	}
	err = w.add(d, 1)
	return w.size, err
}

// add measures what is in d and closes it.
func (w *treeWalk) add(d *os.File, depth int) error {
	defer d.Close()
	for {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		names, err := d.Readdirnames(512)
		for _, name := range names {
			if err := w.entry(d, name, depth); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			w.size.Closed++
			return nil
		}
	}
}

func (w *treeWalk) entry(d *os.File, name string, depth int) error {
	var st unix.Stat_t
	if unix.Fstatat(int(d.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil || uint64(st.Dev) != w.dev {
		return nil // gone, or not part of it
	}
	w.size.Files++
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if !isDir && st.Nlink > 1 {
		if _, counted := w.seen[st.Ino]; counted {
			return nil
		}
		w.seen[st.Ino] = struct{}{}
	}
	const blockSize = 512 // of st_blocks (stat(3type))
	w.size.Bytes += int64(st.Blocks) * blockSize
	if !isDir {
		return nil
	}
	if depth >= maxTreeDepth {
		w.size.Closed++
		return nil
	}
	sub, _, err := openDirectoryAt(int(d.Fd()), name, unix.O_NOFOLLOW)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
			w.size.Closed++
		}
		return nil
	}
	return w.add(sub, depth+1)
}
