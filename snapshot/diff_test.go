//go:build linux

package snapshot_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

func (a *area) diff(from, to string, o workspace.DiffOptions) workspace.Diff {
	a.t.Helper()
	d, err := a.Diff(bg, from, to, o)
	check(a.t, err)
	return d
}

func kinds(d workspace.Diff) (list []string) {
	for _, c := range d.Changes {
		list = append(list, fmt.Sprint(c.Kind, " ", c.Path))
	}
	return list
}

// Every kind of change is named, in the order of paths, both against the tree
// and against another snapshot.
func TestDiffKinds(t *testing.T) {
	a := newArea(t, snapshot.Options{Exclude: []string{"*.log"}},
		"same = x", "changed = a\nb\nc\n", "gone = x\n", "mode = x", "kind = x", "dir/in = x", "link -> same", "retimed = x", "bin = a\x00b", "wide = \xff\xfe", "x.log = a", ".git/config = a")
	first := a.save()
	a.grow("changed = a\nB\nc\n", "new = n\n", "newdir/deep/f = y", "bin = a\x00c", "wide = \xff\xfd", "x.log = b", ".git/config = b", "y.log = b")
	a.remove("gone", "kind", "dir", "link")
	a.grow("kind/f = z", "link -> changed")
	check(t, os.Chmod(a.path("mode"), 0o755))
	a.old("retimed")
	second := a.save()
	want := []string{"modified bin", "modified changed", "deleted dir", "deleted dir/in", "deleted gone", "type kind", "added kind/f", "modified link", "mode mode", "added new", "added newdir", "added newdir/deep", "added newdir/deep/f", "modified wide"}
	for _, to := range []string{"", second.ID} {
		d := a.diff(first.ID, to, workspace.DiffOptions{})
		if got := kinds(d); !slices.Equal(got, want) {
			t.Fatalf("to %q:\ngot  %q\nwant %q", to, got, want)
		}
		byPath := map[string]workspace.Change{}
		for _, c := range d.Changes {
			byPath[c.Path] = c
		}
		if p := byPath["changed"].Patch; p != "--- a/changed\n+++ b/changed\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n" {
			t.Errorf("the patch is %q", p)
		}
		if p := byPath["new"].Patch; p != "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n" {
			t.Errorf("of a new file %q", p)
		}
		if c := byPath["bin"]; !c.Binary || c.Patch != "" {
			t.Errorf("of a binary file %+v", c)
		}
		if c := byPath["mode"]; c.OldMode.Perm() != 0o644 || c.NewMode.Perm() != 0o755 || c.Patch != "" {
			t.Errorf("of a mode %+v", c)
		}
		if p := byPath["link"].Patch; !strings.Contains(p, "-same") || !strings.Contains(p, "+changed") {
			t.Errorf("of a link %q", p)
		}
	}
	if d := a.diff(second.ID, "", workspace.DiffOptions{}); len(d.Changes) != 0 {
		t.Errorf("nothing changed: %q", kinds(d))
	}
	back := a.diff(second.ID, first.ID, workspace.DiffOptions{NamesOnly: true})
	if len(back.Changes) != len(want) || back.Changes[4].Kind != workspace.Added || back.Changes[1].Patch != "" {
		t.Errorf("backwards: %+v", back.Changes)
	}
}

// A patch can be applied: by patch(1), to the old text, it gives the new.
func TestDiffIsAPatch(t *testing.T) {
	program, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not here, which applies the patch")
	}
	old := strings.Repeat("line\n", 50) + "no end"
	a := newArea(t, snapshot.Options{}, "f = "+old)
	first := a.save()
	now := strings.Replace(old, "line\nline\n", "other\nline\nmore\n", 1) + " yet\nand one\n"
	a.grow("f = " + now)
	d := a.diff(first.ID, "", workspace.DiffOptions{})
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "f"), []byte(old), 0o644))
	c := exec.Command(program, "apply", "--unsafe-paths", "-")
	c.Dir, c.Stdin = dir, strings.NewReader(d.Changes[0].Patch)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, d.Changes[0].Patch)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "f")); string(b) != now {
		t.Errorf("got %q", b)
	}
}

// A comparison is bounded and says so, goes by paths as they are spelled, and
// leaves alone what a snapshot could not keep.
func TestDiffBounds(t *testing.T) {
	a := newArea(t, snapshot.Options{MaxFileBytes: 3 << 20}, "a = 1\n", "b[1] = 1\n", "b1 = 1\n", "d/x = 1\n", "d2/x = 1\n", "huge = "+strings.Repeat("x\n", 2<<20))
	first := a.save()
	a.grow("a = 2\n", "b[1] = 2\n", "b1 = 2\n", "d/x = 2\n", "d2/x = 2\n", "huge = y", "a\x1b]0;x\x07\nb = 1\n")
	if d := a.diff(first.ID, "", workspace.DiffOptions{Paths: []string{"b[1]", "d"}}); !slices.Equal(kinds(d), []string{"modified b[1]", "modified d/x"}) {
		t.Errorf("by paths: %q", kinds(d))
	}
	d := a.diff(first.ID, "", workspace.DiffOptions{MaxBytes: 40})
	if !d.Truncated || len(d.Changes) != 6 {
		t.Errorf("with 40 bytes: truncated %v, %q", d.Truncated, kinds(d))
	}
	if slices.Contains(kinds(d), "modified huge") || slices.Contains(kinds(d), "added huge") {
		t.Errorf("what was too large for the snapshot is told: %q", kinds(d))
	}
	d = a.diff(first.ID, "", workspace.DiffOptions{Paths: []string{"a\x1b]0;x\x07\nb"}})
	if len(d.Changes) != 1 || strings.ContainsAny(strings.SplitAfterN(d.Changes[0].Patch, "\n", 3)[1], "\x1b\x07") {
		t.Errorf("a hostile name: %+v", d.Changes)
	}
	_, err := a.Diff(bg, first.ID, "", workspace.DiffOptions{Paths: []string{"none"}})
	if err != nil && workspace.CodeOf(err) != workspace.ErrNotFound {
		t.Errorf("a path that is nowhere: %v", err)
	}
	_, err = a.Diff(bg, "none", "", workspace.DiffOptions{})
	wantCode(t, err, workspace.ErrNotFound)
	_, err = a.Diff(bg, first.ID, "", workspace.DiffOptions{Paths: []string{"../x"}})
	wantCode(t, err, workspace.ErrOutside)
}

// A fork is the snapshot, whatever became of the tree; it shares no file with
// the tree or the store, and a directory with something in it is refused.
func TestFork(t *testing.T) {
	a := newArea(t, snapshot.Options{}, "a = 1", "d/deep/f = 2", "empty/", "l -> d/deep/f", "dangling -> nowhere", "x.sh = #!/bin/sh\n", "sparse = x")
	check(t, os.Chmod(a.path("x.sh"), 0o755))
	check(t, os.Truncate(a.path("sparse"), 8<<20))
	check(t, os.Chmod(a.path("d/deep"), 0o555))
	a.old("d")
	first := a.save()
	want := a.manifest()[1:]
	check(t, os.Chmod(a.path("d/deep"), 0o755))
	a.grow("a = changed")
	a.remove("d", "l")
	dir := filepath.Join(t.TempDir(), "fork")
	got, err := a.Fork(bg, first.ID, dir)
	check(t, err)
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(dir, "d/deep"), 0o755) })
	if got.ID != first.ID {
		t.Errorf("got %+v", got)
	}
	if forked := manifest(t, dir)[1:]; !slices.Equal(forked, want) {
		t.Errorf("got\n%.600s\nwant\n%.600s", strings.Join(forked, "\n"), strings.Join(want, "\n"))
	}
	_, err = a.Fork(bg, first.ID, dir)
	wantCode(t, err, workspace.ErrNotEmpty)
	_, err = a.Fork(bg, "none", filepath.Join(t.TempDir(), "x"))
	wantCode(t, err, workspace.ErrNotFound)
	if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "x")); err == nil {
		t.Error("a fork of nothing made a directory")
	}
}

// A fork of a damaged snapshot makes nothing.
func TestForkOfDamage(t *testing.T) {
	a := newArea(t, snapshot.Options{}, "a = 1", "b = "+strings.Repeat("random-ish ", 100))
	first := a.save()
	packs, err := filepath.Glob(filepath.Join(a.at, "packs", "*"))
	check(t, err)
	for _, p := range packs {
		b, err := os.ReadFile(p)
		check(t, err)
		for i := 60; i < len(b)-200; i += 7 {
			b[i] ^= 0xff
		}
		check(t, os.Chmod(p, 0o600))
		check(t, os.WriteFile(p, b, 0o600))
	}
	a.close()
	a.open(snapshot.Options{})
	dir := filepath.Join(t.TempDir(), "fork")
	_, err = a.Fork(bg, first.ID, dir)
	wantCode(t, err, workspace.ErrCorrupt)
	if _, err := os.Stat(dir); err == nil {
		t.Error("something was made")
	}
}
