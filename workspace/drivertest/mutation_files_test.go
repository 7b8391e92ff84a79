//go:build unix

package drivertest

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/wsctl/wsctl/workspace"
)

// files is a tree whose verbs are replaced one by one.
type files struct {
	workspace.Files
	dir   string
	write func(name string, data []byte, o *workspace.WriteOptions) (done bool)
	list  func(l *workspace.List)
	name  func(name string) string
	fail  func(error) error
	info  func(fs.FileInfo) fs.FileInfo
	opens func(file string) (workspace.File, error)
}

func (f *files) say(name string) string {
	if f.name == nil {
		return name
	}
	return f.name(name)
}

func (f *files) err(err error) error {
	if err == nil || f.fail == nil {
		return err
	}
	return f.fail(err)
}

func (f *files) Open(ctx context.Context, name string) (workspace.File, error) {
	if f.opens != nil {
		return f.opens(filepath.Join(f.dir, name))
	}
	file, err := f.Files.Open(ctx, f.say(name))
	return file, f.err(err)
}

func (f *files) Stat(ctx context.Context, name string) (fs.FileInfo, error) {
	fi, err := f.Files.Stat(ctx, f.say(name))
	if err == nil && f.info != nil {
		fi = f.info(fi)
	}
	return fi, f.err(err)
}

func (f *files) ReadDir(ctx context.Context, name string, o workspace.ListOptions) (workspace.List, error) {
	l, err := f.Files.ReadDir(ctx, f.say(name), o)
	if err == nil && f.list != nil {
		f.list(&l)
	}
	return l, f.err(err)
}

func (f *files) Write(ctx context.Context, name string, r io.Reader, o workspace.WriteOptions) (fs.FileInfo, error) {
	if f.write != nil {
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		if f.write(filepath.Join(f.dir, name), data, &o) {
			return f.Files.Stat(ctx, name)
		}
		r = bytes.NewReader(data)
	}
	fi, err := f.Files.Write(ctx, f.say(name), r, o)
	return fi, f.err(err)
}

// careless edits without a lock.
type careless struct{ workspace.Files }

func (c careless) Edit(ctx context.Context, name string, _ workspace.EditOptions, change func([]byte) ([]byte, error)) (fs.FileInfo, error) {
	f, err := c.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	old, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	data, err := change(old)
	if err != nil {
		return nil, err
	}
	return c.Write(ctx, name, bytes.NewReader(data), workspace.WriteOptions{})
}

// ruthless removes whatever it is told to.
type ruthless struct{ workspace.Files }

func (r ruthless) Remove(ctx context.Context, name string, o workspace.RemoveOptions) error {
	o.Recursive = true
	return r.Files.Remove(ctx, name, o)
}

// following removes what a link leads to.
type following struct {
	workspace.Files
	dir string
}

func (f following) Remove(ctx context.Context, name string, o workspace.RemoveOptions) error {
	if to, err := filepath.EvalSymlinks(filepath.Join(f.dir, name)); err == nil {
		if rel, err := filepath.Rel(f.dir, to); err == nil {
			name = rel
		}
	}
	return f.Files.Remove(ctx, name, o)
}

func TestBrokenFilesAreCaught(t *testing.T) {
	c := catcher{t: t}
	options := func(change func(*workspace.WriteOptions)) files {
		return files{write: func(_ string, _ []byte, o *workspace.WriteOptions) bool { change(o); return false }}
	}
	for name, m := range map[string]struct {
		files files
		wrap  func(f workspace.Files, dir string) workspace.Files
		cases []string
	}{
		"writes in place": {
			files: files{write: func(file string, data []byte, o *workspace.WriteOptions) bool {
				return !o.Append && !o.Exclusive && o.IfVersion == "" && os.WriteFile(file, data, 0o644) == nil
			}},
			cases: []string{"files/atomic", "files/hard link", "paths/dangling"},
		},
		"new files get mode 0600": {
			files: files{write: func(file string, data []byte, o *workspace.WriteOptions) bool {
				os.Remove(file)
				return os.WriteFile(file, data, 0o600) == nil
			}},
			cases: []string{"files/mode", "files/write through link"},
		},
		"every write is forced":     {files: options(func(o *workspace.WriteOptions) { o.Force = true }), cases: []string{"files/read-only"}},
		"Exclusive is ignored":      {files: options(func(o *workspace.WriteOptions) { o.Exclusive = false }), cases: []string{"files/exclusive"}},
		"IfVersion is ignored":      {files: options(func(o *workspace.WriteOptions) { o.IfVersion = "" }), cases: []string{"files/if version"}},
		"Append replaces":           {files: options(func(o *workspace.WriteOptions) { o.Append = false }), cases: []string{"files/append"}},
		"edits do not wait":         {wrap: func(f workspace.Files, _ string) workspace.Files { return careless{f} }, cases: []string{"files/edit conflict", "files/read-only", "files/edit"}},
		"Remove is recursive":       {wrap: func(f workspace.Files, _ string) workspace.Files { return ruthless{f} }, cases: []string{"files/remove"}},
		"Remove follows links":      {wrap: func(f workspace.Files, dir string) workspace.Files { return following{f, dir} }, cases: []string{"files/remove"}},
		"lists are not sorted":      {files: files{list: func(l *workspace.List) { slices.Reverse(l.Entries) }}, cases: []string{"files/list", "files/fstest"}},
		"lists lose dot files":      {files: files{list: dropDots}, cases: []string{"files/list"}},
		"paths are cleaned as text": {files: files{name: path.Clean}, cases: []string{"paths/dots after link", "paths/spellings"}},
		"paths are unescaped": {
			files: files{name: func(name string) string {
				if plain, err := url.PathUnescape(name); err == nil {
					return plain
				}
				return name
			}}, cases: []string{"paths/plain names"},
		},
		"all errors are IO": {
			files: files{fail: func(err error) error { return workspace.Errorf(workspace.ErrIO, "", "", "%v", err) }},
			cases: []string{"errors/codes", "paths/outside by name", "paths/invalid", "files/directory is no file"},
		},
		"errors name the driver's path": {
			files: files{fail: func(err error) error { return workspace.Errorf(workspace.CodeOf(err), "", "/host/path", "%w", err) }},
			cases: []string{"errors/path and verb"},
		},
		"opens whatever is there": {
			files: files{opens: func(file string) (workspace.File, error) { return os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) }},
			cases: []string{"files/irregular", "paths/links outside", "paths/links of commands", "paths/swapped directory"},
		},
		"all files have one version": {
			files: files{info: func(fi fs.FileInfo) fs.FileInfo { return oneVersion{fi} }}, cases: []string{"files/version", "files/if version"},
		},
	} {
		b := broken{files: func(f workspace.Files, dir string) workspace.Files {
			if m.wrap != nil {
				return m.wrap(f, dir)
			}
			mine := m.files
			mine.Files, mine.dir = f, dir
			return &mine
		}}
		c.catch(name, b.harness(t, sound, nil), m.cases)
	}
	c.wait()
}

type oneVersion struct{ fs.FileInfo }

func (o oneVersion) Sys() any {
	st := *o.FileInfo.Sys().(*workspace.FileStat)
	st.Version = "1"
	return &st
}

func dropDots(l *workspace.List) {
	l.Entries = slices.DeleteFunc(l.Entries, func(e fs.DirEntry) bool { return e.Name()[0] == '.' })
}
