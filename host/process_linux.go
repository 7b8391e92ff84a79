package host

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxRSS is ru_maxrss, which is in KiB (getrusage(2)), in bytes.
func maxRSS(u *syscall.Rusage) int64 { return u.Maxrss * 1024 }

// pending is how many bytes a pipe holds (FIONREAD, pipe(7), which has the
// number of TIOCINQ).
func pending(fd uintptr) (int, error) {
	n, err := unix.IoctlGetUint32(int(fd), unix.TIOCINQ)
	return int(n), err
}

// heldDir is a path by which a child of this process enters a held directory,
// before it has become another program.
func heldDir(dir *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", dir.Fd()) }

// groupAlive reports whether a process of the group has not ended. Those that
// have, and whose parent has not asked yet, can do nothing any more, but a
// signal to the group still finds them.
func groupAlive(group int) bool {
	if syscall.Kill(-group, 0) == syscall.ESRCH {
		return false
	}
	proc, err := os.Open("/proc")
	if err != nil {
		return true
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return true
	}
	for _, name := range names {
		if name[0] < '0' || name[0] > '9' {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		// The second field is the program's name in parentheses, which may
		// hold anything; then come state, parent and group
		// (proc_pid_stat(5)).
		f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(f) > 2 && f[2] == strconv.Itoa(group) && f[0] != "Z" && f[0] != "X" {
			return true
		}
	}
	return false
}
