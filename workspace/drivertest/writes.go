//go:build unix

package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

func exclusiveWrite(t *checker) {
	t.write("f", "old")
	t.plant("ln -s gone dangling; ln -s f link")
	for _, name := range []string{"f", "dangling", "link"} {
		_, err := t.ws.WriteFile(t.ctx, t.path(name), []byte("new"), workspace.WriteOptions{Exclusive: true})
		t.wantCode(name, err, workspace.ErrExists)
		if !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v is not fs.ErrExist", name, err)
		}
	}
	t.wantFile("f", "old")
	t.wantGone("gone")
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			_, err := t.ws.WriteFile(t.ctx, t.path("new"), []byte{byte(i)}, workspace.WriteOptions{Exclusive: true})
			if err == nil {
				won.Add(1)
				return
			}
			t.wantCode("one of 16", err, workspace.ErrExists)
		})
	}
	wg.Wait()
	if won.Load() != 1 {
		t.Errorf("%d of 16 made the file", won.Load())
	}
}

func appendWrite(t *checker) {
	for _, part := range []string{"one\n", "", "two"} {
		_, err := t.ws.WriteFile(t.ctx, t.path("d/f"), []byte(part), workspace.WriteOptions{Append: true})
		t.must(err)
	}
	t.wantFile("d/f", "one\ntwo")
	_, err := t.ws.WriteFile(t.ctx, t.path("d/f"), []byte("three"), workspace.WriteOptions{Append: true, MaxBytes: 8})
	if err != nil {
		// MaxBytes bounds the new content, which is five bytes, or all of
		// it, which is twelve; it must not be half done.
		t.wantCode("append with a bound", err, workspace.ErrTooLarge)
		t.wantFile("d/f", "one\ntwo")
	}
}

func writeParents(t *checker) {
	t.write("a/b/c/f", "x")
	t.wantFile("a/b/c/f", "x")
	_, err := t.ws.WriteFile(t.ctx, t.path("a/b/c/f/g"), nil, workspace.WriteOptions{})
	t.wantCode("below a file", err, workspace.ErrNotDirectory)
	_, err = t.ws.WriteFile(t.ctx, t.path("a/new/"), nil, workspace.WriteOptions{})
	if err == nil {
		t.Error("a file was made under a name that ends in a slash")
	}
	t.plant("ln -s missing dang")
	_, err = t.ws.WriteFile(t.ctx, t.path("dang/y/z"), nil, workspace.WriteOptions{})
	t.wantCode("write below a dangling link", err, workspace.ErrNotFound, workspace.ErrOutside)
	err = t.ws.Mkdir(t.ctx, t.path("dang/y"), workspace.MkdirOptions{Parents: true})
	t.wantCode("mkdir below a dangling link", err, workspace.ErrNotFound, workspace.ErrOutside)
	t.wantGone("missing")
}

func failedWrite(t *checker) {
	t.write("f", "old")
	source := func(err error) io.Reader {
		return io.MultiReader(bytes.NewReader(randomBytes(200_000)), errReader{err})
	}
	_, err := t.ws.Write(t.ctx, t.path("f"), source(errOfReader), workspace.WriteOptions{})
	if !errors.Is(err, errOfReader) {
		t.Errorf("the error %v does not wrap the reader's", err)
	}
	_, err = t.ws.Write(t.ctx, t.path("new"), source(errOfReader), workspace.WriteOptions{})
	if !errors.Is(err, errOfReader) {
		t.Errorf("the error %v does not wrap the reader's", err)
	}
	_, err = t.ws.Write(t.ctx, t.path("f"), source(nil), workspace.WriteOptions{MaxBytes: 199_999})
	t.wantCode("over MaxBytes", err, workspace.ErrTooLarge)
	ctx, cancel := context.WithCancel(t.ctx)
	_, err = t.ws.Write(ctx, t.path("f"), io.MultiReader(bytes.NewReader(randomBytes(200_000)), readerFunc(func(b []byte) (int, error) {
		cancel()
		return copy(b, "more"), nil
	})), workspace.WriteOptions{})
	t.wantCode("aborted in its middle", err, workspace.ErrAborted)
	t.wantFile("f", "old")
	if got := t.names(); !slices.Equal(got, []string{"f"}) {
		t.Errorf("the directory holds %q", got)
	}
	if got := t.plant("ls -A"); got != "f\n" {
		t.Errorf("left behind: %q", got)
	}
	_, err = t.ws.Write(t.ctx, t.path("f"), strings.NewReader("12345"), workspace.WriteOptions{MaxBytes: 5})
	t.must(err)
	t.wantFile("f", "12345")
}

// errReader fails; with a nil error it is at its end.
type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) {
	if r.err == nil {
		return 0, io.EOF
	}
	return 0, r.err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func atomicWrite(t *checker) {
	const size = 256 << 10
	contents := []string{strings.Repeat("a", size), strings.Repeat("b", size/2)}
	t.write("f", contents[0])
	f, err := t.ws.Open(t.ctx, t.path("f"))
	t.must(err)
	defer f.Close()
	t.write("f", contents[1])
	data, err := io.ReadAll(f)
	t.must(err)
	t.wantBytes("the file opened before the write", data, []byte(contents[0]))

	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				if _, err := t.ws.WriteFile(t.ctx, t.path("f"), []byte(contents[i%2]), workspace.WriteOptions{}); err != nil {
					t.Errorf("a write: %v", err)
					return
				}
			}
		}
	})
	reads := 0
	for end := time.Now().Add(400 * time.Millisecond); time.Now().Before(end); reads++ {
		data, err := t.ws.ReadFile(t.ctx, t.path("f"), 0)
		if err != nil {
			t.Errorf("a read during writes: %v", err)
			break
		}
		if s := string(data); s != contents[0] && s != contents[1] {
			t.Errorf("a read saw %d bytes that are neither the old file nor the new", len(data))
			break
		}
	}
	out, err := t.exec(workspace.Command{Shell: "for i in 1 2 3 4 5; do wc -c < f; done"})
	close(stop)
	wg.Wait()
	t.must(err)
	seen := string(out.Stdout)
	if len(strings.Fields(seen)) != 5 {
		t.Errorf("the command saw %q", seen)
	}
	for _, n := range strings.Fields(seen) {
		if n != fmt.Sprint(size) && n != fmt.Sprint(size/2) {
			t.Errorf("a command saw %s bytes", n)
		}
	}
	if reads == 0 {
		t.Error("there was no read between the writes")
	}
}

func hardLinkWrite(t *checker) {
	change := func([]byte) ([]byte, error) { return []byte("new"), nil }
	for name, write := range map[string]func() error{
		"write": func() error {
			_, err := t.ws.WriteFile(t.ctx, t.path("b"), []byte("new"), workspace.WriteOptions{})
			return err
		},
		"append": func() error {
			_, err := t.ws.WriteFile(t.ctx, t.path("b"), []byte("new"), workspace.WriteOptions{Append: true})
			return err
		},
		"edit":  func() error { _, err := t.ws.Edit(t.ctx, t.path("b"), workspace.EditOptions{}, change); return err },
		"chmod": func() error { return t.ws.Chmod(t.ctx, t.path("b"), 0o600) },
	} {
		t.plant("rm -f a b; echo old > a; chmod 644 a; ln a b")
		if err := write(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		t.wantFile("a", "old\n")
		if got := t.mode("a"); got != 0o644 {
			t.Errorf("%s through a hard link made the other name's mode %v", name, got)
		}
	}
}

func writeThroughLink(t *checker) {
	t.write("real", "old")
	t.write("deep/down/settings", "old")
	t.plant("ln -s real l1; ln -s l1 l2; ln -s deep d1; mkdir sub; ln -s ../d1/down sub/d2; ln -s d2/settings sub/s")
	for link, target := range map[string]string{"l2": "real", "sub/s": "deep/down/settings"} {
		t.write(link, "written")
		t.wantFile(target, "written")
		t.wantFile(link, "written")
		_, err := t.ws.Edit(t.ctx, t.path(link), workspace.EditOptions{}, func(b []byte) ([]byte, error) { return append(b, '!'), nil })
		t.must(err)
		t.wantFile(target, "written!")
		if got := t.mode(link); got.Type() != fs.ModeSymlink {
			t.Errorf("%s is now %v, not a link", link, got)
		}
	}
}
