//go:build unix

package container

import (
	"strconv"
	"strings"
)

// oomFile is where a container sees how often the kernel killed in it for want
// of memory.
func oomFile(cgroup string) string {
	if cgroup == "2" {
		return "/sys/fs/cgroup/memory.events"
	}
	return "/sys/fs/cgroup/memory/memory.oom_control"
}

// parseOOMKills reads the line "oom_kill N" of that file, the same in both
// versions (Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst); 0
// where there is none.
func parseOOMKills(data []byte) int64 {
	for line := range strings.Lines(string(data)) {
		if count, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
			n, err := strconv.ParseInt(count, 10, 64)
			if err == nil && n >= 0 {
				return n
			}
		}
	}
	return 0
}
