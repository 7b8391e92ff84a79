//go:build unix

package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// me is this test's user.
func me() commandUser { return commandUser{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())} }

// homeBench has roots and one cache directory.
type homeBench struct{ cache, top string }

func newHomeBench(t *testing.T) homeBench {
	top := plainDir(t)
	return homeBench{cache: filepath.Join(top, "a", "cache"), top: top}
}

func (b homeBench) request(t *testing.T, root string) homeRequest {
	t.Helper()
	facts, err := checkRoot(t.Context(), mkdir(t, filepath.Join(b.top, root), 0o755), placePolicy{})
	if err != nil {
		t.Fatal(err)
	}
	return homeRequest{CacheDir: b.cache, Root: facts, User: me()}
}

// open opens a home that the test closes itself.
func (b homeBench) open(t *testing.T, r homeRequest) *homeDir {
	t.Helper()
	h, err := openHome(r)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func closeHome(t *testing.T, h *homeDir) {
	t.Helper()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestHomeOfARootStaysAndIsItsOwn(t *testing.T) {
	b := newHomeBench(t)
	first := b.open(t, b.request(t, "one"))
	if err := os.WriteFile(filepath.Join(first.Path, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(first.Path)
	if err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if id, err := identify(first.Path); err != nil || id != (fileID{first.Dev, first.Ino}) {
		t.Errorf("identity %v, %v", id, err)
	}
	same := b.open(t, b.request(t, "one"))
	other := b.open(t, b.request(t, "two"))
	r := b.request(t, "one")
	r.User.GID++
	if r.User.UID == 0 {
		r.User.UID = 1000
	}
	another := b.open(t, r)
	if same.Path != first.Path || other.Path == first.Path || another.Path == first.Path {
		t.Errorf("homes %q %q %q %q", first.Path, same.Path, other.Path, another.Path)
	}
	for _, h := range []*homeDir{first, same, other, another} {
		closeHome(t, h)
	}
	again := b.open(t, b.request(t, "one"))
	defer closeHome(t, again)
	if _, err := os.Lstat(filepath.Join(again.Path, "x")); again.Path != first.Path || err != nil {
		t.Errorf("the next time: %q, %v", again.Path, err)
	}
}

func TestHomeBelongsToTheCommandsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives directories away")
	}
	b := newHomeBench(t)
	r := b.request(t, "one")
	r.User = commandUser{UID: 1234, GID: 5678}
	h := b.open(t, r)
	defer closeHome(t, h)
	if err := h.makeTmp(); err != nil {
		t.Fatal(err)
	}
	if err := h.makeTarget("go/pkg/mod", true); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".", ".tmp", "go", "go/pkg", "go/pkg/mod"} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(h.Path, name), &st); err != nil || st.Uid != 1234 || st.Gid != 5678 {
			t.Errorf("%s belongs to %d:%d, %v", name, st.Uid, st.Gid, err)
		}
	}
}

func TestHomeWhoseModeACommandTookAway(t *testing.T) {
	b := newHomeBench(t)
	h := b.open(t, b.request(t, "one"))
	if err := os.Chmod(h.Path, 0); err != nil {
		t.Fatal(err)
	}
	closeHome(t, h)
	again := b.open(t, b.request(t, "one"))
	defer closeHome(t, again)
	if info, err := os.Lstat(again.Path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestHomeOfARootMadeAnewIsEmpty(t *testing.T) {
	b := newHomeBench(t)
	h := b.open(t, b.request(t, "one"))
	closeHome(t, h)
	if err := os.Remove(filepath.Join(b.top, "one")); err != nil {
		t.Fatal(err)
	}
	made := b.open(t, b.request(t, "one"))
	defer closeHome(t, made)
	if made.Path == h.Path {
		t.Error("another directory got the home of the one before")
	}
}

// fill makes what is hard to remove: no permissions, great depth, links out.
func fill(t *testing.T, dir, outside string) {
	t.Helper()
	for i := range 3 {
		mkdir(t, filepath.Join(dir, fmt.Sprint("d", i), "e", "f"), 0o755)
	}
	if err := os.WriteFile(filepath.Join(dir, "d1/e/f/file"), nil, 0); err != nil {
		t.Fatal(err)
	}
	for _, l := range []string{"link", "d1/link", "d1/e/link"} {
		if err := os.Symlink(outside, filepath.Join(dir, l)); err != nil {
			t.Fatal(err)
		}
	}
	at, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 { // deeper than a path may be long
		if err := at.Mkdir("deep", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := at.OpenRoot("deep")
		_ = at.Close()
		if err != nil {
			t.Fatal(err)
		}
		at = next
	}
	_ = at.Close()
	for _, d := range []string{"d1/e/f", "d1/e", "d1", "d2/e"} {
		if err := os.Chmod(filepath.Join(dir, d), 0o000); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFreshHomeIsRemovedWhateverIsInIt(t *testing.T) {
	b, outside := newHomeBench(t), plainDir(t)
	if err := os.WriteFile(filepath.Join(outside, "canary"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := b.request(t, "one")
	r.Fresh = true
	h, other := b.open(t, r), b.open(t, r)
	if h.Path == other.Path {
		t.Error("two fresh homes are one")
	}
	fill(t, h.Path, outside)
	if err := os.Chmod(h.Path, 0); err != nil {
		t.Fatal(err)
	}
	closeHome(t, h)
	closeHome(t, other)
	if left, err := os.ReadDir(filepath.Join(b.cache, "home")); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Lstat(filepath.Join(outside, "canary")); err != nil {
		t.Error(err)
	}
}

// age makes a home look as if it had not been used for long.
func age(t *testing.T, h *homeDir, d time.Duration) {
	t.Helper()
	then := time.Now().Add(-d)
	if err := os.Chtimes(filepath.Join(filepath.Dir(h.Path), "record"), then, then); err != nil {
		t.Fatal(err)
	}
}

func TestHomesThatNobodyNeedsGo(t *testing.T) {
	for _, c := range []struct {
		name            string
		fresh, detached bool
		held            bool
		rootGone        bool
		unused          time.Duration
		goes            bool
	}{
		{name: "root there", unused: 1000 * time.Hour},
		{name: "root gone", rootGone: true, unused: 2 * time.Hour, goes: true},
		{name: "root gone just now", rootGone: true},
		{name: "root gone, in use", rootGone: true, held: true, unused: 1000 * time.Hour},
		{name: "fresh, owner dead", fresh: true, goes: true},
		{name: "fresh, in use", fresh: true, held: true, unused: 1000 * time.Hour},
		{name: "fresh, detached", fresh: true, detached: true, unused: 1000 * time.Hour},
		{name: "fresh, detached, root gone", fresh: true, detached: true, rootGone: true, unused: 1000 * time.Hour, goes: true},
		{name: "detached, root gone of late", detached: true, rootGone: true, unused: 2 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newHomeBench(t)
			r := b.request(t, "old")
			r.Fresh, r.Detached = c.fresh, c.detached
			old := b.open(t, r)
			mkdir(t, filepath.Join(old.Path, "a", "b"), 0)
			age(t, old, c.unused)
			if !c.held {
				// As a process that dies lets go.
				if err := old.release(); err != nil {
					t.Fatal(err)
				}
			}
			if c.rootGone {
				if err := os.Remove(r.Root.Real); err != nil {
					t.Fatal(err)
				}
			}
			closeHome(t, b.open(t, b.request(t, "new")))
			_, err := os.Lstat(filepath.Dir(old.Path))
			if gone := errors.Is(err, os.ErrNotExist); gone != c.goes {
				t.Errorf("gone: %v, want %v (%v)", gone, c.goes, err)
			}
			if c.held {
				_ = old.release()
			}
			makeRemovable(t, filepath.Join(b.cache, "home"))
		})
	}
}

// makeRemovable empties what the test framework could not remove.
func makeRemovable(t *testing.T, dir string) {
	t.Helper()
	r, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := clearDirectory(context.Background(), r); err != nil {
		t.Error(err)
	}
}

func TestHomeOpenedAndRemovedAtTheSameTime(t *testing.T) {
	b := newHomeBench(t)
	r := b.request(t, "one")
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 20 {
				h, err := openHome(r)
				if err != nil {
					t.Error(err)
					return
				}
				if id, err := identify(h.Path); err != nil || id != (fileID{h.Dev, h.Ino}) {
					t.Errorf("a home in use went: %v", err)
				}
				// Nobody may take it while it is held.
				if pruneNow(t, h.cache, h.key) {
					t.Error("a home in use was taken")
				}
				if err := h.Close(); err != nil {
					t.Error(err)
				}
				if c, err := openCache(b.cache); err == nil {
					pruneNow(t, c, h.key)
					_ = c.Close()
				}
			}
		}()
	}
	all.Wait()
}

// pruneNow removes the home unless it is held, as pruneHome does with a stale one.
func pruneNow(t *testing.T, cache *os.Root, key string) bool {
	t.Helper()
	f, err := cache.Open("home/" + key + "/record")
	if err != nil {
		return false
	}
	defer f.Close()
	if lockAlone(f) != nil {
		return false
	}
	if err := removeHome(context.Background(), cache, key); err != nil {
		t.Error(err)
	}
	return true
}

func TestHomeRecordsThatSayNothingAreLeftAlone(t *testing.T) {
	b := newHomeBench(t)
	for name, text := range map[string]string{"fresh-a": "", "fresh-b": "{", "fresh-c": `{"root":"/x"}`, "d": `{"root":"/x","fresh":true}`} {
		dir := mkdir(t, filepath.Join(b.cache, "home", name), 0o700)
		if err := os.WriteFile(filepath.Join(dir, "record"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	closeHome(t, b.open(t, b.request(t, "new")))
	for _, name := range []string{"fresh-a", "fresh-b", "fresh-c", "d"} {
		if _, err := os.Lstat(filepath.Join(b.cache, "home", name, "record")); err != nil {
			t.Error(err)
		}
	}
}

func TestHomeRecordIsRewrittenWhole(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "record"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, rec := range []homeRecord{{Root: strings.Repeat("/long", 50), Ino: 1 << 60}, {Root: "/s", Fresh: true}} {
		if err := rec.write(f); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(f.Name())
		var got homeRecord
		if err != nil || json.Unmarshal(text, &got) != nil || got != rec {
			t.Errorf("got %q, %v; want %+v", text, err, rec)
		}
	}
}

func TestCacheThatCannotBe(t *testing.T) {
	b := newHomeBench(t)
	r := b.request(t, "one")
	file := filepath.Join(b.top, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for dir, code := range map[string]workspace.Code{"": workspace.ErrInvalidArgument, "rel": workspace.ErrInvalidArgument, file: workspace.ErrIO, file + "/x": workspace.ErrIO} {
		r.CacheDir = dir
		if _, err := openHome(r); !errors.Is(err, code) {
			t.Errorf("%q: %v, want %s", dir, err, code)
		}
	}
}
