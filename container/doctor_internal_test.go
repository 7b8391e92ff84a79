//go:build unix

package container

import (
	"slices"
	"testing"
)

func TestOlderRunC(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"1.0.3": true, "1.1.5+ds1": true, "1.1.15": true, "1.2.7": true, "1.3.2": true,
		"1.2.8": false, "1.3.3": false, "1.4.0": false, "2.0.0": false, "": false, "v1": false,
	} {
		if got := olderRunC(version); got != want {
			t.Errorf("%q: %v", version, got)
		}
	}
}

// What an engine lacks shows as what it is.
func TestReportJudgesTheEngine(t *testing.T) {
	t.Parallel()
	good := EngineInfo{
		Version: "28.0.0", Cgroup: "2", Seccomp: true, AppArmor: true, Rootless: true,
		MemoryLimit: true, SwapLimit: true, PidsLimit: true, CPULimit: true,
	}
	names := func(i EngineInfo, status CheckStatus) []string {
		var r Report
		r.engine(i, true)
		var found []string
		for _, c := range r.Checks {
			if c.Status == status {
				found = append(found, c.Name)
			}
		}
		return found
	}
	if got := append(names(good, CheckWarn), names(good, CheckFail)...); len(got) > 0 {
		t.Errorf("nothing is wrong, and found %v", got)
	}
	for name, c := range map[string]struct {
		change func(*EngineInfo)
		status CheckStatus
	}{
		"limit of memory":          {func(i *EngineInfo) { i.MemoryLimit = false }, CheckFail},
		"limit of swap":            {func(i *EngineInfo) { i.SwapLimit = false }, CheckFail},
		"limit of pids":            {func(i *EngineInfo) { i.PidsLimit = false }, CheckFail},
		"limit of cpu":             {func(i *EngineInfo) { i.CPULimit = false }, CheckFail},
		"seccomp":                  {func(i *EngineInfo) { i.Seccomp = false }, CheckFail},
		"user namespace remapping": {func(i *EngineInfo) { i.UserNS = true }, CheckFail},
		"rootless":                 {func(i *EngineInfo) { i.Rootless = false }, CheckWarn},
		"security module":          {func(i *EngineInfo) { i.AppArmor = false }, CheckWarn},
		"engine's warning":         {func(i *EngineInfo) { i.Warnings = []string{"WARNING: something"} }, CheckWarn},
	} {
		i := good
		c.change(&i)
		if got := names(i, c.status); !slices.Equal(got, []string{name}) {
			t.Errorf("%s: found %v", name, got)
		}
	}
}
