package workspace_test

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"testing/fstest"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// memFiles is a file tree in memory. It knows no links, and says so.
type memFiles struct {
	mu    sync.Mutex
	tree  fstest.MapFS
	names []string // every name it was asked for, as it came
}

func newMemFiles() *memFiles { return &memFiles{tree: fstest.MapFS{}} }

// clean returns the name in the tree's own spelling.
func (m *memFiles) clean(name string) (string, error) {
	m.names = append(m.names, name)
	c := path.Clean(name)
	if c == ".." || strings.HasPrefix(c, "../") {
		return "", workspace.Errorf(workspace.ErrOutside, "", name, "the path leaves the root")
	}
	return c, nil
}

func (m *memFiles) info(name string) (fs.FileInfo, error) {
	c, err := m.clean(name)
	if err != nil {
		return nil, err
	}
	return m.tree.Stat(c)
}

type memFile struct {
	*bytes.Reader
	info fs.FileInfo
}

func (f *memFile) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *memFile) Close() error               { return nil }

func (m *memFiles) Open(_ context.Context, name string) (workspace.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fi, err := m.info(name)
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		return nil, workspace.Errorf(workspace.ErrNotFile, "", name, "it is a directory")
	}
	return &memFile{bytes.NewReader(m.tree[path.Clean(name)].Data), fi}, nil
}

func (m *memFiles) Stat(_ context.Context, name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.info(name)
}

func (m *memFiles) Lstat(ctx context.Context, name string) (fs.FileInfo, error) {
	return m.Stat(ctx, name)
}

func (m *memFiles) ReadLink(_ context.Context, name string) (string, error) {
	return "", workspace.Errorf(workspace.ErrUnsupported, "", name, "no links here")
}

func (m *memFiles) ReadDir(_ context.Context, name string, o workspace.ListOptions) (workspace.List, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.clean(name)
	if err != nil {
		return workspace.List{}, err
	}
	all, err := m.tree.ReadDir(c)
	all = slices.DeleteFunc(all, func(e fs.DirEntry) bool { return o.After != "" && e.Name() <= o.After })
	if o.Limit > 0 && len(all) > o.Limit {
		return workspace.List{Entries: all[:o.Limit], More: true}, err
	}
	return workspace.List{Entries: all}, err
}

func (m *memFiles) Write(_ context.Context, name string, r io.Reader, o workspace.WriteOptions) (fs.FileInfo, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.clean(name)
	if err != nil {
		return nil, err
	}
	if o.Exclusive && m.tree[c] != nil {
		return nil, workspace.Errorf(workspace.ErrExists, "", name, "the file exists")
	}
	m.tree[c] = &fstest.MapFile{Data: data, Mode: 0o644, ModTime: time.Now()}
	return m.tree.Stat(c)
}

func (m *memFiles) Edit(_ context.Context, name string, _ workspace.EditOptions, change func([]byte) ([]byte, error)) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.info(name); err != nil {
		return nil, err
	}
	f := m.tree[path.Clean(name)]
	data, err := change(f.Data)
	if err != nil {
		return nil, err
	}
	f.Data = data
	return m.tree.Stat(path.Clean(name))
}

func (m *memFiles) Mkdir(_ context.Context, name string, _ workspace.MkdirOptions) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, err := m.clean(name)
	if err == nil {
		m.tree[c] = &fstest.MapFile{Mode: fs.ModeDir | 0o755}
	}
	return err
}

func (m *memFiles) Symlink(_ context.Context, _, link string) error {
	return workspace.Errorf(workspace.ErrUnsupported, "", link, "no links here")
}

func (m *memFiles) Remove(_ context.Context, name string, _ workspace.RemoveOptions) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.info(name); err != nil {
		return err
	}
	delete(m.tree, path.Clean(name))
	return nil
}

func (m *memFiles) Rename(_ context.Context, from, to string, o workspace.RenameOptions) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.info(from); err != nil {
		return err
	}
	c, err := m.clean(to)
	if err != nil {
		return err
	}
	if !o.Overwrite && m.tree[c] != nil {
		return workspace.Errorf(workspace.ErrExists, "", to, "the name is taken")
	}
	m.tree[c] = m.tree[path.Clean(from)]
	delete(m.tree, path.Clean(from))
	return nil
}

func (m *memFiles) Copy(ctx context.Context, from, to string, o workspace.WriteOptions) (fs.FileInfo, error) {
	f, err := m.Open(ctx, from)
	if err != nil {
		return nil, err
	}
	return m.Write(ctx, to, f, o)
}

func (m *memFiles) Chmod(_ context.Context, name string, perm fs.FileMode) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.info(name); err != nil {
		return err
	}
	m.tree[path.Clean(name)].Mode = perm
	return nil
}
