//go:build unix

package remote_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
	"github.com/wsctl/wsctl/workspace/drivertest"
)

// TestConformanceOfAContainer holds a dialled container to the contract: the
// chapter that crosses the most layers, and all of them in a soak.
func TestConformanceOfAContainer(t *testing.T) {
	cli := enginetest.Client(t)
	engine, err := container.Connect(t.Context(), container.EngineOptions{Host: cli.DaemonHost(), CertDir: os.Getenv("DOCKER_CERT_PATH")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	limited := func(t testing.TB, o workspace.Options, l drivertest.Limits) (*workspace.Workspace, string) {
		root := filepath.Join(enginetest.Dir(t), "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		d, err := container.New(t.Context(), engine, root, container.Options{
			Image: enginetest.BusyBox(t), CacheDir: filepath.Join(enginetest.Dir(t), "cache"),
			Keeper: enginetest.Keeper(t), Version: "test", Memory: l.Memory, Pids: l.Pids,
		})
		if err != nil {
			t.Fatal(err)
		}
		served, err := workspace.New(d, workspace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = served.Close() })
		ws, err := workspace.New(both{dial(t, serve(t, served, remote.Options{}), ""), served}, o)
		if err != nil {
			t.Fatal(err)
		}
		return ws, root
	}
	chapters := []string{"processes"}
	if os.Getenv("WSCTL_SOAK") != "" {
		chapters = nil
	}
	drivertest.Run(t, drivertest.Harness{
		Chapters: chapters,
		New: func(t testing.TB, o workspace.Options) (*workspace.Workspace, string) {
			return limited(t, o, drivertest.Limits{})
		},
		NewLimited: limited,
		Capabilities: drivertest.Capabilities{
			Confined: true, Masked: true, EndsEscapees: true, Start: true, Terminal: true, Signals: true, Usage: true,
		},
	})
}
