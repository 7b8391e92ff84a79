//go:build unix

package drivertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// The chapter exec, continued: how a command is made to end.

// shortGrace is the KillGrace of a command that is to run into it.
const shortGrace = 300 * time.Millisecond

// short is the Timeout of a command that is to run into it: long enough for it
// to have started, short enough to wait for.
func (t *checker) short() time.Duration {
	return 700 * time.Millisecond * time.Duration(t.suite.harness.Slower)
}

func timeoutStatus(t *checker) {
	began := time.Now()
	out := t.run(workspace.Command{Shell: "sleep 4", Timeout: t.short(), KillGrace: shortGrace})
	t.within("the timeout", began, t.short()+shortGrace+time.Second)
	if out.ExitCode != 124 || !out.TimedOut || out.OOMKilled {
		t.Errorf("a timeout is %+v", out)
	}
	if out.Duration < t.short() {
		t.Errorf("it was ended after %v, the timeout is %v", out.Duration, t.short())
	}
	for _, text := range []string{"exit 124", "timeout 0.1 sleep 2 || exit 124"} {
		out = t.run(workspace.Command{Shell: text, Timeout: 10 * time.Second})
		if out.ExitCode != 124 || out.TimedOut {
			t.Errorf("%q is told as a timeout: %+v", text, out)
		}
	}
	out = t.run(workspace.Command{Shell: "sleep .2; echo done", Timeout: workspace.NoTimeout})
	t.wantOut("without a timeout", out, 0, "done\n", "")
}

func timeoutKeepsOutput(t *checker) {
	out := t.run(workspace.Command{Shell: "echo CRIT; echo W >&2; printf tail; sleep 4", Timeout: t.short(), KillGrace: shortGrace})
	t.wantOut("a timeout", out, 124, "CRIT\ntail", "W\n")
}

func timeoutStops(t *checker) {
	for what, text := range map[string]string{
		"a loop":        growing,
		"a child":       "(" + growing + ") & wait",
		"a grandchild":  "sh -c '(" + growing + ") & wait' & wait",
		"a pipeline":    "(" + growing + ") | cat",
		"exec":          "exec sh -c '" + growing + "'",
		"a subshell":    "( ( (" + growing + ") ) )",
		"stopped child": "(" + growing + ") & sleep .4; kill -STOP $!; wait",
	} {
		t.plant("rm -f log")
		out := t.run(workspace.Command{Shell: text, Timeout: t.short(), KillGrace: shortGrace})
		before, err := t.ws.Stat(t.ctx, t.path("log"))
		t.must(err)
		if !out.TimedOut || out.ExitCode != 124 {
			t.Errorf("%s:%s", what, told(out))
		}
		time.Sleep(100 * time.Millisecond)
		after, err := t.ws.Stat(t.ctx, t.path("log"))
		t.must(err)
		if before.Size() != after.Size() {
			t.Errorf("%s goes on after the call: %d bytes became %d", what, before.Size(), after.Size())
		}
	}
}

func timeoutIgnorer(t *checker) {
	for what, text := range map[string]string{
		"a shell":  "trap '' TERM INT HUP; i=0; while [ $i -lt 40 ]; do sleep .1; i=$((i+1)); done",
		"a child":  "trap '' TERM; sh -c 'sleep MARK & wait; sleep 4' & wait; sleep 4",
		"a reader": "trap '' TERM INT HUP; cat; sleep 4",
	} {
		mark := t.mark()
		began := time.Now()
		out := t.run(workspace.Command{
			Shell: strings.ReplaceAll(text, "MARK", mark), Timeout: t.short(), KillGrace: shortGrace, Stdin: blockedReader(t),
		})
		t.within(what+" that ignores TERM", began, t.short()+shortGrace+time.Second)
		if out.ExitCode != 124 || !out.TimedOut {
			t.Errorf("%s:%s", what, told(out))
		}
		t.wantDead(what, mark)
	}
}

// blockedReader is a standard input that nobody ever writes to.
func blockedReader(t *checker) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	t.must(err)
	t.Cleanup(func() {
		w.Close()
		r.Close()
	})
	return r
}

func graceIsGiven(t *checker) {
	const text = "trap 'echo tidying; sleep .2; echo tidied > tidy; echo tidied; exit 3' TERM; echo ready; while :; do sleep .05; done"
	out := t.run(workspace.Command{Shell: text, Timeout: t.short(), KillGrace: 5 * time.Second})
	// Its stderr may hold a shell's word about the sleep that TERM ended.
	if out.ExitCode != 124 || !out.TimedOut || string(out.Stdout) != "ready\ntidying\ntidied\n" {
		t.Errorf("a command that tidies up%s", told(out))
	}
	t.wantFile("tidy", "tidied\n")
	began := time.Now()
	out = t.run(workspace.Command{Shell: "trap '' TERM; while :; do sleep .05; done", Timeout: t.short(), KillGrace: workspace.NoKillGrace})
	t.within("NoKillGrace", began, t.short()+time.Second)
	if !out.TimedOut {
		t.Errorf("NoKillGrace%s", told(out))
	}
}

func abort(t *checker) {
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	go func() {
		t.eventually(func() bool {
			_, err := t.ws.Stat(t.ctx, t.path("log"))
			return err == nil
		})
		cancel()
	}()
	began := time.Now()
	out, err := t.ws.Exec(ctx, workspace.Command{Shell: "echo W >&2;" + growing, Dir: t.dir, KillGrace: shortGrace})
	t.within("the abort", began, 5*time.Second+shortGrace+time.Second)
	t.wantCode("the abort", err, workspace.ErrAborted)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v does not wrap the context's error", err)
	}
	if out == nil || string(out.Stdout) != "partial\n" || string(out.Stderr) != "W\n" || out.TimedOut {
		t.Errorf("the partial output is not there%s", told(out))
	}
	before, err := t.ws.Stat(t.ctx, t.path("log"))
	t.must(err)
	time.Sleep(100 * time.Millisecond)
	after, err := t.ws.Stat(t.ctx, t.path("log"))
	t.must(err)
	if before.Size() != after.Size() {
		t.Error("the command goes on after the abort")
	}
}

func callersDeadline(t *checker) {
	ctx, cancel := context.WithTimeout(t.ctx, t.short())
	defer cancel()
	out, err := t.ws.Exec(ctx, workspace.Command{Shell: "echo out; sleep 4", Dir: t.dir, Timeout: time.Minute, KillGrace: shortGrace})
	t.wantCode("the caller's deadline", err, workspace.ErrAborted)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v does not wrap the context's error", err)
	}
	if out == nil || out.TimedOut || string(out.Stdout) != "out\n" {
		t.Errorf("it is told as a timeout of ours, or the output is lost%s", told(out))
	}
}

func cancelStorm(t *checker) {
	const rounds = 4
	mark := t.mark()
	for _, after := range []time.Duration{0, 1, 5, 20, 100} {
		for range rounds {
			ctx, cancel := context.WithCancel(t.ctx)
			timer := time.AfterFunc(after*time.Millisecond, cancel)
			out, err := t.ws.Exec(ctx, workspace.Command{Shell: "sleep " + mark, Dir: t.dir, KillGrace: shortGrace})
			t.wantCode(fmt.Sprintf("aborted after %v ms%s", int(after), told(out)), err, workspace.ErrAborted)
			timer.Stop()
			cancel()
		}
	}
	t.wantDead("after the storm", mark)
	t.works("the storm")
}

func passedSignals(t *checker) {
	// What follows is about the command, not about how long the place where it
	// runs takes to come up.
	if err := t.ws.Ready(t.ctx); err != nil {
		t.Fatalf("%v", err)
	}
	signals := make(chan os.Signal, 1)
	go func() {
		ready := t.eventually(func() bool {
			_, err := t.ws.Stat(t.ctx, t.path("ready"))
			return err == nil
		})
		if ready { // else it would be a signal to whatever there is so far
			signals <- syscall.SIGINT
		}
	}()
	// A shell whose foreground child gets the signal runs its trap after it.
	out := t.run(workspace.Command{
		Shell: `trap 'echo parent; exit 5' INT; ` +
			`sh -c "trap 'echo child; exit 0' INT; echo > ready; while :; do sleep .05; done"; sleep 4`,
		Signals: signals, Timeout: time.Duration(8*t.suite.harness.Slower) * time.Second,
	})
	if out.TimedOut || !strings.Contains(string(out.Stdout), "child\n") || !strings.Contains(string(out.Stdout), "parent\n") || out.ExitCode != 5 {
		t.Errorf("SIGINT did not reach the command and its group%s", told(out))
	}
}

func manyAtOnce(t *checker) {
	const commands = 40
	var wg sync.WaitGroup
	for i := range commands {
		wg.Go(func() {
			out, err := t.exec(workspace.Command{
				Shell: fmt.Sprintf("read x; echo out%d-$x-$V; echo err%d >&2; exit %d", i, i, i),
				Stdin: strings.NewReader(fmt.Sprintf("in%d\n", i)), Env: []string{fmt.Sprintf("V=v%d", i)},
			})
			if err != nil {
				t.Errorf("command %d: %v", i, err)
				return
			}
			t.wantOut(fmt.Sprint("command ", i), out, i, fmt.Sprintf("out%d-in%d-v%d\n", i, i, i), fmt.Sprintf("err%d\n", i))
		})
	}
	wg.Wait()
}

func usage(t *checker) {
	idle := t.sh("sleep .3").Usage
	busy := t.sh("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Usage
	if idle == nil || busy == nil {
		t.Fatalf("Usage is %v and %v", idle, busy)
	}
	if i, b := idle.User+idle.System, busy.User+busy.System; b < 20*time.Millisecond || i > b || b > time.Minute {
		t.Errorf("an idle command used %v, a busy one %v", i, b)
	}
	if busy.MaxRSS < 100<<10 || busy.MaxRSS > 1<<32 {
		t.Errorf("a shell's largest resident set is %d bytes", busy.MaxRSS)
	}
}

func duration(t *checker) {
	out := t.sh("sleep .3")
	if out.Duration < 300*time.Millisecond || out.Duration > 3*time.Second+t.suite.harness.Slack {
		t.Errorf("a command of 300 ms took %v", out.Duration)
	}
}

func killOwnGroup(t *checker) {
	if !t.ownGroup() {
		t.Fatal("a command shares its process group with the test; nothing that kills a group is tried")
	}
	for sig, status := range map[string]int{"9": 137, "TERM": 143} {
		out := t.sh("echo before; kill -" + sig + " 0; sleep 4; echo after")
		t.wantOut("kill -"+sig+" 0", out, status, "before\n", "")
	}
	t.works("kill 0")
}

// ownGroup reports whether commands have process groups of their own; where
// the system does not say, it takes them to.
func (t *checker) ownGroup() bool {
	t.Helper()
	const group = "read -r s < /proc/self/stat && set -- ${s##*) } && echo $3"
	mine, err := os.ReadFile("/proc/self/stat")
	if err != nil || t.caps.Confined {
		return true
	}
	_, rest, _ := strings.Cut(string(mine), ") ")
	out := t.sh(group)
	fields := strings.Fields(rest)
	return len(fields) > 2 && out.ExitCode == 0 && strings.TrimSpace(string(out.Stdout)) != fields[2]
}
