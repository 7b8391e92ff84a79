//go:build unix

package drivertest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

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
