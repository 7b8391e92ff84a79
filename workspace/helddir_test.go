package workspace_test

import (
	"context"
	"io/fs"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/workspace"
)

// A directory is held over Files that cannot hold one, by its name.
func TestWithDirByName(t *testing.T) {
	d := newInprocess(nil)
	m := d.files
	for _, f := range []string{"d/f", "d/sub/g", "d/a-b"} {
		if _, err := m.Write(t.Context(), f, strings.NewReader(f), workspace.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if hidden, ok := any(m).(workspace.DirHolder); ok {
		t.Fatalf("%T holds directories itself", hidden)
	}
	ws, err := workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	err = ws.WithDir(t.Context(), "d", func(ctx context.Context, d workspace.HeldDir) error {
		names, err := d.Names(ctx, ".")
		if err != nil || len(names) != 3 || names[0].Name != "a-b" || names[2] != (workspace.DirName{Name: "sub", Type: fs.ModeDir}) {
			t.Errorf("names %v, %v", names, err)
		}
		sub, err := d.Dir(ctx, "sub")
		if err != nil {
			return err
		}
		b := make([]byte, 20)
		n, size, err := sub.ReadHead(ctx, workspace.DirName{Name: "g"}, b)
		if string(b[:n]) != "d/sub/g" || size != 7 || err != nil {
			t.Errorf("%q of %d bytes, %v", b[:n], size, err)
		}
		for name, code := range map[string]workspace.Code{"../f": workspace.ErrInvalidPath, "f": workspace.ErrNotDirectory} {
			if _, err := d.Dir(ctx, name); workspace.CodeOf(err) != code {
				t.Errorf("Dir %s: %v, want %s", name, err, code)
			}
		}
		if _, err := d.Open(ctx, "sub"); workspace.CodeOf(err) != workspace.ErrNotFile {
			t.Errorf("Open of a directory: %v", err)
		}
		if fi, err := d.Lstat(ctx, "sub/g"); err != nil || fi.Size() != 7 {
			t.Errorf("Lstat: %v, %v", fi, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	for path, code := range map[string]workspace.Code{"gone": workspace.ErrNotFound, "d/f": workspace.ErrNotDirectory, "/else": workspace.ErrOutside} {
		err := ws.WithDir(t.Context(), path, func(context.Context, workspace.HeldDir) error { t.Error("used"); return nil })
		if workspace.CodeOf(err) != code {
			t.Errorf("WithDir %s: %v, want %s", path, err, code)
		}
	}
}
