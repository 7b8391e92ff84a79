//go:build unix

// Package integration holds what a user sees: scripts against the built binary,
// terminals, signals, and real projects, on a real engine.
package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/internal/enginetest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	if b := built(); b.made {
		_ = os.RemoveAll(b.dir)
	}
	for _, made := range []func() (string, error){home, goRoot} {
		if dir, err := made(); err == nil {
			_ = os.RemoveAll(dir)
		}
	}
	os.Exit(code)
}

// build is where the binaries under test are.
type build struct {
	dir  string
	made bool // by this test process, which removes it
	err  error
}

// built builds wsctl and wskeeper once, as `make build` does. WSCTL_TEST_BIN
// names a directory that has them already, for users that cannot build.
var built = sync.OnceValue(func() build {
	if dir := os.Getenv("WSCTL_TEST_BIN"); dir != "" {
		return build{dir: dir}
	}
	dir, err := os.MkdirTemp("", "wsctl-integration-")
	if err != nil {
		return build{err: err}
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", dir+"/", "./cmd/...")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return build{dir: dir, made: true, err: fmt.Errorf("go build: %w\n%s", err, out)}
	}
	// Containers of another user run the keeper too.
	return build{dir: dir, made: true, err: os.Chmod(dir, 0o755)}
})

// binary is the path of the wsctl under test.
func binary(t testing.TB) string {
	t.Helper()
	b := built()
	if b.err != nil {
		t.Fatal(b.err)
	}
	return filepath.Join(b.dir, "wsctl")
}

// home is the HOME of every wsctl in these tests: the user's own settings and
// caches are neither used nor touched.
var home = sync.OnceValues(func() (string, error) {
	return os.MkdirTemp("", "wsctl-integration-home-")
})

// goRoot is one directory for all tests that build Go programs in a sandbox: a
// root has a home of its own, and what Go has built there for the first of them is
// there for the next.
var goRoot = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "wsctl-integration-root-") })

var goRootInUse sync.Mutex

// goProject is goRoot, emptied, and for this test alone until its end.
func goProject(t testing.TB) string {
	t.Helper()
	goRootInUse.Lock()
	t.Cleanup(goRootInUse.Unlock)
	root, err := goRoot()
	if err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() == ".wsctl" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(root, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// homeEnv are the variables that say where home is.
func homeEnv(t testing.TB) []string {
	t.Helper()
	dir, err := home()
	if err != nil {
		t.Fatal(err)
	}
	return []string{"HOME=" + dir, "XDG_CACHE_HOME=" + filepath.Join(dir, "cache")}
}

// haveEngine asks once whether an engine answers.
var haveEngine = sync.OnceValue(func() bool {
	e, err := container.Connect(context.Background(), container.EngineOptions{Host: os.Getenv("DOCKER_HOST")})
	if err != nil {
		return false
	}
	_ = e.Close()
	return true
})

// result is how one run of wsctl ended.
type result struct {
	stdout, stderr string
	code           int // -1: by a signal
}

// runTime bounds one run of wsctl in a test: the first build of Go's own packages
// takes minutes on a busy machine.
const runTime = 8 * time.Minute

// run runs wsctl without a terminal and with nothing on its standard input.
func run(t testing.TB, args ...string) result {
	t.Helper()
	return runCommand(t, command(t, args...))
}

// command is a run of wsctl that has not begun. It ends with the test.
func command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTime)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary(t), args...)
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = append(os.Environ(), homeEnv(t)...)
	return cmd
}

func runCommand(t testing.TB, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", strings.Join(cmd.Args, " "), err)
	}
	return result{stdout: stdout.String(), stderr: stderr.String(), code: cmd.ProcessState.ExitCode()}
}

// must fails the test unless wsctl ended with 0.
func (r result) must(t testing.TB) result {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("status %d\nstdout: %s\nstderr: %s", r.code, r.stdout, r.stderr)
	}
	return r
}

// eventually polls until check returns "" and fails the test with what it says
// last when that takes too long.
func eventually(t testing.TB, within time.Duration, check func() string) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		said := check()
		if said == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %s", within, said)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// nothingLeft fails the test when a container that mounts anything below dir is
// there, in whatever state, after the time given.
func nothingLeft(t testing.TB, dir string, within time.Duration) {
	t.Helper()
	eventually(t, within, func() string {
		if left := enginetest.Below(t, dir); len(left) > 0 {
			return fmt.Sprintf("containers are left: %+v", left)
		}
		return ""
	})
}
