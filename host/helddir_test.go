//go:build linux

package host_test

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

func (a *area) hold(name string) workspace.HeldDir {
	a.t.Helper()
	d, err := a.r.OpenHeldDir(bg, name)
	check(a.t, err)
	a.t.Cleanup(func() { check(a.t, d.Close()) })
	return d
}

// head reads an entry of a directory that is below d.
func head(d workspace.HeldDir, dir, name string) (string, error) {
	below, err := d.Dir(bg, dir)
	if err != nil {
		return "", err
	}
	defer below.Close()
	b := make([]byte, 100)
	n, _, err := below.ReadHead(bg, workspace.DirName{Name: name}, b)
	return string(b[:n]), err
}

// A held directory lists names with their types, follows no link below, and
// knows the state.
func TestHeldDir(t *testing.T) {
	eachMode(t, modes, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "d/f = F", "d/sub/g = G", "d/l -> f", "d/ld -> sub", "d/out -> OUT", ".wsctl/id = I", "d/.wsctl = mine", "start -> d")
		mkfifo(t, a.path("d/fifo"))
		check(t, unix.Mkfifo(a.path("d/"+tempNameOf(t)), 0o666))
		a.grow("d/" + tempNameOf(t))
		d := a.hold("start")
		names, err := d.Names(bg, ".")
		check(t, err)
		var got []string
		for _, n := range names {
			got = append(got, n.Name+" "+n.Type.String()[:1])
		}
		if text := strings.Join(got, ", "); !strings.Contains(text, ".wsctl -") || !strings.HasSuffix(text, "f -, fifo p, l L, ld L, out L, sub d") || len(got) != 8 {
			t.Errorf("the names are %s", text)
		}
		if text, err := head(d, ".", "f"); text != "F" || err != nil {
			t.Errorf("f: %q, %v", text, err)
		}
		if text, err := head(d, "sub", "g"); text != "G" || err != nil {
			t.Errorf("sub/g: %q, %v", text, err)
		}
		for _, name := range []string{"l", "ld", "out", "f", "fifo", "ld/g", "out/sub"} {
			_, err := d.Dir(bg, name)
			wantCode(t, err, workspace.ErrNotDirectory)
		}
		for name, code := range map[string]workspace.Code{
			"l": workspace.ErrNotFile, "out": workspace.ErrNotFile, "gone": workspace.ErrNotFound,
			"sub": workspace.ErrNotFile, "sub/g": workspace.ErrInvalidPath, "..": workspace.ErrInvalidPath, "": workspace.ErrInvalidPath,
		} {
			_, err := head(d, ".", name)
			wantCode(t, err, code)
		}
		_, _, err = d.ReadHead(bg, workspace.DirName{Name: "f", Type: fs.ModeDir}, nil)
		wantCode(t, err, workspace.ErrNotFile)
		for name, code := range map[string]workspace.Code{"l": workspace.ErrNotFile, "fifo": workspace.ErrNotFile, "ld/g": workspace.ErrNotDirectory, "../d/f": workspace.ErrInvalidPath, "sub/../f": workspace.ErrInvalidPath} {
			_, err := d.Open(bg, name)
			wantCode(t, err, code)
		}
		fi, err := d.Lstat(bg, "l")
		check(t, err)
		if fi.Mode().Type() != fs.ModeSymlink || fi.Name() != "l" {
			t.Errorf("Lstat of a link: %v", fi)
		}
		top := a.hold(".")
		for _, name := range []string{".wsctl", ".WSCTL", ".wsctl/id"} {
			_, err := top.Dir(bg, name)
			wantCode(t, err, workspace.ErrInvalidPath)
		}
		names, err = top.Names(bg, ".")
		check(t, err)
		if len(names) != 2 {
			t.Errorf("the root holds %v", names)
		}
		// It is the directory, not its name.
		check(t, unix.Rename(a.path("d"), a.path("moved")))
		if text, err := head(d, ".", "f"); text != "F" || err != nil {
			t.Errorf("f of a directory that was moved: %q, %v", text, err)
		}
	})
}

// The state is known by its identity, also where it was moved.
func TestHeldDirState(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, ".wsctl/id = I", "d/")
	_, _, err := a.r.StateIdentity()
	check(t, err)
	check(t, unix.Rename(a.path(".wsctl"), a.path("d/x")))
	_, err = a.hold(".").Dir(bg, "d/x")
	wantCode(t, err, workspace.ErrInvalidPath)
	_, err = a.hold("d").Names(bg, "x")
	wantCode(t, err, workspace.ErrInvalidPath)
}

func TestHeldDirEnds(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{HardLinks: host.HardLinksRefuse}, "d/f = F")
	check(t, unix.Link(a.path("d/f"), a.path("d/g")))
	d := a.hold("d")
	_, err := head(d, ".", "f")
	wantCode(t, err, workspace.ErrDenied)
	ctx, cancel := context.WithCancel(bg)
	cancel()
	_, err = d.Names(ctx, ".")
	wantCode(t, err, workspace.ErrAborted)
	closed, err := d.Dir(bg, ".")
	check(t, err)
	check(t, closed.Close())
	_, err = closed.Names(bg, ".")
	wantCode(t, err, workspace.ErrDisposed)
	check(t, a.r.Close())
	_, err = d.Names(bg, ".")
	wantCode(t, err, workspace.ErrDisposed)
	_, err = a.r.OpenHeldDir(bg, "d")
	wantCode(t, err, workspace.ErrDisposed)
}

// A file that becomes a FIFO after it was listed is not read, and nothing
// blocks.
func TestHeldDirSwappedFIFO(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "d/")
	mkfifo(t, a.path("d/f"))
	begun := time.Now()
	_, err := head(a.hold("d"), ".", "f")
	wantCode(t, err, workspace.ErrNotFile)
	if took := time.Since(begun); took > time.Second {
		t.Errorf("it took %v", took)
	}
}

// Directories are exchanged with links to outside while they are walked.
func TestRaceHeldDir(t *testing.T) {
	for _, off := range []string{"", "beneath"} {
		for _, no := range []error{nil, syscall.ENOSYS} {
			if off != "" && no != nil {
				continue // the walk without openat2 has no such switch
			}
			a := newArea(t, host.TestHooks{Off: off, Openat2: no}, host.RootOptions{}, "d/secret = inside", "d/sub/secret = inside")
			root := a.hold(".")
			var leaks atomic.Int64
			race(t, swapper(t, a, "d"), func(i int) bool {
				dir := []string{"d", "d/sub"}[i%2]
				got, err := head(root, dir, "secret")
				if got == "secret" {
					leaks.Add(1)
				}
				if fi, statErr := root.Lstat(bg, "d/secret"); statErr == nil && fi.Mode().Perm() == 0o640 {
					leaks.Add(1)
				}
				if f, openErr := root.Open(bg, dir+"/secret"); openErr == nil {
					b := make([]byte, 100)
					n, _ := f.Read(b)
					if string(b[:n]) == "secret" {
						leaks.Add(1)
					}
					f.Close()
				}
				return err == nil
			}, func() bool { return off == "" || leaks.Load() > 0 })
			if n := leaks.Load(); (n > 0) != (off != "") {
				t.Errorf("guard off %q, openat2 %v: %d reads got what is outside", off, no, n)
			}
		}
	}
}

// An entry that is listed is of the type that the directory says, in a large
// directory too.
func TestHeldDirMany(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "d/")
	const n = 3000
	for i := range n {
		a.grow(fmt.Sprintf("d/%04d", i))
	}
	names, err := a.hold("d").Names(bg, ".")
	check(t, err)
	if len(names) != n {
		t.Fatalf("%d names of %d", len(names), n)
	}
	for i, name := range names {
		if name.Name != filepath.Base(fmt.Sprintf("%04d", i)) || name.Type != 0 {
			t.Fatalf("name %d is %v", i, name)
		}
	}
}
