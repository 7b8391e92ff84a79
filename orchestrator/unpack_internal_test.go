//go:build linux

package orchestrator

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// FuzzTar unpacks anything: it ends, says what is wrong with it, and stays in its
// root.
func FuzzTar(f *testing.F) {
	file := func(name string) tar.Header {
		return tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: 1}
	}
	link := func(kind byte, name, to string) tar.Header {
		return tar.Header{Name: name, Typeflag: kind, Linkname: to}
	}
	for _, list := range [][]tar.Header{
		{{Name: "d/", Typeflag: tar.TypeDir, Mode: 0o700}, file("d/f")},
		{link(tar.TypeSymlink, "l", ".."), file("l/escaped")},
		{file("../escaped")},
		{link(tar.TypeLink, "h", "f")},
		{file("a/b/c"), link(tar.TypeLink, "a/b/d", "a/b/c")},
		{file(".wsctl/x")},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, h := range list {
			if err := w.WriteHeader(&h); err != nil {
				f.Fatal(err)
			}
			if h.Size > 0 {
				_, _ = io.WriteString(w, "x")
			}
		}
		if err := w.Close(); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		dir := t.TempDir()
		in := filepath.Join(dir, "in")
		if err := os.Mkdir(in, 0o700); err != nil {
			t.Fatal(err)
		}
		root, err := host.OpenRoot(in, host.RootOptions{LeftoverAge: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		err = fill(t.Context(), root, bytes.NewReader(content), unpackLimits{1 << 20, 1000, 1 << 16})
		switch code := workspace.CodeOf(err); {
		case err == nil, code == workspace.ErrCorrupt, code == workspace.ErrTooLarge, code == workspace.ErrInvalidPath:
		default:
			t.Errorf("%v", err)
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
			t.Errorf("beside the root there is %v, %v", list, err)
		}
	})
}
