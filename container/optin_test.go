//go:build linux

package container_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

// With a read-only root file system commands write where they must, and nowhere
// else; what is in memory is bounded and full before the memory is.
func TestReadOnlyRootfs(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), ownedRoot(t, 1000), options(t)
	o.ReadOnlyRootfs, o.Memory = true, 128<<20
	w := openWorkspace(t, e, root, o)
	for _, c := range []struct{ line, want string }{
		{`for d in / /etc /var /usr /bin /home; do (: > $d/x) 2>/dev/null && echo written $d; done; echo no`, "no"},
		{`for d in /workspace /tmp /run /dev/shm "$HOME"; do (: > $d/x) || echo not $d; done; echo yes`, "yes"},
		{`echo '#!/bin/sh
echo runs' > /tmp/p; chmod 755 /tmp/p; /tmp/p`, "runs"},
		{`cp /tmp/p /run/p; /run/p 2>/dev/null || echo no`, "no"},
		{`for d in /tmp /run /dev/shm; do dd if=/dev/zero of=$d/big bs=1M 2>&1 | grep -c 'No space'; done`, "1\n1\n1"},
		{`rm -f /tmp/big /run/big /dev/shm/big; echo still here`, "still here"},
	} {
		out := exec(t, w, c.line)
		if got := strings.TrimSpace(string(out.Stdout)); got != c.want || out.OOMKilled || out.Recreated != "" {
			t.Errorf("%s: %q %q, want %q", c.line, got, out.Stderr, c.want)
		}
	}
}

// The strict profile refuses what it says and leaves the rest to work.
func TestStrictSeccompInside(t *testing.T) {
	t.Parallel()
	e, o := connect(t), options(t)
	o.Seccomp = container.SeccompStrict
	o.Mounts = []container.Mount{{Source: enginetest.Probe(t), Target: "/probe"}}
	uid := 1000
	w := openWorkspace(t, e, ownedRoot(t, uid), o)
	out := exec(t, w, "/probe /workspace")
	got, err := enginetest.ParseProbe(out.Stdout)
	if err != nil {
		t.Fatalf("%v: %s", err, out.Stderr)
	}
	refused := []string{"ptrace", "process_vm_readv", "kcmp", "pidfd_getfd", "socket-unix", "ioctl-tiocsti", "ioctl-high", "ioctl-setflags", "ioctl-project"}
	for call, result := range got {
		fine := expected(call, uid)
		if slices.Contains(refused, call) {
			fine = []string{"EPERM", "ENOSYS"}
		}
		if !slices.Contains(fine, result) {
			t.Errorf("%s: %s, expected one of %v", call, result, fine)
		}
	}
	if got["socketpair"] != "ok" || got["ioctl-tcgets"] != "EBADF" {
		t.Errorf("socketpair %s, another ioctl %s", got["socketpair"], got["ioctl-tcgets"])
	}
}

// A protected directory, and what is above it, stays what it is, whatever commands
// try; files beside it can be written; what is made for a mount goes when it is
// empty.
func TestProtectedDirectories(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), ownedRoot(t, 1000), options(t)
	o.Protect = []string{"/workspace/.git/hooks/", "a/b/c", "a/b/c/d", "sole"}
	for _, dir := range []string{".git/hooks", ".git/objects"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, ".git/hooks/pre-commit"), []byte("mine\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		for _, name := range []string{".git", ".git/hooks", ".git/objects", ".git/hooks/pre-commit"} {
			if err := os.Chown(filepath.Join(root, name), 1000, 1000); err != nil {
				t.Fatal(err)
			}
		}
	}
	w := openWorkspace(t, e, root, o)
	for _, line := range []string{
		"echo x > .git/hooks/post-checkout", "echo x > .git/hooks/pre-commit", "rm .git/hooks/pre-commit", "chmod 777 .git/hooks",
		"mv .git/hooks .git/other", "mv .git elsewhere", "rmdir .git/hooks", "rm -rf .git/hooks && mkdir .git/hooks && echo x >.git/hooks/x",
		"mv a gone", "mv a/b a/gone", "mv a/b/c a/b/gone", "rmdir sole", "touch sole/x", "umount sole",
		"mkdir t && mount --bind t sole",
	} {
		if out := exec(t, w, "("+line+") 2>/dev/null"); out.ExitCode == 0 {
			t.Errorf("it can: %s", line)
		}
	}
	if out := exec(t, w, "cat .git/hooks/pre-commit; echo y > .git/HEAD && mv .git/HEAD .git/objects/HEAD && echo z > a/b/file && cat a/b/file"); string(out.Stdout) != "mine\nz\n" {
		t.Errorf("what must work: %q %q", out.Stdout, out.Stderr)
	}

	// The host replaces it: the next command finds the new one protected.
	first := only(t, root)
	if err := os.Rename(filepath.Join(root, ".git/hooks"), filepath.Join(root, ".git/old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, ".git/hooks"), 0o777); err != nil {
		t.Fatal(err)
	}
	out := exec(t, w, "echo x > .git/hooks/x")
	if out.ExitCode == 0 || !strings.Contains(out.Recreated, ".git/hooks") {
		t.Errorf("replaced: status %d, recreated %q", out.ExitCode, out.Recreated)
	}
	eventually(t, "another container", 20*time.Second, func() bool {
		left := enginetest.Below(t, root)
		return len(left) == 1 && left[0].ID != first.ID
	})
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	for name, there := range map[string]bool{".git/hooks": true, "a/b/file": true, "a/b/c": false, "sole": false} {
		if _, err := os.Lstat(filepath.Join(root, name)); (err == nil) != there {
			t.Errorf("%s afterwards: %v", name, err)
		}
	}
}

// What cannot be protected is refused, and nothing is made for it outside.
func TestProtectRefuses(t *testing.T) {
	t.Parallel()
	e, root := connect(t), newRoot(t)
	outside := t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(root, "file"), nil, 0o600),
		os.Symlink(outside, filepath.Join(root, "out")),
		os.Mkdir(filepath.Join(root, "dir"), 0o755),
		os.Symlink("dir", filepath.Join(root, "in")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, code := range map[string]workspace.Code{
		"": workspace.ErrInvalidArgument, ".": workspace.ErrInvalidArgument, "..": workspace.ErrInvalidArgument, "a/../b": workspace.ErrInvalidArgument,
		"/etc": workspace.ErrInvalidArgument, ".wsctl": workspace.ErrInvalidArgument, ".WSCTL/trash": workspace.ErrInvalidArgument,
		"file": workspace.ErrNotDirectory, "out": workspace.ErrNotDirectory, "out/x": workspace.ErrNotDirectory, "in": workspace.ErrNotDirectory,
	} {
		o := options(t)
		o.Protect = []string{name}
		d, err := container.New(t.Context(), e, root, o)
		if err == nil {
			err = d.Ready(t.Context())
			d.Close()
		}
		if !errors.Is(err, code) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("made outside: %v, %v", entries, err)
	}
	none(t, root)
}

// A runtime that the engine does not have is told, with those it has.
func TestRuntimeThatIsNotThere(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), newRoot(t), options(t)
	o.Runtime = "no-such-runtime"
	d := open(t, e, root, o)
	if err := d.Ready(t.Context()); !errors.Is(err, workspace.ErrUnavailable) || !strings.Contains(err.Error(), "no runtime no-such-runtime, only") {
		t.Errorf("got %v", err)
	}
	none(t, root)
}

// A detached workspace keeps what was asked of it, through a restart and whoever
// adopts it.
func TestDetachedOptIns(t *testing.T) {
	t.Parallel()
	e, root, o, cli := connect(t), newRoot(t), named(t), enginetest.Client(t)
	o.ReadOnlyRootfs, o.Seccomp, o.Protect = true, container.SeccompStrict, []string{"p/q"}
	w := up(t, e, root, o)
	const line = "for f in /x /workspace/p/q/x; do (: > $f) 2>/dev/null && echo written $f; done; mv p r 2>/dev/null && echo moved; echo ok > /tmp/x && cat /tmp/x"
	for _, harm := range []func(){func() {}, func() { _ = cli.ContainerKill(t.Context(), w.ID, "KILL") }} {
		harm()
		if out := exec(t, adopt(t, e, o.Name), line); string(out.Stdout) != "ok\n" {
			t.Errorf("%q %q", out.Stdout, out.Stderr)
		}
	}
	if err := os.Rename(filepath.Join(root, "p/q"), filepath.Join(root, "p/old")); err != nil {
		t.Fatal(err)
	}
	d, err := container.Adopt(t.Context(), e, o.Name, container.AdoptOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Ready(t.Context()); !errors.Is(err, workspace.ErrUnavailable) || !strings.Contains(err.Error(), "p/q") {
		t.Errorf("with a protected directory replaced: %v", err)
	}
}
