//go:build linux

package host_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

// mode is one way in which the system can be: every table of paths runs in
// each, and must come out the same.
type mode struct {
	name  string
	hooks host.TestHooks
}

var modes = []mode{
	{"openat2", host.TestHooks{}},
	{"ENOSYS", host.TestHooks{Openat2: syscall.ENOSYS}},
	{"EPERM", host.TestHooks{Openat2: syscall.EPERM}},
}

// plainSystems are those modes and file systems that lack more.
var plainSystems = append(modes[:len(modes):len(modes)],
	mode{"no O_TMPFILE", host.TestHooks{NoTmpfile: true}},
	mode{"no flags", host.TestHooks{NoFlags: true}},
	mode{"neither", host.TestHooks{NoTmpfile: true, NoFlags: true, Openat2: syscall.ENOSYS}},
)

func eachMode(t *testing.T, in []mode, run func(t *testing.T, m mode)) {
	t.Helper()
	for _, m := range in {
		t.Run(m.name, func(t *testing.T) { run(t, m) })
	}
}

// area is a directory with a root in it and things outside that must not
// change.
type area struct {
	t   testing.TB
	dir string // root, out, root-evil lie here
	in  string // the root
	out string
	r   *host.Root
}

// newArea makes a root with a tree given as lines:
//
//	path            an empty file
//	path = content  a file
//	path -> target  a link; OUT in the target is the directory outside
//	path/           a directory
func newArea(t testing.TB, h host.TestHooks, o host.RootOptions, tree ...string) *area {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	check(t, err)
	a := &area{t: t, dir: dir, in: filepath.Join(dir, "root"), out: filepath.Join(dir, "out")}
	for _, d := range []string{a.in, a.out, filepath.Join(dir, "root-evil")} {
		check(t, os.Mkdir(d, 0o755))
	}
	for _, f := range []string{"out/secret", "out/sub/secret", "root-evil/f"} {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, f)), 0o755))
		check(t, os.WriteFile(filepath.Join(dir, f), []byte("secret"), 0o640))
	}
	a.grow(tree...)
	a.r, err = host.OpenRootWith(a.in, o, h)
	check(t, err)
	t.Cleanup(func() { a.r.Close() })
	return a
}

func (a *area) grow(tree ...string) {
	a.t.Helper()
	for _, line := range tree {
		name, target, link := strings.Cut(line, " -> ")
		name, content, _ := strings.Cut(name, " = ")
		path := filepath.Join(a.in, name)
		check(a.t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch {
		case link:
			target = strings.ReplaceAll(target, "OUT", a.out)
			target = strings.ReplaceAll(target, "ROOT", a.in)
			check(a.t, os.Symlink(target, path))
		case strings.HasSuffix(name, "/"):
			check(a.t, os.MkdirAll(path, 0o755))
		default:
			check(a.t, os.WriteFile(path, []byte(content), 0o644))
		}
	}
}

// canary is a digest of all that lies outside the root.
func (a *area) canary() string {
	a.t.Helper()
	return treeHash(a.t, a.out) + treeHash(a.t, filepath.Join(a.dir, "root-evil"))
}

// treeHash is a digest of names, modes, times and contents below dir.
func treeHash(t testing.TB, dir string) string {
	t.Helper()
	h := sha256.New()
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(h, path, fi.Mode(), fi.ModTime().UnixNano())
		switch {
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			h.Write(b)
		case fi.Mode().Type() == fs.ModeSymlink:
			s, err := os.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintln(h, s)
		}
		return nil
	}))
	return hex.EncodeToString(h.Sum(nil))
}

func (a *area) path(name string) string { return filepath.Join(a.in, name) }

func (a *area) content(name string) string {
	a.t.Helper()
	b, err := os.ReadFile(a.path(name))
	check(a.t, err)
	return string(b)
}

func (a *area) write(name, content string, o workspace.WriteOptions) error {
	_, err := a.r.Write(bg, name, strings.NewReader(content), o)
	return err
}

func (a *area) read(name string) (string, error) {
	f, err := a.r.Open(bg, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", err
	}
	b := make([]byte, fi.Size())
	_, err = f.ReadAt(b, 0)
	return string(b), err
}

// names are what a directory of the root holds, our state and temporaries too.
func (a *area) names(dir string) []string {
	a.t.Helper()
	entries, err := os.ReadDir(a.path(dir))
	check(a.t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// noTemps fails when a temporary file is left anywhere in the root.
func (a *area) noTemps() {
	a.t.Helper()
	check(a.t, filepath.WalkDir(a.in, func(path string, d fs.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), ".wsctl-tmp-") {
			a.t.Errorf("a temporary file is left: %s", path)
		}
		return nil
	}))
}

var bg = context.Background()

// wantCode fails unless err has the code and satisfies the standard error that
// the code stands for.
func wantCode(t testing.TB, err error, code workspace.Code) {
	t.Helper()
	if got := workspace.CodeOf(err); got != code {
		t.Errorf("the error is %v (%q), want %s", err, got, code)
	}
}

func asRoot() bool { return os.Geteuid() == 0 }

// raceTime is how long a race is tried.
func raceTime() time.Duration {
	switch {
	case enginetest.Soak():
		return 10 * time.Second
	case testing.Short():
		return 100 * time.Millisecond
	}
	return 300 * time.Millisecond
}

func mkfifo(t testing.TB, path string) { t.Helper(); check(t, unix.Mkfifo(path, 0o666)) }

func isStandard(err, std error) bool { return errors.Is(err, std) }

// tempNameOf makes a name for a temporary file, which must be known as one.
func tempNameOf(t testing.TB) string {
	t.Helper()
	name := host.TempName()
	if !host.IsTemp(name) || host.IsTemp(name[:len(name)-1]+"x") || host.IsTemp("x"+name) {
		t.Errorf("%s is not told from others", name)
	}
	return name
}
