//go:build unix

package container_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	dockertypes "github.com/docker/docker/api/types/container"
	"go.uber.org/goleak"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/workspace"
)

// ownerRoot names, in the environment of a copy of this test program, the root
// over which it is to start a container and then do nothing.
const ownerRoot = "WSCTL_TEST_OWNER_ROOT"

func TestMain(m *testing.M) {
	keeper.Init()
	if root := os.Getenv(ownerRoot); root != "" {
		os.Exit(own(root))
	}
	if name := os.Getenv(stormOver); name != "" {
		os.Exit(stormIn(name))
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}

// own is the owner that gets killed: it says when its container runs.
func own(root string) int {
	ctx, done := context.WithTimeout(context.Background(), time.Minute) // should nobody kill it
	defer done()
	e, err := container.Connect(ctx, container.EngineOptions{Host: os.Getenv("WSCTL_TEST_HOST"), CertDir: os.Getenv("DOCKER_CERT_PATH")})
	var d *container.Driver
	if err == nil {
		d, err = container.New(ctx, e, root, container.Options{
			Image: os.Getenv("WSCTL_TEST_IMAGE"), Keeper: os.Getenv("WSCTL_TEST_OWNER_KEEPER"), CacheDir: filepath.Join(filepath.Dir(root), "cache"),
		})
		if err == nil {
			err = d.Ready(ctx)
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	if os.Getenv(ownerWorks) != "" {
		fmt.Println(work(ctx, d))
	}
	<-ctx.Done()
	return 0
}

// The leash: the owner dies by SIGKILL, and its container is gone, with nobody's
// help, within five seconds.
func TestLeash(t *testing.T) {
	t.Parallel()
	cli := enginetest.Client(t)
	for name, keeper := range map[string]string{"keeper": enginetest.Keeper(t), "shell": ""} {
		t.Run(name, func(t *testing.T) {
			root := newRoot(t)
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			owner := osexec.CommandContext(t.Context(), self)
			owner.Env = append(os.Environ(), ownerRoot+"="+root, "WSCTL_TEST_HOST="+cli.DaemonHost(),
				"WSCTL_TEST_IMAGE="+enginetest.BusyBox(t), "WSCTL_TEST_OWNER_KEEPER="+keeper)
			out, err := owner.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := owner.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = owner.Wait() }()
			line, _ := bufio.NewReader(out).ReadString('\n')
			if line != "ready\n" {
				t.Fatalf("the owner says %q", line)
			}
			if got := only(t, root); got.State != "running" {
				t.Fatalf("the container is %s", got.State)
			}
			if err := owner.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the container is gone", 5*time.Second, func() bool { return len(enginetest.Below(t, root)) == 0 })
		})
	}
}

// A container that is killed, restarted or removed from outside is
// noticed, made anew, and the result says so; files are intact.
func TestRecovery(t *testing.T) {
	t.Parallel()
	e, cli := connect(t), enginetest.Client(t)
	for name, harm := range map[string]func(t *testing.T, id string) error{
		"killed": func(t *testing.T, id string) error { return cli.ContainerKill(t.Context(), id, "KILL") },
		"removed": func(t *testing.T, id string) error {
			return cli.ContainerRemove(t.Context(), id, dockertypes.RemoveOptions{Force: true})
		},
		"restarted": func(t *testing.T, id string) error {
			now := 0
			return cli.ContainerRestart(t.Context(), id, dockertypes.StopOptions{Timeout: &now})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := newRoot(t)
			w := openWorkspace(t, e, root, options(t))
			if out := exec(t, w, "echo kept > file; echo lost > /tmp/layer"); out.Recreated != "" {
				t.Errorf("recreated at first: %s", out.Recreated)
			}
			first := only(t, root)
			// An engine may fail to restart a container that removes itself.
			if err := harm(t, first.ID); err != nil && name != "restarted" {
				t.Fatal(err)
			}
			out := exec(t, w, "cat file; cat /tmp/layer")
			if string(out.Stdout) != "kept\n" || out.Recreated == "" || out.ExitCode == 0 {
				t.Errorf("%q %q, recreated: %q", out.Stdout, out.Stderr, out.Recreated)
			}
			if out := exec(t, w, "true"); out.Recreated != "" {
				t.Errorf("recreated is told twice: %s", out.Recreated)
			}
			eventually(t, "one container", 10*time.Second, func() bool { return len(enginetest.Below(t, root)) == 1 })
			if again := only(t, root); again.ID == first.ID {
				t.Error("the same container")
			}
		})
	}
}

// A paused container is BUSY, at once, and stays.
func TestPausedContainerIsBusy(t *testing.T) {
	t.Parallel()
	e, root, cli := connect(t), newRoot(t), enginetest.Client(t)
	w := openWorkspace(t, e, root, options(t))
	exec(t, w, "true")
	id := only(t, root).ID
	if err := cli.ContainerPause(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	_, err := w.Exec(t.Context(), workspace.Command{Args: []string{"true"}, Timeout: 2 * time.Second})
	if workspace.CodeOf(err) != workspace.ErrBusy || !strings.Contains(err.Error(), "paused") {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("took %v", took)
	}
	if err := cli.ContainerUnpause(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if out := exec(t, w, "true"); out.Recreated != "" {
		t.Errorf("recreated: %s", out.Recreated)
	}
	if again := only(t, root); again.ID != id {
		t.Error("another container")
	}
}

// A paused container can be closed.
func TestPausedContainerIsRemoved(t *testing.T) {
	t.Parallel()
	e, root, cli := connect(t), newRoot(t), enginetest.Client(t)
	d, err := container.New(t.Context(), e, root, options(t))
	if err != nil {
		t.Fatal(err)
	}
	ready(t, d)
	if err := cli.ContainerPause(t.Context(), only(t, root).ID); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	none(t, root)
}

// The mask goes with the directory that it covers: when the host replaces the
// state, the next command gets a container with a mask again.
func TestReplacedStateIsMaskedAgain(t *testing.T) {
	t.Parallel()
	e, root := connect(t), newRoot(t)
	w := openWorkspace(t, e, root, options(t))
	exec(t, w, "true")
	state := filepath.Join(root, ".wsctl")
	for what, replace := range map[string]func() error{
		"renamed": func() error { return os.Rename(state, filepath.Join(filepath.Dir(root), "moved")) },
		"removed": func() error { return os.RemoveAll(state) },
		"another": func() error {
			if err := os.RemoveAll(state); err != nil {
				return err
			}
			return os.Mkdir(state, 0o700)
		},
	} {
		if err := replace(); err != nil {
			t.Fatal(err)
		}
		if err := w.Ready(t.Context()); err != nil {
			t.Fatal(what, err)
		}
		if err := os.WriteFile(filepath.Join(state, "secret"), []byte("canary"), 0o600); err != nil {
			t.Fatal(what, err)
		}
		out := exec(t, w, "ls -A .wsctl; cat .wsctl/secret; echo x > .wsctl/new; mv .wsctl other; rmdir .wsctl")
		if strings.Contains(string(out.Stdout), "secret") || strings.Contains(string(out.Stdout), "canary") {
			t.Errorf("%s: the state shows: %q", what, out.Stdout)
		}
		if out.Recreated == "" {
			t.Errorf("%s: not said", what)
		}
		if left, err := os.ReadDir(state); err != nil || len(left) < 1 {
			t.Errorf("%s: the state holds %v, %v", what, left, err)
		}
	}
}

// A command may stop every process of its user, idle keepers too. The next one
// must not wait for them for ever.
func TestStoppedKeepersAreGivenUp(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a keeper that does not answer")
	}
	e := connect(t)
	d := open(t, e, newRoot(t), options(t))
	ws, err := workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := func(text string) *workspace.Output {
		t.Helper()
		out, err := ws.Exec(ctx, workspace.Command{Shell: text})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return out
	}
	// Two at once, so that one keeper is idle while the other's command runs.
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() { run("sleep .5") })
	}
	both.Wait()
	run(`for p in /proc/[0-9]*; do p=${p#/proc/}; case $p in 1|$$|$PPID) ;; *) kill -STOP $p;; esac; done 2>/dev/null; :`)
	began := time.Now()
	var outs [2]*workspace.Output
	for i := range outs {
		both.Go(func() { outs[i] = run("sleep .5; echo here") })
	}
	both.Wait()
	for _, out := range outs {
		if string(out.Stdout) != "here\n" {
			t.Errorf("got %q, status %d", out.Stdout, out.ExitCode)
		}
	}
	if outs[0].Recreated == "" && outs[1].Recreated == "" {
		t.Error("nobody was told that the container is a new one")
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}
