//go:build linux

package snapshot_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// paths are those of a snapshot, sorted.
func (a *area) paths(id string) []string {
	a.t.Helper()
	tree, err := a.store.Tree(bg, id)
	check(a.t, err)
	defer tree.Close()
	var names []string
	check(a.t, tree.Walk(bg, func(path string, _ snapshot.Entry) error {
		names = append(names, path)
		return nil
	}))
	slices.Sort(names)
	return names
}

func (a *area) saveWith(o workspace.SaveOptions) workspace.Snapshot {
	a.t.Helper()
	s, err := a.Save(bg, o)
	check(a.t, err)
	return s
}

// The state, repositories and installed packages are left out at any depth and in
// any spelling that some file system takes for theirs.
func TestSaveLeavesOut(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{Exclude: []string{"*.log", "/top"}},
		"f = F", "d/.git/config = x", "d/.GIT/config = x", "d/.wsctl/x = x", "Node_Modules/m = x", "d/node_modules/m = x",
		"a.log = x", "d/b.log = x", "top = x", "d/top = kept", "build/x = x", "d/build/x = kept",
		"[v].txt = x", "v.txt = kept", "sub/only/x = x", "sub/y = kept")
	s := a.saveWith(workspace.SaveOptions{Exclude: []string{"/build/", `\[v\].txt`, "sub/only"}})
	want := []string{"d", "d/build", "d/build/x", "d/top", "f", "sub", "sub/y", "v.txt"}
	if got := a.paths(s.ID); !slices.Equal(got, want) {
		t.Errorf("the snapshot has %q", got)
	}
	if want := []string{"*.log", "/build/", "/top", `\[v\].txt`, "sub/only"}; !slices.Equal(s.Exclude, want) {
		t.Errorf("left out are %q", s.Exclude)
	}
	_, err := a.Save(bg, workspace.SaveOptions{Exclude: []string{"[v"}})
	wantCode(t, err, workspace.ErrInvalidArgument)
	_, err = a.Save(bg, workspace.SaveOptions{Metadata: []byte("{")})
	wantCode(t, err, workspace.ErrInvalidArgument)
}

// What is no file, directory or link, what is too large and what cannot be read
// is told with the reason.
func TestSaveSkips(t *testing.T) {
	a := newArea(t, snapshot.Options{MaxFileBytes: 10}, "f = F", "big = 0123456789A", "p|", "d/e = E")
	if os.Geteuid() == 0 {
		check(t, unix.Mknod(a.path("dev"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	} else {
		a.grow("secret = x", "locked/x = x")
		check(t, os.Chmod(a.path("secret"), 0))
		check(t, os.Chmod(a.path("locked"), 0))
		defer func() { _ = os.Chmod(a.path("locked"), 0o700) }()
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	check(t, err)
	defer unix.Close(fd)
	t.Chdir(a.dir) // a socket's address is short
	check(t, unix.Bind(fd, &unix.SockaddrUnix{Name: "sock"}))
	s := a.save()
	got := map[string]string{}
	for _, e := range s.Skipped {
		got[e.Path] = e.Reason
	}
	want := map[string]string{"big": "too large", "p": "special file", "sock": "special file"}
	if os.Geteuid() == 0 {
		want["dev"] = "special file"
	} else {
		want["secret"], want["locked"] = "unreadable", "unreadable"
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("skipped are %v", got)
	}
	if got := a.paths(s.ID); !slices.Equal(got, []string{"d", "d/e", "f"}) {
		t.Errorf("the snapshot has %q", got)
	}
	all := a.saveWith(workspace.SaveOptions{MaxFileBytes: 1 << 20})
	if !slices.Contains(a.paths(all.ID), "big") {
		t.Error("a larger limit does not keep the large file")
	}
}

// Another file system inside the root is neither kept nor touched.
func TestSaveOtherFileSystem(t *testing.T) {
	t.Parallel()
	inMounts(t, func(t *testing.T, dir string) {
		a := &area{t: t, dir: filepath.Join(dir, "root"), at: filepath.Join(dir, "store")}
		a.grow("f = F", "tmp/", "bind/", "out/")
		check(t, unix.Mount("tmpfs", a.path("tmp"), "tmpfs", 0, "size=1m"))
		check(t, unix.Mount(a.path("out"), a.path("bind"), "", unix.MS_BIND, ""))
		a.grow("tmp/secret = S", "out/x = X")
		a.open(snapshot.Options{})
		defer a.close()
		s := a.save()
		if got := a.paths(s.ID); !slices.Equal(got, []string{"f", "out", "out/x"}) {
			t.Errorf("the snapshot has %q", got)
		}
		if len(s.Skipped) != 2 || s.Skipped[0].Reason != "another file system" || s.Skipped[1].Reason != "another file system" {
			t.Errorf("skipped are %+v", s.Skipped)
		}
		a.grow("f = other", "new = N")
		a.restore(s.ID)
		if got := a.content("tmp/secret"); got != "S" || a.content("f") != "F" {
			t.Errorf("the other file system holds %q", got)
		}
	})
}

// A change that keeps size and modification time is seen: it sets the change
// time.
func TestSaveSeesForgedTimes(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "f = aaaa")
	a.old("f")
	first := a.save()
	check(t, os.WriteFile(a.path("f"), []byte("bbbb"), 0o644))
	a.old("f")
	second := a.save()
	a.restore(first.ID)
	if got := a.content("f"); got != "aaaa" {
		t.Errorf("the first snapshot gave %q", got)
	}
	a.restore(second.ID)
	if got := a.content("f"); got != "bbbb" {
		t.Errorf("the second snapshot gave %q", got)
	}
}

// Changes as fast as they go, within one step of the file system's clock, are all
// seen.
func TestSaveSeesQuickChanges(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "f = 0000")
	f, err := os.OpenFile(a.path("f"), os.O_RDWR, 0)
	check(t, err)
	defer f.Close()
	var ids []string
	for i := range 30 {
		_, err := f.WriteAt(fmt.Appendf(nil, "%04d", i), 0)
		check(t, err)
		ids = append(ids, a.save().ID)
	}
	for i, id := range ids {
		if got, want := a.read(id, "f"), fmt.Sprintf("%04d", i); got != want {
			t.Errorf("snapshot %d has %q", i, got)
		}
	}
}

// read is the content of a file of a snapshot.
func (a *area) read(id, path string) string {
	a.t.Helper()
	tree, err := a.store.Tree(bg, id)
	check(a.t, err)
	defer tree.Close()
	e, err := tree.Lookup(bg, path)
	check(a.t, err)
	r, err := tree.Open(bg, e)
	check(a.t, err)
	defer r.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(r)
	check(a.t, err)
	return b.String()
}

// A store through a shared mapping whose page is dirty already sets no time. It
// is seen all the same, since a save writes the file's pages out before it looks.
func TestSaveSeesMappedWrites(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "f = aaaa")
	f, err := os.OpenFile(a.path("f"), os.O_RDWR, 0)
	check(t, err)
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	check(t, err)
	defer func() { _ = unix.Munmap(m) }()
	m[0] = 'b' // the page is dirty from now on
	time.Sleep(30 * time.Millisecond)
	first := a.save()
	time.Sleep(30 * time.Millisecond)
	m[0] = 'c'
	second := a.save()
	if got := a.read(first.ID, "f"); got != "baaa" {
		t.Errorf("the first snapshot has %q", got)
	}
	if got := a.read(second.ID, "f"); got != "caaa" {
		t.Errorf("the second snapshot has %q", got)
	}
	if a.save().Stats.Read != 0 {
		t.Error("a file that did not change was read again")
	}
}

// A file that goes on changing while it is read is named, and what is kept of it
// is one reading from beginning to end.
func TestSaveOfAChangingFile(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "still = S", "log = "+strings.Repeat("x", 16<<20))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		f, err := os.OpenFile(a.path("log"), os.O_WRONLY, 0)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		for n := int64(0); ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			switch {
			case n%5000 == 4999:
				_ = f.Truncate(12 << 20)
			default:
				_, _ = f.WriteAt([]byte("yyyyyyyy"), n*8191%(16<<20))
			}
		}
	}()
	changed := 0
	for end := time.Now().Add(20 * time.Second); changed == 0 && time.Now().Before(end); {
		s := a.save()
		if slices.Contains(s.Changed, "log") {
			changed++
		}
		content := a.read(s.ID, "log")
		tree, err := a.store.Tree(bg, s.ID)
		check(t, err)
		e, err := tree.Lookup(bg, "log")
		tree.Close()
		check(t, err)
		if int64(len(content)) != e.Size || strings.Trim(content, "xy\x00") != "" {
			t.Errorf("%d bytes are kept as %d", len(content), e.Size)
		}
	}
	close(stop)
	<-done
	if changed == 0 {
		t.Error("no save met a change")
	}
	a.wantWhole()
}

// Links are kept as links: nothing of what they lead to is in the store.
func TestSaveFollowsNoLink(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	check(t, os.WriteFile(secret, []byte("canary-7261"), 0o644))
	a := newArea(t, snapshot.Options{}, "l -> "+secret, "dir -> "+filepath.Dir(secret), "dangling -> nowhere")
	s := a.save()
	if s.Stats.Links != 3 || s.Stats.Files != 0 {
		t.Errorf("the snapshot counts %+v", s.Stats)
	}
	check(t, filepath.WalkDir(a.at, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte("canary-7261")) {
			t.Errorf("%s holds what a link leads to", path)
		}
		return err
	}))
}

// Special bits, access control lists and other attributes are not kept and not
// brought back.
func TestSaveKeepsPlainModes(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "s = S", "d/x = X")
	check(t, os.Chmod(a.path("s"), 0o755|fs.ModeSetuid|fs.ModeSetgid))
	check(t, os.Chmod(a.path("d"), 0o755|fs.ModeSticky))
	xattr := unix.Setxattr(a.path("s"), "user.note", []byte("x"), 0) == nil
	s := a.save()
	a.remove("s", "d")
	a.restore(s.ID)
	for name, want := range map[string]fs.FileMode{"s": 0o755, "d": fs.ModeDir | 0o755} {
		fi, err := os.Lstat(a.path(name))
		check(t, err)
		if fi.Mode() != want {
			t.Errorf("%s has mode %v", name, fi.Mode())
		}
	}
	if n, _ := unix.Listxattr(a.path("s"), nil); xattr && n > 0 {
		t.Error("the file has attributes")
	}
}

// Two names of one file are two files after a restore, and neither is a name of
// anything in the store.
func TestSaveHardLinksAndHoles(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "a = A")
	check(t, os.Link(a.path("a"), a.path("b")))
	f, err := os.Create(a.path("holes"))
	check(t, err)
	check(t, f.Truncate(100<<20))
	_, err = f.WriteAt([]byte("in the middle"), 50<<20)
	check(t, err)
	check(t, f.Close())
	f, err = os.Create(a.path("huge"))
	check(t, err)
	check(t, f.Truncate(50<<30))
	check(t, f.Close())
	s := a.save()
	if len(s.Skipped) != 1 || s.Skipped[0].Path != "huge" || s.Skipped[0].Size != 50<<30 {
		t.Errorf("skipped are %+v", s.Skipped)
	}
	u, err := a.store.Usage(bg)
	check(t, err)
	if u.Bytes > 1<<20 {
		t.Errorf("100 MiB of holes take %d bytes", u.Bytes)
	}
	a.remove("a", "b", "holes")
	a.restore(s.ID)
	for _, name := range []string{"a", "b"} {
		var st unix.Stat_t
		check(t, unix.Lstat(a.path(name), &st))
		if st.Nlink != 1 || a.content(name) != "A" {
			t.Errorf("%s has %d names", name, st.Nlink)
		}
	}
	var st unix.Stat_t
	check(t, unix.Lstat(a.path("holes"), &st))
	if st.Size != 100<<20 || st.Blocks*512 > 2<<20 {
		t.Errorf("the file of holes has %d bytes and takes %d", st.Size, st.Blocks*512)
	}
	b := make([]byte, 13)
	f, err = os.Open(a.path("holes"))
	check(t, err)
	defer f.Close()
	_, err = f.ReadAt(b, 50<<20)
	check(t, err)
	if string(b) != "in the middle" {
		t.Errorf("the file of holes holds %q", b)
	}
	// A write in place after the restore does not reach the store.
	check(t, os.WriteFile(a.path("a"), []byte("changed in place"), 0o644))
	if a.read(s.ID, "a") != "A" {
		t.Error("a write in place changed the store")
	}
	a.wantWhole()
}

// Temporary files of writes under way are in no snapshot and stay.
func TestSaveLeavesTemporaries(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "f = F")
	s := a.save()
	temp := ".wsctl-tmp-000102030405060708090a0b0c0d0e0f"
	sum := []byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	temp += checksumText(sum)
	a.grow(temp + " = half")
	if got := a.paths(a.save().ID); !slices.Equal(got, []string{"f"}) {
		t.Errorf("the snapshot has %q", got)
	}
	a.restore(s.ID)
	if a.content(temp) != "half" {
		t.Error("the write under way lost its file")
	}
}

// inMounts runs a test in a mount namespace of its own.
func inMounts(t *testing.T, run func(t *testing.T, dir string)) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	dir := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "root"), 0o755))
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread is never unlocked, so it ends with the goroutine.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			t.Errorf("no mount namespace: %v", err)
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Errorf("mounts cannot be made private: %v", err)
			return
		}
		run(t, dir)
	}()
	<-done
}

// On a full disk a save fails with a clear error and earlier snapshots are whole;
// so it is with a restore, which leaves no half file.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	inMounts(t, func(t *testing.T, dir string) {
		small := filepath.Join(dir, "small")
		check(t, os.Mkdir(small, 0o755))
		check(t, unix.Mount("tmpfs", small, "tmpfs", 0, "size=1m"))
		// A subtest would run on another thread, outside the mounts.
		func() {
			a := &area{t: t, dir: filepath.Join(dir, "root"), at: filepath.Join(small, "store")}
			a.grow("f = F")
			a.open(snapshot.Options{})
			defer a.close()
			first := a.save()
			check(t, os.WriteFile(a.path("big"), random(3<<20), 0o644))
			_, err := a.Save(bg, workspace.SaveOptions{})
			wantCode(t, err, workspace.ErrIO)
			a.wantWhole()
			check(t, os.Remove(a.path("big")))
			a.grow("f = other")
			a.save()
			a.restore(first.ID)
			if a.content("f") != "F" {
				t.Error("the first snapshot is lost")
			}
		}()
		check(t, os.RemoveAll(filepath.Join(small, "store")))
		func() {
			a := &area{t: t, dir: filepath.Join(small, "root"), at: filepath.Join(dir, "store2")}
			check(t, os.Mkdir(a.dir, 0o755))
			a.grow("a = A", "b = B", "d/x = X")
			check(t, os.WriteFile(a.path("big"), random(400<<10), 0o644))
			a.open(snapshot.Options{})
			defer a.close()
			want := a.manifest()
			s := a.save()
			check(t, os.Remove(a.path("big")))
			a.grow("b = other")
			check(t, os.WriteFile(filepath.Join(small, "filler"), random(800<<10), 0o644))
			_, err := a.Restore(bg, s.ID, workspace.RestoreOptions{})
			wantCode(t, err, workspace.ErrIO)
			if _, err := os.Lstat(a.path("big")); err == nil {
				t.Error("a file that did not fit is there in part")
			}
			check(t, os.Remove(filepath.Join(small, "filler")))
			a.restore(s.ID)
			a.wantTree(want)
			a.wantWhole()
		}()
	})
}
