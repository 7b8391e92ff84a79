//go:build unix

package container

import (
	"bufio"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/wsctl/wsctl/keeper"
)

// report is what was asked of PID 1 and what it answered, by question. The
// answers come from the keeper, which no command has run beside yet, but their
// text is the kernel's about names that an image may have chosen: hostile bytes.
type report map[keeper.Item]keeper.Answer

// Files that PID 1 reads about itself.
const (
	procStatus    = "/proc/self/status"
	procMountinfo = "/proc/self/mountinfo"
	procLimits    = "/proc/self/limits"
	procNetDev    = "/proc/net/dev"
)

// namespaceNames are those whose sharing with the machine is looked at
// (namespaces(7)). The user namespace is the machine's unless the engine has it
// otherwise.
func namespaceNames() []string { return []string{"cgroup", "ipc", "mnt", "net", "pid", "uts"} }

// cgroupFiles are the limits as the two versions of the cgroup hierarchy show
// them inside a cgroup namespace (cgroups(7)).
func cgroupFiles(version string) []string {
	if version == "2" {
		return []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.swap.max", "/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/cpu.max"}
	}
	return []string{
		"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes",
		"/sys/fs/cgroup/pids/pids.max", "/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "/sys/fs/cgroup/cpu/cpu.cfs_period_us",
	}
}

// expectation is what a container of ours must look like from inside.
type expectation struct {
	User   string // uid:gid
	Cgroup string // "1" or "2"
	Memory int64  // bytes, and no swap
	CPUs   float64
	Pids   int64
	// Offline: no interface but lo.
	Offline bool
	// Targets are the mounts asked for, by place inside; the value says
	// whether it can be written.
	Targets map[string]bool
	// Sources are what must be mounted, by target. nil where it cannot be
	// compared.
	Sources map[string]fileID
	// ReadOnly: the root file system cannot be written, and Tmpfs are the
	// places in memory beside it.
	ReadOnly bool
	Tmpfs    []string
	// Masks must be empty read-only directories.
	Masks []string
	// Namespaces are the machine's, by name; none may be the container's.
	// nil where the machine cannot be looked at.
	Namespaces map[string]string
	// Volumes are the image's own, for which the engine adds mounts.
	Volumes []string
	// Keeper: PID 1 is the keeper and answers itself; else a shell beside the
	// engine's init does.
	Keeper bool
}

// postureItems are the questions that the posture needs.
func postureItems(want expectation) []keeper.Item {
	var items []keeper.Item
	for _, p := range slices.Concat([]string{procStatus, procMountinfo, procLimits, procNetDev}, cgroupFiles(want.Cgroup)) {
		items = append(items, keeper.Item{Ask: keeper.AskRead, Path: p})
	}
	for _, target := range slices.Sorted(maps.Keys(want.Sources)) {
		items = append(items, keeper.Item{Ask: keeper.AskStat, Path: target})
	}
	if want.Namespaces == nil {
		return items
	}
	for _, n := range namespaceNames() {
		items = append(items, keeper.Item{Ask: keeper.AskReadlink, Path: "/proc/self/ns/" + n})
	}
	return items
}

// finding is one thing that was looked at.
type finding struct {
	Name string
	// Want and Got are equal when all is well.
	Want, Got string
}

func (f finding) ok() bool { return f.Want == f.Got }

func (f finding) String() string {
	return fmt.Sprintf("%s is %q and must be %q", f.Name, f.Got, f.Want)
}

// wrong are the findings that are not as they must be.
func wrong(all []finding) []finding {
	return slices.DeleteFunc(slices.Clone(all), finding.ok)
}

// posture compares what PID 1 reported with what must be, field by field.
func posture(r report, want expectation) []finding {
	return slices.Concat(
		processFindings(r, want), limitFindings(r, want), cgroupFindings(r, want),
		networkFindings(r, want), namespaceFindings(r, want), mountFindings(r, want), sourceFindings(r, want),
	)
}

// text is the content of a file, or the error in its place.
func (r report) text(p string) string { return r.answer(keeper.AskRead, p) }

func (r report) answer(q keeper.Question, p string) string {
	a, ok := r[keeper.Item{Ask: q, Path: p}]
	switch {
	case !ok:
		return "(not asked)"
	case a.Errno != 0:
		return "(" + a.Errno.Error() + ")"
	}
	return string(a.Data)
}

// statusFields parses /proc/PID/status (proc_pid_status(5)).
func statusFields(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = strings.Join(strings.Fields(value), " ")
		}
	}
	return fields
}

func processFindings(r report, want expectation) []finding {
	status := statusFields(r.text(procStatus))
	uid, gid, _ := strings.Cut(want.User, ":")
	four := func(id string) string { return strings.Join([]string{id, id, id, id}, " ") }
	found := []finding{
		{"uid", four(uid), status["Uid"]},
		{"gid", four(gid), status["Gid"]},
		{"no-new-privileges", "1", status["NoNewPrivs"]},
		{"seccomp", "2", status["Seccomp"]},
		{"groups", "only " + gid, onlyGroup(status["Groups"], gid)},
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		found = append(found, finding{"capabilities " + set, strings.Repeat("0", 16), status[set]})
	}
	if want.Keeper {
		// As the innermost namespace sees it, which /proc is mounted for.
		found = append(found, finding{"pid of the keeper", "1", status["Pid"]})
	}
	return found
}

// onlyGroup tells whether the supplementary groups hold nothing beyond gid.
func onlyGroup(groups, gid string) string {
	if groups == "" || groups == gid {
		return "only " + gid
	}
	return groups
}

func limitFindings(r report, _ expectation) []finding {
	both, hard := map[string]string{}, map[string]string{}
	for line := range strings.Lines(r.text(procLimits)) {
		// Names have blanks in them and are padded to a fixed width.
		const width = len("Max realtime timeout      ")
		if len(line) <= width {
			continue
		}
		if values := strings.Fields(line[width:]); len(values) >= 2 {
			name := strings.TrimSpace(line[:width])
			both[name], hard[name] = values[0]+":"+values[1], values[1]
		}
	}
	file := strconv.Itoa(maxFile)
	return []finding{
		{"limit core", "1:1", both["Max core file size"]},
		{"limit fsize", file + ":" + file, both["Max file size"]},
		// A Go program raises its own soft limit, and lowers its children's.
		{"limit nofile", strconv.Itoa(hardFiles), hard["Max open files"]},
	}
}

func cgroupFindings(r report, want expectation) []finding {
	number := func(p string) string { return strings.TrimSpace(r.text(p)) }
	memory, pids := strconv.FormatInt(want.Memory, 10), strconv.FormatInt(want.Pids, 10)
	files := cgroupFiles(want.Cgroup)
	if want.Cgroup == "2" {
		return []finding{
			{"memory", memory, number(files[0])},
			{"swap", "0", number(files[1])},
			{"pids", pids, number(files[2])},
			{"cpus", cpus(want.CPUs), ratio(strings.Fields(number(files[3])))},
		}
	}
	return []finding{
		{"memory", memory, number(files[0])},
		{"memory with swap", memory, number(files[1])},
		{"pids", pids, number(files[2])},
		{"cpus", cpus(want.CPUs), ratio([]string{number(files[3]), number(files[4])})},
	}
}

func cpus(n float64) string { return strconv.FormatFloat(n, 'f', 2, 64) }

// ratio is quota divided by period, or what stands there instead ("max").
func ratio(words []string) string {
	if len(words) != 2 {
		return strings.Join(words, " ")
	}
	quota, err := strconv.ParseFloat(words[0], 64)
	period, err2 := strconv.ParseFloat(words[1], 64)
	if err != nil || err2 != nil || quota <= 0 || period <= 0 {
		return strings.Join(words, " ")
	}
	return cpus(quota / period)
}

func networkFindings(r report, want expectation) []finding {
	if !want.Offline {
		return nil
	}
	var names []string
	for line := range strings.Lines(r.text(procNetDev)) {
		// Two lines of heading have '|' and no ':'.
		if name, _, ok := strings.Cut(line, ":"); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return []finding{{"network interfaces", "lo", strings.Join(names, " ")}}
}

func namespaceFindings(r report, want expectation) []finding {
	var found []finding
	for _, name := range slices.Sorted(maps.Keys(want.Namespaces)) {
		got := r.answer(keeper.AskReadlink, "/proc/self/ns/"+name)
		f := finding{"namespace " + name, "the container's own", "the container's own"}
		switch {
		case got == want.Namespaces[name]:
			f.Got = "the machine's"
		case !strings.HasPrefix(got, name+":["):
			f.Got = got
		}
		found = append(found, f)
	}
	return found
}

// mountLine is a line of mountinfo (proc_pid_mountinfo(5)).
type mountLine struct {
	target, fstype string
	options        []string // of the mount, not of the file system
	shared         bool     // propagates to its peers or from a master
}

func parseMountinfo(text string) []mountLine {
	var mounts []mountLine
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, keeper.MaxRead)
	for lines.Scan() {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		f, fs := strings.Fields(before), strings.Fields(after)
		if len(f) < 6 || len(fs) < 1 {
			continue
		}
		mounts = append(mounts, mountLine{
			target: unescapeMount(f[4]), fstype: fs[0], options: strings.Split(f[5], ","),
			shared: slices.ContainsFunc(f[6:], func(o string) bool { return strings.HasPrefix(o, "shared:") || strings.HasPrefix(o, "master:") }),
		})
	}
	return mounts
}

// unescapeMount undoes the octal escapes of blanks and backslashes.
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// engineInit is the file name of the engine's init.
const engineInit = "docker-init"

// systemMount tells whether the runtime or the engine makes a mount there in
// every container.
func systemMount(target string) bool {
	switch target {
	case "/", "/proc", "/sys", "/dev", "/etc/resolv.conf", "/etc/hostname", "/etc/hosts":
		return true
	}
	return below(target, "/proc") || below(target, "/sys") || below(target, "/dev")
}

// mountFindings compares the mounts: those asked for, the masks, and no other.
func mountFindings(r report, want expectation) []finding {
	const fine = "as asked for"
	seen := map[string]string{}
	masked := map[string]string{}
	inMemory := map[string]string{}
	top := ""
	for _, m := range parseMountinfo(r.text(procMountinfo)) {
		writable, asked := want.Targets[m.target]
		readOnly := slices.Contains(m.options, "ro")
		switch {
		case slices.Contains(want.Masks, m.target):
			masked[m.target] = fmt.Sprintf("%s, read-only: %v", m.fstype, readOnly)
		case asked && m.shared:
			seen[m.target] = "shared with the machine"
		case asked && readOnly == writable:
			seen[m.target] = fmt.Sprintf("read-only: %v", readOnly)
		case asked:
			seen[m.target] = fine
		case slices.Contains(want.Tmpfs, m.target):
			inMemory[m.target] = fmt.Sprintf("%s, nosuid: %v, nodev: %v", m.fstype, slices.Contains(m.options, "nosuid"), slices.Contains(m.options, "nodev"))
		case m.target == "/":
			top = fmt.Sprintf("read-only: %v", readOnly)
		case slices.Contains(want.Volumes, m.target), systemMount(m.target):
		case !want.Keeper && path.Base(m.target) == engineInit && readOnly: // at /sbin, wherever the image has that
		default:
			seen[m.target] = "mounted"
		}
	}
	var found []finding
	for target := range want.Targets {
		found = append(found, finding{"mount " + target, fine, seen[target]})
		delete(seen, target)
	}
	for target, got := range seen {
		found = append(found, finding{"mount " + target, "not there", got})
	}
	if want.ReadOnly {
		found = append(found, finding{"root file system", "read-only: true", top})
	}
	for _, target := range want.Tmpfs {
		found = append(found, finding{"memory " + target, "tmpfs, nosuid: true, nodev: true", inMemory[target]})
	}
	for _, target := range want.Masks {
		found = append(found, finding{"mask " + target, "tmpfs, read-only: true", masked[target]})
	}
	slices.SortFunc(found, func(a, b finding) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// sourceFindings compares what was mounted with what was looked at before: who can
// write to a directory above a source can swap it until the engine has found it.
func sourceFindings(r report, want expectation) []finding {
	const fine = "what was checked"
	var found []finding
	for _, target := range slices.Sorted(maps.Keys(want.Sources)) {
		f := finding{"source of " + target, fine, fine}
		switch got, err := r.file(target); {
		case err != nil:
			f.Got = "(" + err.Error() + ")"
		case fileID{got.dev, got.ino} != want.Sources[target]:
			f.Got = "another file or directory"
		}
		found = append(found, f)
	}
	return found
}
