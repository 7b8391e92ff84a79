package host

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// checkNoMounts refuses a directory below which another file system is
// mounted: deleting it would delete what is in that one. It is a look at
// mountinfo (proc_pid_mountinfo(5)) that keeps the tree whole; what is mounted
// after it is stopped at when it is met.
func (r *Root) checkNoMounts(fd int) error {
	if !r.hooks.on(guardMounts) {
		return nil
	}
	dir, err := r.pathOf(fd)
	if err != nil {
		return err
	}
	below, err := mountBelow(dir)
	if err != nil || below == "" {
		return err
	}
	return refuse(workspace.ErrUnsupported, "another file system is mounted at %s; unmount it first", workspace.Printable(below))
}

// pathOf is where the descriptor's directory is now, as the kernel sees it. It
// is for comparing and telling, never for opening.
func (r *Root) pathOf(fd int) (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(r.proc, strconv.Itoa(fd), b)
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// mountBelow is the first mount point at or below dir, "" when there is none.
func mountBelow(dir string) (string, error) {
	f, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if point := unescapeMount(fields[4]); strings.HasPrefix(point, dir+"/") {
			return point, nil
		}
	}
	return "", lines.Err()
}

// unescapeMount undoes the octal escapes of mountinfo for space, tab, newline
// and backslash.
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
