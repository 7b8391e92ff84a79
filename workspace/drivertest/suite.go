//go:build unix

package drivertest

import (
	"context"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// Harness tells the suite how to get at a driver and what it can do.
type Harness struct {
	// New returns a workspace over an empty directory, and the path of that
	// directory on this machine, "" where it cannot be reached. The suite
	// closes the workspace; what else there is goes to t.Cleanup. It is
	// called by several goroutines at once.
	New func(t testing.TB, o workspace.Options) (ws *workspace.Workspace, hostDir string)
	// NewLimited is New with bounds on what its commands may use. A
	// confined driver must have it.
	NewLimited func(t testing.TB, o workspace.Options, l Limits) (ws *workspace.Workspace, hostDir string)
	// Snapshots keeps snapshots of a directory that New returned; nil: the
	// workspaces have none. The driver must be a workspace.Busier.
	Snapshots func(t testing.TB, hostDir string) workspace.Snapshotter
	// MaxArgs is what one command's arguments and environment may have
	// together, in bytes, where that is less than workspace.MaxArgs.
	MaxArgs int
	// Chapters are the names of those to run; empty: all. It is for a second
	// way through one driver, of which only these chapters see anything.
	Chapters []string
	// Capabilities say what the driver can do. Each is checked, both ways.
	Capabilities Capabilities
	// Slack is what a loaded machine may add to the contract's time limits;
	// 0: half a second.
	Slack time.Duration
	// Slower is how many times slower than on this machine itself commands
	// start; 0: 1. The times that a case gives a command to get going, and
	// itself to come to its end, are multiplied by it; the contract's limits
	// are not.
	Slower int
}

// Limits bound all commands of one workspace together.
type Limits struct {
	// Memory in bytes; 0: the driver's default.
	Memory int64
	// Pids is the number of processes; 0: the driver's default.
	Pids int64
}

// Capabilities are what drivers differ in.
type Capabilities struct {
	// Confined: commands cannot harm this machine, whatever they do, and see
	// nothing of it but the root. The hostile chapter needs it.
	Confined bool
	// Masked: commands neither see nor change the workspace's own state in
	// the root.
	Masked bool
	// EndsEscapees: a command's end also reaches what left its process
	// group and its session. Without it the group alone is reached.
	EndsEscapees bool
	// Start: the driver is a workspace.Starter.
	Start bool
	// Terminal: Start can give a terminal.
	Terminal bool
	// Signals: Exit.Signal tells a command that a signal ended from one
	// that exited with 128+n.
	Signals bool
	// Usage: Exit.Usage is known.
	Usage bool
	// Pause: the driver is a workspace.Pauser.
	Pause bool

	snapshots bool // the harness has Snapshots
}

// canary is in this process's environment while suites run, and stays: another
// may still be running.
const canary = "DRIVERTEST_CANARY"

// Run runs the suite as subtests of t, most of them at once: they wait more than
// they work. What Harness.New gives must last until t's own clean-up.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if h.New == nil {
		t.Fatal("drivertest: the harness has no New")
	}
	if h.Capabilities.Confined && h.NewLimited == nil {
		t.Fatal("drivertest: a confined driver needs NewLimited")
	}
	if h.Capabilities.Terminal && !h.Capabilities.Start {
		t.Fatal("drivertest: a terminal needs Start")
	}
	for _, name := range h.Chapters {
		if !slices.ContainsFunc(chapters(), func(c chapter) bool { return c.name == name }) {
			t.Fatalf("drivertest: there is no chapter %q", name)
		}
	}
	s := newSuite(t, h)
	for _, ch := range chapters() {
		if len(h.Chapters) > 0 && !slices.Contains(h.Chapters, ch.name) {
			continue
		}
		t.Run(ch.name, func(t *testing.T) {
			if !ch.alone {
				t.Parallel()
			}
			for _, c := range ch.cases {
				t.Run(c.name, func(t *testing.T) {
					if !ch.alone {
						t.Parallel()
					}
					s.check(t, ch, c)
				})
			}
		})
	}
}

// chapter is a named list of cases.
type chapter struct {
	name  string
	cases []testCase
	// alone: each case is run by itself, since it leaves little to others.
	alone bool
}

func chapters() []chapter {
	return []chapter{
		{name: "lifecycle", cases: lifecycleCases()},
		{name: "files", cases: fileCases()},
		{name: "paths", cases: pathCases()},
		{name: "exec", cases: execCases()},
		{name: "streams", cases: streamCases()},
		{name: "background", cases: backgroundCases()},
		{name: "processes", cases: processCases()},
		{name: "shell", cases: shellCases()},
		{name: "errors", cases: errorCases()},
		{name: "snapshots", cases: snapshotCases()},
		{name: "hostile", cases: hostileCases(), alone: true},
	}
}

// testCase is one case.
type testCase struct {
	name string
	// rule is what the case defends, in one sentence.
	rule string
	// limit of its time; 0: defaultLimit.
	limit time.Duration
	// needs are the capabilities without which the case makes no sense.
	needs []capability
	run   func(t *checker)
}

const defaultLimit = 20 * time.Second

// suite is one run over one harness.
type suite struct {
	harness Harness
	tb      testing.TB // of the whole run
	// patience is what a case gets after its context has ended; what does
	// not heed that is shown as it hangs.
	patience time.Duration

	once sync.Once
	ws   *workspace.Workspace // shared by the cases that need none of their own
	host string
}

func newSuite(tb testing.TB, h Harness) *suite {
	if h.Slack == 0 {
		h.Slack = 500 * time.Millisecond
	}
	h.Slower = max(h.Slower, 1)
	h.Capabilities.snapshots = h.Snapshots != nil
	if err := os.Setenv(canary, "set"); err != nil { //nolint:usetesting // t may be parallel
		tb.Fatal(err)
	}
	return &suite{harness: h, tb: tb, patience: 5 * time.Second}
}

// shared returns the workspace that cases share, each in a directory of its
// own: to start one may take a second.
func (s *suite) shared() (*workspace.Workspace, string) {
	s.once.Do(func() {
		s.ws, s.host = s.harness.New(s.tb, workspace.Options{})
		s.tb.Cleanup(func() {
			if err := s.ws.Close(); err != nil {
				s.tb.Errorf("the shared workspace's Close: %v", err)
			}
		})
	})
	return s.ws, s.host
}

// check runs one case, or what takes its place when a capability is missing.
func (s *suite) check(tb testing.TB, ch chapter, c testCase) {
	tb.Helper()
	rule, run := c.rule, c.run
	for _, need := range c.needs {
		if !need.in(s.harness.Capabilities) {
			rule = "A driver without " + need.name + " says so and is believed: " + need.absence
			run = need.absent
			break
		}
	}
	limit := c.limit
	if limit == 0 {
		limit = defaultLimit
	}
	limit *= time.Duration(s.harness.Slower)
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		run(newChecker(tb, s, ctx, ch.name+"-"+strings.ReplaceAll(c.name, " ", "-")))
	}()
	timer := time.NewTimer(limit + s.patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		stacks := make([]byte, 1<<18)
		tb.Errorf("it hangs, %v after its limit of %v:\n%s", s.patience, limit, stacks[:runtime.Stack(stacks, true)])
	}
	if tb.Failed() {
		tb.Logf("the rule: %s", rule)
	}
}
