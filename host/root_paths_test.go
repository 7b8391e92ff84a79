//go:build linux

package host_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// fileOps are all operations, each on one name.
var fileOps = map[string]func(a *area, name string) error{
	"open":   func(a *area, n string) error { _, err := a.read(n); return err },
	"stat":   func(a *area, n string) error { _, err := a.r.Stat(bg, n); return err },
	"list":   func(a *area, n string) error { _, err := a.r.ReadDir(bg, n, workspace.ListOptions{}); return err },
	"chdir":  func(a *area, n string) error { f, err := a.r.OpenDir(bg, n); closeIf(f, err); return err },
	"write":  func(a *area, n string) error { return a.write(n, "changed", workspace.WriteOptions{}) },
	"append": func(a *area, n string) error { return a.write(n, "changed", workspace.WriteOptions{Append: true}) },
	"edit":   func(a *area, n string) error { _, err := a.r.Edit(bg, n, workspace.EditOptions{}, double); return err },
	"chmod":  func(a *area, n string) error { return a.r.Chmod(bg, n, 0o777) },
	"copyFrom": func(a *area, n string) error {
		_, err := a.r.Copy(bg, n, "copied", workspace.WriteOptions{})
		return err
	},
	"copyTo":   func(a *area, n string) error { _, err := a.r.Copy(bg, "f", n, workspace.WriteOptions{}); return err },
	"mkdirAll": func(a *area, n string) error { return a.r.Mkdir(bg, n+"/new", workspace.MkdirOptions{Parents: true}) },
	"mkdir":    func(a *area, n string) error { return a.r.Mkdir(bg, n+"/new", workspace.MkdirOptions{}) },
	"symlink":  func(a *area, n string) error { return a.r.Symlink(bg, "f", n+"/new") },
	"remove":   func(a *area, n string) error { return a.r.Remove(bg, n+"/secret", workspace.RemoveOptions{}) },
	"removeAll": func(a *area, n string) error {
		return a.r.Remove(bg, n+"/sub", workspace.RemoveOptions{Recursive: true})
	},
	"trash": func(a *area, n string) error {
		return a.r.Remove(bg, n+"/secret", workspace.RemoveOptions{Trash: true})
	},
	"moveFrom": func(a *area, n string) error { return a.r.Rename(bg, n+"/secret", "moved", workspace.RenameOptions{}) },
	"moveTo":   func(a *area, n string) error { return a.r.Rename(bg, "f", n+"/new", workspace.RenameOptions{}) },
	"moveOver": func(a *area, n string) error {
		return a.r.Rename(bg, "f", n+"/secret", workspace.RenameOptions{Overwrite: true})
	},
	"lstat":    func(a *area, n string) error { _, err := a.r.Lstat(bg, n+"/secret"); return err },
	"readlink": func(a *area, n string) error { _, err := a.r.ReadLink(bg, n+"/secret"); return err },
}

func closeIf(f *os.File, err error) {
	if err == nil {
		f.Close()
	}
}

func double(b []byte) ([]byte, error) { return append(b, b...), nil }

// Whatever leads out is OUTSIDE_ROOT for every operation, in every way the
// system can be, and nothing outside is read, made or changed.
func TestRootOutside(t *testing.T) {
	forms := []string{
		"..", "../", "./..", "a/../..", "a/../../out", "../out", "../root-evil", "missing/../..", "f/../..",
		"link", "link/", "link/.", "rel", "rel/", "deep/rel", "chain", "a/../link", "a/b/../../../out",
		"nosuch", "nosuch/", "dangrel", "dangchain", "upper", "upper/out", "absroot/../out",
	}
	tree := []string{
		"f = inside", "a/b/", "link -> OUT", "rel -> ../out", "deep/rel -> ../../out", "chain -> link",
		"nosuch -> OUT/nosuch", "dangrel -> ../out/missing/x", "dangchain -> dangrel", "upper -> ..", "absroot -> ROOT",
	}
	eachMode(t, modes, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, tree...)
		before, inside := a.canary(), treeHash(t, a.in)
		for _, form := range forms {
			for op, run := range fileOps {
				err := run(a, form)
				if workspace.CodeOf(err) != workspace.ErrOutside {
					t.Errorf("%s %q: %v, want OUTSIDE_ROOT", op, form, err)
				}
				if e := (*workspace.Error)(nil); errors.As(err, &e) && e.Op == "" {
					t.Errorf("%s %q: the error names no operation", op, form)
				}
			}
		}
		if a.canary() != before {
			t.Error("something outside was changed")
		}
		if treeHash(t, a.in) != inside {
			t.Error("something inside was made or changed on the way out")
		}
	})
}

// With the guard switched off the same names do lead out, so the table proves
// something.
func TestRootOutsideMutation(t *testing.T) {
	for _, m := range []mode{modes[0], modes[1]} {
		h := m.hooks
		h.Off = "beneath"
		a := newArea(t, h, host.RootOptions{}, "link -> OUT", "upper -> ..")
		if m.name == "openat2" {
			if got, err := a.read("link/secret"); got != "secret" {
				t.Errorf("%s: read %q, %v: the attack fails without the guard", m.name, got, err)
			}
		}
		if got, err := a.read("upper/out/secret"); got != "secret" {
			t.Errorf("%s: read %q, %v: the attack fails without the guard", m.name, got, err)
		}
	}
}

// Names that mean something inside are followed as the kernel follows them.
func TestRootInside(t *testing.T) {
	tree := []string{
		"f = F", "d/g = G", "d/e/h = H", "e.txt = E", "l -> d/g", "ld -> d/e", "abs -> ROOT/d/g", "absd -> ROOT/d",
		"d/up -> ../f", "dl -> d", "two -> dl/up", "~ = tilde", "%2e%2e/x = pct", `a\..\b = back`, "absroot -> ROOT", "s -> d//./e/",
	}
	names := map[string]string{
		"f": "F", "./f": "F", "d//g": "G", "d/./g": "G", "d/../f": "F", "d/e/../g": "G", "l": "G",
		"ld/h": "H", "ld/../g": "G", "ld/../../f": "F", "abs": "G", "absd/g": "G", "absd/e/h": "H", "absd/../f": "F",
		"d/up": "F", "two": "F", "~": "tilde", "%2e%2e/x": "pct", `a\..\b`: "back", "absroot/f": "F", "s/h": "H", "dl/../f": "F",
	}
	eachMode(t, modes, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, tree...)
		for name, want := range names {
			if got, err := a.read(name); got != want || err != nil {
				t.Errorf("read %q: %q, %v; want %q", name, got, err, want)
			}
			// What a write through the same name changes is the same file.
			if err := a.write(name, want, workspace.WriteOptions{}); err != nil {
				t.Errorf("write %q: %v", name, err)
			}
			if got, err := os.ReadFile(a.in + "/" + name); string(got) != want || err != nil {
				t.Errorf("the kernel reads %q at %q, %v; want %q", got, name, err, want)
			}
		}
		for _, link := range []string{"l", "ld", "abs", "absd", "d/up", "dl", "two", "absroot", "s"} {
			if fi, err := os.Lstat(a.path(link)); err != nil || fi.Mode().Type() != fs.ModeSymlink {
				t.Errorf("the link %s is gone", link)
			}
		}
		a.noTemps()
	})
}

// An absolute link below the guest's root leads to the root's own file, never
// to what this machine has at that path.
func TestRootGuest(t *testing.T) {
	eachMode(t, modes, func(t *testing.T, m mode) {
		guest := t.TempDir() // exists on this machine, with a decoy in it
		check(t, os.WriteFile(filepath.Join(guest, "f"), []byte("decoy"), 0o644))
		a := newArea(t, m.hooks, host.RootOptions{Guest: guest}, "f = F",
			"abs -> "+guest+"/f", "dir -> "+guest, "dots -> "+guest+"/../f", "near -> "+guest+"x/f", "real -> ROOT/f")
		for _, name := range []string{"abs", "dir/f"} {
			if got, err := a.read(name); got != "F" {
				t.Errorf("read %s: %q, %v", name, got, err)
			}
		}
		for _, name := range []string{"dots", "near", "real"} {
			_, err := a.read(name)
			wantCode(t, err, workspace.ErrOutside)
		}
	})
}

// The root may be opened by a link; links to both spellings are followed.
func TestRootIsLink(t *testing.T) {
	dir := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
	check(t, os.Symlink("real", filepath.Join(dir, "proj")))
	r, err := host.OpenRoot(filepath.Join(dir, "proj"), host.RootOptions{})
	check(t, err)
	defer r.Close()
	a := &area{t: t, in: filepath.Join(dir, "real"), r: r}
	a.grow("f = F", "one -> "+dir+"/proj/f", "two -> "+r.Real()+"/f")
	for _, name := range []string{"one", "two"} {
		if got, err := a.read(name); got != "F" {
			t.Errorf("read %s: %q, %v", name, got, err)
		}
	}
	if filepath.Base(r.Name()) != "proj" || filepath.Base(r.Real()) != "real" {
		t.Errorf("the root is %s, really %s", r.Name(), r.Real())
	}
}

func TestRootOddNames(t *testing.T) {
	long := strings.Repeat("n", 255)
	invalid := []string{"", "a\x00b", "\x00", strings.Repeat("n", 256), strings.Repeat("x/", 2100), "loop", "loop/x", "one"}
	notFound := []string{"missing", "missing/../f", "missing/x", "dang", "dang/x"}
	eachMode(t, modes, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "f = F", "loop -> two", "two -> loop", "one -> one", "dang -> gone", long+" = L", "d/")
		for _, name := range invalid {
			start := time.Now()
			_, err := a.r.Stat(bg, name)
			wantCode(t, err, workspace.ErrInvalidPath)
			if took := time.Since(start); took > 100*time.Millisecond {
				t.Errorf("%.20q took %v", name, took)
			}
		}
		for _, name := range notFound {
			_, err := a.r.Stat(bg, name)
			wantCode(t, err, workspace.ErrNotFound)
		}
		_, err := a.r.Stat(bg, "f/")
		wantCode(t, err, workspace.ErrNotDirectory)
		_, err = a.r.Stat(bg, "f/x")
		wantCode(t, err, workspace.ErrNotDirectory)
		wantCode(t, a.write("d/", "x", workspace.WriteOptions{}), workspace.ErrNotFile)
		wantCode(t, a.write("new/", "x", workspace.WriteOptions{}), workspace.ErrInvalidPath)
		wantCode(t, a.write(".", "x", workspace.WriteOptions{}), workspace.ErrNotFile)
		if got, err := a.read(long); got != "L" {
			t.Errorf("a name of 255 bytes: %q, %v", got, err)
		}
		if _, err := a.r.Stat(bg, "."); err != nil {
			t.Error(err)
		}
	})
}

// A path of as many parts as fit into 4,095 bytes is one like any other; one of
// 3,000 parts is longer, and INVALID_PATH for all operations.
func TestRootManyParts(t *testing.T) {
	eachMode(t, modes, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "f = F")
		deep := strings.Repeat("d/", 2040)
		check(t, a.write(deep+"f", "deep", workspace.WriteOptions{}))
		if got, err := a.read(deep + "f"); got != "deep" {
			t.Errorf("read: %q, %v", got, err)
		}
		_, err := a.r.Stat(bg, deep+"f")
		check(t, err)
		check(t, a.r.Rename(bg, deep+"f", "g", workspace.RenameOptions{}))
		check(t, a.r.Remove(bg, "d", workspace.RemoveOptions{Recursive: true}))
		before := treeHash(t, a.in)
		for op, run := range fileOps {
			if err := run(a, strings.Repeat("d/", 3000)); workspace.CodeOf(err) != workspace.ErrInvalidPath {
				t.Errorf("%s: %v", op, err)
			}
		}
		if treeHash(t, a.in) != before {
			t.Error("something was changed")
		}
	})
}

// A name leads through at most 40 links, as in Linux.
func TestRootLinkChains(t *testing.T) {
	eachMode(t, modes, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "l0 = end")
		for i := 1; i <= 41; i++ {
			a.grow(fmt.Sprintf("l%d -> l%d", i, i-1))
		}
		for n, ok := range map[int]bool{1: true, 9: true, 40: true, 41: false} {
			got, err := a.read(fmt.Sprintf("l%d", n))
			_, kernel := os.ReadFile(a.path(fmt.Sprintf("l%d", n)))
			if ok != (got == "end") || ok != (kernel == nil) {
				t.Errorf("%d links: %q, %v; the kernel: %v", n, got, err, kernel)
			}
			if !ok {
				wantCode(t, err, workspace.ErrInvalidPath)
			}
		}
	})
}

// Every byte a name can hold goes in and comes out.
func TestRootNameBytes(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "d/")
	n := 0
	for b := 1; b < 256; b++ {
		if b == '/' {
			continue
		}
		name := "d/x" + string([]byte{byte(b)})
		check(t, a.write(name, name, workspace.WriteOptions{}))
		n++
	}
	list, err := a.r.ReadDir(bg, "d", workspace.ListOptions{})
	check(t, err)
	if len(list.Entries) != n {
		t.Fatalf("%d of %d names are listed", len(list.Entries), n)
	}
	for _, e := range list.Entries {
		if got, err := a.read("d/" + e.Name()); got != "d/"+e.Name() {
			t.Errorf("read %q: %q, %v", e.Name(), got, err)
		}
		check(t, a.r.Remove(bg, "d/"+e.Name(), workspace.RemoveOptions{}))
	}
}

// Nothing is made through a dangling link, by mkdir and write alike.
func TestRootDangling(t *testing.T) {
	ops := map[string]func(a *area) error{
		"mkdir":      func(a *area) error { return a.r.Mkdir(bg, "dang/x", workspace.MkdirOptions{Parents: true}) },
		"mkdir last": func(a *area) error { return a.r.Mkdir(bg, "dang", workspace.MkdirOptions{Parents: true}) },
		"write":      func(a *area) error { return a.write("dang/y/z.txt", "x", workspace.WriteOptions{}) },
		"write last": func(a *area) error { return a.write("dang", "x", workspace.WriteOptions{}) },
		"deep":       func(a *area) error { return a.write("deep/x", "x", workspace.WriteOptions{}) },
	}
	eachMode(t, modes, func(t *testing.T, m mode) {
		for name, op := range ops {
			a := newArea(t, m.hooks, host.RootOptions{}, "dang -> missing", "deep -> d/e/f", "d/")
			before := treeHash(t, a.in)
			wantCode(t, op(a), workspace.ErrNotFound)
			if treeHash(t, a.in) != before {
				t.Errorf("%s: something was made", name)
			}
		}
		a := newArea(t, m.hooks, host.RootOptions{}, "dang -> missing")
		wantCode(t, a.write("dang", "x", workspace.WriteOptions{Exclusive: true}), workspace.ErrExists)
	})
	h := host.TestHooks{Off: "dangling"}
	a := newArea(t, h, host.RootOptions{}, "dang -> missing")
	check(t, a.r.Mkdir(bg, "dang/x", workspace.MkdirOptions{Parents: true}))
	if _, err := os.Stat(a.path("missing/x")); err != nil {
		t.Error("the attack fails without the guard:", err)
	}
}
