//go:build unix

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/internal/enginetest"
)

// moduleDir is where this machine has the source of a module that ours requires.
func moduleDir(t testing.TB, module string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module)
	cmd.Dir = ".."
	out, err := cmd.Output()
	dir := strings.TrimSpace(string(out))
	if err != nil || dir == "" {
		t.Fatalf("go list -m %s: %v; `go mod download` fetches it", module, err)
	}
	return dir
}

// copyModule makes a copy of a module's source that may be written.
func copyModule(t testing.TB, module, to string) {
	t.Helper()
	from := moduleDir(t, module)
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	// The module cache is read-only, and its copy need not be.
	err := filepath.WalkDir(to, func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if d.IsDir() {
			mode = 0o755
		}
		return os.Chmod(name, mode)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// goEnv is what go env says on the host.
func goEnv(t testing.TB, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// goVerdict runs go test on the host, offline, and returns whether it passes.
func goVerdict(t testing.TB, dir string, args ...string) (passes bool, output string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"test"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return err == nil, string(out)
}

// Modules of others are tested offline with the programs of this machine, and
// the verdict is the host's.
func TestModulesOfOthersHaveTheVerdictOfTheHost(t *testing.T) {
	t.Parallel()
	enginetest.Client(t)
	root := goProject(t)
	modCache, buildCache := goEnv(t, "GOMODCACHE"), goEnv(t, "GOCACHE")
	// The toolchain is the host's, so what it has built is good inside.
	build := []string{"--mount", buildCache + ":/build:rw", "-e", "GOCACHE=/build"}
	for _, c := range []struct {
		module string
		test   []string
		// dependencies are in the module cache.
		dependencies bool
	}{
		{module: "golang.org/x/sync", test: []string{"./..."}},
		{module: "github.com/spf13/pflag", test: []string{"./..."}},
		// The tests left out expect that what is read-only cannot be
		// written, which root can on the host and not in the container.
		{module: "github.com/spf13/cobra", test: []string{"-skip", "^TestFailGen", "."}, dependencies: true},
	} {
		name := filepath.Base(c.module)
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(root, name)
			copyModule(t, c.module, dir)
			hostPasses, hostOutput := goVerdict(t, dir, c.test...)
			args := append([]string{"run", "-q", "--root", root, "--dir", name}, build...)
			if c.dependencies {
				args = append(args, "--mount", modCache+":/modules", "-e", "GOMODCACHE=/modules", "-e", "GOFLAGS=-mod=mod")
			}
			got := run(t, append(append(args, "--", "go", "test", "-count=1"), c.test...)...)
			if !hostPasses {
				t.Fatalf("the host's verdict is a failure, which shows little: %s", hostOutput)
			}
			if got.code != 0 || strings.Count(got.stdout, "ok  \t") != strings.Count(hostOutput, "ok  \t") {
				t.Errorf("status %d\nhost: %s\ncontainer: %s%s", got.code, hostOutput, got.stdout, got.stderr)
			}
		})
	}
	t.Run("failing", func(t *testing.T) {
		dir := filepath.Join(root, "failing")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		writeModule(t, dir)
		args := append([]string{"run", "-q", "--root", root, "--dir", "failing"}, build...)
		args = append(args, "--", "go", "test", "./...")
		run(t, args...).must(t)
		bad := "package sum\n\nimport \"testing\"\n\nfunc TestBad(t *testing.T) { t.Error(\"it is bad\") }\n"
		if err := os.WriteFile(filepath.Join(dir, "bad_test.go"), []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		if r := run(t, args...); r.code != 1 || !strings.Contains(r.stdout, "it is bad") {
			t.Errorf("status %d\n%s%s", r.code, r.stdout, r.stderr)
		}
	})
	nothingLeft(t, root, 5*time.Second)
}
