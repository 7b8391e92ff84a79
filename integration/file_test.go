//go:build unix

package integration

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sharedDir is a new directory that every user may enter.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "wsctl-files-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A user without rights gets what the system gives that user, and DENIED for the
// rest. When the tests run as root, wsctl runs as another user here.
func TestFilesAsAUserWithoutRights(t *testing.T) {
	const nobody = 65534
	root := sharedDir(t)
	asUser := func(args ...string) result {
		cmd := command(t, append([]string{"file"}, args...)...)
		cmd.Dir = "/"
		cmd.Stdin = strings.NewReader("new")
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		}
		return runCommand(t, cmd)
	}
	for name, mode := range map[string]os.FileMode{"closed": 0o000, "fixed": 0o555, "open": 0o777} {
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "f"), []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		if os.Geteuid() == 0 && name != "open" {
			if err := os.Chown(filepath.Join(dir, "f"), nobody, nobody); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o755) })
	}
	for _, c := range []struct {
		args   []string
		stdout string
		code   string // of the failure
	}{
		{[]string{"cat", "closed/f"}, "", "DENIED"},
		{[]string{"write", "closed/f"}, "", "DENIED"},
		{[]string{"ls", "closed"}, "", "DENIED"},
		{[]string{"rm", "closed/f"}, "", "DENIED"},
		{[]string{"cat", "fixed/f"}, "old", ""},
		{[]string{"write", "fixed/f"}, "", "DENIED"},
		{[]string{"rm", "fixed/f"}, "", "DENIED"},
		{[]string{"mkdir", "fixed/d"}, "", "DENIED"},
		{[]string{"write", "open/new"}, "", ""},
		{[]string{"cat", "open/new"}, "new", ""},
		{[]string{"chmod", "600", "open/new"}, "", ""},
		{[]string{"mv", "open/new", "open/moved"}, "", ""},
		{[]string{"rm", "open/moved"}, "", ""},
	} {
		r := asUser(append([]string{c.args[0], "--root", root}, c.args[1:]...)...)
		failed := 0
		if c.code != "" {
			failed = 1
		}
		if r.code != failed || r.stdout != c.stdout || !strings.HasPrefix(r.stderr, c.code) || strings.Count(r.stderr, "\n") != failed {
			t.Errorf("%v: status %d\n%s%s", c.args, r.code, r.stdout, r.stderr)
		}
	}
	for _, name := range []string{"closed", "fixed"} {
		if err := os.Chmod(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(root, name, "f")); err != nil || string(got) != "old" {
			t.Errorf("%s/f is %q (%v)", name, got, err)
		}
	}
}

// A signal ends a write that waits for its input: the old file is there, and
// nothing else.
func TestASignalEndsAWriteThatWaits(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		root := t.TempDir()
		file := filepath.Join(root, "f")
		if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := command(t, "file", "write", "--root", root, "f")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// A pipe holds 64 KiB: once more than that has gone, it is read.
		if _, err := io.WriteString(in, strings.Repeat("x", 1<<20)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		state, err := cmd.Process.Wait()
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		_ = in.Close()
		_ = cmd.Wait()
		if took := time.Since(began); state.ExitCode() != 128+int(sig) || took > 5*time.Second {
			t.Errorf("%v: status %d after %v: %s", sig, state.ExitCode(), took, stderr.String())
		}
		if !strings.HasPrefix(stderr.String(), "ABORTED: ") {
			t.Errorf("%v: %q", sig, stderr.String())
		}
		left, err := os.ReadDir(root)
		if got, readErr := os.ReadFile(file); err != nil || readErr != nil || string(got) != "old" || len(left) != 1 {
			t.Errorf("%v: left are %v, and the file is %.20q", sig, left, got)
		}
	}
}
