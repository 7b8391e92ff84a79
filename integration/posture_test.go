//go:build unix

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/internal/enginetest"
)

// inside runs a line of shell in a BusyBox container and returns what it printed.
func inside(t *testing.T, root, line string, flags ...string) string {
	t.Helper()
	args := append([]string{"run", "-q", "--root", root, "--image", enginetest.BusyBox(t)}, flags...)
	return run(t, append(args, "-c", line)...).must(t).stdout
}

func TestContainerIsHardened(t *testing.T) {
	t.Parallel()
	root := project(t)
	uid, gid := 1234, 2345
	if os.Getuid() == 0 {
		// As root the owner of the directory is who commands are.
		if err := os.Chown(root, uid, gid); err != nil {
			t.Fatal(err)
		}
	} else {
		uid, gid = os.Getuid(), os.Getgid()
	}
	if got := inside(t, root, "id -u; id -g; id -G"); got != fmt.Sprintf("%d\n%d\n%d\n", uid, gid, gid) {
		t.Errorf("id: %q, want %d:%d and no other group", got, uid, gid)
	}
	status := inside(t, root, "cat /proc/self/status")
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if !strings.Contains(status, set+":\t0000000000000000\n") {
			t.Errorf("%s is not empty:\n%s", set, status)
		}
	}
	for _, line := range []string{"NoNewPrivs:\t1\n", "Seccomp:\t2\n"} {
		if !strings.Contains(status, line) {
			t.Errorf("no %q in\n%s", line, status)
		}
	}
	if got := inside(t, root, "ls /sys/class/net"); got != "lo\n" {
		t.Errorf("network interfaces: %q", got)
	}
	// The mask over the workspace's own state.
	got := inside(t, root, "ls -A .wsctl | wc -l; rm -rf .wsctl 2>/dev/null; echo $?; mv .wsctl x 2>/dev/null; echo $?; touch .wsctl/x 2>/dev/null; echo $?; rmdir .wsctl 2>/dev/null; echo $?; ls -d .wsctl")
	if lines := strings.Fields(got); len(lines) != 6 || lines[0] != "0" || lines[1] == "0" || lines[2] == "0" || lines[3] == "0" || lines[4] == "0" || lines[5] != ".wsctl" {
		t.Errorf("the mask: %q", got)
	}
	if fi, err := os.Stat(filepath.Join(root, ".wsctl")); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf(".wsctl on the host: %v, %v", fi, err)
	}
	// What is made inside is the caller's outside.
	inside(t, root, "echo made >made; mkdir dir")
	for _, name := range []string{"made", "dir"} {
		fi, err := os.Lstat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != uid || int(st.Gid) != gid {
			t.Errorf("%s belongs to %d:%d, want %d:%d", name, st.Uid, st.Gid, uid, gid)
		}
	}
	nothingLeft(t, root, 5*time.Second)
}

// Limits are read where they hold: in the container's cgroup, by its own process.
func TestLimitsAreAsSet(t *testing.T) {
	t.Parallel()
	root := project(t)
	line := `first() { for f; do [ -r "$f" ] && { cat "$f"; return; }; done; echo none; }
first /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes
first /sys/fs/cgroup/pids.max /sys/fs/cgroup/pids/pids.max
first /sys/fs/cgroup/cpu.max /sys/fs/cgroup/cpu/cpu.cfs_quota_us
ulimit -c`
	got := strings.Fields(inside(t, root, line, "--memory", "128m", "--pids", "77", "--cpus", "0.5"))
	// cgroup v2 has quota and period in one line.
	if len(got) < 4 || got[0] != "134217728" || got[1] != "77" || got[2] != "50000" {
		t.Errorf("limits %q, want 128 MiB, 77 and half a processor", got)
	}
	got = strings.Fields(inside(t, root, line))
	if len(got) < 4 || got[0] != "2147483648" || got[1] != "512" || got[2] != "200000" {
		t.Errorf("default limits %q", got)
	}
	nothingLeft(t, root, 5*time.Second)
}

func TestOutOfMemoryIsTold(t *testing.T) {
	t.Parallel()
	root := project(t)
	r := run(t, "run", "--root", root, "--image", enginetest.BusyBox(t), "--memory", "64m", "--json", "-c", "head -c 200m /dev/zero | tail >/dev/null")
	if !strings.Contains(r.stdout, `"oomKilled": true`) || !strings.Contains(r.stderr, "want of memory") {
		t.Errorf("status %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	nothingLeft(t, root, 5*time.Second)
}
