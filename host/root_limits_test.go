//go:build linux

package host_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// A write that a limit of the process stops leaves the old file and nothing
// else.
func TestRootFileSizeLimit(t *testing.T) {
	var old unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	eachMode(t, plainSystems, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "f = old")
		few := old
		few.Cur = 64 << 10
		big := strings.Repeat("x", 256<<10)
		check(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &few))
		errOld := a.write("f", big, workspace.WriteOptions{})
		errNew := a.write("new", big, workspace.WriteOptions{})
		check(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old))
		wantCode(t, errOld, workspace.ErrIO)
		wantCode(t, errNew, workspace.ErrIO)
		if a.content("f") != "old" || len(a.names(".")) != 1 {
			t.Errorf("f holds %q; there are %v", a.content("f"), a.names("."))
		}
	})
}

// The same on a disk that is full.
func TestRootDiskFull(t *testing.T) {
	inMounts(t, func(t *testing.T, dir string) {
		check(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"))
		for _, noTmpfile := range []bool{false, true} {
			r, err := host.OpenRootWith(dir, host.RootOptions{LeftoverAge: -1}, host.TestHooks{NoTmpfile: noTmpfile})
			check(t, err)
			a := &area{t: t, in: dir, r: r}
			a.grow("f = old")
			big := strings.Repeat("x", 1<<20)
			wantCode(t, a.write("f", big, workspace.WriteOptions{}), workspace.ErrIO)
			wantCode(t, a.write("new", big, workspace.WriteOptions{}), workspace.ErrIO)
			_, err = a.r.Edit(bg, "f", workspace.EditOptions{}, func([]byte) ([]byte, error) { return []byte(big), nil })
			wantCode(t, err, workspace.ErrIO)
			if a.content("f") != "old" || len(a.names(".")) != 1 {
				t.Errorf("f holds %q; there are %v", a.content("f"), a.names("."))
			}
			check(t, r.Close())
		}
	})
}

// A file that cannot be read is not appended to, and is still replaced.
func TestRootUnreadable(t *testing.T) {
	if asRoot() {
		t.Skip("root reads every file")
	}
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "f = old", "d/x")
	check(t, os.Chmod(a.path("f"), 0o200))
	_, err := a.read("f")
	wantCode(t, err, workspace.ErrDenied)
	wantCode(t, a.write("f", "x", workspace.WriteOptions{Append: true}), workspace.ErrDenied)
	check(t, a.write("f", "new", workspace.WriteOptions{}))
	check(t, os.Chmod(a.path("d"), 0o500))
	wantCode(t, a.write("d/n", "x", workspace.WriteOptions{}), workspace.ErrDenied)
	wantCode(t, a.r.Remove(bg, "d/x", workspace.RemoveOptions{}), workspace.ErrDenied)
	check(t, os.Chmod(a.path("d"), 0))
	_, err = a.r.Stat(bg, "d/x")
	wantCode(t, err, workspace.ErrDenied)
	_, err = a.r.OpenDir(bg, "d")
	wantCode(t, err, workspace.ErrDenied)
	check(t, os.Chmod(a.path("d"), 0o300))
	check(t, a.write("d/n", "written without reading the directory", workspace.WriteOptions{}))
	check(t, os.Chmod(a.path("d"), 0o700))
}
