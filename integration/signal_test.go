//go:build unix

package integration

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// begin starts wsctl and returns once the command has printed a line.
func begin(t *testing.T, args ...string) (cmd *exec.Cmd, rest *bufio.Reader) {
	t.Helper()
	cmd = command(t, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	rest = bufio.NewReader(out)
	if line, err := rest.ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("the command said %q, %v", line, err)
	}
	return cmd, rest
}

// status waits for a wsctl that has begun.
func status(t *testing.T, cmd *exec.Cmd, rest io.Reader) int {
	t.Helper()
	_, _ = io.Copy(io.Discard, rest)
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

func TestTerminateEndsTheCommandWithinTheGrace(t *testing.T) {
	onEachDriver(t, func(t *testing.T, root string, flags []string) {
		for _, c := range []struct {
			name, line string
			sig        syscall.Signal
			want       int
		}{
			{"the command decides", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done", syscall.SIGTERM, 9},
			{"by the signal", "echo ready; exec sleep 300", syscall.SIGTERM, 143},
			{"hang-up", "echo ready; exec sleep 300", syscall.SIGHUP, 129},
			{"quit", "echo ready; exec sleep 300", syscall.SIGQUIT, 131},
			{"ignored", "trap '' TERM; echo ready; while :; do sleep 0.1; done", syscall.SIGTERM, 137},
		} {
			t.Run(c.name, func(t *testing.T) {
				cmd, rest := begin(t, with("run", flags, "--kill-grace", "1", "-c", "ulimit -c 0; "+c.line)...)
				began := time.Now()
				if err := cmd.Process.Signal(c.sig); err != nil {
					t.Fatal(err)
				}
				if got := status(t, cmd, rest); got != c.want {
					t.Errorf("status %d, want %d", got, c.want)
				}
				if took := time.Since(began); took > 8*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		}
	})
}

func TestIgnoredSignalStaysIgnored(t *testing.T) {
	// As nohup(1) does.
	cmd := exec.Command("sh", "-c", `trap '' HUP; exec "$@"`, "sh", binary(t), "run", "-q", "--driver", "host", "--root", t.TempDir(), "-c", "echo ready; sleep 1; echo end")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	rest := bufio.NewReader(out)
	if _, err := rest.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if line, _ := rest.ReadString('\n'); line != "end\n" {
		t.Errorf("the command said %q", line)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestReaderThatLeavesEndsTheCommand(t *testing.T) {
	onEachDriver(t, func(t *testing.T, root string, flags []string) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := command(t, with("run", flags, "-c", "echo $$ >pid; exec yes")...)
		cmd.Stdout = w
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		if line, err := bufio.NewReader(r).ReadString('\n'); err != nil || line != "y\n" {
			t.Errorf("got %q, %v", line, err)
		}
		began := time.Now()
		_ = r.Close()
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 141 {
			t.Errorf("status %d, want 141", code)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v", took)
		}
		if flags[1] == "--driver" {
			gone(t, filepath.Join(root, "pid"))
		}
	})
}

func TestFullDiskIsWsctlsFailure(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no /dev/full: %v", err)
	}
	defer full.Close()
	onEachDriver(t, func(t *testing.T, root string, flags []string) {
		cmd := command(t, with("run", flags, "--", "echo", "hi")...)
		cmd.Stdout = full
		err := cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != 125 {
			t.Errorf("status %d (%v), want 125", code, err)
		}
	})
}

// The host's commands go with wsctl even when it is killed, and so do their
// children.
func TestKilledWsctlLeavesNoProcessOnTheHost(t *testing.T) {
	root := t.TempDir()
	cmd, rest := begin(t, "run", "-q", "--driver", "host", "--root", root, "-c", "echo $$ >pid; setsid sh -c 'echo $$ >pid2; sleep 300' & sleep 0.2; echo ready; sleep 300")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	status(t, cmd, rest)
	gone(t, filepath.Join(root, "pid"))
	gone(t, filepath.Join(root, "pid2"))
}
