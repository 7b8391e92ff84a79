//go:build linux

package host_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

func TestRootRemove(t *testing.T) {
	eachMode(t, plainSystems, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "f", "l -> d", "dang -> no", "d/e/f", "d/g", "empty/", "out -> OUT", "d/out -> OUT")
		before := a.canary()
		wantCode(t, a.r.Remove(bg, "d", workspace.RemoveOptions{}), workspace.ErrNotEmpty)
		wantCode(t, a.r.Remove(bg, "none", workspace.RemoveOptions{}), workspace.ErrNotFound)
		wantCode(t, a.r.Remove(bg, "none", workspace.RemoveOptions{Recursive: true}), workspace.ErrNotFound)
		wantCode(t, a.r.Remove(bg, "f/", workspace.RemoveOptions{}), workspace.ErrNotDirectory)
		wantCode(t, a.r.Remove(bg, "l/", workspace.RemoveOptions{Recursive: true}), workspace.ErrInvalidPath)
		for _, name := range []string{"f", "l", "dang", "empty/", "out"} {
			check(t, a.r.Remove(bg, name, workspace.RemoveOptions{Recursive: name == "l"}))
		}
		check(t, a.r.Remove(bg, "d", workspace.RemoveOptions{Recursive: true}))
		if names := a.names("."); len(names) != 1 || len(a.names(".wsctl/pending")) != 0 {
			t.Errorf("left: %v, pending %v", names, a.names(".wsctl/pending"))
		}
		if a.canary() != before {
			t.Error("something outside was removed through a link")
		}
	})
}

// deepTree makes a chain of n directories below dir, by descriptor, since its
// path is longer than any call takes.
func deepTree(t *testing.T, dir string, n int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	check(t, err)
	for range n {
		check(t, unix.Mkdirat(fd, "deep", 0o755))
		next, err := unix.Openat(fd, "deep", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		check(t, err)
		unix.Close(fd)
		fd = next
	}
	f, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	check(t, err)
	unix.Close(f)
	unix.Close(fd)
}

// A tree of any depth goes, with few descriptors.
func TestRootRemoveDeep(t *testing.T) {
	eachMode(t, modes[:2], func(t *testing.T, m mode) {
		var limit unix.Rlimit
		check(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
		a := newArea(t, m.hooks, host.RootOptions{}, "d/")
		depth := 3000
		if m.name != "openat2" {
			depth = 300
		}
		deepTree(t, a.path("d"), depth)
		few := limit
		few.Cur = 256
		check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
		err := a.r.Remove(bg, "d", workspace.RemoveOptions{Recursive: true})
		check(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))
		check(t, err)
		if n := a.names(".wsctl/pending"); len(n) != 0 {
			t.Errorf("left: %v", n)
		}
	})
}

// Directories that their owner locked are opened and go.
func TestRootRemoveLocked(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "d/a/f", "d/b/c/f", "top/f")
	deepTree(t, a.path("d/b/c"), 70)
	for _, d := range []string{"d/a", "d/b/c", "d/b", "d", "top"} {
		check(t, os.Chmod(a.path(d), 0))
	}
	check(t, a.r.Remove(bg, "d", workspace.RemoveOptions{Recursive: true}))
	check(t, a.r.Remove(bg, "top", workspace.RemoveOptions{Recursive: true}))
	if names := a.names("."); len(names) != 1 {
		t.Errorf("left: %v", names)
	}
}

// What cannot be removed is put back with what is around it, and counted.
func TestRootRemoveImmutable(t *testing.T) {
	if !asRoot() {
		t.Skip("only root can make a file immutable")
	}
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "d/e/stays", "d/e/goes", "d/f")
	const immutable = 0x10 // FS_IMMUTABLE_FL, ioctl_iflags(2)
	f, err := os.Open(a.path("d/e/stays"))
	check(t, err)
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, immutable); err != nil {
		t.Skip("this file system has no immutable files:", err)
	}
	defer func() { check(t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)) }()
	err = a.r.Remove(bg, "d", workspace.RemoveOptions{Recursive: true})
	wantCode(t, err, workspace.ErrDenied)
	if !strings.Contains(err.Error(), "1 entries") || !strings.Contains(err.Error(), "stays") {
		t.Errorf("the error does not name what is left: %v", err)
	}
	if names := a.names("d/e"); len(names) != 1 || names[0] != "stays" {
		t.Errorf("left: %v", names)
	}
}

// A removal that is cancelled is finished by the next opening.
func TestRootRemoveCancelled(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{})
	for i := range 20 {
		fill(t, a.in, fmt.Sprintf("d/%d", i), 100)
	}
	ctx := &countdown{Context: bg, n: 4}
	err := a.r.Remove(ctx, "d", workspace.RemoveOptions{Recursive: true})
	wantCode(t, err, workspace.ErrAborted)
	if names := a.names(".wsctl/pending"); len(names) != 1 || !strings.HasPrefix(names[0], "delete-") || !strings.Contains(err.Error(), names[0]) {
		t.Fatalf("pending: %v; %v", names, err)
	}
	if _, err := os.Lstat(a.path("d")); err == nil {
		t.Error("the directory is still in its place")
	}
	a.r.Close()
	// Too young for a leftover, then old enough.
	for age, want := range map[time.Duration]int{time.Hour: 1, -1: 1} {
		r, err := host.OpenRoot(a.in, host.RootOptions{LeftoverAge: age})
		check(t, err)
		_, err = r.Leftovers(bg)
		check(t, err)
		check(t, r.Close())
		if n := len(a.names(".wsctl/pending")); n != want {
			t.Errorf("age %v: %d left", age, n)
		}
	}
	r, err := host.OpenRoot(a.in, host.RootOptions{LeftoverAge: 1})
	check(t, err)
	defer r.Close()
	left, err := r.Leftovers(bg)
	check(t, err)
	if len(left.Finished) != 1 || len(a.names(".wsctl/pending")) != 0 {
		t.Errorf("%+v, left %v", left, a.names(".wsctl/pending"))
	}
}

// countdown is a context that ends after its Err was asked n times.
type countdown struct {
	context.Context //nolint:containedctx // it is one
	n               int
}

func (c *countdown) Err() error {
	if c.n--; c.n < 0 {
		return context.Canceled
	}
	return nil
}

func TestRootRename(t *testing.T) {
	eachMode(t, modes, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "f = F", "g = G", "d/x = X", "d/z/", "e/y = Y", "e/z/", "empty/", "l -> f", "sub/")
		over := workspace.RenameOptions{Overwrite: true}
		none := workspace.RenameOptions{}
		before := treeHash(t, a.in)
		for _, c := range []struct {
			from, to string
			o        workspace.RenameOptions
			code     workspace.Code
		}{
			{"f", "g", none, workspace.ErrExists},
			{"d", "e", none, workspace.ErrExists},
			{"d", "empty", none, workspace.ErrExists},
			{"f", "l", none, workspace.ErrExists},
			{"d", "f", over, workspace.ErrNotDirectory},
			{"f", "empty", over, workspace.ErrNotFile},
			{"f", "d", over, workspace.ErrNotFile},
			{"d", "d/x/y", none, workspace.ErrNotDirectory},
			{"d", "d/new", none, workspace.ErrInvalidArgument},
			{"e", "e/z", over, workspace.ErrInvalidArgument},
			{"d/z", "d", over, workspace.ErrInvalidArgument},
			{"d", "d/x", over, workspace.ErrNotDirectory},
			{"sub", "sub/a/b", none, workspace.ErrNotFound},
			{"none", "x", none, workspace.ErrNotFound},
			{".", "x", none, workspace.ErrInvalidPath},
			{"f", ".", over, workspace.ErrExists},
			{"f", "new/", none, workspace.ErrNotDirectory},
			{"f", ".wsctl", over, workspace.ErrInvalidPath},
			{"f", "../out/f", over, workspace.ErrOutside},
			{"f", "f", none, ""},
			{"d", "./d", over, ""},
		} {
			wantCode(t, a.r.Rename(bg, c.from, c.to, c.o), c.code)
		}
		if treeHash(t, a.in) != before {
			t.Error("a refused rename moved something")
		}
		check(t, a.r.Rename(bg, "f", "new", none))
		check(t, a.r.Rename(bg, "new", "g", over))
		check(t, a.r.Rename(bg, "d", "moved/", none))
		check(t, a.r.Rename(bg, "moved", "e", over))
		check(t, a.r.Rename(bg, "l", "sub/l", none))
		if got := a.content("g"); got != "F" {
			t.Errorf("g holds %q", got)
		}
		if names := strings.Join(a.names("e"), " "); names != "x z" {
			t.Errorf("e holds %v", names)
		}
		if text, err := os.Readlink(a.path("sub/l")); text != "f" {
			t.Errorf("the moved link: %q, %v", text, err)
		}
		if n := a.names(".wsctl/pending"); len(n) != 0 {
			t.Errorf("left: %v", n)
		}
		// Two names of one file: the second one stays.
		check(t, os.Link(a.path("g"), a.path("h")))
		check(t, a.r.Rename(bg, "g", "h", over))
		if _, err := os.Lstat(a.path("g")); err == nil {
			t.Error("the old name is still there")
		}
	})
}

// Without the flags of renameat2 files move all the same, and a directory is
// refused rather than put over another one.
func TestRootRenameWithoutFlags(t *testing.T) {
	a := newArea(t, host.TestHooks{NoFlags: true}, host.RootOptions{}, "f = F", "g = G", "d/")
	check(t, a.r.Rename(bg, "f", "new", workspace.RenameOptions{}))
	wantCode(t, a.r.Rename(bg, "new", "g", workspace.RenameOptions{}), workspace.ErrExists)
	check(t, a.r.Rename(bg, "new", "g", workspace.RenameOptions{Overwrite: true}))
	if a.content("g") != "F" {
		t.Error("g holds", a.content("g"))
	}
	wantCode(t, a.r.Rename(bg, "d", "e", workspace.RenameOptions{}), workspace.ErrUnsupported)
}

func TestRootList(t *testing.T) {
	temp := host.TempName()
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "d/b = 12", "d/a", "d/c/", "d/l -> a", "d/"+temp, "d/.wsctl-tmp-mine", "d/dir-"+temp+"/")
	check(t, os.Mkdir(a.path("d/"+host.TempName()), 0o755)) // a directory is nobody's temporary
	list, err := a.r.ReadDir(bg, "d", workspace.ListOptions{})
	check(t, err)
	var names []string
	for _, e := range list.Entries {
		names = append(names, e.Name())
		fi, err := e.Info()
		check(t, err)
		if fi.Name() != e.Name() || fi.IsDir() != e.IsDir() {
			t.Errorf("%s: entry and info differ", e.Name())
		}
	}
	if len(names) != 7 || list.More || slices.Contains(names, temp) {
		t.Errorf("listed: %v", names)
	}
	var paged []string
	for after := ""; ; {
		page, err := a.r.ReadDir(bg, "d", workspace.ListOptions{After: after, Limit: 2})
		check(t, err)
		for _, e := range page.Entries {
			paged = append(paged, e.Name())
			after = e.Name()
		}
		if !page.More {
			break
		}
	}
	if fmt.Sprint(paged) != fmt.Sprint(names) {
		t.Errorf("in pages: %v\nat once:  %v", paged, names)
	}
	_, err = a.r.ReadDir(bg, "d/a", workspace.ListOptions{})
	wantCode(t, err, workspace.ErrNotDirectory)
	_, err = a.r.ReadDir(bg, "d", workspace.ListOptions{Limit: -1})
	wantCode(t, err, workspace.ErrInvalidArgument)
}

// A directory of many entries is paged in bounded memory, sorted, complete.
func TestRootListLarge(t *testing.T) {
	n := 50_000
	if os.Getenv("WSCTL_SOAK") != "" {
		n = 200_000
	}
	a := newArea(t, host.TestHooks{}, host.RootOptions{})
	fill(t, a.in, "d", 1)
	// Hard links are the cheapest entries to make.
	for i := 1; i < n; i++ {
		check(t, unix.Link(a.path(fmt.Sprintf("d/file-%06d", i-i%50_000)), a.path(fmt.Sprintf("d/file-%06d", i))))
		if (i+1)%50_000 == 0 {
			check(t, os.WriteFile(a.path(fmt.Sprintf("d/file-%06d", i+1)), nil, 0o644))
			i++
		}
	}
	page, err := a.r.ReadDir(bg, "d", workspace.ListOptions{After: "file-010000", Limit: 100})
	check(t, err)
	if len(page.Entries) != 100 || !page.More || page.Entries[0].Name() != "file-010001" || page.Entries[99].Name() != "file-010100" {
		t.Errorf("a page of %d from %v, more: %v", len(page.Entries), page.Entries[0], page.More)
	}
	all, err := a.r.ReadDir(bg, "d", workspace.ListOptions{})
	check(t, err)
	if len(all.Entries) < n {
		t.Errorf("%d of %d entries", len(all.Entries), n)
	}
	ctx := &countdown{Context: bg, n: 3}
	_, err = a.r.ReadDir(ctx, "d", workspace.ListOptions{})
	wantCode(t, err, workspace.ErrAborted)
	check(t, a.r.Remove(bg, "d", workspace.RemoveOptions{Recursive: true}))
}

func TestRootTrash(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "f\xff = file", "d/e/g = 12345", "d/l -> e", "ro/x")
	check(t, os.Chmod(a.path("ro"), 0o500))
	for _, name := range []string{"f\xff", "d", "ro"} {
		check(t, a.r.Remove(bg, name, workspace.RemoveOptions{Trash: true}))
	}
	if n := a.names("."); len(n) != 1 {
		t.Errorf("left: %q", n)
	}
	items, err := a.r.Trash(bg)
	check(t, err)
	if len(items) != 3 || items[0].Path != "f\xff" || items[1].Path != "d" || items[1].Size != 5 || !items[1].Mode.IsDir() {
		t.Fatalf("the trash holds %+v", items)
	}
	check(t, a.r.RestoreTrash(bg, items[0].ID, ""))
	check(t, a.r.RestoreTrash(bg, items[2].ID, ""))
	wantMode(t, a, "ro", 0o500)
	check(t, os.Chmod(a.path("ro"), 0o700))
	check(t, os.Mkdir(a.path("d"), 0o755))
	wantCode(t, a.r.RestoreTrash(bg, items[1].ID, ""), workspace.ErrExists)
	wantCode(t, a.r.RestoreTrash(bg, items[1].ID, "../out/d"), workspace.ErrOutside)
	for _, id := range []string{"..", "a/b", ".", "", "../pending"} {
		wantCode(t, a.r.RestoreTrash(bg, id, "z"), workspace.ErrInvalidArgument)
	}
	wantCode(t, a.r.RestoreTrash(bg, "none", "z"), workspace.ErrNotFound)
	check(t, a.r.RestoreTrash(bg, items[1].ID, "back/here"))
	if got := a.content("back/here/e/g"); got != "12345" {
		t.Errorf("restored: %q", got)
	}
	if items, err := a.r.Trash(bg); len(items) != 0 || err != nil {
		t.Errorf("left in the trash: %v, %v", items, err)
	}
	if n := a.names(".wsctl/trash"); len(n) != 0 {
		t.Errorf("left in the trash: %v", n)
	}
}

func TestRootPurge(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{})
	for i := range 5 {
		check(t, a.write(fmt.Sprint(i), "1234567890", workspace.WriteOptions{}))
		check(t, a.r.Remove(bg, fmt.Sprint(i), workspace.RemoveOptions{Trash: true}))
		time.Sleep(2 * time.Millisecond) // the ids tell milliseconds
	}
	gone, err := a.r.PurgeTrash(bg, host.PurgeOptions{OlderThan: time.Hour})
	check(t, err)
	if len(gone) != 0 {
		t.Errorf("purged young items: %v", gone)
	}
	gone, err = a.r.PurgeTrash(bg, host.PurgeOptions{MaxBytes: 25})
	check(t, err)
	if len(gone) != 3 || gone[0].Path != "0" {
		t.Errorf("purged by size: %v", gone)
	}
	gone, err = a.r.PurgeTrash(bg, host.PurgeOptions{OlderThan: 1})
	check(t, err)
	if len(gone) != 2 {
		t.Errorf("purged by age: %v", gone)
	}
	check(t, os.MkdirAll(a.path(".wsctl/trash/damaged/x"), 0o755))
	check(t, os.WriteFile(a.path(".wsctl/trash/file"), nil, 0o644))
	_, err = a.r.PurgeTrash(bg, host.PurgeOptions{All: true})
	check(t, err)
	if n := a.names(".wsctl/trash"); len(n) != 0 {
		t.Errorf("left: %v", n)
	}
	_, err = a.r.PurgeTrash(bg, host.PurgeOptions{OlderThan: -1})
	wantCode(t, err, workspace.ErrInvalidArgument)
}

// Only what is ours, old, regular and has one name is swept; what was on its
// way is kept.
func TestRootLeftovers(t *testing.T) {
	ours, linked, dir := host.TempName(), host.TempName(), host.TempName()
	young := "sub/" + host.TempName()
	moved, wanted := host.NewPendingName("moved"), host.NewPendingName("delete")
	a := newArea(t, host.TestHooks{}, host.RootOptions{LeftoverAge: -1}, "sub/deeper/"+ours, linked, dir+"/",
		".wsctl-tmp-1234", ".wsctl-tmp-"+strings.Repeat("0", 40), "sub/f")
	check(t, os.Link(a.path(linked), a.path("second")))
	_, err := a.r.ID()
	check(t, err)
	a.grow(".wsctl/pending/"+moved+"/f = kept", ".wsctl/pending/"+wanted+"/d/f", ".wsctl/pending/mine/f", "sub/.wsctl/f")
	check(t, a.r.Close())
	time.Sleep(1100 * time.Millisecond) // names in pending tell whole seconds
	check(t, os.WriteFile(a.path(young), nil, 0o644))
	for _, c := range []struct {
		off  string
		age  time.Duration
		want int
	}{{"", time.Hour, 0}, {"", time.Second, 1}} {
		r, err := host.OpenRootWith(a.in, host.RootOptions{LeftoverAge: c.age}, host.TestHooks{Off: c.off})
		check(t, err)
		left, err := r.Leftovers(bg)
		check(t, err)
		check(t, r.Close())
		if len(left.Removed) != c.want || len(left.Recovered) != c.want || len(left.Finished) != c.want {
			t.Errorf("age %v: %+v", c.age, left)
		}
		if c.want == 1 {
			if left.Removed[0] != "sub/deeper/"+ours || a.content(left.Recovered[0]+"/f") != "kept" {
				t.Errorf("%+v", left)
			}
		}
	}
	for _, name := range []string{linked, dir, young, ".wsctl-tmp-1234", ".wsctl-tmp-" + strings.Repeat("0", 40), "sub/f", ".wsctl/pending/mine/f", "sub/.wsctl/f"} {
		if _, err := os.Lstat(a.path(name)); err != nil {
			t.Error("swept what is not ours:", err)
		}
	}
	if names := a.names(".wsctl/pending"); len(names) != 2 {
		t.Errorf("pending holds %v", names)
	}
	r, err := host.OpenRootWith(a.in, host.RootOptions{LeftoverAge: 1}, host.TestHooks{Off: "temp"})
	check(t, err)
	defer r.Close()
	_, err = r.Leftovers(bg)
	check(t, err)
	if _, err := os.Lstat(a.path("sub/f")); err == nil {
		t.Error("without the guard a file of the user is not swept: the test proves nothing")
	}
}

// Descriptors are given back, whatever a call answers.
func TestRootDescriptors(t *testing.T) {
	count := func() int {
		names, err := filepath.Glob("/proc/self/fd/*")
		check(t, err)
		return len(names)
	}
	before := count()
	eachMode(t, plainSystems, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "f = F", "d/sub/secret = S", "d/secret", "l -> d", "out -> OUT", "loop -> loop")
		open := count()
		for range 3 {
			for _, form := range []string{"f", "d", "l", "l/sub/..", "out", "loop", "missing", "d/../f", ".", "d/secret", "new", "l/new/"} {
				for _, op := range fileOps {
					_ = op(a, form)
				}
			}
		}
		// The state is held once it is known.
		if n := count(); n > open+1 {
			t.Errorf("%d descriptors are left", n-open)
		}
		check(t, a.r.Close())
	})
	if n := count(); n != before {
		t.Errorf("%d descriptors are left after Close", n-before)
	}
}
