//go:build unix

package workspacetest_test

import (
	"strings"
	"testing"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
	"github.com/wsctl/wsctl/workspacetest"
)

func TestAWorkspaceGoesWithItsTest(t *testing.T) {
	cli := enginetest.Client(t)
	root := t.TempDir()
	var ws *workspace.Workspace
	t.Run("inner", func(t *testing.T) {
		ws = workspacetest.New(t, workspacetest.Options{
			Image: enginetest.BusyBox(t), Keeper: enginetest.Keeper(t), Root: root,
			Engine: container.EngineOptions{Host: cli.DaemonHost()},
			Files:  map[string]string{"a/b.txt": "from the test\n"}, Env: []string{"WHO=me"},
		})
		out, err := ws.Exec(t.Context(), workspace.Command{Shell: `cat a/b.txt; echo $WHO >c`})
		if err != nil || out.ExitCode != 0 || string(out.Stdout) != "from the test\n" {
			t.Fatalf("a command: %+v, %v", out, err)
		}
		if c, err := ws.ReadFile(t.Context(), "c", 10); err != nil || string(c) != "me\n" {
			t.Errorf("what it wrote: %q, %v", c, err)
		}
		if len(enginetest.Below(t, root)) != 1 {
			t.Error("there is no container, and commands ran somewhere")
		}
	})
	if left := enginetest.Below(t, root); len(left) != 0 {
		t.Errorf("containers are left: %v", left)
	}
	if _, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"true"}}); workspace.CodeOf(err) != workspace.ErrDisposed {
		t.Errorf("after its test: %v", err)
	}
}

// ending is a test that is told to end, in a goroutine of its own.
type ending struct {
	testing.TB
	skipped, failed string
}

type ended struct{}

func (e *ending) Skipf(format string, args ...any)  { e.skipped = format; panic(ended{}) }
func (e *ending) Fatalf(format string, args ...any) { e.failed = format; panic(ended{}) }

func TestWithoutAnEngineATestIsSkippedOrFails(t *testing.T) {
	try := func(required bool) (e *ending) {
		e = &ending{TB: t}
		defer func() {
			if r := recover(); r != nil && r != any(ended{}) {
				panic(r)
			}
		}()
		workspacetest.New(e, workspacetest.Options{Required: required, Engine: container.EngineOptions{Host: "unix:///nonexistent/docker.sock"}})
		return e
	}
	t.Setenv("WSCTL_REQUIRE_DOCKER", "")
	if e := try(false); !strings.Contains(e.skipped, "WSCTL_REQUIRE_DOCKER") || e.failed != "" {
		t.Errorf("not required: skipped %q, failed %q", e.skipped, e.failed)
	}
	if e := try(true); e.failed == "" || e.skipped != "" {
		t.Errorf("required: skipped %q, failed %q", e.skipped, e.failed)
	}
	t.Setenv("WSCTL_REQUIRE_DOCKER", "1")
	if e := try(false); e.failed == "" {
		t.Errorf("required by the environment: skipped %q", e.skipped)
	}
}
