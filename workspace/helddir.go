package workspace

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
)

// DirHolder is a Files whose directories can be held open, for those who walk a
// tree: a name is then looked up in the directory that was listed, and not once
// more from the root. It is optional; WithDir of a Workspace works without.
type DirHolder interface {
	// OpenHeldDir holds the directory that name leads to. Links on the way are
	// followed as by Stat.
	OpenHeldDir(ctx context.Context, name string) (HeldDir, error)
}

// HeldDir is a held directory. It stays the same one whatever becomes of its name.
// Names are relative to it, with '/' between components and without "..", and
// no component of them is followed when it is a link: what a HeldDir gives lies
// below it, whoever changes the tree meanwhile. The workspace's own state is
// neither listed nor opened.
//
// Its methods may be called by many goroutines at once, Close once they have
// returned.
type HeldDir interface {
	// Names lists what name holds, sorted by the bytes of the names; "." is
	// the directory itself.
	Names(ctx context.Context, name string) ([]DirName, error)
	// Dir holds a directory below; NOT_A_DIRECTORY when it is a link.
	Dir(ctx context.Context, name string) (HeldDir, error)
	// Lstat describes an entry.
	Lstat(ctx context.Context, name string) (fs.FileInfo, error)
	// Open opens a regular file. Anything else is NOT_A_FILE, a link too,
	// and is not opened.
	Open(ctx context.Context, name string) (File, error)
	// ReadHead reads an entry of the directory itself, one that Names has
	// listed as a regular file, into b until b is full or the file ends. It
	// returns the number of bytes and the size that the file said it had.
	// What is no regular file any more is NOT_A_FILE, and nothing blocks.
	ReadHead(ctx context.Context, e DirName, b []byte) (n int, size int64, err error)
	// Close lets the directory go.
	Close() error
}

// DirName is what a directory itself tells of an entry.
type DirName struct {
	Name string
	// Type holds the type bits alone (fs.ModeType).
	Type fs.FileMode
}

// WithDir calls use with the directory that path leads to, held, and lets it go
// when use returns. The context that use gets ends with ctx and with Close,
// which waits for use.
func (w *Workspace) WithDir(ctx context.Context, path string, use func(ctx context.Context, d HeldDir) error) error {
	return w.fileDo(ctx, "list", path, func(ctx context.Context, f Files, name string) error {
		d, err := openHeldDir(ctx, f, name)
		if err != nil {
			return err
		}
		return errors.Join(use(ctx, d), d.Close())
	})
}

// Rel spells path relative to the root, as Files takes it. It looks at the text
// alone: ".." and repeated slashes stay.
func (w *Workspace) Rel(path string) (string, error) { return w.name("path", path) }

func openHeldDir(ctx context.Context, f Files, name string) (HeldDir, error) {
	if h, ok := f.(DirHolder); ok {
		return h.OpenHeldDir(ctx, name)
	}
	fi, err := f.Stat(ctx, name)
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		return nil, Errorf(ErrNotDirectory, "list", name, "it is not a directory")
	}
	return &namedDir{f, name}, nil
}

// namedDir is a HeldDir over a Files that cannot hold one: it remembers the name.
// The Files keep every look-up inside the root.
type namedDir struct {
	files Files
	name  string
}

func (d *namedDir) Names(ctx context.Context, name string) ([]DirName, error) {
	at, err := d.below(ctx, "list", name, fs.ModeDir)
	if err != nil {
		return nil, err
	}
	list, err := d.files.ReadDir(ctx, at, ListOptions{})
	if err != nil {
		return nil, err
	}
	names := make([]DirName, len(list.Entries))
	for i, e := range list.Entries {
		names[i] = DirName{e.Name(), e.Type()}
	}
	slices.SortFunc(names, func(a, b DirName) int { return cmp.Compare(a.Name, b.Name) })
	return names, nil
}

func (d *namedDir) Dir(ctx context.Context, name string) (HeldDir, error) {
	at, err := d.below(ctx, "list", name, fs.ModeDir)
	if err != nil {
		return nil, err
	}
	return &namedDir{d.files, at}, nil
}

func (d *namedDir) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, badDirName("lstat", name)
	}
	return d.files.Lstat(ctx, d.join(name))
}

func (d *namedDir) ReadHead(ctx context.Context, e DirName, b []byte) (int, int64, error) {
	f, err := d.Open(ctx, e.Name)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	n, err := io.ReadFull(&ctxReader{ctx, f}, b)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil
	}
	return n, fi.Size(), err
}

func (d *namedDir) Open(ctx context.Context, name string) (File, error) {
	at, err := d.below(ctx, "open", name, 0)
	if err != nil {
		return nil, err
	}
	return d.files.Open(ctx, at)
}

func (d *namedDir) Close() error { return nil }

func (d *namedDir) join(name string) string {
	if name == "." {
		return d.name
	}
	return d.name + "/" + name
}

// below is the name of an entry that is of the type wanted, and no link.
func (d *namedDir) below(ctx context.Context, op, name string, want fs.FileMode) (string, error) {
	if !fs.ValidPath(name) {
		return "", badDirName(op, name)
	}
	if name == "." {
		return d.name, nil
	}
	at := d.join(name)
	fi, err := d.files.Lstat(ctx, at)
	switch {
	case err != nil:
		return "", err
	case fi.Mode().Type() == want:
		return at, nil
	case want == fs.ModeDir:
		return "", Errorf(ErrNotDirectory, op, name, "it is not a directory")
	}
	return "", Errorf(ErrNotFile, op, name, "it is not a regular file")
}

func badDirName(op, name string) error {
	return Errorf(ErrInvalidPath, op, name, `give a name below the directory, without ".." and empty parts`)
}
