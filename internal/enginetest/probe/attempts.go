//go:build linux

package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nobodysPid is above the kernel's largest pid: a call that reaches the kernel
// answers ESRCH.
const nobodysPid = 0x3fffffff

// attempts are all attempts by name.
func attempts() map[string]func() string {
	all := map[string]func() string{
		"socket-vsock":  socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0),
		"socket-alg":    socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0),
		"socket-packet": socket(unix.AF_PACKET, unix.SOCK_RAW, 0),
		"socket-raw":    socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP),
		"socket-unix":   socket(unix.AF_UNIX, unix.SOCK_STREAM, 0),
		"io_uring_setup": func() string {
			var params [120]byte
			return raw(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0, 0, 0)
		},
		"keyctl": func() string {
			_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
			return result(err)
		},
		"add_key": func() string {
			_, err := unix.AddKey("user", "wsctl-probe", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
			return result(err)
		},
		"request_key": func() string {
			_, err := unix.RequestKey("user", "wsctl-probe-none", "", unix.KEY_SPEC_PROCESS_KEYRING)
			return result(err)
		},
		"userfaultfd": func() string { return raw(unix.SYS_USERFAULTFD, unix.O_CLOEXEC, 0, 0, 0, 0) },
		"bpf": func() string {
			// BPF_MAP_CREATE of an array of one 4-byte value.
			attr := [8]uint32{2, 4, 4, 1}
			return raw(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0, 0)
		},
		"perf_event_open": func() string {
			attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: unix.PERF_ATTR_SIZE_VER0, Config: unix.PERF_COUNT_SW_CPU_CLOCK}
			_, err := unix.PerfEventOpen(&attr, 0, -1, -1, 0)
			return result(err)
		},
		"unshare-uts":      func() string { return result(unix.Unshare(unix.CLONE_NEWUTS)) },
		"unshare-net":      func() string { return result(unix.Unshare(unix.CLONE_NEWNET)) },
		"clone-user":       clone(unix.CLONE_NEWUSER),
		"mount":            func() string { return result(unix.Mount("none", "/", "wsctl-none", 0, "")) },
		"umount":           func() string { return result(unix.Unmount("/wsctl-none", 0)) },
		"fsopen":           fsopen,
		"open_tree":        openTree,
		"move_mount":       func() string { return result(unix.MoveMount(-1, "", -1, "/", unix.MOVE_MOUNT_F_EMPTY_PATH)) },
		"pivot_root":       func() string { return result(unix.PivotRoot("/wsctl-none", "/wsctl-none")) },
		"chroot":           func() string { return result(unix.Chroot("/")) },
		"setns":            setns,
		"open_by_handle":   openByHandle,
		"ptrace":           func() string { return raw(unix.SYS_PTRACE, unix.PTRACE_SEIZE, nobodysPid, 0, 0, 0) },
		"process_vm_readv": func() string { return raw(unix.SYS_PROCESS_VM_READV, nobodysPid, 0, 0, 0, 0) },
		"kcmp":             func() string { return raw(unix.SYS_KCMP, nobodysPid, nobodysPid, 0, 0, 0) },
		"pidfd_getfd":      func() string { return raw(unix.SYS_PIDFD_GETFD, noFile, 0, 0, 0, 0) },
		"socketpair": func() string {
			_, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			return result(err)
		},
		"ioctl-tcgets":   ioctl(unix.TCGETS),
		"ioctl-tiocsti":  ioctl(unix.TIOCSTI),
		"ioctl-high":     ioctl(1<<32 | unix.TIOCSTI),
		"ioctl-setflags": ioctl(unix.FS_IOC_SETFLAGS),
		"ioctl-project":  ioctl(fsIocFsSetXAttr),
		"setuid-0":       func() string { return result(syscall.Setuid(0)) },
		"mknod-device": func() string {
			const name = ".wsctl-probe-null"
			defer os.Remove(name)
			return result(unix.Mknod(name, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
		},
	}
	maps.Copy(all, modeAttempts())
	maps.Copy(all, archAttempts())
	return all
}

// noFile is no descriptor: a call that reaches the kernel answers EBADF.
const noFile = ^uintptr(0)

// fsIocFsSetXAttr is FS_IOC_FSSETXATTR (linux/fs.h).
const fsIocFsSetXAttr = 0x401c5820

// ioctl tries a request.
func ioctl(request uintptr) func() string {
	return func() string { return raw(unix.SYS_IOCTL, noFile, request, 0, 0, 0) }
}

// socket tries to make a socket.
func socket(family, kind, protocol int) func() string {
	return func() string {
		_, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol)
		return result(err)
	}
}

// clone tries to make a child in new namespaces.
func clone(flags uintptr) func() string {
	return func() string {
		cmd := exec.Command("/proc/self/exe", childFlag, "socket-unix")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		return result(cmd.Run())
	}
}

func fsopen() string {
	_, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	return result(err)
}

func openTree() string {
	_, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	return result(err)
}

// setns enters the UTS namespace that the process is in already.
func setns() string {
	fd, err := unix.Open("/proc/self/ns/uts", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "open-" + result(err)
	}
	runtime.LockOSThread()
	return result(unix.Setns(fd, unix.CLONE_NEWUTS))
}

// openByHandle opens the current directory by a handle: the way round every path
// check, since a handle can be guessed. Handles of file systems that have none
// are made up: the permission check comes first.
func openByHandle() string {
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, ".", 0)
	if err != nil {
		handle = unix.NewFileHandle(1, make([]byte, 8))
	}
	dir, err := unix.Open(".", unix.O_RDONLY|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
	if err != nil {
		return "open-" + result(err)
	}
	_, err = unix.OpenByHandleAt(dir, handle, unix.O_RDONLY|unix.O_CLOEXEC)
	return result(err)
}

// inScratch runs try with a new file of mode 0600 in a new directory below the
// current one and returns what became of the special bit: "stripped" where the
// call passed and the file that try names has none of bit's.
func inScratch(bit uint32, try func(dir, file string) (made string, err error)) func() string {
	return func() string {
		dir, err := os.MkdirTemp(".", ".wsctl-probe-")
		if err != nil {
			return "scratch-" + result(err)
		}
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			return "scratch-" + result(err)
		}
		made, err := try(dir, file)
		if err != nil {
			return result(err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(made, &st); err != nil {
			return "stat-" + result(err)
		}
		if st.Mode&bit == 0 {
			return "stripped"
		}
		return "ok"
	}
}
