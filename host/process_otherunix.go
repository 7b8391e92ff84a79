//go:build unix && !linux

package host

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxRSS is ru_maxrss in bytes: macOS counts bytes, the others KiB
// (getrusage(2)).
func maxRSS(u *syscall.Rusage) int64 {
	if runtime.GOOS == "darwin" || runtime.GOOS == "ios" {
		return int64(u.Maxrss)
	}
	return int64(u.Maxrss) * 1024
}

// fionread is FIONREAD, _IOR('f', 127, int), of <sys/filio.h>; x/sys/unix has it
// for Linux alone.
const fionread = 0x4004667f

// pending is how many bytes a pipe holds.
func pending(fd uintptr) (int, error) { return unix.IoctlGetInt(int(fd), fionread) }

// heldDir is a path by which a child of this process enters a held directory,
// before it has become another program (fd(4)).
func heldDir(dir *os.File) string { return fmt.Sprintf("/dev/fd/%d", dir.Fd()) }

// groupAlive reports whether the group has a process.
func groupAlive(group int) bool { return syscall.Kill(-group, 0) != syscall.ESRCH }
