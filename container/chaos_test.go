//go:build linux

package container_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	dockertypes "github.com/docker/docker/api/types/container"

	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

// daemon is an engine of the test's own, beside the machine's: own data, own socket,
// no bridge.
type daemon struct {
	dir string
	cmd *osexec.Cmd
	// ended is closed when it has exited.
	ended chan struct{}
}

func (d *daemon) host() string { return "unix://" + filepath.Join(d.dir, "engine.sock") }

// start starts it, again where it gives up: after a SIGKILL the containerd that it
// runs for itself may take longer to come up than it waits.
func (d *daemon) start(t *testing.T) {
	t.Helper()
	config := filepath.Join(d.dir, "config.json") // not the machine's
	if err := os.WriteFile(config, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	cli := enginetest.Client(t)
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		log, err := os.Create(filepath.Join(d.dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		d.cmd = osexec.Command("dockerd", "--config-file", config, "--data-root", d.dir+"/data", "--exec-root", d.dir+"/exec",
			"--pidfile", d.dir+"/pid", "--host", d.host(), "--bridge", "none", "--iptables=false", "--ip6tables=false", "--storage-driver", "vfs")
		// In the machine's network an engine without a bridge deletes docker0,
		// which is the other engine's.
		d.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
		d.cmd.Stdout, d.cmd.Stderr = log, log
		err = d.cmd.Start()
		_ = log.Close()
		if err != nil {
			t.Fatal(err)
		}
		d.ended = make(chan struct{})
		go func() {
			defer close(d.ended)
			_ = d.cmd.Wait() // it is to end by a signal
		}()
		for over := false; !over; {
			select {
			case <-d.ended:
				over = true
			case <-time.After(50 * time.Millisecond):
				if _, err := cli.Ping(t.Context()); err == nil {
					return
				}
			}
		}
	}
	said, _ := os.ReadFile(filepath.Join(d.dir, "log"))
	t.Fatalf("the engine does not start: %s", said[max(0, len(said)-2000):])
}

func (d *daemon) end(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := d.cmd.Process.Signal(sig); err != nil {
		t.Error(err)
	}
	<-d.ended
	if sig == syscall.SIGKILL {
		_ = os.Remove(filepath.Join(d.dir, "pid")) // of a process that is no more
	}
}

// The engine goes away and comes back in the middle of a command, asked to or by
// SIGKILL: the command is told as lost, files go on, and so do commands when it is
// back. No container is left at the end, and the root is intact.
func TestEngineRestart(t *testing.T) {
	if !enginetest.Soak() {
		t.Skip("a run of half a minute, for make soak")
	}
	enginetest.Client(t) // where there is none, none can be started either
	if _, err := osexec.LookPath("dockerd"); err != nil || os.Geteuid() != 0 {
		t.Skip("an engine of its own needs root and dockerd")
	}
	d := &daemon{dir: t.TempDir()}
	t.Setenv("DOCKER_HOST", d.host())
	d.start(t)
	// After everything that asks it.
	t.Cleanup(func() {
		d.end(t, syscall.SIGTERM)
		// It makes its directory a mount of its own, and leaves that.
		_ = syscall.Unmount(filepath.Join(d.dir, "data"), syscall.MNT_DETACH)
	})
	e, root := connect(t), newRoot(t)
	w := openWorkspace(t, e, root, options(t))
	if err := os.WriteFile(filepath.Join(root, "file"), []byte("intact"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		t.Logf("%v", sig)
		exec(t, w, "true")
		word := fmt.Sprintf("86400.%d", rand.IntN(1e9))
		var ended time.Time
		up := writerFunc(func(p []byte) (int, error) {
			if ended.IsZero() {
				ended = time.Now()
				go d.end(t, sig)
			}
			return len(p), nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out, err := w.Exec(ctx, workspace.Command{Shell: "setsid sleep " + word + " & echo up; sleep " + word, Stdout: up})
		cancel()
		if workspace.CodeOf(err) != workspace.ErrUnavailable || string(out.Stdout) != "up\n" {
			t.Errorf("%v: %v, %s", sig, err, brief(out))
		}
		t.Logf("told after %v", time.Since(ended))
		<-d.ended
		began := time.Now()
		if _, err := w.Exec(t.Context(), workspace.Command{Shell: "true"}); workspace.CodeOf(err) != workspace.ErrUnavailable {
			t.Errorf("without an engine: %v", err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("that there is no engine is told after %v", took)
		}
		if text, err := w.ReadFile(t.Context(), "file", 0); err != nil || string(text) != "intact" {
			t.Errorf("the file without an engine: %q, %v", text, err)
		}
		d.start(t)
		next, err := w.Exec(t.Context(), workspace.Command{Shell: "cat file"})
		if err != nil || string(next.Stdout) != "intact" || next.Recreated == "" {
			t.Errorf("when it is back: %v, %s", err, brief(next))
		}
		eventually(t, "the end of the lost command", 20*time.Second, func() bool { return running(t, word) == 0 })
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	cli := enginetest.Client(t)
	eventually(t, "no container", 20*time.Second, func() bool {
		left, err := cli.ContainerList(t.Context(), dockertypes.ListOptions{All: true})
		return err == nil && len(left) == 0
	})
}
