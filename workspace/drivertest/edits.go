//go:build unix

package drivertest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/wsctl/wsctl/workspace"
)

// version is the Version of a file in the case's directory.
func (t *checker) version(name string) string {
	t.Helper()
	fi, err := t.ws.Stat(t.ctx, t.path(name))
	t.must(err)
	v := workspace.VersionOf(fi)
	if v == "" {
		t.Fatalf("%s has no Version", name)
	}
	return v
}

func ifVersion(t *checker) {
	fi, err := t.ws.WriteFile(t.ctx, t.path("f"), []byte("one"), workspace.WriteOptions{})
	t.must(err)
	one := workspace.VersionOf(fi)
	if got := t.version("f"); got != one {
		t.Errorf("the write reports version %q, Stat %q", one, got)
	}
	fi, err = t.ws.WriteFile(t.ctx, t.path("f"), []byte("two"), workspace.WriteOptions{IfVersion: one})
	t.must(err)
	two := workspace.VersionOf(fi)
	_, err = t.ws.WriteFile(t.ctx, t.path("f"), []byte("three"), workspace.WriteOptions{IfVersion: one})
	t.wantCode("a write of an old version", err, workspace.ErrConflict)
	change := func(b []byte) ([]byte, error) { return append(b, '!'), nil }
	_, err = t.ws.Edit(t.ctx, t.path("f"), workspace.EditOptions{IfVersion: one}, change)
	t.wantCode("an edit of an old version", err, workspace.ErrConflict)
	_, err = t.ws.WriteFile(t.ctx, t.path("gone"), nil, workspace.WriteOptions{IfVersion: one})
	t.wantCode("a write of what is gone", err, workspace.ErrConflict, workspace.ErrNotFound)
	t.wantGone("gone")
	t.wantFile("f", "two")
	_, err = t.ws.Edit(t.ctx, t.path("f"), workspace.EditOptions{IfVersion: two}, change)
	t.must(err)
	t.wantFile("f", "two!")
}

func versions(t *checker) {
	t.write("f", "aaaa")
	seen := []string{t.version("f")}
	for _, text := range []string{
		"printf bbbb > f; touch -t 202001010000 f",
		"printf cccc > f; touch -t 202001010000 f",
		"printf dddd > g; touch -t 202001010000 g; mv g f",
	} {
		t.plant(text)
		v := t.version("f")
		if slices.Contains(seen, v) {
			t.Errorf("after %q the version is one it had: %q", text, v)
		}
		seen = append(seen, v)
	}
	if again := t.version("f"); again != seen[len(seen)-1] {
		t.Errorf("unchanged, the version went from %q to %q", seen[len(seen)-1], again)
	}
}

func editFile(t *checker) {
	t.write("f", "old")
	var given string
	fi, err := t.ws.Edit(t.ctx, t.path("f"), workspace.EditOptions{}, func(b []byte) ([]byte, error) {
		given = string(b)
		return []byte("newer"), nil
	})
	t.must(err)
	if given != "old" || fi.Size() != 5 || workspace.VersionOf(fi) != t.version("f") {
		t.Errorf("the edit was given %q, reports %d bytes and version %q", given, fi.Size(), workspace.VersionOf(fi))
	}
	t.wantFile("f", "newer")
	_, err = t.ws.Edit(t.ctx, t.path("f"), workspace.EditOptions{}, func([]byte) ([]byte, error) { return []byte("x"), errOfReader })
	if err != errOfReader {
		t.Errorf("the edit's own error came back as %v", err)
	}
	_, err = t.ws.Edit(t.ctx, t.path("f"), workspace.EditOptions{MaxBytes: 4}, func([]byte) ([]byte, error) { return nil, nil })
	t.wantCode("a file over MaxBytes", err, workspace.ErrTooLarge)
	_, err = t.ws.Edit(t.ctx, t.path("f"), workspace.EditOptions{MaxBytes: 5}, func([]byte) ([]byte, error) { return []byte("sixsix"), nil })
	t.wantCode("a result over MaxBytes", err, workspace.ErrTooLarge)
	_, err = t.ws.Edit(t.ctx, t.path("gone"), workspace.EditOptions{}, func(b []byte) ([]byte, error) { return b, nil })
	t.wantCode("a missing file", err, workspace.ErrNotFound)
	t.wantGone("gone")
	t.wantFile("f", "newer")
	_, err = t.ws.Edit(t.ctx, t.path("f"), workspace.EditOptions{}, func([]byte) ([]byte, error) { return nil, nil })
	t.must(err)
	t.wantFile("f", "")
}

func editsAreSerialised(t *checker) {
	const edits = 50
	t.write("d/f", "")
	t.plant("ln -s d/f link; ln -s d dirlink")
	spellings := []string{
		t.path("d/f"), "./" + t.path("d//f"), t.path("d/../d/f"), t.path("link"), t.path("dirlink/f"), t.abs("d/f"),
	}
	var wg sync.WaitGroup
	for i := range edits {
		wg.Go(func() {
			_, err := t.ws.Edit(t.ctx, spellings[i%len(spellings)], workspace.EditOptions{}, func(b []byte) ([]byte, error) {
				return fmt.Appendf(b, "%d\n", i), nil
			})
			if err != nil {
				t.Errorf("edit %d through %s: %v", i, spellings[i%len(spellings)], err)
			}
		})
	}
	wg.Wait()
	data, err := t.ws.ReadFile(t.ctx, t.path("d/f"), 0)
	t.must(err)
	lines := strings.Fields(string(data))
	slices.Sort(lines)
	if n := len(slices.Compact(lines)); n != edits {
		t.Errorf("%d of %d edits are in the file", n, edits)
	}
}

func editConflict(t *checker) {
	for name, theirs := range map[string]string{
		"written":  "printf theirs > f",
		"replaced": "printf theirs > g; mv g f",
		"appended": "printf theirs >> f",
	} {
		t.plant("printf old > f")
		_, err := t.ws.Edit(t.ctx, t.path("f"), workspace.EditOptions{}, func(b []byte) ([]byte, error) {
			t.plant(theirs)
			return append(b, " ours"...), nil
		})
		t.wantCode(name, err, workspace.ErrConflict)
		data, err := t.ws.ReadFile(t.ctx, t.path("f"), 0)
		t.must(err)
		if got := string(data); !strings.HasSuffix(got, "theirs") {
			t.Errorf("%s: the file is %q; their change is lost", name, got)
		}
	}
}
