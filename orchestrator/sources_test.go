//go:build linux

package orchestrator_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// keepSnapshots keeps those of roots of the orchestrator's own.
func keepSnapshots(c *orchestrator.Config) {
	c.Snapshots = func(_ orchestrator.Workspace, files workspace.Files, dir string) (workspace.Snapshotter, func(), error) {
		root := files.(*host.Root)
		store, err := snapshot.Open(root, snapshot.Place{Dir: dir})
		if err != nil {
			return nil, nil, err
		}
		s, err := snapshot.New(root, store, snapshot.Options{})
		return s, store.Close, err
	}
}

// A workspace can begin with what another one held, and goes its own way. The
// snapshots of one that is removed are gone.
func TestFromSnapshot(t *testing.T) {
	c := hostConfig(t, keepSnapshots)
	o := open(t, c)
	from := create(t, o, hostSpec("from"))
	run(t, o, "from", "mkdir d; echo old >d/f; ln -s d/f link; chmod 750 d; printf '#!/bin/sh' >x; chmod 755 x")
	ws, done, err := o.Open(t.Context(), "from")
	if err != nil {
		t.Fatal(err)
	}
	snaps, err := ws.Snapshots()
	if err != nil {
		t.Fatal(err)
	}
	kept, err := snaps.Save(t.Context(), workspace.SaveOptions{})
	done()
	if err != nil {
		t.Fatal(err)
	}
	run(t, o, "from", "echo new >d/f")
	for name, id := range map[string]string{"a": kept.ID, "b": "latest"} {
		s := hostSpec(name)
		s.Source = orchestrator.Source{Workspace: "from", Snapshot: id}
		w := create(t, o, s)
		if w.Source.Workspace != from.ID {
			t.Errorf("it says that it is from %q", w.Source.Workspace)
		}
		if out := run(t, o, name, "cat link; stat -c %a d x; echo own >d/f"); string(out.Stdout) != "old\n750\n755\n" {
			t.Errorf("%s: got %q %q", name, out.Stdout, out.Stderr)
		}
	}
	if out := run(t, o, "from", "cat d/f"); string(out.Stdout) != "new\n" {
		t.Errorf("the first one now has %q", out.Stdout)
	}
	for what, source := range map[string]orchestrator.Source{"a snapshot that is not there": {Workspace: "from", Snapshot: "none"}, "of one that has none": {Workspace: "a", Snapshot: "latest"}} {
		s := hostSpec("bad")
		s.Source = source
		_, err := o.Create(t.Context(), s)
		wantCode(t, what, err, workspace.ErrNotFound)
	}
	stores := filepath.Join(c.Dir, "snapshots")
	if _, err := os.Stat(filepath.Join(stores, from.ID)); err != nil {
		t.Error(err)
	}
	if err := o.Remove(t.Context(), "from"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(stores, from.ID)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the snapshots of what is removed: %v", err)
	}
	onlyRoots(t, o, c)
	// One that a process left behind that died.
	if err := os.MkdirAll(filepath.Join(stores, "stray", "packs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, c)
	if _, err := os.Stat(filepath.Join(stores, "stray")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("snapshots of nobody: %v", err)
	}
}

func owner(fi os.FileInfo) uint32 {
	if fi == nil {
		return 0
	}
	return fi.Sys().(*syscall.Stat_t).Uid
}

// onlyRoots fails when there is a root that no workspace has.
func onlyRoots(t *testing.T, o *orchestrator.Orchestrator, c orchestrator.Config) {
	t.Helper()
	known := map[string]bool{".wsctl": true}
	for _, w := range o.List() {
		known[w.ID] = true
	}
	list, err := os.ReadDir(filepath.Join(c.Dir, "roots"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if !known[e.Name()] {
			t.Errorf("%s is a root without a workspace", e.Name())
		}
	}
}

// entry is one of a tar.
type entry struct {
	tar.Header
	body string
}

func file(name, body string) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(body)), ModTime: time.Unix(1e9, 0)}, body}
}

func directory(name string, mode int64) entry {
	return entry{tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: mode, ModTime: time.Unix(1e9, 0)}, ""}
}

func link(kind byte, name, target string) entry {
	return entry{tar.Header{Name: name, Typeflag: kind, Linkname: target, Mode: 0o777}, ""}
}

func tarOf(t *testing.T, list ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range list {
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// fromTar makes a workspace of a tar.
func fromTar(t *testing.T, o *orchestrator.Orchestrator, name string, content []byte) (orchestrator.Workspace, error) {
	t.Helper()
	u, err := o.Upload(t.Context(), bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	s := hostSpec(name)
	s.Source.Tar = u.ID
	return o.Create(t.Context(), s)
}

// A tar becomes a root: modes, times, links as links, hard links as copies;
// whichever way it is packed. Owners, special bits and the state are left out.
func TestFromTar(t *testing.T) {
	o := open(t, hostConfig(t))
	special := file("d/set", "x")
	special.Mode = 0o6755
	special.Uid = 4242
	plain := tarOf(t,
		entry{tar.Header{Typeflag: tar.TypeXGlobalHeader, Name: "g", PAXRecords: map[string]string{"comment": "of git archive"}}, ""},
		directory("./", 0o777), directory("./d/", 0o750), file("./d/f", "one"), special, file("deep/er/f", "two"),
		link(tar.TypeSymlink, "out", "/etc/passwd"), link(tar.TypeSymlink, "in", "d/f"), link(tar.TypeLink, "hard", "d/f"),
		directory("read-only", 0o555), file("read-only/f", "three"), file(".wsctl/trash/x", "not ours"), file(".WSCTL/y", "nor that"))
	var packed, packed2 bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(plain)
	_ = z.Close()
	z2, err := zstd.NewWriter(&packed2)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = z2.Write(plain)
	_ = z2.Close()
	for name, content := range map[string][]byte{"plain": plain, "gzip": packed.Bytes(), "zstd": packed2.Bytes()} {
		w, err := fromTar(t, o, name, content)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out := run(t, o, name, "cat d/f deep/er/f in hard read-only/f; readlink out; stat -c %a d d/f d/set read-only; stat -c %Y d d/f; stat -c %h hard; test -e .wsctl/trash/x || echo none; ls -A")
		want := "onetwooneonethree/etc/passwd\n750\n644\n755\n555\n1000000000\n1000000000\n1\nnone\nd\ndeep\nhard\nin\nout\nread-only\n"
		if string(out.Stdout) != want {
			t.Errorf("%s: got  %q %q\nwant %q", name, out.Stdout, out.Stderr, want)
		}
		if os.Geteuid() == 0 {
			if fi, err := os.Stat(filepath.Join(w.Root, "d/set")); err != nil || owner(fi) != 65534 {
				t.Errorf("%s: it belongs to %d, %v", name, owner(fi), err)
			}
		}
	}
}

// Whatever is in a tar stays in its root, and of one that is refused nothing is
// left.
func TestHostileTar(t *testing.T) {
	c := hostConfig(t, func(c *orchestrator.Config) { c.MaxUnpacked = 1 << 20 })
	o := open(t, c)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "f"), []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	bomb := tarOf(t, entry{tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Mode: 0o644, Size: 2 << 20}, strings.Repeat("\x00", 2<<20)})
	many := []entry{file("f", strings.Repeat("x", 1<<19))}
	for _, name := range []string{"a", "b", "c"} {
		many = append(many, link(tar.TypeLink, name, "f"))
	}
	long := strings.Repeat("x", 256)
	for what, bad := range map[string]struct {
		content []byte
		code    workspace.Code
	}{
		"dots":                     {tarOf(t, file("../escaped", "x")), workspace.ErrCorrupt},
		"dots in the middle":       {tarOf(t, file("a/../../escaped", "x")), workspace.ErrCorrupt},
		"an absolute name":         {tarOf(t, file("/tmp/escaped", "x")), workspace.ErrCorrupt},
		"through a link":           {tarOf(t, link(tar.TypeSymlink, "l", outside), file("l/f", "x")), workspace.ErrCorrupt},
		"through a link to itself": {tarOf(t, link(tar.TypeSymlink, "l", "."), file("l/f", "x")), workspace.ErrCorrupt},
		"a directory over a link":  {tarOf(t, link(tar.TypeSymlink, "l", outside), directory("l", 0o700), file("l/f", "x")), workspace.ErrCorrupt},
		"a file over a link":       {tarOf(t, link(tar.TypeSymlink, "l", outside+"/f"), file("l", "x")), workspace.ErrCorrupt},
		"a hard link out":          {tarOf(t, link(tar.TypeLink, "h", "../../"+filepath.Base(outside)+"/f")), workspace.ErrCorrupt},
		"an absolute hard link":    {tarOf(t, link(tar.TypeLink, "h", outside+"/f")), workspace.ErrCorrupt},
		"a hard link by a link":    {tarOf(t, link(tar.TypeSymlink, "l", outside), link(tar.TypeLink, "h", "l/f")), workspace.ErrCorrupt},
		"a device":                 {tarOf(t, entry{tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}, ""}), workspace.ErrCorrupt},
		"a FIFO":                   {tarOf(t, entry{tar.Header{Name: "p", Typeflag: tar.TypeFifo}, ""}), workspace.ErrCorrupt},
		"a file twice":             {tarOf(t, file("f", "1"), file("f", "2")), workspace.ErrCorrupt},
		"a file as directory":      {tarOf(t, file("f", "1"), file("f/g", "2")), workspace.ErrCorrupt},
		"a long name":              {tarOf(t, file(long, "1")), workspace.ErrCorrupt},
		"the root as a file":       {tarOf(t, file(".", "x")), workspace.ErrCorrupt},
		"cut short":                {tarOf(t, file("f", strings.Repeat("x", 2000)))[:1000], workspace.ErrCorrupt},
		"no tar":                   {[]byte(strings.Repeat("no tar", 1000)), workspace.ErrCorrupt},
		"half a gzip":              {[]byte{0x1f, 0x8b, 8, 0}, workspace.ErrCorrupt},
		"broken zstd":              {[]byte{0x28, 0xb5, 0x2f, 0xfd, 0xff, 0xff, 0xff}, workspace.ErrCorrupt},
		"too many bytes":           {bomb, workspace.ErrTooLarge},
		"too many by hard links":   {tarOf(t, many...), workspace.ErrTooLarge},
	} {
		_, err := fromTar(t, o, "bad", bad.content)
		if workspace.CodeOf(err) != bad.code {
			t.Errorf("%s: %v, want %s", what, err, bad.code)
		}
		if err == nil {
			if err := o.Remove(t.Context(), "bad"); err != nil {
				t.Error(err)
			}
		}
	}
	if b, err := os.ReadFile(filepath.Join(outside, "f")); err != nil || string(b) != "untouched" {
		t.Errorf("the file outside: %q, %v", b, err)
	}
	for _, dir := range []string{c.Dir, filepath.Join(c.Dir, "roots"), "/tmp"} {
		if _, err := os.Lstat(filepath.Join(dir, "escaped")); err == nil {
			t.Errorf("something escaped into %s", dir)
		}
	}
	onlyRoots(t, o, c)
}

// bundleOf makes a repository with a hook, a submodule that leads elsewhere and two
// branches, and bundles it.
func bundleOf(t *testing.T) []byte {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	cmd := exec.Command("sh", "-ec", `
		git init -q -b first repo; cd repo; git config user.name n; git config user.email e@x
		echo one >f; git add f; git commit -qm one; git tag v1; git branch aside
		printf '[submodule "s"]\n\tpath = s\n\turl = ext::sh -c touch%%20/tmp/owned\n' >.gitmodules
		printf '* filter=evil\n' >.gitattributes
		git add .; git commit -qm two; git bundle create -q ../all.bundle --all`)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "all.bundle"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A git bundle is cloned by the git of the workspace: its branches, its tags, its
// HEAD, and no remote that would lead anywhere.
func TestFromBundle(t *testing.T) {
	bundle := bundleOf(t)
	c := hostConfig(t)
	o := open(t, c)
	u, err := o.Upload(t.Context(), bytes.NewReader(bundle))
	if err != nil {
		t.Fatal(err)
	}
	s := hostSpec("repo")
	s.Source.Bundle = u.ID
	create(t, o, s)
	out := run(t, o, "repo", "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'; cat f; git branch --format='%(HEAD)%(refname:short)'; git tag; git log --format=%s; git remote; git status --porcelain; ls .git/hooks 2>/dev/null; ls -A s 2>/dev/null")
	if string(out.Stdout) != "one\n aside\n*first\nv1\ntwo\none\n" {
		t.Errorf("got %q %q", out.Stdout, out.Stderr)
	}
	for what, content := range map[string][]byte{"no bundle": []byte("no bundle"), "cut short": bundle[:len(bundle)-50]} {
		u, err := o.Upload(t.Context(), bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		s := hostSpec("bad")
		s.Source.Bundle = u.ID
		_, err = o.Create(t.Context(), s)
		wantCode(t, what, err, workspace.ErrCorrupt)
	}
	onlyRoots(t, o, c)
}

// Uploads are known by their content, bounded, whole, kept for their time and not
// over a restart, and private.
func TestUploads(t *testing.T) {
	c := hostConfig(t, func(c *orchestrator.Config) { c.MaxUpload = 1 << 20 })
	o := open(t, c)
	first, err := o.Upload(t.Context(), strings.NewReader("same"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := o.Upload(t.Context(), strings.NewReader("same"))
	if err != nil || again.ID != first.ID || again.Size != 4 {
		t.Errorf("the same again is %+v, was %+v, %v", again, first, err)
	}
	name := filepath.Join(c.Dir, "uploads", first.ID)
	if fi, err := os.Stat(name); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi, err)
	}
	_, err = o.Upload(t.Context(), strings.NewReader(strings.Repeat("x", 1<<20+1)))
	wantCode(t, "too large", err, workspace.ErrTooLarge)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = o.Upload(ended, strings.NewReader("x"))
	wantCode(t, "of one who has gone", err, workspace.ErrAborted)
	for _, id := range []string{"../audit.jsonl", "x", strings.Repeat("0", 64)} {
		s := hostSpec("bad")
		s.Source.Tar = id
		if _, err := o.Create(t.Context(), s); err == nil {
			t.Errorf("%q was used", id)
		}
	}
	old := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(name, old, old); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("an upload stays after its time")
		}
	}
	if _, err := o.Upload(t.Context(), strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, c)
	if list, _ := os.ReadDir(filepath.Join(c.Dir, "uploads")); len(list) != 0 {
		t.Errorf("after a restart there are %v", list)
	}
}
