//go:build unix

package workspacetest

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/workspace"
)

// Options say what workspace a test gets. The zero value is an empty directory with
// this machine's programs, offline.
type Options struct {
	// Image is the image's reference; empty: the programs of this machine.
	Image string
	// Network is none, bridge or the name of a network of the engine; empty: none.
	Network string
	// Memory is in bytes; 0: container.DefaultMemory. CPUs and Pids likewise.
	Memory int64
	CPUs   float64
	Pids   int64
	// Root is the directory; empty: a temporary one, which goes with the test.
	Root string
	// Files are written before New returns, content by path.
	Files map[string]string
	// Env is what every command gets, entries "NAME=value".
	Env []string
	// Keeper is a static program that runs as the container's first process: the
	// wskeeper of wsctl, or a program that calls keeper.Init first in main; empty:
	// the wskeeper or wsctl on PATH, and without one a shell.
	Keeper string
	// Engine says where the engine is; the zero value: as DOCKER_HOST and
	// DOCKER_CERT_PATH say.
	Engine container.EngineOptions
	// Required fails the test where no engine answers, as the variable
	// WSCTL_REQUIRE_DOCKER=1 does; else it is skipped.
	Required bool
}

// engineTime is how long the engine may take to answer.
const engineTime = 10 * time.Second

// New returns a workspace that is ready for commands. It is closed, and its
// container removed, when the test and its subtests have ended. Where no engine
// answers the test is skipped, or fails: Options.Required. It may be called from
// parallel tests.
func New(t testing.TB, o Options) *workspace.Workspace {
	t.Helper()
	e := connect(t, o)
	root := o.Root
	if root == "" {
		root = t.TempDir()
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("workspacetest: %v", err)
	}
	log := slog.New(slog.NewTextHandler(output{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	d, err := container.New(t.Context(), e, root, container.Options{
		Image: o.Image, Network: o.Network, Memory: o.Memory, CPUs: o.CPUs, Pids: o.Pids,
		// A home of its own goes with the container; no other test sees it.
		FreshHome: true,
		CacheDir:  filepath.Join(cache, "wsctl"),
		HostPath:  os.Getenv("PATH"),
		Home:      os.Getenv("HOME"),
		Keeper:    o.keeper(e),
		Version:   "workspacetest",
		Logger:    log,
	})
	if err != nil {
		t.Fatalf("workspacetest: %v", err)
	}
	ws, err := workspace.New(d, workspace.Options{Env: o.Env, Logger: log})
	if err != nil {
		_ = d.Close()
		t.Fatalf("workspacetest: %v", err)
	}
	t.Cleanup(func() {
		if err := ws.Close(); err != nil {
			t.Errorf("workspacetest: the workspace is not closed: %v", err)
		}
	})
	for path, content := range o.Files {
		if _, err := ws.WriteFile(t.Context(), path, []byte(content), workspace.WriteOptions{}); err != nil {
			t.Fatalf("workspacetest: %v", err)
		}
	}
	if err := ws.Ready(t.Context()); err != nil {
		t.Fatalf("workspacetest: %v", err)
	}
	return ws
}

// connect connects to the engine until the test ends.
func connect(t testing.TB, o Options) *container.Engine {
	t.Helper()
	if o.Engine == (container.EngineOptions{}) {
		o.Engine = container.EngineOptions{Host: os.Getenv("DOCKER_HOST"), CertDir: os.Getenv("DOCKER_CERT_PATH")}
	}
	ctx, cancel := context.WithTimeout(t.Context(), engineTime)
	defer cancel()
	e, err := container.Connect(ctx, o.Engine)
	switch {
	case err == nil:
	case o.Required || os.Getenv("WSCTL_REQUIRE_DOCKER") == "1":
		t.Fatalf("workspacetest: %v", err)
	default:
		t.Skipf("workspacetest: %v (WSCTL_REQUIRE_DOCKER=1 makes this a failure)", err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// keeper is the program for the container's first process; empty: none that fits.
func (o Options) keeper(e *container.Engine) string {
	if o.Keeper != "" {
		return o.Keeper
	}
	for _, name := range []string{"wskeeper", "wsctl"} {
		program, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if k, _ := container.FindKeeper(program, container.KeeperTarget{Arch: e.Info().Arch, HostLibraries: o.Image == ""}); k != "" {
			return k
		}
	}
	return ""
}

// output is the test's log as a writer.
type output struct{ t testing.TB }

func (o output) Write(b []byte) (int, error) {
	o.t.Log(strings.TrimRight(string(b), "\n"))
	return len(b), nil
}
