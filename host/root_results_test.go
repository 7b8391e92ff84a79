//go:build linux

package host_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

func (a *area) save(run, call, content string) error {
	return a.r.SaveResult(bg, run, call, strings.NewReader(content), 0)
}

// A saved result is read back by its path, and a newer one takes its place.
func TestRootSavesResults(t *testing.T) {
	eachMode(t, modes, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{})
		for _, content := range []string{"first", "second"} {
			check(t, a.save("run", "call.txt", content))
			if got, err := a.read(workspace.ResultsDir + "/run/call.txt"); got != content {
				t.Errorf("read %q, %v", got, err)
			}
		}
		wantMode(t, a, ".wsctl/tool-results/run", 0o700)
		wantMode(t, a, ".wsctl/tool-results/run/call.txt", 0o600)

		// One that fails leaves the old one, and nothing beside it.
		err := a.r.SaveResult(bg, "run", "call.txt", io.MultiReader(strings.NewReader("x"), badReader{}), 0)
		wantCode(t, err, workspace.ErrIO)
		wantCode(t, a.r.SaveResult(bg, "run", "call.txt", strings.NewReader("too long"), 4), workspace.ErrTooLarge)
		if got := a.content(".wsctl/tool-results/run/call.txt"); got != "second" {
			t.Errorf("holds %q", got)
		}
		if names, err := os.ReadDir(a.path(".wsctl/tool-results")); len(names) != 1 {
			t.Errorf("holds %v, %v", names, err)
		}
	})
}

type badReader struct{}

func (badReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

// No name of a result leads anywhere else, and neither does what a repository
// brought along in the place of a directory.
func TestRootResultsStayInside(t *testing.T) {
	eachMode(t, modes, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{})
		for _, name := range []string{"", ".", "..", "../x", "a/b", "/x", "a\x00", ".hidden", "a\nb", strings.Repeat("x", 129)} {
			wantCode(t, a.save(name, "call", "x"), workspace.ErrInvalidArgument)
			wantCode(t, a.save("run", name, "x"), workspace.ErrInvalidArgument)
		}
		check(t, a.save("run", "call", "x"))
		for _, planted := range []string{".wsctl/tool-results/link -> OUT", ".wsctl/tool-results/run/link -> OUT/secret"} {
			a.grow(planted)
		}
		wantCode(t, a.save("link", "secret", "x"), workspace.ErrInvalidPath)
		// In the place of a link, not through it.
		check(t, a.save("run", "link", "x"))
		old := time.Now().Add(-time.Hour)
		check(t, os.Chtimes(a.out+"/secret", old, old))
		before := a.canary()
		n, err := a.r.PruneResults(bg, time.Minute)
		if n != 0 || err != nil {
			t.Errorf("pruned %d, %v", n, err)
		}
		if a.canary() != before {
			t.Error("something outside was changed")
		}
		check(t, os.Rename(a.path(".wsctl/tool-results"), a.path("was")))
		check(t, os.Symlink(a.out, a.path(".wsctl/tool-results")))
		wantCode(t, a.save("sub", "secret", "x"), workspace.ErrInvalidPath)
		if a.canary() != before {
			t.Error("a result was saved outside")
		}
	})
}

// Old results go, with the directory of a run that has none left.
func TestRootPrunesResults(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{})
	if n, err := a.r.PruneResults(bg, 0); n != 0 || err != nil {
		t.Errorf("pruned %d, %v", n, err)
	}
	if _, err := os.Lstat(a.path(".wsctl")); err == nil {
		t.Error("a prune made the state")
	}
	temp := ".wsctl/tool-results/" + host.TempName()
	for _, name := range []string{"old/a", "old/b", "mixed/old", "mixed/new"} {
		run, call, _ := strings.Cut(name, "/")
		check(t, a.save(run, call, "x"))
	}
	a.grow(temp + " = left by a crash")
	then := time.Now().Add(-2 * time.Hour)
	for _, name := range []string{".wsctl/tool-results/old/a", ".wsctl/tool-results/old/b", ".wsctl/tool-results/mixed/old", temp} {
		check(t, os.Chtimes(a.path(name), then, then))
	}
	n, err := a.r.PruneResults(bg, time.Hour)
	if n != 3 || err != nil {
		t.Errorf("pruned %d, %v", n, err)
	}
	for name, want := range map[string]bool{"old": false, "mixed/old": false, "mixed/new": true, strings.TrimPrefix(temp, ".wsctl/tool-results/"): false} {
		if _, err := os.Lstat(a.path(".wsctl/tool-results/" + name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
