//go:build unix

package drivertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

func heldDirectory(t *checker) {
	t.plant("mkdir -p d/sub; printf 12345 > d/f; printf 1 > d/a-b; printf 1 > d/sub/g; ln -s f d/link; ln -s sub d/links; ln -s .. d/up; mkfifo d/fifo; ln -s d start")
	t.must(t.ws.WithDir(t.ctx, t.path("start"), func(ctx context.Context, d workspace.HeldDir) error {
		names, err := d.Names(ctx, ".")
		if err != nil {
			return err
		}
		var got []string
		for _, n := range names {
			got = append(got, fmt.Sprintf("%s %c", n.Name, n.Type.String()[0]))
		}
		if text := strings.Join(got, ", "); text != "a-b -, f -, fifo p, link L, links L, sub d, up L" {
			t.Errorf("the names are %s", text)
		}
		b := make([]byte, 4)
		n, size, err := d.ReadHead(ctx, workspace.DirName{Name: "f"}, b)
		if string(b[:n]) != "1234" || size != 5 || err != nil {
			t.Errorf("the head of f: %q of %d bytes, %v", b[:n], size, err)
		}
		for _, name := range []string{"link", "fifo", "sub"} {
			_, _, err := d.ReadHead(ctx, workspace.DirName{Name: name}, b)
			t.wantCode("the head of "+name, err, workspace.ErrNotFile)
			_, err = d.Open(ctx, name)
			t.wantCode("open "+name, err, workspace.ErrNotFile)
		}
		for _, name := range []string{"links", "up", "f", "fifo"} {
			_, err := d.Dir(ctx, name)
			t.wantCode("hold "+name, err, workspace.ErrNotDirectory)
		}
		for _, name := range []string{"..", "sub/../f", "/", ""} {
			_, err := d.Lstat(ctx, name)
			t.wantCode(fmt.Sprintf("lstat %q", name), err, workspace.ErrInvalidPath)
		}
		f, err := d.Open(ctx, "f")
		if err != nil {
			return err
		}
		all, err := io.ReadAll(f)
		if string(all) != "12345" || err != nil {
			t.Errorf("f holds %q, %v", all, err)
		}
		sub, err := d.Dir(ctx, "sub")
		if err != nil {
			return errors.Join(err, f.Close())
		}
		if fi, err := sub.Lstat(ctx, "g"); err != nil || fi.Size() != 1 {
			t.Errorf("sub/g: %v, %v", fi, err)
		}
		return errors.Join(f.Close(), sub.Close())
	}))
	t.wantCode("hold a file", t.ws.WithDir(t.ctx, t.path("d/f"), func(context.Context, workspace.HeldDir) error { return nil }), workspace.ErrNotDirectory)
	t.wantCode("hold what is gone", t.ws.WithDir(t.ctx, t.path("gone"), func(context.Context, workspace.HeldDir) error { return nil }), workspace.ErrNotFound)
}
