//go:build linux

package snapshot_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// holds reports whether any file of the store has the bytes.
func (a *area) holds(b []byte) bool {
	a.t.Helper()
	for _, pack := range a.packs() {
		content, err := os.ReadFile(pack)
		check(a.t, err)
		if bytes.Contains(content, b) {
			return true
		}
	}
	return false
}

// Deleting frees what no other snapshot needs, and nothing else.
func TestDelete(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "both = B")
	secret, shared := random(5000), random(9000)[5000:]
	check(t, os.WriteFile(a.path("secret"), secret, 0o644))
	check(t, os.WriteFile(a.path("shared"), shared, 0o644))
	first := a.save()
	a.remove("secret")
	second := a.save()
	if !a.holds(secret) {
		t.Fatal("the content is not in the store")
	}
	wantCode(t, a.Delete(bg, first.ID, "20200101t000000-0000000000000000"), workspace.ErrNotFound)
	_, err := a.Get(bg, first.ID)
	check(t, err)
	check(t, a.Delete(bg, first.ID))
	if a.holds(secret) {
		t.Error("what nobody needs is still in the store")
	}
	if !a.holds(shared) {
		t.Error("what another snapshot needs is gone")
	}
	_, err = a.Get(bg, first.ID)
	wantCode(t, err, workspace.ErrNotFound)
	a.wantWhole()
	a.remove("shared", "both")
	a.restore(second.ID)
	if a.content("shared") != string(shared) {
		t.Error("the other snapshot does not give its content")
	}
	list, err := a.List(bg)
	check(t, err)
	for _, s := range list {
		check(t, a.Delete(bg, s.ID))
	}
	if packs := a.packs(); len(packs) > 0 {
		t.Errorf("without a snapshot there are packs: %v", packs)
	}
	// What was trusted as unchanged is not there any more, and is read anew.
	again := a.save()
	if again.Stats.Read != 2 {
		t.Errorf("%d files were read", again.Stats.Read)
	}
	a.wantWhole()
}

// What a crashed save left is freed, and so are objects whose snapshot went
// before they did.
func TestPruneFreesLeftovers(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "f = F")
	keep := a.save()
	lost := random(4000)
	check(t, os.WriteFile(a.path("lost"), lost, 0o644))
	s := a.save()
	check(t, os.Remove(filepath.Join(a.at, "snapshots", s.ID)))
	check(t, os.WriteFile(filepath.Join(a.at, "packs", "tmp-0123"), lost, 0o600))
	u, err := a.store.Usage(bg)
	check(t, err)
	if u.Unneeded < 4000 {
		t.Errorf("%d bytes are said to be unneeded", u.Unneeded)
	}
	p, err := a.store.Prune(bg, snapshot.PruneOptions{})
	check(t, err)
	if len(p.Removed) != 0 || p.Freed < 4000 || a.holds(lost) {
		t.Errorf("pruned was %+v", p)
	}
	a.wantWhole()
	_, err = a.Get(bg, keep.ID)
	check(t, err)
}

// What is kept: the newest ones, recent ones, those of a label, those that have
// room.
func TestPrune(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{})
	var ids []string
	for i := range 6 {
		check(t, os.WriteFile(a.path("f"), random(10_000 * (i + 1))[10_000*i:], 0o644))
		label := "auto"
		if i == 1 {
			label = "release-1"
		}
		ids = append([]string{a.saveWith(workspace.SaveOptions{Label: label}).ID}, ids...)
	}
	removed := func(o snapshot.PruneOptions) []string {
		t.Helper()
		o.DryRun = true
		p, err := a.store.Prune(bg, o)
		check(t, err)
		var gone []string
		for _, s := range p.Removed {
			gone = append(gone, s.ID)
		}
		if len(gone) > 0 && p.Freed < int64(10_000*len(gone)) {
			t.Errorf("%d snapshots would free %d bytes", len(gone), p.Freed)
		}
		return gone
	}
	for name, c := range map[string]struct {
		o    snapshot.PruneOptions
		want []string
	}{
		"nothing":      {snapshot.PruneOptions{}, nil},
		"the last two": {snapshot.PruneOptions{Retention: snapshot.Retention{KeepLast: 2}}, ids[2:]},
		"a label stays": {
			snapshot.PruneOptions{Retention: snapshot.Retention{KeepLast: 2, KeepLabel: "release-*"}},
			[]string{ids[2], ids[3], ids[5]},
		},
		"of a label":         {snapshot.PruneOptions{Label: "auto", Retention: snapshot.Retention{KeepLast: 4}}, ids[5:]},
		"all of a label":     {snapshot.PruneOptions{Label: "release-*"}, ids[4:5]},
		"older than nothing": {snapshot.PruneOptions{Retention: snapshot.Retention{MaxAge: time.Nanosecond}}, ids[1:]},
		"young":              {snapshot.PruneOptions{Retention: snapshot.Retention{MaxAge: time.Hour}}, nil},
		"by size":            {snapshot.PruneOptions{Retention: snapshot.Retention{MaxBytes: 35_000}}, ids[3:]},
		"the newest stays":   {snapshot.PruneOptions{Retention: snapshot.Retention{MaxBytes: 1}}, ids[1:]},
	} {
		if got := removed(c.o); !slices.Equal(got, c.want) {
			t.Errorf("%s: removed would be %v, not %v", name, got, c.want)
		}
	}
	list, err := a.List(bg)
	check(t, err)
	if len(list) != 6 {
		t.Fatalf("a dry run left %d snapshots", len(list))
	}
	p, err := a.store.Prune(bg, snapshot.PruneOptions{Retention: snapshot.Retention{KeepLast: 2}})
	check(t, err)
	if len(p.Removed) != 4 || p.Freed < 40_000 {
		t.Errorf("pruned was %d snapshots, %d bytes", len(p.Removed), p.Freed)
	}
	a.wantWhole()
	for _, bad := range []snapshot.PruneOptions{{Label: "["}, {Retention: snapshot.Retention{KeepLast: -1}}} {
		_, err := a.store.Prune(bg, bad)
		wantCode(t, err, workspace.ErrInvalidArgument)
	}
}

// A retention holds after each save, and many small packs become few.
func TestRetention(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{Retention: snapshot.Retention{KeepLast: 3}})
	for i := range 70 {
		a.grow(fmt.Sprintf("f%d = %d", i%7, i))
		a.save()
	}
	list, err := a.List(bg)
	check(t, err)
	if len(list) != 3 {
		t.Errorf("there are %d snapshots", len(list))
	}
	if packs := a.packs(); len(packs) > 60 {
		t.Errorf("there are %d packs", len(packs))
	}
	a.wantWhole()
}

// Many saves leave few packs though nothing is ever removed; while somebody else
// uses the store, saves go on without that.
func TestMerge(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "first = 1")
	first := a.save()
	want := a.manifest()
	use, err := a.store.Tree(bg, first.ID)
	check(t, err)
	defer use.Close()
	grow := func(from, n int) {
		for i := from; i < from+n; i++ {
			a.grow(fmt.Sprintf("f = %d", i))
			a.save()
		}
	}
	grow(0, 60)
	if packs := a.packs(); len(packs) != 61 {
		t.Errorf("%d packs while the store is in use", len(packs))
	}
	use.Close()
	grow(60, 60)
	if packs := a.packs(); len(packs) > 60 {
		t.Errorf("there are %d packs", len(packs))
	}
	a.wantWhole()
	list, err := a.List(bg)
	check(t, err)
	if len(list) != 121 {
		t.Errorf("there are %d snapshots", len(list))
	}
	a.restore(first.ID)
	a.wantTree(want)
}

// A copy is whole by itself and keeps its id.
func TestCopy(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "a = A", "d/b = B", "l -> a", "big = "+string(random(6<<20)))
	s := a.save()
	root, err := host.OpenRoot(a.dir, host.RootOptions{LeftoverAge: -1})
	check(t, err)
	defer root.Close()
	to, err := snapshot.Open(root, snapshot.Place{Dir: filepath.Join(t.TempDir(), "copy")})
	check(t, err)
	defer to.Close()
	for range 2 {
		c, err := a.store.Copy(bg, snapshot.Latest, to)
		check(t, err)
		if c.ID != s.ID {
			t.Errorf("the copy is %s and not %s", c.ID, s.ID)
		}
	}
	check(t, os.RemoveAll(filepath.Join(a.at, "packs")))
	v, err := to.Verify(bg)
	check(t, err)
	if len(v.Problems) > 0 || v.Snapshots != 1 || v.Objects != 5 {
		t.Errorf("the copy has %+v", v)
	}
	want := a.manifest()
	a.remove("a", "d", "big")
	snaps, err := snapshot.New(root, to, snapshot.Options{})
	check(t, err)
	_, err = snaps.Restore(bg, s.ID, workspace.RestoreOptions{})
	check(t, err)
	a.wantTree(want)
}
