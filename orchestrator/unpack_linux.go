//go:build linux

package orchestrator

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	slash "path"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

const (
	// maxUnpackDepth and maxLinkText bound one name and one link.
	maxUnpackDepth = 1000
	maxLinkText    = 4095 // PATH_MAX less its NUL
	// maxUnpackWindow bounds the memory that a compressed tar can ask for.
	maxUnpackWindow = 128 << 20
)

// unpack makes dir, which is empty, what a tar holds, and flushes it to the disk.
func unpack(ctx context.Context, r io.Reader, dir string, limits unpackLimits) error {
	root, err := host.OpenRoot(dir, host.RootOptions{LeftoverAge: -1})
	if err != nil {
		return err
	}
	defer root.Close()
	if err := fill(ctx, root, r, limits); err != nil {
		return err
	}
	return root.Sync()
}

// fill makes an empty root what a tar holds; gzip and zstd are known by how they
// begin. The tar can come from anybody: it is unpacked through the guard, entry by
// entry into held directories, so that nothing of it can lead out, and no link of
// it is followed. A name that would lead out, a device, a name twice, and more than
// the limits are errors. The workspace's own state is left out, and so are owners
// and special mode bits.
func fill(ctx context.Context, root *host.Root, r io.Reader, limits unpackLimits) error {
	plain, done, err := uncompressed(r)
	if err != nil {
		return err
	}
	defer done()
	u := &unpacking{ctx: ctx, root: root, left: limits, dirs: map[string]attributes{}}
	defer u.leave()
	if err := u.all(tar.NewReader(plain)); err != nil {
		return err
	}
	u.leave()
	return u.directories()
}

// uncompressed reads what r holds, whichever way it is packed.
func uncompressed(r io.Reader) (plain io.Reader, done func(), err error) {
	b := bufio.NewReaderSize(r, 64<<10)
	head, err := b.Peek(4)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, nil, badTar("%v", err)
		}
		return z, func() {}, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxUnpackWindow), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, nil, badTar("%v", err)
		}
		return z, z.Close, nil
	}
	return b, func() {}, nil
}

func badTar(format string, args ...any) error {
	return workspace.Errorf(workspace.ErrCorrupt, "create", "", "the tar cannot be unpacked: "+format, args...)
}

func tooMuch(what string) error {
	return workspace.Errorf(workspace.ErrTooLarge, "create", "", "the tar holds more %s than this server unpacks", what)
}

// unpacking is one tar on its way into one root.
type unpacking struct {
	ctx  context.Context //nolint:containedctx // the life of one tar
	root *host.Root
	left unpackLimits
	// dirs are those that were made, and what they get in the end: until then
	// they take entries.
	dirs map[string]attributes

	held *host.Dir // the one that entries were last made in; nil: none
	at   string    // its name
}

// attributes are what a directory gets in the end.
type attributes struct {
	perm     fs.FileMode
	modified int64
}

func (u *unpacking) all(t *tar.Reader) error {
	for {
		if err := u.ctx.Err(); err != nil {
			return workspace.Errorf(workspace.ErrAborted, "create", "", "%w", err)
		}
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return badTar("%v", err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if err := u.entry(t, h); err != nil {
			return err
		}
	}
}

// entry makes one entry of the tar.
func (u *unpacking) entry(t *tar.Reader, h *tar.Header) error {
	if u.left.entries--; u.left.entries < 0 {
		return tooMuch("files")
	}
	if u.left.names -= int64(len(h.Name) + len(h.Linkname)); u.left.names < 0 {
		return tooMuch("names")
	}
	name, err := cleanEntry(h.Name)
	if err != nil {
		return err
	}
	mode, modified := fs.FileMode(h.Mode)&0o777, nanoseconds(h.ModTime)
	if first, _, _ := strings.Cut(name, "/"); host.SameName(first, host.StateName) {
		return nil
	}
	if h.Typeflag == tar.TypeDir {
		if name == "." {
			return nil // the root is the server's
		}
		if _, err := u.enter(name); err != nil {
			return err
		}
		u.dirs[name] = attributes{mode, modified}
		return nil
	}
	if name == "." {
		return badTar("its root is no directory")
	}
	in, err := u.enter(slash.Dir(name))
	if err != nil {
		return err
	}
	base := slash.Base(name)
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		if u.left.bytes -= h.Size; u.left.bytes < 0 {
			return tooMuch("bytes")
		}
		content := &noting{r: t}
		err = in.Put(u.ctx, base, content, host.PutOptions{Perm: mode, Modified: modified})
		if content.err != nil {
			return badTar("%v", content.err)
		}
	case tar.TypeSymlink:
		if h.Linkname == "" || len(h.Linkname) > maxLinkText || strings.IndexByte(h.Linkname, 0) >= 0 {
			return badTar("the text of the link %.200q cannot be one", name)
		}
		err = in.PutLink(u.ctx, base, h.Linkname, modified)
	case tar.TypeLink:
		err = u.again(in, base, h)
	default:
		return badTar("%.200q is a device, a FIFO or something else that is no file, directory or link", name)
	}
	return madeOnce(name, err)
}

// noting is a reader that knows whether it has failed.
type noting struct {
	r   io.Reader
	err error
}

func (n *noting) Read(b []byte) (int, error) {
	k, err := n.r.Read(b)
	if err != nil && err != io.EOF {
		n.err = err
	}
	return k, err
}

// madeOnce is the error of an entry that could not be made.
func madeOnce(name string, err error) error {
	switch workspace.CodeOf(err) {
	case "":
		if err != nil {
			return badTar("%v", err)
		}
		return nil
	case workspace.ErrConflict, workspace.ErrExists:
		return badTar("%.200q is in it twice", name)
	}
	return err
}

// again makes a hard link of the tar a copy of the file that it names: the guard
// has its reasons against files with two names.
func (u *unpacking) again(in *host.Dir, base string, h *tar.Header) error {
	name, err := cleanEntry(h.Linkname)
	if err != nil {
		return err
	}
	dir, err := u.root.HoldDir(u.ctx, slash.Dir(name))
	if err != nil {
		return badTar("the hard link %.200q leads to nothing in it", h.Name)
	}
	defer dir.Close()
	from, err := dir.Open(u.ctx, slash.Base(name))
	if err != nil {
		return badTar("the hard link %.200q leads to nothing in it", h.Name)
	}
	defer from.Close()
	is, err := from.Stat()
	if err != nil {
		return err
	}
	if u.left.bytes -= is.Size; u.left.bytes < 0 {
		return tooMuch("bytes")
	}
	return in.Put(u.ctx, base, from, host.PutOptions{Perm: is.Mode.Perm(), Modified: is.Modified})
}

// cleanEntry is the name of an entry as the guard takes it.
func cleanEntry(raw string) (string, error) {
	name := slash.Clean(strings.TrimSuffix(raw, "/"))
	parts := strings.Split(name, "/")
	if raw == "" || slash.IsAbs(raw) || slices.Contains(strings.Split(raw, "/"), "..") || strings.IndexByte(raw, 0) >= 0 {
		return "", badTar("the name %.200q would lead out of it, or is none", raw)
	}
	if len(parts) > maxUnpackDepth || slices.ContainsFunc(parts, func(p string) bool { return len(p) > 255 }) {
		return "", badTar("the name %.200q is too long", raw)
	}
	return name, nil
}

// enter holds a directory, and makes it and those above it that are missing. What
// is there and no directory, a link too, is in the way.
func (u *unpacking) enter(name string) (*host.Dir, error) {
	if u.held != nil && u.at == name {
		return u.held, nil
	}
	u.leave()
	held, err := u.root.HoldDir(u.ctx, name)
	if errors.Is(err, workspace.ErrNotFound) && name != "." {
		above, aboveErr := u.enter(slash.Dir(name))
		if aboveErr != nil {
			return nil, aboveErr
		}
		if err := above.PutDir(u.ctx, slash.Base(name)); err != nil {
			return nil, madeOnce(name, err)
		}
		if u.left.entries--; u.left.entries < 0 {
			return nil, tooMuch("files")
		}
		u.dirs[name] = attributes{0o755, 0}
		u.leave()
		held, err = u.root.HoldDir(u.ctx, name)
	}
	if errors.Is(err, workspace.ErrNotDirectory) {
		return nil, badTar("%.200q is in it as a directory and as something else", name)
	}
	if err != nil {
		return nil, err
	}
	u.held, u.at = held, name
	return held, nil
}

// leave lets the held directory go.
func (u *unpacking) leave() {
	if u.held != nil {
		u.held.Close()
		u.held = nil
	}
}

// directories gives the directories their modes and times, the deepest first:
// making an entry changes the time of the one that it is in.
func (u *unpacking) directories() error {
	names := make([]string, 0, len(u.dirs))
	for name := range u.dirs {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Backward(names) {
		held, err := u.root.HoldDir(u.ctx, name)
		if err != nil {
			return err
		}
		a := u.dirs[name]
		if a.modified == 0 {
			a.modified = time.Now().UnixNano()
		}
		err = held.SetSelf(a.perm, a.modified)
		held.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// nanoseconds is a time as the file system takes it; what it cannot hold is now.
func nanoseconds(t time.Time) int64 {
	const last = int64(1) << 62 / int64(time.Second)
	if s := t.Unix(); s <= 0 || s >= last {
		return time.Now().UnixNano()
	}
	return t.UnixNano()
}
