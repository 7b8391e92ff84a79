//go:build linux

package snapshot_test

import (
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// Trees are made and edited at random, with saves between; whichever state is
// restored, in whatever order, the tree is exactly what it was.
func TestRandomTrees(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		check(t, flag.Set("rapid.checks", strconv.Itoa(enginetest.Rounds(200))))
	}
	rapid.Check(t, func(rt *rapid.T) {
		base, err := os.MkdirTemp("", "wsctl-snapshot-")
		check(t, err)
		defer os.RemoveAll(base)
		a := &area{t: t, dir: filepath.Join(base, "root"), at: filepath.Join(base, "store")}
		check(t, os.Mkdir(a.dir, 0o755))
		a.open(snapshot.Options{})
		defer a.close()
		type state struct {
			id   string
			tree []string
		}
		var states []state
		for range rapid.IntRange(1, 5).Draw(rt, "saves") {
			for range rapid.IntRange(0, 12).Draw(rt, "edits") {
				edit(rt, a.dir)
			}
			s := a.save()
			states = append(states, state{s.ID, a.manifest()})
		}
		for range rapid.IntRange(1, 6).Draw(rt, "restores") {
			if rapid.Bool().Draw(rt, "edit before") {
				edit(rt, a.dir)
			}
			to := rapid.SampledFrom(states).Draw(rt, "state")
			dry, err := a.Restore(bg, to.id, workspace.RestoreOptions{DryRun: true})
			check(t, err)
			done := a.restore(to.id)
			if !slices.Equal(dry.Restored, done.Restored) || !slices.Equal(dry.Deleted, done.Deleted) || len(done.Kept) > 0 {
				rt.Fatalf("planned was %+v and done %+v", dry, done)
			}
			if got := a.manifest(); !slices.Equal(got, to.tree) {
				rt.Fatalf("the tree is\n%q\nand not\n%q", got, to.tree)
			}
		}
		if rapid.Bool().Draw(rt, "prune") {
			_, err := a.store.Prune(bg, snapshot.PruneOptions{Retention: snapshot.Retention{KeepLast: 2}})
			check(t, err)
		}
		a.wantWhole()
	})
}

var names = []string{"a", "b", "b c", "ä", "-x", "a.b", "\xff", "[x]", "n\nl"}

// edit changes one entry of a tree. Edits that make no sense do nothing.
func edit(rt *rapid.T, dir string) {
	at := dir
	for range rapid.IntRange(1, 3).Draw(rt, "depth") {
		at = filepath.Join(at, rapid.SampledFrom(names).Draw(rt, "name"))
	}
	switch rapid.SampledFrom([]string{"write", "write", "write", "append", "mkdir", "link", "remove", "chmod", "chmod directory", "rename", "touch", "big"}).Draw(rt, "edit") {
	case "write":
		_ = os.MkdirAll(filepath.Dir(at), 0o755)
		_ = os.WriteFile(at, rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(rt, "content"), 0o644)
	case "append":
		if f, err := os.OpenFile(at, os.O_WRONLY|os.O_APPEND, 0); err == nil {
			_, _ = f.WriteString("more")
			f.Close()
		}
	case "big":
		_ = os.WriteFile(at, []byte(fmt.Sprintf("%200000d", rapid.IntRange(0, 9).Draw(rt, "number"))), 0o600)
	case "mkdir":
		_ = os.MkdirAll(at, 0o755)
	case "link":
		_ = os.MkdirAll(filepath.Dir(at), 0o755)
		_ = os.Symlink(rapid.SampledFrom([]string{"a", "/etc/passwd", "../..", "nowhere"}).Draw(rt, "target"), at)
	case "remove":
		_ = os.RemoveAll(at)
	case "chmod":
		if fi, err := os.Lstat(at); err == nil && fi.Mode().IsRegular() {
			_ = os.Chmod(at, fs.FileMode(rapid.SampledFrom([]int{0o600, 0o755, 0o444, 0o400}).Draw(rt, "mode")))
		}
	case "chmod directory":
		if fi, err := os.Lstat(at); err == nil && fi.IsDir() {
			_ = os.Chmod(at, fs.FileMode(rapid.SampledFrom([]int{0o700, 0o755, 0o711 | 0o444}).Draw(rt, "mode")))
		}
	case "rename":
		to := filepath.Join(dir, rapid.SampledFrom(names).Draw(rt, "to"))
		_ = os.Rename(at, to)
	case "touch":
		if fi, err := os.Lstat(at); err == nil && fi.Mode()&fs.ModeSymlink == 0 {
			then := time.Unix(int64(rapid.IntRange(0, 2_000_000_000).Draw(rt, "time")), 7)
			_ = os.Chtimes(at, then, then)
		}
	}
}
