//go:build unix

package integration

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// silentEngine is a socket that accepts and says nothing. reached is closed when
// somebody has connected.
func silentEngine(t *testing.T) (address string, reached <-chan struct{}) {
	t.Helper()
	// Socket paths are short (unix(7)), those of test directories are not.
	dir, err := os.MkdirTemp("", "wsctl-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	first := make(chan struct{})
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			if n == 0 {
				close(first)
			}
		}
	}()
	return "unix://" + path, first
}

func TestSilentEngineIsToldInSeconds(t *testing.T) {
	t.Parallel()
	address, _ := silentEngine(t)
	for _, verb := range [][]string{{"run", "--", "true"}, {"ps"}, {"reap"}} {
		t.Run(verb[0], func(t *testing.T) {
			t.Parallel()
			cmd := command(t, verb...)
			cmd.Env = append(cmd.Env, "DOCKER_HOST="+address)
			began := time.Now()
			r := runCommand(t, cmd)
			if r.code != 125 || !strings.HasPrefix(r.stderr, "UNAVAILABLE: ") || strings.Count(r.stderr, "\n") != 1 {
				t.Errorf("%v: status %d\n%s", verb, r.code, r.stderr)
			}
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("%v: it took %v", verb, took)
			}
		})
	}
}

func TestSocketWithoutPermissionIsTold(t *testing.T) {
	address, _ := silentEngine(t)
	path := strings.TrimPrefix(address, "unix://")
	for name, mode := range map[string]os.FileMode{filepath.Dir(path): 0o711, path: 0} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
	}
	cmd := command(t, "ps")
	cmd.Env = append(cmd.Env, "DOCKER_HOST="+address)
	if os.Geteuid() == 0 {
		// Root may connect to every socket, nobody to none.
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	if r := runCommand(t, cmd); r.code != 125 || !strings.HasPrefix(r.stderr, "UNAVAILABLE: ") || !strings.Contains(r.stderr, "permission") {
		t.Errorf("status %d\n%s", r.code, r.stderr)
	}
}

// A signal before the command runs ends wsctl with the signal's status.
func TestInterruptEndsTheStart(t *testing.T) {
	address, reached := silentEngine(t)
	cmd := command(t, "run", "-q", "--json", "--", "true")
	cmd.Env = append(cmd.Env, "DOCKER_HOST="+address)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-reached
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if got := status(t, cmd, out); got != 130 || !strings.HasPrefix(stderr.String(), "ABORTED: SIGINT came before the command ran") {
		t.Errorf("status %d, %s", got, stderr.String())
	}
}
