//go:build linux

package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

func TestRootWrite(t *testing.T) {
	eachMode(t, plainSystems, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "f = old", "l -> d/g", "d/g = old")
		defer a.noTemps()
		check(t, a.write("f", "new", workspace.WriteOptions{}))
		check(t, a.write("a/b/c", "made", workspace.WriteOptions{}))
		check(t, a.write("l", "through", workspace.WriteOptions{}))
		check(t, a.write("f", "er", workspace.WriteOptions{Append: true}))
		check(t, a.write("n", "appended", workspace.WriteOptions{Append: true}))
		check(t, a.write("x", "exclusive", workspace.WriteOptions{Exclusive: true}))
		check(t, a.write("empty", "", workspace.WriteOptions{}))
		for name, want := range map[string]string{"f": "newer", "a/b/c": "made", "d/g": "through", "n": "appended", "x": "exclusive", "empty": ""} {
			if got := a.content(name); got != want {
				t.Errorf("%s holds %q, want %q", name, got, want)
			}
		}
		err := a.write("x", "again", workspace.WriteOptions{Exclusive: true})
		wantCode(t, err, workspace.ErrExists)
		if !isStandard(err, fs.ErrExist) {
			t.Error("EXISTS is not fs.ErrExist")
		}
		wantCode(t, a.write("l", "again", workspace.WriteOptions{Exclusive: true}), workspace.ErrExists)
		wantCode(t, a.write("d", "x", workspace.WriteOptions{}), workspace.ErrNotFile)
		wantCode(t, a.write("f/x", "x", workspace.WriteOptions{}), workspace.ErrNotDirectory)
		wantCode(t, a.write("f", "123456", workspace.WriteOptions{MaxBytes: 5}), workspace.ErrTooLarge)
		check(t, a.write("f", "12345", workspace.WriteOptions{MaxBytes: 5}))
	})
}

// A write from a reader takes all of it, also what is larger than any buffer,
// and a copy is the same bytes.
func TestRootLarge(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{})
	content := bytes.Repeat([]byte("0123456789abcdef"), 70_000)
	_, err := a.r.Write(bg, "big", bytes.NewReader(content), workspace.WriteOptions{})
	check(t, err)
	fi, err := a.r.Copy(bg, "big", "d/copy", workspace.WriteOptions{})
	check(t, err)
	if fi.Size() != int64(len(content)) || fi.Name() != "copy" {
		t.Errorf("the copy is %s of %d bytes", fi.Name(), fi.Size())
	}
	if got := a.content("d/copy"); got != string(content) {
		t.Error("the copy differs")
	}
	_, err = a.r.Copy(bg, "big", "d/bounded", workspace.WriteOptions{MaxBytes: int64(len(content)) - 1})
	wantCode(t, err, workspace.ErrTooLarge)
	_, err = a.r.Copy(bg, "big", "d/exact", workspace.WriteOptions{MaxBytes: int64(len(content))})
	check(t, err)
	_, err = a.r.Copy(bg, "big", "./big", workspace.WriteOptions{})
	wantCode(t, err, workspace.ErrInvalidArgument)
	a.noTemps()
}

func TestRootModes(t *testing.T) {
	old := unix.Umask(0o027)
	defer unix.Umask(old)
	eachMode(t, plainSystems, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "x", "s")
		for _, perm := range []fs.FileMode{0o755, 0o640, 0o600} {
			check(t, os.Chmod(a.path("x"), perm))
			check(t, a.write("x", "new", workspace.WriteOptions{}))
			wantMode(t, a, "x", perm)
		}
		// The umask applies to what is new, and an existing mode is kept.
		check(t, a.write("new", "", workspace.WriteOptions{}))
		wantMode(t, a, "new", 0o640)
		check(t, a.write("run", "", workspace.WriteOptions{Perm: 0o777}))
		wantMode(t, a, "run", 0o750)
		check(t, a.r.Mkdir(bg, "dir", workspace.MkdirOptions{}))
		wantMode(t, a, "dir", 0o750)
		// No special bit outlives a write.
		check(t, os.Chmod(a.path("s"), 0o755|fs.ModeSetuid|fs.ModeSetgid))
		check(t, a.write("s", "new", workspace.WriteOptions{}))
		wantMode(t, a, "s", 0o755)
		_, err := a.r.Copy(bg, "x", "copy", workspace.WriteOptions{})
		check(t, err)
		wantMode(t, a, "copy", 0o600)
		check(t, a.r.Chmod(bg, "copy", 0o711))
		wantMode(t, a, "copy", 0o711)
		wantCode(t, a.r.Chmod(bg, "copy", fs.ModeSetuid|0o755), workspace.ErrInvalidArgument)
	})
	a := newArea(t, host.TestHooks{Off: "special"}, host.RootOptions{}, "s")
	check(t, os.Chmod(a.path("s"), 0o755|fs.ModeSetuid))
	check(t, a.write("s", "new", workspace.WriteOptions{}))
	wantMode(t, a, "s", 0o755|fs.ModeSetuid)
}

func wantMode(t *testing.T, a *area, name string, want fs.FileMode) {
	t.Helper()
	fi, err := os.Lstat(a.path(name))
	check(t, err)
	if got := fi.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid); got != want {
		t.Errorf("%s has mode %v, want %v", name, got, want)
	}
}

// A file that its owner may not write is left alone, as root too, unless the
// caller insists.
func TestRootReadOnly(t *testing.T) {
	ops := map[string]func(a *area, force bool) error{
		"write": func(a *area, f bool) error { return a.write("ro", "new", workspace.WriteOptions{Force: f}) },
		"edit": func(a *area, f bool) error {
			_, err := a.r.Edit(bg, "ro", workspace.EditOptions{Force: f}, double)
			return err
		},
		"copy": func(a *area, f bool) error {
			_, err := a.r.Copy(bg, "f", "ro", workspace.WriteOptions{Force: f})
			return err
		},
	}
	for name, op := range ops {
		a := newArea(t, host.TestHooks{}, host.RootOptions{}, "ro = old", "f = F")
		check(t, os.Chmod(a.path("ro"), 0o444))
		err := op(a, false)
		wantCode(t, err, workspace.ErrDenied)
		if a.content("ro") != "old" {
			t.Errorf("%s: the read-only file was changed", name)
		}
		check(t, op(a, true))
		wantMode(t, a, "ro", 0o444)
		if a.content("ro") == "old" {
			t.Errorf("%s: force did not help", name)
		}
	}
	a := newArea(t, host.TestHooks{Off: "read-only"}, host.RootOptions{}, "ro = old")
	check(t, os.Chmod(a.path("ro"), 0o444))
	check(t, a.write("ro", "new", workspace.WriteOptions{}))
}

// Nothing but a regular file is opened: who waits at a FIFO goes on waiting.
func TestRootSpecialFiles(t *testing.T) {
	eachMode(t, modes, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "f = F", "pl -> p", "sl -> s")
		mkfifo(t, a.path("p"))
		s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		check(t, err)
		defer unix.Close(s)
		dir, err := os.Open(a.in)
		check(t, err)
		check(t, unix.Bind(s, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/s", dir.Fd())}))
		dir.Close()
		names := []string{"p", "pl", "s", "sl", "."}
		if asRoot() {
			check(t, unix.Mknod(a.path("null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
			check(t, unix.Mknod(a.path("zero"), unix.S_IFCHR|0o666, 0))
			names = append(names, "null", "zero")
		}
		// One end that opens the FIFO gets through only if we open the other.
		through := make(chan error, 1)
		go func() {
			fd, err := unix.Open(a.path("p"), unix.O_WRONLY, 0)
			if err == nil {
				unix.Close(fd)
			}
			through <- err
		}()
		for _, name := range names {
			_, err := a.read(name)
			wantCode(t, err, workspace.ErrNotFile)
			wantCode(t, a.write(name, "x", workspace.WriteOptions{}), workspace.ErrNotFile)
			_, err = a.r.Edit(bg, name, workspace.EditOptions{}, double)
			wantCode(t, err, workspace.ErrNotFile)
			_, err = a.r.Copy(bg, name, "c", workspace.WriteOptions{})
			wantCode(t, err, workspace.ErrNotFile)
			_, err = a.r.Copy(bg, "f", name, workspace.WriteOptions{})
			wantCode(t, err, workspace.ErrNotFile)
			if name != "." {
				wantCode(t, a.r.Chmod(bg, name, 0o600), workspace.ErrNotFile)
			}
		}
		select {
		case err := <-through:
			t.Error("the FIFO was opened:", err)
		default:
		}
		// Without the guard it is; and the writer is let go.
		h := m.hooks
		h.Off = "regular"
		bare, err := host.OpenRootWith(a.in, host.RootOptions{}, h)
		check(t, err)
		defer bare.Close()
		f, err := bare.Open(bg, "p")
		check(t, err)
		defer f.Close()
		check(t, <-through)
		for _, name := range []string{"p", "s"} {
			check(t, a.r.Remove(bg, name, workspace.RemoveOptions{}))
		}
	})
}

// A write never goes through a hard link; what may be read is a policy.
func TestRootHardLinks(t *testing.T) {
	read := func(a *area, name string) error { _, err := a.read(name); return err }
	for policy, want := range map[host.HardLinks][2]bool{ // may read: a link to outside, one inside
		host.HardLinksAllow: {true, true}, host.HardLinksInternal: {false, true}, host.HardLinksRefuse: {false, false},
	} {
		a := newArea(t, host.TestHooks{}, host.RootOptions{HardLinks: policy}, "in1 = I", "d/e/")
		check(t, os.Link(a.out+"/secret", a.path("h")))
		check(t, os.Link(a.path("in1"), a.path("d/e/in2")))
		for i, name := range []string{"h", "d/e/in2"} {
			err := read(a, name)
			if (err == nil) != want[i] {
				t.Errorf("%s: read %s: %v", policy, name, err)
			}
			if err != nil {
				wantCode(t, err, workspace.ErrDenied)
			}
		}
		before := a.canary()
		check(t, a.write("h", "mine", workspace.WriteOptions{}))
		check(t, os.Remove(a.path("h")))
		check(t, os.Link(a.out+"/secret", a.path("h")))
		if policy == host.HardLinksAllow {
			_, err := a.r.Edit(bg, "h", workspace.EditOptions{}, double)
			check(t, err)
			check(t, os.Remove(a.path("h")))
			check(t, os.Link(a.out+"/secret", a.path("h")))
			check(t, a.r.Chmod(bg, "h", 0o777))
			wantMode(t, a, "h", 0o777)
		}
		if a.canary() != before {
			t.Errorf("%s: the file outside was changed", policy)
		}
	}
	a := newArea(t, host.TestHooks{Off: "links"}, host.RootOptions{HardLinks: host.HardLinksRefuse})
	check(t, os.Link(a.out+"/secret", a.path("h")))
	check(t, read(a, "h"))
}

// A reader, a context or a limit that ends a write leaves the old file.
func TestRootWriteFails(t *testing.T) {
	eachMode(t, plainSystems, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "f = old")
		before := treeHash(t, a.in)
		boom := errors.New("boom")
		for _, name := range []string{"f", "new"} {
			_, err := a.r.Write(bg, name, io.MultiReader(strings.NewReader("half"), errReader{boom}), workspace.WriteOptions{})
			if !errors.Is(err, boom) {
				t.Errorf("the reader's error is lost: %v", err)
			}
			ctx, cancel := context.WithCancel(bg)
			_, err = a.r.Write(ctx, name, readerFunc(func(b []byte) (int, error) { cancel(); return len(b), nil }), workspace.WriteOptions{})
			wantCode(t, err, workspace.ErrAborted)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the context's error is lost: %v", err)
			}
		}
		_, err := a.r.Edit(bg, "f", workspace.EditOptions{}, func([]byte) ([]byte, error) { return nil, boom })
		if err != boom { //nolint:errorlint // the contract says: as it is
			t.Errorf("edit returns %v, not the error of change", err)
		}
		if a.content("f") != "old" || treeHash(t, a.in) != before && len(a.names(".")) != 1 {
			t.Errorf("something was changed: %v", a.names("."))
		}
	})
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

func TestRootSizes(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "f = 12345")
	_, err := a.r.Edit(bg, "f", workspace.EditOptions{MaxBytes: 5}, func(b []byte) ([]byte, error) { return b, nil })
	check(t, err)
	_, err = a.r.Edit(bg, "f", workspace.EditOptions{MaxBytes: 4}, double)
	wantCode(t, err, workspace.ErrTooLarge)
	_, err = a.r.Edit(bg, "f", workspace.EditOptions{MaxBytes: 9}, double)
	wantCode(t, err, workspace.ErrTooLarge)
	// A sparse file of a terabyte is refused before it is read.
	check(t, os.Truncate(a.path("f"), 1<<40))
	if n := testing.AllocsPerRun(1, func() {
		_, err = a.r.Edit(bg, "f", workspace.EditOptions{MaxBytes: 1 << 20}, double)
	}); n > 1000 {
		t.Errorf("%v allocations", n)
	}
	wantCode(t, err, workspace.ErrTooLarge)
}

func TestRootSymlink(t *testing.T) {
	eachMode(t, modes, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "f = F", "d/e/", "out -> OUT")
		for link, target := range map[string]string{"ok": "f", "d/e/up": "../../f", "abs": a.in + "/f", "dang": "nothing", "d/dir": "e"} {
			check(t, a.r.Symlink(bg, target, link))
			if got, err := a.r.ReadLink(bg, link); got != target || err != nil {
				t.Errorf("readlink %s: %q, %v", link, got, err)
			}
		}
		for link, target := range map[string]string{"o1": "..", "o2": "/etc/passwd", "d/e/o3": "../../../out", "o4": "out/secret", "o5": "nothing/../../x", "o6": a.in + "x"} {
			wantCode(t, a.r.Symlink(bg, target, link), workspace.ErrOutside)
		}
		wantCode(t, a.r.Symlink(bg, "f", "ok"), workspace.ErrExists)
		wantCode(t, a.r.Symlink(bg, ".wsctl", "s"), workspace.ErrInvalidPath)
		wantCode(t, a.r.Symlink(bg, "", "s"), workspace.ErrInvalidArgument)
		wantCode(t, a.r.Symlink(bg, "f", "none/s"), workspace.ErrNotFound)
		_, err := a.r.ReadLink(bg, "f")
		wantCode(t, err, workspace.ErrInvalidPath)
	})
}

func TestRootClosed(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "f = F")
	f, err := a.r.Open(bg, "f")
	check(t, err)
	check(t, a.r.Close())
	check(t, a.r.Close())
	if b, err := io.ReadAll(f); string(b) != "F" || err != nil {
		t.Errorf("an open file reads %q, %v after Close", b, err)
	}
	check(t, f.Close())
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
		t.Error("a closed file:", err)
	}
	_, err = a.r.Stat(bg, "f")
	wantCode(t, err, workspace.ErrDisposed)
	wantCode(t, a.write("f", "x", workspace.WriteOptions{}), workspace.ErrDisposed)
}

// The root is held: what has its name later is told, and not touched.
func TestRootMoved(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "f = F")
	check(t, a.r.Check())
	check(t, os.Rename(a.in, a.in+"-moved"))
	wantCode(t, a.r.Check(), workspace.ErrNotFound)
	check(t, os.Mkdir(a.in, 0o755))
	wantCode(t, a.r.Check(), workspace.ErrConflict)
	check(t, a.write("g", "G", workspace.WriteOptions{}))
	if _, err := os.Stat(a.in + "-moved/g"); err != nil {
		t.Error(err)
	}
}

func TestOpenRootErrors(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(dir+"/f", nil, 0o644))
	for path, code := range map[string]workspace.Code{"": workspace.ErrInvalidPath, dir + "/no": workspace.ErrNotFound, dir + "/f": workspace.ErrNotDirectory} {
		_, err := host.OpenRoot(path, host.RootOptions{})
		wantCode(t, err, code)
	}
	for _, o := range []host.RootOptions{{HardLinks: "some"}, {Guest: "workspace"}, {Guest: "/"}} {
		_, err := host.OpenRoot(dir, o)
		wantCode(t, err, workspace.ErrInvalidArgument)
	}
}

// As root, what is made belongs to the owner of the root.
func TestRootOwner(t *testing.T) {
	if !asRoot() {
		t.Skip("only root can give files away")
	}
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "old = O")
	a.r.Close()
	check(t, os.Chown(a.in, 1234, 2345))
	check(t, os.Chown(a.path("old"), 77, 88))
	var err error
	a.r, err = host.OpenRoot(a.in, host.RootOptions{})
	check(t, err)
	defer a.r.Close()
	check(t, a.write("d/e/f", "x", workspace.WriteOptions{}))
	check(t, a.write("old", "x", workspace.WriteOptions{}))
	check(t, a.r.Mkdir(bg, "m/n", workspace.MkdirOptions{Parents: true}))
	check(t, a.r.Symlink(bg, "old", "l"))
	_, err = a.r.Copy(bg, "old", "copy", workspace.WriteOptions{})
	check(t, err)
	_, err = a.r.ID()
	check(t, err)
	for name, uid := range map[string]uint32{
		"d": 1234, "d/e": 1234, "d/e/f": 1234, "m": 1234, "m/n": 1234, "l": 1234, "copy": 1234, "old": 77, ".wsctl": 1234, ".wsctl/id": 1234, ".wsctl/.gitignore": 1234,
	} {
		fi, err := os.Lstat(a.path(name))
		check(t, err)
		if st := fi.Sys().(*syscall.Stat_t); st.Uid != uid {
			t.Errorf("%s belongs to %d, want %d", name, st.Uid, uid)
		}
	}
}
