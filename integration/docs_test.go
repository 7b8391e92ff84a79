//go:build unix

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/internal/enginetest"
)

// A block of a document that begins with ```sh is a session that a reader types.
// TestDocuments runs the first one of README.md, and in all documents those whose
// line above, an HTML comment, asks for it:
//
//	<!-- run -->          with an engine
//	<!-- run host -->     without one
//	<!-- run fails N -->  its last command ends with status N
//
// Each runs in a new git repository that holds a small Go module with a Makefile,
// in one shell that stops at the first failure, with wsctl on PATH and as ./wsctl.
// A line that builds ./wsctl is left out: that is done already.
func TestDocuments(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append([]string{"../README.md"}, files...) {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		found := sessions(string(body), name == "README.md")
		if name == "README.md" && len(found) == 0 {
			t.Error("README.md shows no session")
		}
		for _, s := range found {
			t.Run(fmt.Sprintf("%s:%d", name, s.line), func(t *testing.T) {
				if s.host {
					s.test(t, t.TempDir())
					return
				}
				enginetest.Client(t)
				s.test(t, goProject(t))
			})
		}
	}
}

// docSession is one block to be run.
type docSession struct {
	line   int // of the block
	script string
	host   bool
	status int
}

// sessions finds the blocks of a document that are to be run: those that are
// marked, and the first one when first is set.
func sessions(document string, first bool) []docSession {
	var all []docSession
	lines := strings.Split(document, "\n")
	for i := 0; i < len(lines); i++ {
		if strings.TrimSpace(lines[i]) != "```sh" {
			continue
		}
		s := docSession{line: i + 1}
		wanted := first
		first = false
		if i > 0 {
			mark, marked := strings.CutPrefix(strings.TrimSpace(lines[i-1]), "<!-- run")
			mark = strings.TrimSpace(strings.TrimSuffix(mark, "-->"))
			s.host = mark == "host"
			_, _ = fmt.Sscanf(mark, "fails %d", &s.status)
			wanted = wanted || marked
		}
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
			if !strings.Contains(lines[i], "go build -o wsctl ") {
				s.script += lines[i] + "\n"
			}
		}
		if wanted {
			all = append(all, s)
		}
	}
	return all
}

func (s docSession) test(t *testing.T, root string) {
	t.Helper()
	writeModule(t, root)
	git := exec.CommandContext(t.Context(), "git", "init", "-q", root)
	git.Env = append(os.Environ(), homeEnv(t)...)
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	if err := os.Symlink(binary(t), filepath.Join(root, "wsctl")); err != nil {
		t.Fatal(err)
	}
	if !s.host {
		// What Go builds for the first time takes its time on a busy
		// machine; the session has a timeout of its own.
		run(t, "run", "-q", "--root", root, "--", "go", "test", "./...").must(t)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", s.script)
	cmd.Dir = root
	cmd.Env = append(append(os.Environ(), homeEnv(t)...), "PATH="+filepath.Dir(binary(t))+":"+os.Getenv("PATH"))
	cmd.WaitDelay = 5 * time.Second
	r := runCommand(t, cmd)
	if r.code != s.status {
		t.Errorf("status %d, want %d\n%s\nstdout: %s\nstderr: %s", r.code, s.status, s.script, r.stdout, r.stderr)
	}
	if !s.host {
		nothingLeft(t, root, 5*time.Second)
	}
}

// writeModule makes a Go module with one package and one test.
func writeModule(t testing.TB, dir string) {
	t.Helper()
	for name, body := range map[string]string{
		"go.mod":      "module example.org/sum\n\ngo 1.21\n",
		"sum.go":      "// Package sum adds.\npackage sum\n\n// Of adds a and b.\nfunc Of(a, b int) int { return a + b }\n",
		"sum_test.go": "package sum\n\nimport \"testing\"\n\nfunc TestOf(t *testing.T) {\n\tif Of(40, 2) != 42 {\n\t\tt.Fail()\n\t}\n}\n",
		"Makefile":    "all:\n\t@echo made\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
