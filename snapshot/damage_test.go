//go:build linux

package snapshot_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// packs are the files of objects.
func (a *area) packs() []string {
	a.t.Helper()
	names, err := filepath.Glob(filepath.Join(a.at, "packs", "*"))
	check(a.t, err)
	return names
}

// Whatever becomes of what lies in the store, nothing wrong is brought back: a
// restore that needs it is CORRUPT before it changes anything, and never hangs.
func TestDamage(t *testing.T) {
	t.Parallel()
	canary := filepath.Join(t.TempDir(), "canary")
	check(t, os.WriteFile(canary, []byte("outside"), 0o644))
	for name, damage := range map[string]func(t *testing.T, pack string){
		"truncate": func(t *testing.T, pack string) {
			check(t, os.Truncate(pack, 40))
		},
		"empty":  func(t *testing.T, pack string) { check(t, os.Truncate(pack, 0)) },
		"delete": func(t *testing.T, pack string) { check(t, os.Remove(pack)) },
		"link": func(t *testing.T, pack string) {
			check(t, os.Remove(pack))
			check(t, os.Symlink(canary, pack))
		},
		"fifo": func(t *testing.T, pack string) {
			check(t, os.Remove(pack))
			check(t, unix.Mkfifo(pack, 0o600))
		},
		"directory": func(t *testing.T, pack string) {
			check(t, os.Remove(pack))
			check(t, os.Mkdir(pack, 0o700))
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newArea(t, snapshot.Options{}, "f = first content", "d/g = G")
			s := a.save()
			a.grow("f = other", "d/g = other", "new = N")
			before := a.manifest()
			damage(t, a.packs()[0])
			a.close()
			a.open(snapshot.Options{})
			for _, dry := range []bool{true, false} {
				begun := time.Now()
				_, err := a.Restore(bg, s.ID, workspace.RestoreOptions{DryRun: dry, NoBackup: true})
				wantCode(t, err, workspace.ErrCorrupt)
				if time.Since(begun) > 5*time.Second {
					t.Error("it hung")
				}
			}
			a.wantTree(before)
			v, err := a.store.Verify(bg)
			check(t, err)
			if len(v.Problems) == 0 {
				t.Error("the damage is not found")
			}
			// A new save has all that it needs again.
			healed := a.save()
			a.grow("f = lost")
			a.restore(healed.ID)
			a.wantTree(before)
		})
	}
}

// One wrong bit anywhere in a pack is either without effect or CORRUPT, names
// what it hit, and leaves the rest readable.
func TestDamageOfOneBit(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "f = "+strings.Repeat("compressible ", 40), "d/g = G", "h = "+string(random(200)))
	s := a.save()
	want := map[string]string{"f": a.content("f"), "d/g": a.content("d/g"), "h": a.content("h")}
	pack := a.packs()[0]
	whole, err := os.ReadFile(pack)
	check(t, err)
	hit := 0
	for i := range whole {
		b := append([]byte(nil), whole...)
		b[i] ^= 1 << (i % 8)
		check(t, os.WriteFile(pack, b, 0o600))
		store, err := snapshot.Open(a.root, snapshot.Place{Dir: a.at})
		check(t, err)
		tree, err := store.Tree(bg, s.ID)
		check(t, err)
		wrong := 0
		for name, content := range want {
			got, err := readFrom(tree, name)
			switch {
			case workspace.CodeOf(err) == workspace.ErrCorrupt:
				wrong++
			case err != nil || got != content:
				t.Fatalf("with byte %d of %s changed, %s gives %q, %v", i, pack, name, got, err)
			}
		}
		tree.Close()
		if wrong > 0 {
			hit++
			v, err := store.Verify(bg)
			check(t, err)
			if len(v.Problems) == 0 {
				t.Fatalf("with byte %d changed, nothing is found", i)
			}
		}
		store.Close()
	}
	if hit < len(whole)/4 || hit == len(whole) {
		t.Errorf("%d of %d bytes had an effect", hit, len(whole))
	}
}

func readFrom(tree *snapshot.Tree, name string) (string, error) {
	e, err := tree.Lookup(bg, name)
	if err != nil {
		return "", err
	}
	r, err := tree.Open(bg, e)
	if err != nil {
		return "", err
	}
	defer r.Close()
	var b strings.Builder
	_, err = io.Copy(&b, r)
	return b.String(), err
}

// A damaged content is named by the path of a file that has it; the other files
// come back by name, and another snapshot whole.
func TestDamageIsNamed(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "good = "+string(random(3000)))
	first := a.save()
	bad := random(6000)[3000:]
	check(t, os.WriteFile(a.path("bad"), bad, 0o644))
	second := a.save()
	flipped := false
	for _, pack := range a.packs() {
		b, err := os.ReadFile(pack)
		check(t, err)
		if i := strings.Index(string(b), string(bad)); i >= 0 {
			b[i+100] ^= 1
			check(t, os.WriteFile(pack, b, 0o600))
			flipped = true
		}
	}
	if !flipped {
		t.Fatal("the content was not found")
	}
	a.remove("good", "bad")
	_, err := a.Restore(bg, second.ID, workspace.RestoreOptions{})
	wantCode(t, err, workspace.ErrCorrupt)
	if !strings.Contains(err.Error(), "bad") {
		t.Errorf("the error does not name the file: %v", err)
	}
	if len(a.manifest()) != 1 {
		t.Error("something was changed")
	}
	_, err = a.Restore(bg, second.ID, workspace.RestoreOptions{Paths: []string{"good"}})
	check(t, err)
	if len(a.content("good")) != 3000 {
		t.Error("the good file is not back")
	}
	a.restore(first.ID)
	v, err := a.store.Verify(bg)
	check(t, err)
	if len(v.Problems) != 1 || v.Problems[0].Path != "bad" || v.Problems[0].Snapshot != second.ID {
		t.Errorf("found were %+v", v.Problems)
	}
}

// A record that is damaged, or is no file, is left out of lists and can be
// deleted.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	a := newArea(t, snapshot.Options{}, "f = F")
	s, good := a.save(), a.save()
	name := filepath.Join(a.at, "snapshots", s.ID)
	b, err := os.ReadFile(name)
	check(t, err)
	b[10] ^= 1
	check(t, os.WriteFile(name, b, 0o600))
	_, err = a.Get(bg, s.ID)
	wantCode(t, err, workspace.ErrCorrupt)
	list, err := a.List(bg)
	check(t, err)
	if len(list) != 1 || list[0].ID != good.ID {
		t.Errorf("listed are %+v", list)
	}
	check(t, a.Delete(bg, s.ID))
	a.wantWhole()
	_, err = a.Get(bg, "../"+s.ID)
	wantCode(t, err, workspace.ErrNotFound)
}
