//go:build unix

package container

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/wsctl/wsctl/keeper"
)

// sampleReport reads a report from testdata/posture: sections "-- q PATH --".
func sampleReport(t *testing.T, name string) report {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "posture", name))
	if err != nil {
		t.Fatal(err)
	}
	r := report{}
	_, rest, _ := strings.Cut("\n"+string(data), "\n-- ")
	for _, section := range strings.Split(rest, "\n-- ") {
		head, body, ok := strings.Cut(section, " --\n")
		if !ok {
			t.Fatalf("no section: %q", section)
		}
		r[keeper.Item{Ask: keeper.Question(head[0]), Path: head[2:]}] = keeper.Answer{Data: []byte(body + "\n")}
	}
	for q, a := range r {
		if q.Ask == keeper.AskReadlink {
			r[q] = keeper.Answer{Data: []byte(strings.TrimSpace(string(a.Data)))}
		}
	}
	return r
}

// sampleExpectation is what the samples were taken under.
func sampleExpectation(cgroup string) expectation {
	return expectation{
		User: "1000:1000", Cgroup: cgroup, Memory: DefaultMemory, CPUs: DefaultCPUs, Pids: DefaultPids, Offline: true,
		Targets: map[string]bool{guestRoot: true, guestHome: true, guestKeeper: false},
		Masks:   []string{guestState}, Keeper: true,
		Namespaces: map[string]string{"cgroup": "cgroup:[1]", "ipc": "ipc:[1]", "mnt": "mnt:[1]", "net": "net:[1]", "pid": "pid:[1]", "uts": "uts:[1]"},
	}
}

func samples() map[string]string { return map[string]string{"1": "v1.txtar", "2": "v2.txtar"} }

func TestPostureOfAGoodContainer(t *testing.T) {
	t.Parallel()
	for cgroup, name := range samples() {
		want := sampleExpectation(cgroup)
		r := sampleReport(t, name)
		for _, q := range postureItems(want) {
			if _, ok := r[q]; !ok {
				t.Errorf("%s: %c %s is asked and not in the sample", name, q.Ask, q.Path)
			}
		}
		all := posture(r, want)
		if bad := wrong(all); len(bad) > 0 {
			t.Errorf("%s: %v", name, bad)
		}
		if len(all) < 25 {
			t.Errorf("%s: only %d findings", name, len(all))
		}
	}
}

// Each weakness is found, under its name, and nothing else is.
func TestPostureFindsEachWeakness(t *testing.T) {
	t.Parallel()
	type change struct{ path, old, new string }
	common := map[string]change{
		"uid":                      {procStatus, "Uid:\t1000", "Uid:\t0"},
		"gid":                      {procStatus, "Gid:\t1000\t1000", "Gid:\t1000\t0"},
		"groups":                   {procStatus, "Groups:\t1000 ", "Groups:\t999 1000 "},
		"no-new-privileges":        {procStatus, "NoNewPrivs:\t1", "NoNewPrivs:\t0"},
		"seccomp":                  {procStatus, "Seccomp:\t2", "Seccomp:\t0"},
		"capabilities CapInh":      {procStatus, "CapInh:\t0000000000000000", "CapInh:\t0000000000000400"},
		"capabilities CapPrm":      {procStatus, "CapPrm:\t0000000000000000", "CapPrm:\t0000000000000001"},
		"capabilities CapEff":      {procStatus, "CapEff:\t0000000000000000", "CapEff:\t00000000a80425fb"},
		"capabilities CapBnd":      {procStatus, "CapBnd:\t0000000000000000", "CapBnd:\t00000000a80425fb"},
		"capabilities CapAmb":      {procStatus, "CapAmb:\t0000000000000000", ""},
		"pid of the keeper":        {procStatus, "\nPid:\t1\n", "\nPid:\t7\n"},
		"limit core":               {procLimits, "Max core file size        1                    1", "Max core file size        0                    unlimited"},
		"limit fsize":              {procLimits, "8589934592           8589934592", "unlimited            unlimited"},
		"limit nofile":             {procLimits, "16384", "1048576"},
		"network interfaces":       {procNetDev, "    lo:", "  eth0: 0 0\n    lo:"},
		"mount /workspace":         {procMountinfo, "/workspace rw,relatime -", "/workspace rw,relatime shared:7 -"},
		"mount /home/user":         {procMountinfo, "/home/user rw,", "/home/user ro,"},
		"mount /wskeeper":          {procMountinfo, "/wskeeper ro,", "/wskeeper rw,"},
		"mask /workspace/.wsctl":   {procMountinfo, "/workspace/.wsctl ro,", "/workspace/.wsctl rw,"},
		"mount /var/run/docker\n.": {procMountinfo, "/etc/hostname rw", `/var/run/docker\012. rw`},
	}
	perVersion := map[string]map[string]change{
		"1": {
			"memory":           {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648", "9223372036854771712"},
			"memory with swap": {"/sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "2147483648", "4294967296"},
			"pids":             {"/sys/fs/cgroup/pids/pids.max", "512", "max"},
			"cpus":             {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000", "-1"},
		},
		"2": {
			"memory": {"/sys/fs/cgroup/memory.max", "2147483648", "max"},
			"swap":   {"/sys/fs/cgroup/memory.swap.max", "0", "max"},
			"pids":   {"/sys/fs/cgroup/pids.max", "512", "max"},
			"cpus":   {"/sys/fs/cgroup/cpu.max", "200000", "max"},
		},
	}
	for cgroup, name := range samples() {
		for _, table := range []map[string]change{common, perVersion[cgroup]} {
			for field, c := range table {
				r := sampleReport(t, name)
				q := keeper.Item{Ask: keeper.AskRead, Path: c.path}
				text := string(r[q].Data)
				if !strings.Contains(text, c.old) {
					t.Fatalf("%s: no %q in %s", name, c.old, c.path)
				}
				r[q] = keeper.Answer{Data: []byte(strings.Replace(text, c.old, c.new, 1))}
				if bad := wrong(posture(r, sampleExpectation(cgroup))); len(bad) != 1 || bad[0].Name != field {
					t.Errorf("%s: %s: found %v", name, field, bad)
				}
			}
		}
		for ns := range sampleExpectation(cgroup).Namespaces {
			want := sampleExpectation(cgroup)
			r := sampleReport(t, name)
			want.Namespaces[ns] = string(r[keeper.Item{Ask: keeper.AskReadlink, Path: "/proc/self/ns/" + ns}].Data)
			if bad := wrong(posture(r, want)); len(bad) != 1 || bad[0].Name != "namespace "+ns {
				t.Errorf("%s: shared %s: found %v", name, ns, bad)
			}
		}
	}
}

// What was not told, or is nonsense, is never taken for good.
func TestPostureWithoutAnswers(t *testing.T) {
	t.Parallel()
	for cgroup, name := range samples() {
		want := sampleExpectation(cgroup)
		for q := range sampleReport(t, name) {
			for what, answer := range map[string]keeper.Answer{
				"refused": {Errno: syscall.EACCES}, "empty": {}, "nonsense": {Data: []byte("\x00\xff:\n: : :\n - \n")},
			} {
				r := sampleReport(t, name)
				r[q] = answer
				if len(wrong(posture(r, want))) == 0 {
					t.Errorf("%s: %c %s %s: nothing found", name, q.Ask, q.Path, what)
				}
			}
		}
		if len(wrong(posture(report{}, want))) < 20 {
			t.Errorf("%s: an empty report passes", name)
		}
	}
}
