//go:build unix

package container_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/internal/enginetest"
)

// The report proves each promise on a container of its own, names what is open,
// and leaves nothing.
func TestExamine(t *testing.T) {
	t.Parallel()
	e, root := connect(t), newRoot(t)
	r := container.Examine(t.Context(), e, root, options(t))
	if r.Failed() {
		t.Error("a check failed")
	}
	status := map[string]container.CheckStatus{}
	for _, c := range r.Checks {
		if c.Name == "" || c.Detail == "" || c.Status == container.CheckFail {
			t.Errorf("%+v", c)
		}
		status[c.Name] = c.Status
	}
	for _, name := range []string{
		"engine", "cgroup", "openat2", "seccomp", "probe container", "inside: capabilities CapBnd", "inside: no-new-privileges",
		"inside: seccomp", "inside: memory", "inside: pids", "inside: cpus", "inside: network interfaces", "inside: namespace pid",
		"inside: mount /workspace", "inside: mask /workspace/.wsctl", "inside: .wsctl", "inside: set-uid files", "inside: limit core",
		"keeper", "removal",
	} {
		if status[name] != container.CheckOK {
			t.Errorf("%s: %q", name, status[name])
		}
	}
	open := 0
	for _, s := range status {
		if s == container.CheckOpen {
			open++
		}
	}
	if open < 11 {
		t.Errorf("only %d things are named as open", open)
	}
	none(t, root)
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"status":"open"`) {
		t.Errorf("%s, %v", text, err)
	}
}

// A container that cannot be had is a failed check, not the end of the report.
func TestExamineTellsWhyThereIsNoContainer(t *testing.T) {
	t.Parallel()
	e, root := connect(t), newRoot(t)
	o := options(t)
	o.Image = enginetest.NoShell(t)
	r := container.Examine(t.Context(), e, root, o)
	if !r.Failed() {
		t.Error("no check failed")
	}
	if r := container.Examine(t.Context(), e, filepath.Join(root, "none"), o); !r.Failed() {
		t.Error("no check failed without a root")
	}
	if entries, err := os.ReadDir(root); err != nil || len(entries) > 1 {
		t.Errorf("the root holds %v, %v", entries, err)
	}
}
