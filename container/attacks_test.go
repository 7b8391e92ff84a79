//go:build linux

package container_test

import (
	"net"
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

// ownedRoot is a root of an unprivileged user where this test runs as root, so
// that commands run as that user.
func ownedRoot(t testing.TB, uid int) string {
	t.Helper()
	root := newRoot(t)
	if os.Geteuid() == 0 {
		if err := os.Chown(root, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// expected are the results that a call of the probe may have, for commands of a
// user and group with this id.
func expected(call string, id int) []string {
	switch {
	case call == "socket-unix", call == "socketpair":
		return []string{"ok"}
	case strings.HasPrefix(call, "ioctl-"):
		return []string{"EBADF"} // it is allowed, and has no descriptor
	case call == "setuid-0" && id == 0:
		return []string{"ok"} // it is that already, and has no capability
	case call == "ptrace", call == "process_vm_readv":
		return []string{"ok", "ESRCH"} // debuggers may be used on one's own processes
	case strings.HasPrefix(call, "sgid-") && os.Geteuid() != 0:
		return []string{"ok", "EPERM"} // by the group of whoever runs the tests
	case strings.HasPrefix(call, "sgid-") && id != 0:
		return []string{"ok"} // git and cp -a set it on directories
	case strings.HasPrefix(call, "int80-"):
		// The filter kills; Go's runtime may still turn that into an exit.
		return []string{"SIGSYS", "no-child", "absent"}
	}
	return []string{"EPERM", "ENOSYS", "absent"}
}

// What a command must not do, it cannot. The twins
// that must pass are in the same list.
func TestSystemCallsInside(t *testing.T) {
	t.Parallel()
	e := connect(t)
	for name, uid := range map[string]int{"a user": 1000, "group 0": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if uid == 0 && os.Geteuid() != 0 {
				t.Skip("only root owns a root of group 0")
			}
			root := ownedRoot(t, uid)
			o := options(t)
			o.Mounts = []container.Mount{{Source: enginetest.Probe(t), Target: "/probe"}}
			w := openWorkspace(t, e, root, o)
			out := exec(t, w, "/probe /workspace")
			got, err := enginetest.ParseProbe(out.Stdout)
			if err != nil {
				t.Fatalf("%v: %s", err, out.Stderr)
			}
			if len(got) < 40 {
				t.Errorf("only %d calls were tried", len(got))
			}
			for call, result := range got {
				if fine := expected(call, uid); !slices.Contains(fine, result) {
					t.Errorf("%s: %s, expected one of %v", call, result, fine)
				}
			}
			// Whatever was tried: nothing on the host has the bits.
			err = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
				if err != nil {
					return err
				}
				info, err := entry.Info()
				if err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
					t.Errorf("%s has mode %v", path, info.Mode())
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// Network, sockets, kernel files and
// groups as a shell inside finds them.
func TestWhatACommandFindsInside(t *testing.T) {
	t.Parallel()
	e, root := connect(t), ownedRoot(t, 1000)
	o := options(t)
	// A group file that would add groups, were the group not named.
	o.Image = enginetest.WithFiles(t, enginetest.File{
		Name: "etc/group", Mode: 0o644, Body: []byte("root:x:0:u\ndisk:x:6:u,1000\nu:x:1000:\n"),
	}, enginetest.File{Name: "etc/passwd", Mode: 0o644, Body: []byte("u:x:1000:1000::/:/bin/sh\n")})
	w := openWorkspace(t, e, root, o)

	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	heard := make(chan struct{}, 1)
	go func() {
		if c, err := host.Accept(); err == nil {
			c.Close()
			heard <- struct{}{}
		}
	}()
	// Its name is in the machine's network namespace (unix(7)).
	abstract := "wsctl-" + filepath.Base(filepath.Dir(root))
	hidden, err := net.Listen("unix", "@"+abstract)
	if err != nil {
		t.Fatal(err)
	}
	defer hidden.Close()
	_, port, _ := net.SplitHostPort(host.Addr().String())

	for _, c := range []struct{ what, line, want string }{
		{"its groups", `[ "$(id -G)" = "$(id -g)" ] && echo one`, "one"},
		{"the interfaces", `ls /sys/class/net`, "lo"},
		{"the host's loopback", `nc -w 2 127.0.0.1 ` + port + ` </dev/null && echo through || echo no`, "no"},
		{"an address outside", `nc -w 2 192.0.2.1 80 </dev/null && echo through || echo no`, "no"},
		{"the metadata service", `nc -w 2 169.254.169.254 80 </dev/null && echo through || echo no`, "no"},
		{"sockets", `find / -xdev -type s 2>/dev/null; find /run /var/run -type s 2>/dev/null; echo none`, "none"},
		{"abstract sockets", `grep -c ` + abstract + ` /proc/net/unix`, "0"},
		{"names", `timeout 4 nslookup example.invalid >/dev/null 2>&1 && echo through || echo no`, "no"},
		{"PID 1's output", `(echo x > /proc/1/fd/1) 2>/dev/null && echo written || echo no`, "no"},
		{"files of the kernel", `for f in /sys/kernel/uevent_helper /sys/kernel/mm/transparent_hugepage/enabled /sys/power/state /proc/sys/kernel/modprobe /proc/sys/vm/drop_caches; do (echo x > $f) 2>/dev/null && echo written $f; done; echo no`, "no"},
		{"core_pattern", `echo x > /proc/sys/kernel/core_pattern 2>/dev/null && echo written || echo no`, "no"},
		{"sysrq", `echo b > /proc/sysrq-trigger 2>/dev/null && echo written || echo no`, "no"},
		{"the cgroup", `for f in /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max /sys/fs/cgroup/release_agent /sys/fs/cgroup/memory/release_agent; do echo 1 2>/dev/null > $f && echo written $f; done 2>/dev/null; echo no`, "no"},
		{"masked files", `cat /proc/kcore /proc/keys /proc/timer_list 2>/dev/null | wc -c`, "0"},
		{"the firmware", `ls -A /sys/firmware | wc -l`, "0"},
		{"the state", `ls -A .wsctl | wc -l`, "0"},
		{"writing to the state", `touch .wsctl/x 2>/dev/null && echo written || echo no`, "no"},
		{"renaming the state", `mv .wsctl y 2>/dev/null && echo moved || echo no`, "no"},
		{"removing the state", `rmdir .wsctl 2>/dev/null && echo removed || echo no`, "no"},
		{"unmounting the state", `umount .wsctl 2>/dev/null && echo unmounted || echo no`, "no"},
		{"the keeper", `echo x 2>/dev/null > /wskeeper && echo written || echo no`, "no"},
		{"reading the keeper", `cat /wskeeper >/dev/null 2>&1 && echo read || echo no`, "no"},
		{"PID 1's memory", `cat /proc/1/environ >/dev/null 2>&1 && echo read || echo no`, "no"},
		{"PID 1's files", `ls /proc/1/fd >/dev/null 2>&1 && echo read || echo no`, "no"},
		{"its home", `touch ~/x && echo written`, "written"},
		{"temporary files", `f=$(mktemp) && echo '#!/bin/sh
echo runs' > $f && chmod 755 $f && $f`, "runs"},
		{"its name", `hostname`, "wsctl"},
	} {
		begun := time.Now()
		out := exec(t, w, c.line)
		if got := strings.TrimSpace(string(out.Stdout)); got != c.want {
			t.Errorf("%s: %q (%s), want %q", c.what, got, out.Stderr, c.want)
		}
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%s: took %v", c.what, took)
		}
	}
	select {
	case <-heard:
		t.Error("the host was reached")
	default:
	}
}

// What an engine says of the container.
func TestContainerAsTheEngineSeesIt(t *testing.T) {
	t.Parallel()
	e, root, cli := connect(t), newRoot(t), enginetest.Client(t)
	ready(t, open(t, e, root, options(t)))
	got, err := cli.ContainerInspect(t.Context(), only(t, root).ID)
	if err != nil {
		t.Fatal(err)
	}
	h := got.HostConfig
	if len(h.CapAdd) != 0 || len(h.CapDrop) != 1 || h.CapDrop[0] != "ALL" || h.Privileged || h.NetworkMode != "none" ||
		h.PidMode != "" || h.IpcMode != "private" || h.CgroupnsMode != "private" || h.UTSMode != "" || h.UsernsMode != "" ||
		len(h.Binds) != 0 || len(h.Devices) != 0 || len(h.GroupAdd) != 0 || !h.AutoRemove || h.LogConfig.Type != "none" {
		t.Errorf("%+v", h)
	}
	if got.Config.User == "" || !strings.Contains(got.Config.User, ":") {
		t.Errorf("user %q", got.Config.User)
	}
	for _, m := range got.Mounts {
		if strings.HasSuffix(m.Source, ".sock") {
			t.Errorf("a socket is mounted: %s", m.Source)
		}
	}
	if got.LogPath != "" {
		t.Errorf("a log at %s", got.LogPath)
	}
}

var _ workspace.Driver = (*container.Driver)(nil)
