//go:build unix && !linux

package host

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/wsctl/wsctl/workspace"
)

// Root is a directory of this machine, held open, below which files are read
// and changed. Outside Linux it stands on os.Root, and promises less:
//
//   - A link whose text is absolute is OUTSIDE_ROOT, also when it leads inside,
//     and a name leads through at most 8 links.
//   - A FIFO or a device is refused after it was opened, without blocking.
//   - The state is closed to its own spellings (StateName), not to a link that
//     leads to it.
//   - A rename, a replacing write and a recursive removal act on what has the
//     name at that moment; a change by somebody else right before a write ends
//     is not always CONFLICT.
//   - Directories deeper than descriptors last are not removed, nothing is
//     moved to the trash, and nothing is swept at the opening.
//   - NoMounts, and HardLinksInternal, are UNSUPPORTED when the root is opened.
type Root struct {
	name, real string
	opts       RootOptions
	root       *os.Root
	info       fs.FileInfo
	outside    error // what os.Root answers for a name that leads out

	locks     lockTable
	calls     *gate
	closeOnce sync.Once
}

var _ workspace.Files = (*Root)(nil)

// OpenRoot opens dir and holds it until Close. It makes nothing.
func OpenRoot(dir string, o RootOptions) (*Root, error) {
	const op = "open"
	if dir == "" {
		return nil, workspace.Errorf(workspace.ErrInvalidPath, op, dir, "the root is empty; name a directory")
	}
	if err := o.check(op, dir); err != nil {
		return nil, err
	}
	if o.NoMounts || o.HardLinks == HardLinksInternal {
		return nil, workspace.Errorf(workspace.ErrUnsupported, op, dir, "this system can tell neither mounts nor all names of a file; use Linux, or other options")
	}
	name, err := Abs(op, dir)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return nil, asError(op, dir, err)
	}
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, asError(op, dir, err)
	}
	r := &Root{name: name, real: real, opts: o, root: root, calls: newGate()}
	if r.info, err = root.Stat("."); err != nil {
		root.Close()
		return nil, asError(op, dir, err)
	}
	// The error is not exported; every root answers the same one.
	_, err = root.Lstat("..")
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		r.outside = pathErr.Err
	}
	return r, nil
}

// Name is the absolute path that the root was opened by.
func (r *Root) Name() string { return r.name }

// Real is that path with its links resolved, when the root was opened.
func (r *Root) Real() string { return r.real }

// Identity is the device and inode of the directory.
func (r *Root) Identity() (dev, ino uint64) {
	id, _ := identityOf(r.info)
	return id.dev, id.ino
}

// Check reports whether the root's name still leads to the directory that is
// held.
func (r *Root) Check() error {
	const op = "check"
	fi, err := os.Stat(r.name)
	if err != nil {
		return asError(op, r.name, err)
	}
	if !os.SameFile(fi, r.info) {
		return workspace.Errorf(workspace.ErrConflict, op, r.name,
			"the name now leads to another directory; files are still read and written in the one that was opened: open the workspace again")
	}
	return nil
}

// OpenDir opens a directory of the root.
func (r *Root) OpenDir(ctx context.Context, name string) (*os.File, error) {
	const op = "chdir"
	leave, err := r.begin(ctx, op, name)
	if err != nil {
		return nil, err
	}
	defer leave()
	f, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_DIRECTORY, 0)
	return f, r.fail(op, name, err)
}

// Close lets the directory go. Later calls answer DISPOSED.
func (r *Root) Close() error {
	r.closeOnce.Do(func() {
		r.calls.close()
		r.root.Close()
	})
	return nil
}

// begin checks what every call checks; leave must follow when it succeeds.
func (r *Root) begin(ctx context.Context, op, name string) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, &workspace.Error{Code: workspace.ErrAborted, Op: op, Path: name, Err: err}
	}
	switch first := split(name).parts; {
	case name == "":
		err = refuse(workspace.ErrInvalidPath, `the path is empty; "." is the root`)
	case strings.IndexByte(name, 0) >= 0:
		err = refuse(workspace.ErrInvalidPath, "the path holds a NUL byte")
	case name[0] == '/', climbs(0, first):
		err = refuse(workspace.ErrOutside, "the path leads out of the workspace; use one below its root")
	case touchesState(first):
		err = refuse(workspace.ErrInvalidPath, "%s is the workspace's own state", StateName)
	}
	if err != nil {
		return nil, asError(op, name, err)
	}
	if !r.calls.enter() {
		return nil, workspace.Errorf(workspace.ErrDisposed, op, name, "the root is closed")
	}
	return r.calls.leave, nil
}

// touchesState reports whether the text of a name goes through the state.
func touchesState(parts []string) bool {
	depth := 0
	for _, part := range parts {
		switch {
		case part == "..":
			depth--
		case depth == 0 && reserved(part):
			return true
		default:
			depth++
		}
	}
	return false
}

// fail is asError that also knows how os.Root says "outside".
func (r *Root) fail(op, name string, err error) error {
	if err != nil && r.outside != nil && errors.Is(err, r.outside) {
		return workspace.Errorf(workspace.ErrOutside, op, name, "the path leads out of the workspace; use one below its root")
	}
	return asError(op, name, err)
}

// State makes the state's directory when it is missing and returns it; the
// caller closes it.
func (r *Root) State() (*os.File, error) {
	const op = "state"
	if err := r.root.Mkdir(StateName, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, r.fail(op, StateName, err)
	}
	fi, err := r.root.Lstat(StateName)
	if err == nil && !fi.IsDir() {
		err = refuse(workspace.ErrInvalidPath, "%s is kept for the workspace's own state and is no directory; remove it", StateName)
	}
	if err != nil {
		return nil, r.fail(op, StateName, err)
	}
	if err := r.once(StateName+"/.gitignore", "*\n"); err != nil {
		return nil, r.fail(op, StateName, err)
	}
	f, err := r.root.Open(StateName)
	return f, r.fail(op, StateName, err)
}

// LockFile opens a file of the state that is there to be locked (flock(2)), made
// when it is missing; the caller closes it.
func (r *Root) LockFile(name string) (*os.File, error) {
	state, err := r.State()
	if err != nil {
		return nil, err
	}
	state.Close()
	f, err := r.root.OpenFile(StateName+"/"+name, os.O_RDWR|os.O_CREATE, 0o600)
	return f, r.fail("lock", StateName+"/"+name, err)
}

// once makes a file unless it is there.
func (r *Root) once(name, content string) error {
	f, err := r.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(content)
	return err
}

// StateIdentity makes the state when it is missing and returns the device and
// inode of its directory.
func (r *Root) StateIdentity() (dev, ino uint64, err error) {
	f, err := r.State()
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return 0, 0, r.fail("state", StateName, err)
	}
	id, _ := identityOf(fi)
	return id.dev, id.ino, nil
}

// ID is the workspace's id, 32 hexadecimal digits, kept in the state.
func (r *Root) ID() (string, error) {
	const op, name = "id", StateName + "/id"
	f, err := r.State()
	if err != nil {
		return "", err
	}
	f.Close()
	var b [16]byte
	rand.Read(b[:])
	if err := r.once(name, hex.EncodeToString(b[:])+"\n"); err != nil {
		return "", r.fail(op, name, err)
	}
	text, err := r.root.ReadFile(name)
	if err != nil {
		return "", r.fail(op, name, err)
	}
	id := strings.TrimSuffix(string(text), "\n")
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != len(b) {
		return "", workspace.Errorf(workspace.ErrCorrupt, op, name, "the workspace's id is damaged; remove the file and a new one is made")
	}
	return id, nil
}

// noTrash is the answer of what there is no trash for.
func noTrash(op string) error {
	return workspace.Errorf(workspace.ErrUnsupported, op, TrashName, "there is a trash on Linux only")
}

// Trash is UNSUPPORTED outside Linux.
func (r *Root) Trash(context.Context) ([]TrashItem, error) { return nil, noTrash("trash") }

// RemoveToTrash is UNSUPPORTED outside Linux.
func (r *Root) RemoveToTrash(context.Context, string) (string, error) { return "", noTrash("remove") }

// CopyTree is UNSUPPORTED outside Linux: nothing there makes a directory appear
// whole.
func (r *Root) CopyTree(_ context.Context, from, _ string, _ CopyTreeOptions) error {
	return workspace.Errorf(workspace.ErrUnsupported, "copy", from, "directories are copied on Linux only; copy the files one by one")
}

// RestoreTrash is UNSUPPORTED outside Linux.
func (r *Root) RestoreTrash(context.Context, string, string) error { return noTrash("restore") }

// PurgeTrash is UNSUPPORTED outside Linux.
func (r *Root) PurgeTrash(context.Context, PurgeOptions) ([]TrashItem, error) {
	return nil, noTrash("purge")
}

// Leftovers are none: nothing is looked for outside Linux.
func (r *Root) Leftovers(context.Context) (Leftovers, error) { return Leftovers{}, nil }
