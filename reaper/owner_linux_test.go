package reaper_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/reaper"
)

func TestSelf(t *testing.T) {
	t.Parallel()
	o, err := reaper.Self()
	if err != nil {
		t.Fatal(err)
	}
	again, err := reaper.Self()
	if err != nil || again != o {
		t.Fatalf("not the same twice: %+v, %+v, %v", o, again, err)
	}
	if o.Host == "" || o.Boot == "" || o.Started == "" || o.PID != os.Getpid() || !strings.HasPrefix(o.PIDNamespace, "pid:[") {
		t.Fatalf("%+v", o)
	}
	if id, err := os.ReadFile("/etc/machine-id"); err == nil && o.Machine != "" && strings.Contains(string(id), o.Machine) {
		t.Errorf("the machine id itself is given away")
	}
	its := tag()
	its.Owner = o
	if got, err := reaper.ParseTag(its.Labels()); err != nil || got != its {
		t.Errorf("labels do not carry the owner: %+v, %v", got, err)
	}
}

func TestProcess(t *testing.T) {
	t.Parallel()
	o, err := reaper.Self()
	if err != nil {
		t.Fatal(err)
	}
	if p := reaper.Process(o.PID); !p.Exists || p.Started != o.Started {
		t.Errorf("this process: %+v", p)
	}
	for _, pid := range []int{0, -1, 1<<22 + 1} {
		if p := reaper.Process(pid); p.Exists {
			t.Errorf("pid %d: %+v", pid, p)
		}
	}

	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	if p := reaper.Process(pid); !p.Exists || p.Started == "" {
		t.Errorf("a running child: %+v", p)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	// It has ended once the kernel shows it as a zombie: it has not been
	// waited for.
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(stat), ") Z ") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("still there: %s", stat)
		}
	}
	if p := reaper.Process(pid); p.Exists {
		t.Errorf("a zombie: %+v", p)
	}
	_ = cmd.Wait()
	if p := reaper.Process(pid); p.Exists {
		t.Errorf("a child that is gone: %+v", p)
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	line := func(name, state, threads string) string {
		return "7 (" + name + ") " + state + " 1 7 7 0 -1 4194560 1 1 0 0 0 0 0 0 20 0 " + threads + " 0 4242 1 1"
	}
	for _, c := range []struct {
		stat string
		want reaper.Presence
	}{
		{line("sh", "S", "1"), reaper.Presence{Exists: true, Started: "4242"}},
		{line("a b) Z 1 (c", "R", "3"), reaper.Presence{Exists: true, Started: "4242"}},
		{line(") X 1 1", "D", "1"), reaper.Presence{Exists: true, Started: "4242"}},
		{line("sh", "T", "1"), reaper.Presence{Exists: true, Started: "4242"}},
		{line("sh", "Z", "1"), reaper.Presence{}},
		{line("sh", "Z", "2"), reaper.Presence{Exists: true, Started: "4242"}},
		{line("sh", "X", "1"), reaper.Presence{}},
		{"", reaper.Presence{Exists: true}},
		{"7 (sh", reaper.Presence{Exists: true}},
		{"7 (sh) Z 1 2", reaper.Presence{Exists: true}},
	} {
		if got := reaper.ParseStat(c.stat); got != c.want {
			t.Errorf("%q: %+v, want %+v", c.stat, got, c.want)
		}
	}
}
