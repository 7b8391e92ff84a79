//go:build linux

package snapshot_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

var bg = context.Background()

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCode(t testing.TB, err error, code workspace.Code) {
	t.Helper()
	if workspace.CodeOf(err) != code {
		t.Fatalf("the error is %v, not %s", err, code)
	}
}

// area is a root with its snapshots.
type area struct {
	t   testing.TB
	dir string // the root
	at  string // the store
	// age is how old leftovers of a crash must be; 0: the usual
	age   time.Duration
	root  *host.Root
	store *snapshot.Store
	*snapshot.Snapshots
}

func newArea(t testing.TB, o snapshot.Options, tree ...string) *area {
	t.Helper()
	a := &area{t: t, dir: filepath.Join(t.TempDir(), "root"), at: filepath.Join(t.TempDir(), "store")}
	check(t, os.Mkdir(a.dir, 0o755))
	a.open(o)
	t.Cleanup(a.close)
	a.grow(tree...)
	return a
}

func (a *area) open(o snapshot.Options) {
	a.t.Helper()
	var err error
	a.root, err = host.OpenRoot(a.dir, host.RootOptions{LeftoverAge: a.age})
	check(a.t, err)
	_, err = a.root.Leftovers(bg)
	check(a.t, err)
	a.store, err = snapshot.Open(a.root, snapshot.Place{Dir: a.at})
	check(a.t, err)
	a.Snapshots, err = snapshot.New(a.root, a.store, o)
	check(a.t, err)
}

func (a *area) close() {
	a.store.Close()
	a.root.Close()
}

func (a *area) path(name string) string { return filepath.Join(a.dir, name) }

// grow makes entries: "d/", "f = content", "l -> target", "p|" (a FIFO).
func (a *area) grow(tree ...string) {
	a.t.Helper()
	for _, line := range tree {
		name, content, file := strings.Cut(line, " = ")
		link, target, isLink := strings.Cut(line, " -> ")
		switch {
		case file:
			check(a.t, os.MkdirAll(filepath.Dir(a.path(name)), 0o755))
			check(a.t, os.WriteFile(a.path(name), []byte(content), 0o644))
		case isLink:
			check(a.t, os.MkdirAll(filepath.Dir(a.path(link)), 0o755))
			check(a.t, os.Symlink(target, a.path(link)))
		case strings.HasSuffix(line, "/"):
			check(a.t, os.MkdirAll(a.path(line), 0o755))
		case strings.HasSuffix(line, "|"):
			check(a.t, unix.Mkfifo(a.path(strings.TrimSuffix(line, "|")), 0o644))
		default:
			a.t.Fatalf("%q makes nothing", line)
		}
	}
}

func (a *area) remove(names ...string) {
	a.t.Helper()
	for _, name := range names {
		check(a.t, os.RemoveAll(a.path(name)))
	}
}

func (a *area) content(name string) string {
	a.t.Helper()
	b, err := os.ReadFile(a.path(name))
	check(a.t, err)
	return string(b)
}

func (a *area) save() workspace.Snapshot {
	a.t.Helper()
	s, err := a.Save(bg, workspace.SaveOptions{})
	check(a.t, err)
	return s
}

func (a *area) restore(id string) workspace.Restored {
	a.t.Helper()
	r, err := a.Restore(bg, id, workspace.RestoreOptions{})
	check(a.t, err)
	return r
}

// manifest is the tree as text: kind, mode, time and content of every entry but
// the state.
func manifest(t testing.TB, dir string) []string {
	t.Helper()
	var lines []string
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if name == host.StateName {
			return fs.SkipDir
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %v %d", name, fi.Mode(), fi.ModTime().UnixNano())
		switch {
		case fi.Mode().IsRegular():
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += " " + string(b)
		case fi.Mode()&fs.ModeSymlink != 0:
			text, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + text
		}
		lines = append(lines, line)
		return nil
	}))
	return lines
}

func (a *area) manifest() []string { return manifest(a.t, a.dir) }

// wantTree compares the tree with an earlier manifest.
func (a *area) wantTree(want []string) {
	a.t.Helper()
	got := a.manifest()
	for _, line := range got {
		if !slices.Contains(want, line) {
			a.t.Errorf("there is %.200s", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			a.t.Errorf("there is not %.200s", line)
		}
	}
	if a.t.Failed() {
		a.t.FailNow()
	}
}

// old sets an entry's time back, so that a test need not wait for a clock.
func (a *area) old(name string) {
	a.t.Helper()
	at := time.Unix(1_000_000_000, 123)
	check(a.t, os.Chtimes(a.path(name), at, at))
}
