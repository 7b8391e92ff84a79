//go:build linux

package integration

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

// An MCP server of the official SDK runs inside a workspace as a process and serves a
// client outside over the process's pipes; it ends when its input does.
func TestMCPServerInsideAWorkspace(t *testing.T) {
	t.Parallel()
	t.Run("host", func(t *testing.T) {
		d, err := host.New(t.TempDir(), host.Options{Keeper: enginetest.Keeper(t)})
		if err != nil {
			t.Fatal(err)
		}
		serveInside(t, d, d.Real())
	})
	t.Run("container", func(t *testing.T) {
		cli := enginetest.Client(t)
		e, err := container.Connect(t.Context(), container.EngineOptions{Host: cli.DaemonHost(), CertDir: os.Getenv("DOCKER_CERT_PATH")})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		root := filepath.Join(enginetest.Dir(t), "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		d, err := container.New(t.Context(), e, root, container.Options{
			Image: enginetest.BusyBox(t), Keeper: enginetest.Keeper(t), CacheDir: filepath.Join(enginetest.Dir(t), "cache"),
		})
		if err != nil {
			t.Fatal(err)
		}
		serveInside(t, d, root)
		if left := enginetest.Below(t, root); len(left) != 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// serveInside runs the server in the workspace of a driver whose root has the path
// real on this machine.
func serveInside(t *testing.T, d workspace.Driver, real string) {
	t.Helper()
	ws, err := workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := ws.Close(); err != nil {
			t.Error(err)
		}
	}()
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(real, "bin/server"), "./testdata/mcpinside")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, said)
	}
	if err := ws.Mkdir(t.Context(), "sub", workspace.MkdirOptions{}); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	p, err := ws.Start(t.Context(), workspace.Command{Args: []string{"../bin/server"}, Dir: "sub", Stderr: &said})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	s, err := client.Connect(ctx, &mcp.IOTransport{Reader: p.Stdout(), Writer: p.Stdin()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.ListTools(ctx, nil)
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "repeat" {
		t.Fatalf("tools: %+v, %v", list, err)
	}
	pids := make([]any, 20)
	var calls sync.WaitGroup
	for i := range pids {
		calls.Go(func() {
			// More than a pipe holds, every third time.
			text := strings.Repeat(fmt.Sprint("text ", i, " "), 1+i%3*20_000)
			r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "repeat", Arguments: map[string]any{"text": text}})
			if err != nil {
				t.Error(err)
				return
			}
			out, _ := r.StructuredContent.(map[string]any)
			if want := ws.Root() + "/sub"; r.IsError || out["text"] != text || out["dir"] != want {
				t.Errorf("call %d: %d bytes in %v", i, len(fmt.Sprint(out["text"])), out["dir"])
			}
			pids[i] = out["pid"]
		})
	}
	calls.Wait()
	for _, pid := range pids {
		if pid != pids[0] {
			t.Errorf("one process serves, not %v", pids)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("close of the session: %v", err)
	}
	exit, err := p.Wait()
	if err != nil || exit.Code != 0 || exit.Stopped {
		t.Errorf("the server ended with %+v, %v: %s", exit, err, &said)
	}
	if !strings.Contains(said.String(), "serving") {
		t.Errorf("on stderr it said %q", &said)
	}
}
