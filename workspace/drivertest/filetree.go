package drivertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// The chapter files, continued: the tree, what is no regular file, the state.

func mkdir(t *checker) {
	t.must(t.ws.Mkdir(t.ctx, t.path("d"), workspace.MkdirOptions{Perm: 0o700}))
	if got := t.mode("d"); got != fs.ModeDir|0o700 {
		t.Errorf("a new directory with 0700 has mode %v", got)
	}
	t.write("f", "x")
	t.plant("ln -s gone dangling; ln -s d link")
	parents := workspace.MkdirOptions{Parents: true}
	for _, c := range []struct {
		name string
		o    workspace.MkdirOptions
		code workspace.Code
	}{
		{"d", workspace.MkdirOptions{}, workspace.ErrExists},
		{"d", parents, ""},
		{"f", workspace.MkdirOptions{}, workspace.ErrExists},
		{"f", parents, workspace.ErrExists},
		{"link", workspace.MkdirOptions{}, workspace.ErrExists},
		{"link", parents, ""},
		{"dangling", workspace.MkdirOptions{}, workspace.ErrExists},
		{"a/b/c", workspace.MkdirOptions{}, workspace.ErrNotFound},
		{"a/b/c", parents, ""},
		{"a/b/c", parents, ""},
		{"f/x", workspace.MkdirOptions{}, workspace.ErrNotDirectory},
		{"f/x", parents, workspace.ErrNotDirectory},
		{"e/", workspace.MkdirOptions{}, ""},
	} {
		t.wantCode(fmt.Sprintf("mkdir %s %+v", c.name, c.o), t.ws.Mkdir(t.ctx, t.path(c.name), c.o), c.code)
	}
	t.wantCode("mkdir of the root", t.ws.Mkdir(t.ctx, ".", workspace.MkdirOptions{}), workspace.ErrExists)
	t.wantGone("gone")
	if fi, err := t.ws.Stat(t.ctx, t.path("a/b/c")); err != nil || !fi.IsDir() {
		t.Errorf("a/b/c: %v, %v", fi, err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := t.ws.Mkdir(t.ctx, t.path("x/y/z"), parents); err != nil {
				t.Errorf("one of 8 that make the same directories: %v", err)
			}
		})
	}
	wg.Wait()
}

func remove(t *checker) {
	t.plant("mkdir -p full/sub empty target; echo x > full/sub/f; echo x > f; echo kept > target/f; ln -s target link; ln -s gone dangling; ln -s ../target full/out")
	once, recursive := workspace.RemoveOptions{}, workspace.RemoveOptions{Recursive: true}
	for _, c := range []struct {
		name string
		o    workspace.RemoveOptions
		code workspace.Code
	}{
		{"gone", once, workspace.ErrNotFound},
		{"gone", recursive, workspace.ErrNotFound},
		{"f/x", once, workspace.ErrNotDirectory},
		{"full", once, workspace.ErrNotEmpty},
		{"full", recursive, ""},
		{"empty", once, ""},
		{"link", recursive, ""},
		{"dangling", once, ""},
		{"f", once, ""},
	} {
		t.wantCode(fmt.Sprintf("remove %s %+v", c.name, c.o), t.ws.Remove(t.ctx, t.path(c.name), c.o), c.code)
	}
	t.wantFile("target/f", "kept\n")
	if got := t.names(); !slices.Equal(got, []string{"target"}) {
		t.Errorf("the directory holds %q", got)
	}
	for _, root := range []string{".", t.ws.Root(), t.path("."), "./"} {
		if err := t.ws.Remove(t.ctx, root, recursive); err == nil {
			t.Errorf("%q was removed", root)
		}
	}
	t.wantFile("target/f", "kept\n")
	// Deeper than a path can say, and wider than one read of a directory.
	t.plant(`n=$(printf '123456789abcdef/%.0s' 1 2 3 4 5 6 7 8 9 10); n=$n$n$n$n$n$n$n$n$n$n
		mkdir -p one/$n two/$n three/$n && echo x > three/${n}f && mv three two/$n && mv two one/$n && mv one deep`)
	t.plant("mkdir wide && cd wide && i=0 && while [ $i -lt 1500 ]; do : > file-with-a-long-name-$i && i=$((i+1)); done")
	t.plant("mkdir ro && echo x > ro/f && chmod 500 ro")
	for _, name := range []string{"deep", "wide"} {
		if err := t.ws.Remove(t.ctx, t.path(name), recursive); err != nil {
			t.Errorf("remove %s: %v", name, err)
		}
		t.wantGone(name)
	}
	t.plant("chmod 700 ro")
}

func trash(t *checker) {
	t.write("d/f", "x")
	t.write("f", "y")
	for _, name := range []string{"d", "f"} {
		if err := t.ws.Remove(t.ctx, t.path(name), workspace.RemoveOptions{Trash: true}); err != nil {
			t.Errorf("trash %s: %v", name, err)
		}
		t.wantGone(name)
	}
	t.wantCode("trash what is gone", t.ws.Remove(t.ctx, t.path("f"), workspace.RemoveOptions{Trash: true}), workspace.ErrNotFound)
	if got := t.names(); len(got) != 0 {
		t.Errorf("the directory holds %q", got)
	}
	root, err := t.ws.ReadDir(t.ctx, ".", workspace.ListOptions{})
	t.must(err)
	for _, e := range root.Entries {
		if strings.HasPrefix(strings.ToLower(e.Name()), ".wsctl") {
			t.Errorf("the root lists %q", e.Name())
		}
	}
}

func rename(t *checker) {
	t.plant("echo a > a; echo b > b; mkdir -p d/sub e; echo x > d/sub/f; echo y > e/f; ln -s a link; ln -s gone dangling")
	once, over := workspace.RenameOptions{}, workspace.RenameOptions{Overwrite: true}
	refused := []struct {
		from, to string
		o        workspace.RenameOptions
		codes    []workspace.Code
	}{
		{"gone", "x", once, []workspace.Code{workspace.ErrNotFound}},
		{"gone", "a", over, []workspace.Code{workspace.ErrNotFound}},
		{"a", "b", once, []workspace.Code{workspace.ErrExists}},
		{"a", "dangling", once, []workspace.Code{workspace.ErrExists}},
		{"d", "e", once, []workspace.Code{workspace.ErrExists}},
		{"a", "e", once, []workspace.Code{workspace.ErrExists}},
		{"a", "e", over, []workspace.Code{workspace.ErrNotFile, workspace.ErrExists}},
		{"d", "a", over, []workspace.Code{workspace.ErrNotDirectory}},
		{"a", "b/x", once, []workspace.Code{workspace.ErrNotDirectory}},
		{"d", "d/sub/d", once, []workspace.Code{workspace.ErrInvalidArgument}},
		{"a", "b/", over, []workspace.Code{workspace.ErrNotDirectory, workspace.ErrInvalidPath}},
	}
	before := t.plant("ls -lR | grep -v ^total")
	for _, c := range refused {
		err := t.ws.Rename(t.ctx, t.path(c.from), t.path(c.to), c.o)
		t.wantCode(fmt.Sprintf("rename %s to %s %+v", c.from, c.to, c.o), err, c.codes...)
	}
	for _, root := range []string{".", t.ws.Root()} {
		if err := t.ws.Rename(t.ctx, root, t.path("x"), once); err == nil {
			t.Errorf("%q was moved", root)
		}
	}
	if after := t.plant("ls -lR | grep -v ^total"); after != before {
		t.Errorf("a refused rename changed the tree from\n%s\nto\n%s", before, after)
	}
	for _, c := range []struct {
		from, to string
		o        workspace.RenameOptions
	}{
		{"a", "c", once},
		{"c", "b", over},
		{"d", "moved", once},
		{"moved", "e", over},
		{"link", "link2", once},
		{"dangling", "e/dangling2", once},
		{"b", "b", over},
	} {
		if err := t.ws.Rename(t.ctx, t.path(c.from), t.path(c.to), c.o); err != nil {
			t.Errorf("rename %s to %s %+v: %v", c.from, c.to, c.o, err)
		}
	}
	t.wantFile("b", "a\n")
	t.wantFile("e/sub/f", "x\n")
	t.wantGone("e/f")
	if got := t.names(); !slices.Equal(got, []string{"b", "e", "link2"}) {
		t.Errorf("the directory holds %q", got)
	}
	for link, text := range map[string]string{"link2": "a", "e/dangling2": "gone"} {
		if got, err := t.ws.ReadLink(t.ctx, t.path(link)); err != nil || got != text {
			t.Errorf("%s is a link to %q, %v, want %q", link, got, err, text)
		}
	}
}

func copyFile(t *checker) {
	t.plant("printf text > f; chmod 750 f; mkdir d; printf old > old; chmod 604 old; ln -s f link")
	fi, err := t.ws.Copy(t.ctx, t.path("f"), t.path("new/g"), workspace.WriteOptions{})
	t.must(err)
	if got := t.mode("new/g"); got != 0o750 || fi.Size() != 4 {
		t.Errorf("the copy has mode %v, %d bytes", got, fi.Size())
	}
	t.wantFile("new/g", "text")
	_, err = t.ws.Copy(t.ctx, t.path("f"), t.path("old"), workspace.WriteOptions{Exclusive: true})
	t.wantCode("copy over what exists, exclusive", err, workspace.ErrExists)
	_, err = t.ws.Copy(t.ctx, t.path("f"), t.path("old"), workspace.WriteOptions{MaxBytes: 3})
	t.wantCode("copy over MaxBytes", err, workspace.ErrTooLarge)
	t.wantFile("old", "old")
	_, err = t.ws.Copy(t.ctx, t.path("link"), t.path("old"), workspace.WriteOptions{})
	t.must(err)
	t.wantFile("old", "text")
	_, err = t.ws.Copy(t.ctx, t.path("d"), t.path("e"), workspace.WriteOptions{})
	t.wantCode("copy of a directory", err, workspace.ErrNotFile)
	_, err = t.ws.Copy(t.ctx, t.path("f"), t.path("d"), workspace.WriteOptions{})
	t.wantCode("copy over a directory", err, workspace.ErrNotFile)
	_, err = t.ws.Copy(t.ctx, t.path("gone"), t.path("e"), workspace.WriteOptions{})
	t.wantCode("copy of what is missing", err, workspace.ErrNotFound)
	t.wantGone("e")
}

func chmod(t *checker) {
	t.plant("echo x > f; mkdir d; ln -s f link")
	for _, perm := range []fs.FileMode{0o600, 0o755, 0o444} {
		for _, name := range []string{"f", "d", "link"} {
			t.must(t.ws.Chmod(t.ctx, t.path(name), perm|0o100))
		}
		if f, d := t.mode("f"), t.mode("d"); f != perm|0o100 || d != fs.ModeDir|perm|0o100 {
			t.Errorf("after Chmod %v the file has %v, the directory %v", perm|0o100, f, d)
		}
	}
	if got := t.mode("link"); got.Type() != fs.ModeSymlink {
		t.Errorf("the link is now %v", got)
	}
	t.must(t.ws.Chmod(t.ctx, t.path("d"), 0o755))
	t.wantCode("special bits", t.ws.Chmod(t.ctx, t.path("f"), fs.ModeSetuid|0o755), workspace.ErrInvalidArgument)
	t.wantCode("missing", t.ws.Chmod(t.ctx, t.path("gone"), 0o600), workspace.ErrNotFound)
}

func symlink(t *checker) {
	out, intact := t.outside()
	t.write("d/f", "content")
	for link, target := range map[string]string{
		"l1": "d/f", "d/l2": "../d/f", "l3": t.abs("d/f"), "l4": "d", "dangling": "d/later",
	} {
		t.must(t.ws.Symlink(t.ctx, target, t.path(link)))
		if got, err := t.ws.ReadLink(t.ctx, t.path(link)); err != nil || got != target {
			t.Errorf("%s is a link to %q, %v, want %q", link, got, err, target)
		}
	}
	for _, name := range []string{"l1", "d/l2", "l3", "l4/f"} {
		t.wantFile(name, "content")
		if got := t.ok("cat " + name); got != "content" {
			t.Errorf("a command reads %q through %s", got, name)
		}
	}
	up := strings.Repeat("../", 1+strings.Count(t.path("x"), "/"))
	for _, target := range []string{out, out + "/secret", "/", "/etc/passwd", up + "x", "d/../../../../../../x", t.ws.Root() + "x/f", t.ws.Root() + "/../x"} {
		t.wantCode("a link to "+target, t.ws.Symlink(t.ctx, target, t.path("bad")), workspace.ErrOutside)
		t.wantGone("bad")
	}
	for _, name := range []string{"d", "d/f", "l1", "dangling"} {
		t.wantCode("over "+name, t.ws.Symlink(t.ctx, "d/f", t.path(name)), workspace.ErrExists)
	}
	for name, code := range map[string]workspace.Code{"d": workspace.ErrInvalidPath, "d/f": workspace.ErrInvalidPath, "gone": workspace.ErrNotFound} {
		_, err := t.ws.ReadLink(t.ctx, t.path(name))
		t.wantCode("ReadLink "+name, err, code)
	}
	intact()
}

func list(t *checker) {
	odd := []string{"-rf", "a\nb", "é", "e\u0301", "\xff\xfe", " ", "~", "*", "[id]", "a:1:b", ".dot", "Z", "😀", "%2e", `back\slash`}
	want := slices.Clone(odd)
	for _, name := range odd {
		t.write(name, "")
	}
	for i := range 120 {
		name := fmt.Sprintf("f%d", i)
		want = append(want, name)
	}
	t.plant("i=0; while [ $i -lt 120 ]; do echo > f$i; i=$((i+1)); done")
	slices.Sort(want)
	if got := t.names(); !slices.Equal(got, want) {
		t.Errorf("the list is %q, want %q", got, want)
	}
	for _, limit := range []int{1, 7, len(want) - 1, len(want), len(want) + 1} {
		var got []string
		for after := ""; ; {
			page, err := t.ws.ReadDir(t.ctx, t.dir, workspace.ListOptions{After: after, Limit: limit})
			t.must(err)
			if len(page.Entries) > limit || page.More && len(page.Entries) == 0 {
				t.Fatalf("a page of %d has %d entries, more: %v", limit, len(page.Entries), page.More)
			}
			for _, e := range page.Entries {
				got = append(got, e.Name())
			}
			if !page.More {
				break
			}
			after = got[len(got)-1]
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d give %d names of %d", limit, len(got), len(want))
		}
	}
	page, err := t.ws.ReadDir(t.ctx, t.dir, workspace.ListOptions{After: "f12x"})
	t.must(err)
	if len(page.Entries) == 0 || page.Entries[0].Name() != "f13" {
		t.Errorf("after a name that is not there the list begins with %v", page.Entries)
	}
	t.must(t.ws.Remove(t.ctx, t.path("f0"), workspace.RemoveOptions{}))
	t.plant("echo xyz > f1; rm -f f2 f3 f4; mkdir f2; ln -s gone f3; mkfifo f4")
	page, err = t.ws.ReadDir(t.ctx, t.dir, workspace.ListOptions{})
	t.must(err)
	kinds := map[string]fs.FileMode{}
	for _, e := range page.Entries {
		kinds[e.Name()] = e.Type()
		if fi, err := e.Info(); e.Name() == "f1" && (err != nil || fi.Size() != 4) {
			t.Errorf("Info of an entry: %v, %v", fi, err)
		}
	}
	for name, kind := range map[string]fs.FileMode{"f1": 0, "f2": fs.ModeDir, "f4": fs.ModeNamedPipe} {
		if kinds[name] != kind {
			t.Errorf("%s is listed as %v, want %v", name, kinds[name], kind)
		}
	}
	_, err = t.ws.ReadDir(t.ctx, t.path("gone"), workspace.ListOptions{})
	t.wantCode("list what is missing", err, workspace.ErrNotFound)
}

func stat(t *checker) {
	t.plant("printf 12345 > f; ln f hard; ln -s f link; ln -s gone dangling; mkdir d")
	fi, err := t.ws.Stat(t.ctx, t.path("link"))
	t.must(err)
	if fi.Size() != 5 || !fi.Mode().IsRegular() || time.Since(fi.ModTime()).Abs() > time.Hour {
		t.Errorf("Stat of a link: %d bytes, mode %v, time %v", fi.Size(), fi.Mode(), fi.ModTime())
	}
	ids := map[string]*workspace.FileStat{}
	for _, name := range []string{"f", "hard", "link", "d"} {
		fi, err := t.ws.Lstat(t.ctx, t.path(name))
		t.must(err)
		st, ok := fi.Sys().(*workspace.FileStat)
		if !ok || st.ID == "" || st.Version == "" || st.Links == 0 || st.Changed.IsZero() {
			t.Fatalf("Sys of %s is %#v", name, fi.Sys())
		}
		if fi.Name() != name {
			t.Errorf("the name of %s is %q", name, fi.Name())
		}
		ids[name] = st
	}
	if ids["f"].ID != ids["hard"].ID || ids["f"].ID == ids["link"].ID || ids["f"].ID == ids["d"].ID {
		t.Errorf("IDs do not tell files apart: %+v", ids)
	}
	if ids["f"].Links != 2 {
		t.Errorf("a file with two names has %d links", ids["f"].Links)
	}
	if got := t.mode("link"); got.Type() != fs.ModeSymlink {
		t.Errorf("Lstat of a link has mode %v", got)
	}
	_, err = t.ws.Stat(t.ctx, t.path("dangling"))
	t.wantCode("Stat of a dangling link", err, workspace.ErrNotFound)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
	fi, err = t.ws.Stat(t.ctx, ".")
	t.must(err)
	if !fi.IsDir() {
		t.Errorf("the root has mode %v", fi.Mode())
	}
}

func openFile(t *checker) {
	t.write("f", "0123456789")
	f, err := t.ws.Open(t.ctx, t.path("f"))
	t.must(err)
	defer f.Close()
	if fi, err := f.Stat(); err != nil || fi.Size() != 10 {
		t.Errorf("Stat: %v, %v", fi, err)
	}
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			b := make([]byte, 1)
			if n, err := f.ReadAt(b, int64(i)); n != 1 || err != nil && err != io.EOF || b[0] != byte('0'+i) {
				t.Errorf("ReadAt %d: %q, %v", i, b[:n], err)
			}
		})
	}
	wg.Wait()
	if n, err := f.ReadAt(make([]byte, 4), 8); n != 2 || err != io.EOF {
		t.Errorf("ReadAt over the end: %d, %v", n, err)
	}
	if at, err := f.Seek(-3, io.SeekEnd); at != 7 || err != nil {
		t.Errorf("Seek: %d, %v", at, err)
	}
	if rest, err := io.ReadAll(f); string(rest) != "789" || err != nil {
		t.Errorf("after Seek: %q, %v", rest, err)
	}
	t.must(f.Close())
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a read after Close: %v", err)
	}
}

func readLimit(t *checker) {
	t.write("f", "12345")
	for _, c := range []struct {
		limit int64
		code  workspace.Code
	}{{5, ""}, {6, ""}, {4, workspace.ErrTooLarge}, {-1, workspace.ErrInvalidArgument}} {
		data, err := t.ws.ReadFile(t.ctx, t.path("f"), c.limit)
		t.wantCode(fmt.Sprint("limit ", c.limit), err, c.code)
		if c.code == "" && string(data) != "12345" {
			t.Errorf("limit %d: read %q", c.limit, data)
		}
	}
	t.plant("dd if=/dev/zero of=sparse bs=1 count=1 seek=1000000000000 2>/dev/null || :")
	began := time.Now()
	if _, err := t.ws.Stat(t.ctx, t.path("sparse")); err == nil {
		_, err = t.ws.ReadFile(t.ctx, t.path("sparse"), 0)
		t.wantCode("a sparse file of 1 TB", err, workspace.ErrTooLarge)
		t.within("refusing it", began, time.Second)
		_, err = t.ws.Edit(t.ctx, t.path("sparse"), workspace.EditOptions{}, func(b []byte) ([]byte, error) { return b, nil })
		t.wantCode("an edit of it", err, workspace.ErrTooLarge)
	}
}

func irregular(t *checker) {
	t.plant("mkfifo fifo; ln -s fifo link; mknod device c 0 0 2>/dev/null || :")
	names := []string{"fifo", "link"}
	if _, err := t.ws.Lstat(t.ctx, t.path("device")); err == nil {
		names = append(names, "device")
	}
	if t.host != "" {
		// A socket's path is short (unix(7)): bind it by a name relative to
		// a directory that is.
		dir := filepath.Join(t.host, t.dir)
		short := filepath.Join(t.TempDir(), "d")
		t.must(os.Symlink(dir, short))
		if l, err := net.Listen("unix", short+"/socket"); err == nil {
			defer l.Close()
			names = append(names, "socket")
		}
		// Somebody waits for the other end of the FIFO to be opened.
		for _, open := range []string{"exec cat fifo", "exec sh -c 'echo x > fifo'"} {
			waits := exec.CommandContext(t.ctx, "/bin/sh", "-c", open)
			waits.Dir = dir
			t.must(waits.Start())
			done := make(chan error, 1)
			go func() { done <- waits.Wait() }()
			t.refuseIrregular(names)
			select {
			case err := <-done:
				t.Errorf("the other end of the FIFO was opened: %q ended, %v", open, err)
			default:
				t.must(waits.Process.Kill())
				<-done
			}
		}
	}
	t.refuseIrregular(names)
	if fi, err := t.ws.Stat(t.ctx, t.path("fifo")); err != nil || fi.Mode().Type() != fs.ModeNamedPipe {
		t.Errorf("the FIFO is now %v, %v", fi, err)
	}
	t.must(t.ws.Rename(t.ctx, t.path("fifo"), t.path("moved"), workspace.RenameOptions{}))
	t.must(t.ws.Remove(t.ctx, t.path("moved"), workspace.RemoveOptions{}))
}

// refuseIrregular tries every verb that reads or writes files.
func (t *checker) refuseIrregular(names []string) {
	t.Helper()
	t.write("regular", "x")
	for _, name := range names {
		verbs := t.verbs(t.ctx, t.path(name), t.path("regular"))
		for _, verb := range []string{"Open", "ReadFile", "WriteFile", "Append", "Edit", "Copy to"} {
			began := time.Now()
			t.wantCode(verb+" "+name, verbs[verb](), workspace.ErrNotFile)
			t.within(verb+" "+name, began, 500*time.Millisecond)
		}
		_, err := t.ws.Copy(t.ctx, t.path(name), t.path("copy"), workspace.WriteOptions{})
		t.wantCode("Copy from "+name, err, workspace.ErrNotFile)
		began := time.Now()
		if f, err := t.ws.FS(t.ctx).Open(t.path(name)); err == nil {
			f.Close()
			t.Errorf("FS opens %s", name)
		}
		t.within("FS.Open "+name, began, 500*time.Millisecond)
		t.wantGone("copy")
	}
}

func directoryIsNoFile(t *checker) {
	t.plant("mkdir d; echo x > f; ln -s d link")
	for _, name := range []string{"d", "link"} {
		verbs := t.verbs(t.ctx, t.path(name), t.path("f"))
		for _, verb := range []string{"Open", "ReadFile", "WriteFile", "Append", "Edit", "Copy to"} {
			t.wantCode(verb+" "+name, verbs[verb](), workspace.ErrNotFile)
		}
	}
	_, err := t.ws.ReadFile(t.ctx, ".", 0)
	t.wantCode("ReadFile of the root", err, workspace.ErrNotFile)
	_, err = t.ws.ReadDir(t.ctx, t.path("f"), workspace.ListOptions{})
	t.wantCode("ReadDir of a file", err, workspace.ErrNotDirectory)
	for _, name := range []string{"f/", "f/.", "f/..", "f/x"} {
		_, err = t.ws.Stat(t.ctx, t.path(name))
		t.wantCode("Stat "+name, err, workspace.ErrNotDirectory)
	}
}

func stateIsClosed(t *checker) {
	t = t.fresh(workspace.Options{})
	t.write("f", "x")
	t.write("kept", "secret")
	t.must(t.ws.Mkdir(t.ctx, "a", workspace.MkdirOptions{}))
	t.must(t.ws.Remove(t.ctx, "kept", workspace.RemoveOptions{Trash: true}))
	before := ""
	if t.host != "" {
		t.plant("ln -s .wsctl link; ln -s link link2")
		before = t.plant("cd .wsctl && find . -type f -o -type d | sort")
		if !strings.Contains(before, "./") {
			t.Errorf("the trash is not in the state: %q", before)
		}
	}
	root := t.ws.Root()
	names := []string{
		".wsctl", "./.wsctl", ".wsctl/", "a/../.wsctl", root + "/.wsctl", ".//.wsctl/.", ".wsctl/x", ".wsctl/trash", ".WSCTL", ".wsctl/../.wsctl/x",
	}
	if t.host != "" {
		names = append(names, "link", "link/x", "link2/trash")
	}
	for _, name := range names {
		for verb, call := range t.verbs(t.ctx, name, "f") {
			moves := verb == "Remove" || verb == "Trash" || strings.HasPrefix(verb, "Rename") || verb == "Lstat" || verb == "ReadLink" || verb == "Symlink"
			if moves && (name == "link" || name == ".wsctl/../.wsctl/x") {
				continue // the link itself is the user's
			}
			if err := call(); err == nil {
				t.Errorf("%s %q works", verb, name)
			} else if code := workspace.CodeOf(err); code != workspace.ErrInvalidPath && code != workspace.ErrDenied && code != workspace.ErrExists {
				t.Errorf("%s %q: %v, want INVALID_PATH", verb, name, err)
			}
		}
	}
	t.wantFile("f", "x")
	if got := t.names(); slices.ContainsFunc(got, func(n string) bool { return strings.HasPrefix(n, ".wsctl") }) {
		t.Errorf("the root lists %q", got)
	}
	if t.host != "" {
		if after := t.plant("cd .wsctl && find . -type f -o -type d | sort"); after != before {
			t.Errorf("the state went from\n%s\nto\n%s", before, after)
		}
	}
	// Names that only look like it are names.
	for _, name := range []string{".wsctl-x", "wsctl", "a/.wsctl"} {
		t.write(name, "mine")
		t.wantFile(name, "mine")
	}
}

func stateAndCommands(t *checker) {
	t = t.fresh(workspace.Options{})
	t.write("kept", "secret")
	t.works("opening") // the state comes to be while commands can run
	t.must(t.ws.Remove(t.ctx, "kept", workspace.RemoveOptions{Trash: true}))
	out := t.sh("find .wsctl/ -mindepth 1; ls -A .wsctl; cat .wsctl/*")
	if len(out.Stdout) != 0 {
		t.Errorf("a command sees in the state: %q", out.Stdout)
	}
	for _, text := range []string{
		"rm -rf .wsctl; test ! -e .wsctl", "mkdir .wsctl/x", "echo x > .wsctl/x", "mv .wsctl moved", "rmdir .wsctl",
		"ln -s /etc .wsctl/x", "chmod 777 .wsctl", "umount .wsctl", "mv f .wsctl/",
	} {
		if out := t.sh(text); out.ExitCode == 0 {
			t.Errorf("%q works", text)
		}
	}
	if t.host != "" {
		if got := t.plant("find .wsctl -type f -exec cat {} +"); !strings.Contains(got, "secret") {
			t.Errorf("the trashed file is gone from the state: %q", got)
		}
	}
	t.works("attacks on the state")
}

func abortedVerbs(t *checker) {
	t.write("f", "x")
	before := t.plant("ls -l")
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	for verb, call := range t.verbs(ctx, t.path("f"), t.path("g")) {
		err := call()
		t.wantCode(verb, err, workspace.ErrAborted)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v does not wrap the context's error", verb, err)
		}
	}
	t.wantFile("f", "x")
	if after := t.plant("ls -l"); after != before {
		t.Errorf("the directory went from\n%s\nto\n%s", before, after)
	}
}
