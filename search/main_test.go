//go:build unix

package search_test

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/search"
	"github.com/wsctl/wsctl/workspace"
)

var bg = context.Background()

func check(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// open opens a workspace over a new directory with a tree given as lines:
//
//	path            an empty file
//	path = content  a file
//	path -> target  a link
//	path/           a directory
func open(t testing.TB, tree ...string) (ws *workspace.Workspace, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "root")
	check(t, os.Mkdir(dir, 0o755))
	grow(t, dir, tree...)
	return over(t, dir), dir
}

func over(t testing.TB, dir string) *workspace.Workspace {
	t.Helper()
	d, err := host.New(dir, host.Options{})
	check(t, err)
	ws, err := workspace.New(d, workspace.Options{})
	check(t, err)
	t.Cleanup(func() { check(t, ws.Close()) })
	return ws
}

func grow(t testing.TB, dir string, tree ...string) {
	t.Helper()
	for _, line := range tree {
		name, target, link := strings.Cut(line, " -> ")
		name, content, _ := strings.Cut(name, " = ")
		path := filepath.Join(dir, name)
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch {
		case link:
			check(t, os.Symlink(target, path))
		case strings.HasSuffix(name, "/"):
			check(t, os.MkdirAll(path, 0o755))
		default:
			check(t, os.WriteFile(path, []byte(content), 0o644))
		}
	}
}

// paths are those of the entries, on one line.
func paths(f *search.Found) string {
	var all []string
	for _, e := range f.Entries {
		all = append(all, e.Path)
	}
	return strings.Join(all, " ")
}

func glob(t testing.TB, ws *workspace.Workspace, pattern string, o search.FindOptions) *search.Found {
	t.Helper()
	f, err := search.Glob(bg, ws, pattern, o)
	check(t, err)
	return f
}

func list(t testing.TB, ws *workspace.Workspace, o search.FindOptions) *search.Found {
	t.Helper()
	f, err := search.List(bg, ws, o)
	check(t, err)
	return f
}

func grep(t testing.TB, ws *workspace.Workspace, pattern string, o search.GrepOptions) *search.Matches {
	t.Helper()
	m, err := search.Grep(bg, ws, pattern, o)
	check(t, err)
	return m
}

func wantCode(t testing.TB, what string, err error, code workspace.Code) {
	t.Helper()
	if got := workspace.CodeOf(err); got != code {
		t.Errorf("%s: the error is %v, want %s", what, err, code)
	}
}

func want(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// oracle is a program that results are compared with. Where it is missing the
// test is skipped, or fails under WSCTL_REQUIRE_ORACLES=1.
func oracle(t testing.TB, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		reason := name + " is not installed (Debian: apt-get install " + pkg + ")"
		if os.Getenv("WSCTL_REQUIRE_ORACLES") == "1" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	return path
}

// output runs a program in dir; statuses of 1 mean that nothing was found.
func output(t testing.TB, dir, stdin, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+dir, "RIPGREP_CONFIG_PATH=", "LC_ALL=C.UTF-8")
	out, err := cmd.Output()
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("%s %q: %v", name, args, err)
	}
	return string(out)
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, seed)) }
