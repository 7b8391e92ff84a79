package container

import (
	"bufio"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// mountsBelow returns where other file systems are mounted below dir, dir itself
// left out, sorted, each once (proc_pid_mountinfo(5)).
func mountsBelow(dir string) ([]string, error) {
	// The thread's, not the first thread's: they may differ (unshare(2)).
	fd, err := unix.Open("/proc/thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: "/proc/thread-self/mountinfo", Err: err}
	}
	f := os.NewFile(uintptr(fd), "/proc/thread-self/mountinfo")
	defer f.Close()
	var found []string
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		// 36 35 98:0 /mnt1 /mnt2 rw,noatime …: the fifth is the mount point.
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if at := octal.Replace(fields[4]); at != dir && below(at, dir) {
			found = append(found, at)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), lines.Err()
}

// octal undoes what the kernel escapes in a mount point.
var octal = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
