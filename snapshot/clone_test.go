//go:build linux

package snapshot_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// free is how many bytes are free on a file system, when all is written out.
func free(t *testing.T, dir string) int64 {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	check(t, err)
	defer unix.Close(fd)
	check(t, unix.Syncfs(fd))
	var st unix.Statfs_t
	check(t, unix.Fstatfs(fd, &st))
	return int64(st.Bfree) * st.Bsize
}

// Where the file system can share content, a fork takes room for what the tree
// has no more, and is the snapshot all the same: also of files that were changed
// since, whatever was done to their times.
func TestForkShares(t *testing.T) {
	t.Parallel()
	disk := enginetest.Disk(t, 400<<20, "mkfs.xfs", "-q", "-m", "reflink=1")
	a := &area{t: t, dir: filepath.Join(disk, "root"), at: filepath.Join(t.TempDir(), "store")}
	check(t, os.Mkdir(a.dir, 0o755))
	a.open(snapshot.Options{})
	t.Cleanup(a.close)
	big := random(8 << 20)
	const files = 6
	for i := range files {
		a.grow(fmt.Sprintf("d/f%d = %d%s", i, i, big))
	}
	a.grow("forged = old", "gone = x", "small = s", "top = t")
	for _, name := range []string{"forged", "d/f0"} {
		a.old(name)
	}
	times := func(name string) (at unix.Stat_t) { check(t, unix.Stat(a.path(name), &at)); return at }
	before := times("forged")
	first := a.save()
	a.save() // by now no file is so young that its times are not believed
	want := a.manifest()[1:]
	check(t, os.WriteFile(a.path("forged"), []byte("new"), 0o644))
	check(t, unix.UtimesNanoAt(unix.AT_FDCWD, a.path("forged"), []unix.Timespec{before.Atim, before.Mtim}, 0))
	a.remove("gone")
	a.grow("d/f0 = 0 changed")

	had := free(t, disk)
	dir := filepath.Join(disk, "fork")
	_, err := a.Fork(bg, first.ID, dir)
	check(t, err)
	if forked := manifest(t, dir)[1:]; !slices.Equal(forked, want) {
		t.Errorf("got\n%.600s\nwant\n%.600s", strings.Join(forked, "\n"), strings.Join(want, "\n"))
	}
	// One of the six was changed, and is not shared.
	if took := had - free(t, disk); took < 8<<20 || took > 2*8<<20 {
		t.Errorf("the fork takes %d bytes", took)
	}
	// What one of them becomes is not the other's business.
	check(t, os.WriteFile(filepath.Join(dir, "d/f1"), []byte("the fork's"), 0o644))
	if got := a.content("d/f1"); got != "1"+string(big) {
		t.Errorf("a change in the fork shows in the tree: %d bytes", len(got))
	}

	// A file that is changed between the look at it and the sharing is not
	// taken, and nothing is made of it.
	held, err := a.root.HoldDir(bg, ".")
	check(t, err)
	defer held.Close()
	is, err := held.Find("small")
	check(t, err)
	from, err := held.Open(bg, "small")
	check(t, err)
	defer from.Close()
	check(t, held.PutClone(bg, "copy", from, is, host.PutOptions{Perm: 0o600}))
	check(t, os.WriteFile(a.path("small"), []byte("S"), 0o644))
	wantCode(t, held.PutClone(bg, "copy2", from, is, host.PutOptions{Perm: 0o600}), workspace.ErrConflict)
	if _, err := os.Lstat(a.path("copy2")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a copy2: %v", err)
	}
	if a.content("copy") != "s" {
		t.Errorf("the clone holds %q", a.content("copy"))
	}
}

// Where the file system cannot share, that is UNSUPPORTED and nothing is made.
func TestCloneIsUnsupported(t *testing.T) {
	t.Parallel()
	disk := enginetest.Disk(t, 16<<20, "mkfs.ext4", "-q")
	a := &area{t: t, dir: filepath.Join(disk, "root"), at: filepath.Join(t.TempDir(), "store")}
	check(t, os.Mkdir(a.dir, 0o755))
	a.open(snapshot.Options{})
	t.Cleanup(a.close)
	a.grow("f = F")
	held, err := a.root.HoldDir(bg, ".")
	check(t, err)
	defer held.Close()
	is, err := held.Find("f")
	check(t, err)
	from, err := held.Open(bg, "f")
	check(t, err)
	defer from.Close()
	wantCode(t, held.PutClone(bg, "copy", from, is, host.PutOptions{Perm: 0o600}), workspace.ErrUnsupported)
	if names, err := os.ReadDir(a.dir); err != nil || len(names) > 2 {
		t.Errorf("there are %v, %v", names, err)
	}
}
