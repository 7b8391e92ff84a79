package container

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// fileSystemKind is what a file system is like as a place for a root.
type fileSystemKind struct {
	name string
	// kernel: its files are the kernel's state. remote: its bytes are
	// elsewhere, or another program's answer.
	kernel, remote bool
	// noexec: programs in it cannot be run.
	noexec bool
}

// fileSystem tells what an open directory is on, by its magic number
// (statfs(2)). What is unknown is taken for an ordinary one.
func fileSystem(d *os.File) fileSystemKind {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(d.Fd()), &st); err != nil {
		return fileSystemKind{name: "an unknown file system"}
	}
	k := fileSystemKind{name: fmt.Sprintf("file system %#x", uint64(st.Type)), noexec: st.Flags&unix.ST_NOEXEC != 0}
	switch uint32(st.Type) {
	case unix.PROC_SUPER_MAGIC:
		k.name, k.kernel = "proc", true
	case unix.SYSFS_MAGIC:
		k.name, k.kernel = "sysfs", true
	case unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC:
		k.name, k.kernel = "cgroup", true
	case unix.DEVPTS_SUPER_MAGIC:
		k.name, k.kernel = "devpts", true
	case unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC:
		k.name, k.kernel = "a debugging file system", true
	case unix.NFS_SUPER_MAGIC:
		k.name, k.remote = "NFS", true
	case unix.FUSE_SUPER_MAGIC:
		k.name, k.remote = "FUSE", true
	case unix.V9FS_MAGIC:
		k.name, k.remote = "9p", true
	case unix.SMB_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC:
		k.name, k.remote = "SMB", true
	case unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC:
		k.name, k.remote = "a network file system", true
	}
	return k
}

// birthTime is when the open file was made, in nanoseconds of Unix time, or 0
// where the file system does not tell (statx(2)).
func birthTime(f *os.File) int64 {
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st); err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return 0
	}
	return st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
}
