package workspace_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"testing"
	"testing/fstest"

	"github.com/wsctl/wsctl/workspace"
)

func withFile(t testing.TB, name, content string, o workspace.Options) (*workspace.Workspace, *inprocess) {
	d := newInprocess(nil)
	d.files.tree[name] = &fstest.MapFile{Data: []byte(content), Mode: 0o644}
	return open(t, d, o), d
}

func TestReadFileLimit(t *testing.T) {
	ws, _ := withFile(t, "f", "12345", workspace.Options{MaxFileBytes: 4})
	for _, c := range []struct {
		limit int64
		code  workspace.Code
	}{
		{5, ""},
		{6, ""},
		{math.MaxInt64, ""},
		{4, workspace.ErrTooLarge},
		{1, workspace.ErrTooLarge},
		{0, workspace.ErrTooLarge}, // the workspace's own
		{-1, workspace.ErrInvalidArgument},
		{math.MinInt64, workspace.ErrInvalidArgument},
	} {
		data, err := ws.ReadFile(t.Context(), "f", c.limit)
		wantCode(t, err, c.code)
		if c.code == "" && string(data) != "12345" {
			t.Errorf("limit %d: read %q", c.limit, data)
		}
	}
}

// hugeFiles are files that are larger than they say, or not as large.
type hugeFiles struct {
	*memFiles
	says int64
	has  []byte
}

func (f *hugeFiles) Open(context.Context, string) (workspace.File, error) {
	return &memFile{bytes.NewReader(f.has), sizedInfo{size: f.says}}, nil
}

type sizedInfo struct {
	fs.FileInfo
	size int64
}

func (i sizedInfo) Size() int64 { return i.size }

type filesDriver struct {
	*inprocess
	files workspace.Files
}

func (d *filesDriver) Files() workspace.Files { return d.files }

func TestReadFileBelievesNoSize(t *testing.T) {
	d := &filesDriver{inprocess: newInprocess(nil)}
	ws := open(t, d, workspace.Options{})
	d.files = &hugeFiles{d.inprocess.files, 3, []byte("grown over")}
	_, err := ws.ReadFile(t.Context(), "f", 5)
	wantCode(t, err, workspace.ErrTooLarge)
	// A sparse file may say any size; memory is used for what is there.
	d.files = &hugeFiles{d.inprocess.files, math.MaxInt64, []byte("little")}
	data, err := ws.ReadFile(t.Context(), "f", math.MaxInt64)
	if err != nil || string(data) != "little" {
		t.Errorf("read %q, %v", data, err)
	}
	_, err = ws.ReadFile(t.Context(), "f", 0)
	wantCode(t, err, workspace.ErrTooLarge)
}

func TestFileArguments(t *testing.T) {
	ws, d := withFile(t, "f", "x", workspace.Options{})
	ctx := t.Context()
	const special = 0o644 | fs.ModeSetuid
	for name, call := range map[string]func() error{
		"WriteFile special bits": func() error {
			_, err := ws.WriteFile(ctx, "g", nil, workspace.WriteOptions{Perm: special})
			return err
		},
		"Copy special bits": func() error { _, err := ws.Copy(ctx, "f", "g", workspace.WriteOptions{Perm: special}); return err },
		"Mkdir special bits": func() error {
			return ws.Mkdir(ctx, "d", workspace.MkdirOptions{Perm: fs.ModeSticky | 0o777})
		},
		"Chmod special bits": func() error { return ws.Chmod(ctx, "f", special) },
		"Chmod file type":    func() error { return ws.Chmod(ctx, "f", fs.ModeDir) },
		"Write MaxBytes": func() error {
			_, err := ws.WriteFile(ctx, "g", nil, workspace.WriteOptions{MaxBytes: -1})
			return err
		},
		"Edit MaxBytes": func() error {
			_, err := ws.Edit(ctx, "f", workspace.EditOptions{MaxBytes: -1}, nil)
			return err
		},
		"ReadDir limit": func() error { _, err := ws.ReadDir(ctx, ".", workspace.ListOptions{Limit: -1}); return err },
	} {
		if err := call(); workspace.CodeOf(err) != workspace.ErrInvalidArgument || !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(d.files.names) != 0 {
		t.Errorf("the tree was asked for %q", d.files.names)
	}
	if _, err := workspace.New(d, workspace.Options{MaxFileBytes: -1}); workspace.CodeOf(err) != workspace.ErrInvalidArgument {
		t.Errorf("MaxFileBytes -1: %v", err)
	}
}

func TestEditReturnsTheCallersError(t *testing.T) {
	ws, d := withFile(t, "f", "old", workspace.Options{})
	mine := errors.New("mine")
	_, err := ws.Edit(t.Context(), "f", workspace.EditOptions{}, func([]byte) ([]byte, error) { return nil, mine })
	if err != mine {
		t.Errorf("got %v", err)
	}
	if got := string(d.files.tree["f"].Data); got != "old" {
		t.Errorf("the file is %q", got)
	}
}

// A copy from a reader can be stopped between two reads, and says whose
// failure it was.
func TestWriteFromReader(t *testing.T) {
	ws, d := withFile(t, "f", "old", workspace.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := ws.Write(ctx, "f", readerFunc(func(b []byte) (int, error) { cancel(); return copy(b, "x"), nil }), workspace.WriteOptions{})
	wantCode(t, err, workspace.ErrAborted)
	broken := errors.New("broken source")
	_, err = ws.Write(t.Context(), "f", readerFunc(func([]byte) (int, error) { return 0, broken }), workspace.WriteOptions{})
	if !errors.Is(err, broken) {
		t.Errorf("%v does not wrap the reader's error", err)
	}
	if got := string(d.files.tree["f"].Data); got != "old" {
		t.Errorf("the file is %q", got)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// What no driver has classified is classified by the standard errors.
func TestUnclassifiedErrors(t *testing.T) {
	d := &filesDriver{inprocess: newInprocess(nil)}
	ws := open(t, d, workspace.Options{})
	for cause, code := range map[error]workspace.Code{
		fs.ErrNotExist:        workspace.ErrNotFound,
		fs.ErrExist:           workspace.ErrExists,
		fs.ErrPermission:      workspace.ErrDenied,
		fs.ErrClosed:          workspace.ErrDisposed,
		errors.ErrUnsupported: workspace.ErrUnsupported,
		io.ErrUnexpectedEOF:   workspace.ErrIO,
		context.Canceled:      workspace.ErrIO, // not this call's context
		workspace.ErrCorrupt:  workspace.ErrIO, // a bare code is no Error
	} {
		d.files = &brokenFiles{d.inprocess.files, cause}
		_, err := ws.Stat(t.Context(), "f")
		var e *workspace.Error
		if !errors.As(err, &e) || e.Code != code || e.Op != "stat" || e.Path != "f" || !errors.Is(err, cause) {
			t.Errorf("%v became %#v, want %s", cause, err, code)
		}
	}
}

type brokenFiles struct {
	*memFiles
	err error
}

func (f *brokenFiles) Stat(context.Context, string) (fs.FileInfo, error) { return nil, f.err }

func TestFS(t *testing.T) {
	d := newInprocess(nil)
	for _, name := range []string{"a", "d/b", "d/c", "d/e/f"} {
		d.files.tree[name] = &fstest.MapFile{Data: []byte(name), Mode: 0o644}
	}
	ws := open(t, d, workspace.Options{})
	fsys := ws.FS(t.Context())
	// The tree in memory has no links, so it is tried without ReadLink.
	if err := fstest.TestFS(struct{ noLinks }{fsys.(noLinks)}, "a", "d/b", "d/e/f"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"", "/a", "./a", "d/", "d/../a", "/place/a", ".."} {
		_, err := fs.Stat(fsys, name)
		var pe *fs.PathError
		if !errors.As(err, &pe) || !errors.Is(err, fs.ErrInvalid) || pe.Path != name {
			t.Errorf("%q: %v", name, err)
		}
	}
	dir, err := fsys.Open("d")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for {
		page, err := dir.(fs.ReadDirFile).ReadDir(2)
		for _, e := range page {
			names = append(names, e.Name())
		}
		if err == io.EOF {
			break
		}
		if err != nil || len(page) == 0 {
			t.Fatalf("page %v, %v", page, err)
		}
	}
	if len(names) != 3 {
		t.Errorf("pages gave %q", names)
	}
	if _, err := dir.Read(make([]byte, 1)); workspace.CodeOf(err) != workspace.ErrNotFile {
		t.Errorf("a read of a directory: %v", err)
	}
	if err := dir.Close(); err != nil {
		t.Error(err)
	}
	if err := dir.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a second Close: %v", err)
	}
	if _, err := dir.(fs.ReadDirFile).ReadDir(-1); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("ReadDir after Close: %v", err)
	}
}

type noLinks interface {
	fs.ReadDirFS
	Stat(name string) (fs.FileInfo, error)
	ReadFile(name string) ([]byte, error)
}
