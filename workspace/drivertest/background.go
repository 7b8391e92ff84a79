//go:build unix

package drivertest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

func backgroundCases() []testCase {
	return []testCase{
		{name: "returns at exit", run: returnsAtExit, rule: "The call returns when the command itself exits, whoever still holds the pipes."},
		{name: "kill ends the group", run: killEndsTheGroup, rule: "Background Kill ends whatever a command left running: children, TERM-ignorers, stopped ones, with a cleared environment."},
		{name: "kill ends escapees", run: killEndsEscapees, needs: []capability{needEscapees()}, rule: "Background Kill also ends what left the group, the session or the ancestry: setsid, double fork, env -i; Ended counts them."},
		{name: "timeout ends escapees", run: timeoutEndsEscapees, needs: []capability{needEscapees()}, rule: "A timeout and an abort end what left the group, the session or the ancestry."},
		{name: "timeout of wait", run: timeoutOfWait, rule: "A foreground wait for background work still times out, and nothing is left."},
		{name: "kill keeps quiet", run: killKeepsQuiet, rule: "What a command left writes nothing into its output once the call has returned, and its own output is whole."},
		{name: "keep lets it run", run: keepLetsItRun, rule: "Background Keep lets it run on after the call, in all spellings, until Close ends it."},
		{name: "keep does not block", run: keepDoesNotBlock, rule: "A kept process is never blocked on its output nor ended by SIGPIPE; what it writes is drained and dropped."},
		{name: "keep has no stdin", run: keepHasNoStdin, rule: "The stdin of a kept process is at its end: it does not wait unseen."},
		{name: "keep survives others", run: keepSurvivesOthers, rule: "A kept process survives the end, the timeout and the abort of other commands."},
		{name: "keep and timeout", run: keepAndTimeout, rule: "Keep is about a command that exits: a timeout or an abort ends everything it started."},
		{name: "siblings survive", run: siblingsSurvive, rule: "Ending one command ends nothing of another that runs at the same time."},
		{name: "close ends kept", run: closeEndsKept, limit: time.Minute, rule: "Close ends kept processes."},
		{name: "kept server", run: keptServer, rule: "A server that is kept serves later commands."},
	}
}

// leaving are spellings of leaving something running, MARK among its arguments.
func leaving() map[string]string {
	return map[string]string{
		"all pipes held":   "sleep MARK & echo done",
		"stdout let go":    "sleep MARK >/dev/null & echo done",
		"all let go":       "sleep MARK >/dev/null 2>&1 & echo done",
		"still writing":    "sh -c 'while :; do echo tick; sleep .1; done' MARK & echo done",
		"ignoring HUP":     "(trap '' HUP; exec sleep MARK) >/dev/null 2>&1 & echo done",
		"a subshell's":     "(sleep MARK &); echo done",
		"of a child shell": "sh -c 'sleep MARK &'; echo done",
	}
}

func (t *checker) leave(text, mark string, b workspace.Background) *workspace.Output {
	t.Helper()
	began := time.Now()
	out := t.run(workspace.Command{Shell: strings.ReplaceAll(text, "MARK", mark), Background: b, KillGrace: shortGrace})
	limit := time.Second
	if b == workspace.BackgroundKill || b == "" {
		limit += shortGrace
	}
	t.within(text, began, limit)
	if out.ExitCode != 0 || !strings.HasPrefix(strings.ReplaceAll(string(out.Stdout), "tick\n", ""), "done\n") || len(out.Stderr) != 0 {
		t.Errorf("%q%s", text, told(out))
	}
	return out
}

func returnsAtExit(t *checker) {
	for what, text := range leaving() {
		for _, b := range []workspace.Background{"", workspace.BackgroundKeep} {
			mark := t.mark()
			t.leave(text, mark, b)
			if b == "" {
				t.wantDead(what, mark)
				continue
			}
			t.wantAlive(what, mark)
			t.endKept(mark)
		}
	}
}

// endKept ends a kept process, so that it does not run on beside other cases.
func (t *checker) endKept(mark string) {
	t.Helper()
	for _, cmdline := range t.alive(mark) {
		if pid, ok := strings.CutPrefix(strings.TrimSuffix(cmdline, "/cmdline"), "/proc/"); ok {
			t.sh("kill -9 " + pid)
		}
	}
}

func killEndsTheGroup(t *checker) {
	for what, text := range map[string]string{
		"two children":        "sleep MARK & sleep MARK & echo done",
		"a grandchild":        `sh -c 'sh -c "sleep MARK & wait" & wait' & sleep .1; echo done`,
		"a TERM-ignorer":      "(trap '' TERM HUP INT; exec sleep MARK) & sleep .1; echo done",
		"a stopped one":       "sleep MARK & sleep .1; kill -STOP $!; echo done",
		"a cleared environ":   "env -i sh -c 'sleep MARK & wait' & sleep .1; echo done",
		"one that respawns":   "sh -c 'trap : TERM; while :; do sleep MARK; done' & sleep .1; echo done",
		"a deep chain":        `sh -c 'sh -c "sh -c \"sleep MARK & wait; :\" & wait; :" & wait; :' & sleep .2; echo done`,
		"one that was exec'd": "sh -c 'exec sleep MARK' & echo done",
	} {
		mark := t.mark()
		out := t.leave(text+" # "+what, mark, "")
		t.wantDead(what, mark)
		if out.Signal != 0 || out.TimedOut {
			t.Errorf("%s: the command exited by itself, told %+v", what, out)
		}
	}
}

// escaping are ways out of a command's group, session and ancestry.
func escaping() map[string]string {
	return map[string]string{
		"setsid":                 "setsid sleep MARK",
		"setsid, pipes let go":   "setsid sleep MARK </dev/null >/dev/null 2>&1",
		"double fork":            "setsid sh -c '(sleep MARK &) & exit'",
		"setsid and env -i":      "env -i setsid sh -c 'sleep MARK & sleep MARK'",
		"setsid, ignoring TERM":  "setsid sh -c 'trap \"\" TERM HUP INT; sleep MARK; sleep MARK'",
		"setsid in a setsid":     "setsid sh -c 'setsid sh -c \"setsid sleep MARK\" & setsid sleep MARK'",
		"setsid, stopped":        "setsid sh -c 'kill -STOP $$; sleep MARK' MARK",
		"setsid, respawning":     "setsid sh -c 'trap : TERM; while :; do sleep MARK; done'",
		"setsid, dropped parent": "sh -c 'setsid sleep MARK & exit 0'",
	}
}

func killEndsEscapees(t *checker) {
	for what, text := range escaping() {
		mark := t.mark()
		out := t.leave("("+text+") & while ! grep -qas MARK /proc/[0-9]*/cmdline; do :; done; sleep .2; echo done", mark, "")
		t.wantDead(what, mark)
		if out.Ended < 1 {
			t.Errorf("%s: Ended is %d", what, out.Ended)
		}
	}
	if out := t.sh("sleep .1"); out.Ended != 0 {
		t.Errorf("a command that left nothing has Ended %d", out.Ended)
	}
}

func timeoutEndsEscapees(t *checker) {
	for what, text := range escaping() {
		mark := t.mark()
		began := time.Now()
		out := t.run(workspace.Command{
			Shell: strings.ReplaceAll("("+text+") & sleep 5", "MARK", mark), Timeout: t.short(), KillGrace: shortGrace,
		})
		t.within(what, began, t.short()+shortGrace+time.Second)
		if !out.TimedOut {
			t.Errorf("%s%s", what, told(out))
		}
		t.wantDead("timeout: "+what, mark)
	}
	mark := t.mark()
	ctx, cancel := context.WithTimeout(t.ctx, t.short())
	defer cancel()
	_, err := t.ws.Exec(ctx, workspace.Command{Shell: "setsid sleep " + mark + " & sleep 5", Dir: t.dir, KillGrace: shortGrace})
	t.wantCode("abort", err, workspace.ErrAborted)
	t.wantDead("abort", mark)
}

func timeoutOfWait(t *checker) {
	mark := t.mark()
	began := time.Now()
	out := t.run(workspace.Command{Shell: "sleep " + mark + " & echo waiting; wait", Timeout: t.short(), KillGrace: shortGrace})
	t.within("the timeout", began, t.short()+shortGrace+time.Second)
	t.wantOut("wait", out, 124, "waiting\n", "")
	t.wantDead("wait", mark)
}

func killKeepsQuiet(t *checker) {
	for _, text := range []string{
		"sh -c \"trap 'echo late; echo late >&2' TERM HUP; while :; do sleep .05; done\" & sleep .2; echo done; echo err >&2; exit 3",
		"sleep 5 & echo done; echo err >&2; exit 3",
		"sleep 5 & kill $!; wait; echo done; echo err >&2; exit 3",
	} {
		out := t.run(workspace.Command{Shell: text, KillGrace: shortGrace})
		stderr := strings.ReplaceAll(string(out.Stderr), "late\n", "")
		if out.ExitCode != 3 || !strings.HasPrefix(string(out.Stdout), "done\n") || !strings.HasPrefix(stderr, "err\n") {
			t.Errorf("%q%s", text, told(out))
		}
		if strings.Contains(stderr, "Terminated") || strings.Contains(stderr, "Killed") {
			t.Errorf("a shell's word about what was ended is in the output: %q", out.Stderr)
		}
	}
	var returned atomic.Bool
	w := writerFunc(func(b []byte) (int, error) {
		if returned.Load() {
			t.Error("the writer was called after the call had returned")
		}
		return len(b), nil
	})
	mark := t.mark()
	t.run(workspace.Command{
		Shell: "sh -c 'while :; do echo tick; sleep .02; done' " + mark + " & sleep .1", Stdout: w, Background: workspace.BackgroundKeep,
	})
	returned.Store(true)
	time.Sleep(150 * time.Millisecond)
	t.endKept(mark)
}

func keepLetsItRun(t *checker) {
	for what, text := range leaving() {
		mark := t.mark()
		out := t.leave(text, mark, workspace.BackgroundKeep)
		if out.Ended != 0 {
			t.Errorf("%s: kept, but Ended is %d", what, out.Ended)
		}
		t.wantAlive(what, mark)
		t.works(what)
		t.wantAlive(what+", after another command", mark)
		t.endKept(mark)
	}
}

func keepDoesNotBlock(t *checker) {
	// It writes far more than a pipe holds, on both streams, after its command
	// has exited, and tells how that went.
	out := t.run(workspace.Command{
		Shell:      "(sleep .3; head -c 3000000 /dev/zero; echo $? > one; head -c 3000000 /dev/zero >&2; echo $? > two) & echo done",
		Background: workspace.BackgroundKeep,
	})
	t.wantOut("the command", out, 0, "done\n", "")
	for _, name := range []string{"one", "two"} {
		if !t.eventually(func() bool {
			fi, err := t.ws.Stat(t.ctx, t.path(name))
			return err == nil && fi.Size() > 0
		}) {
			t.Fatalf("a kept process is blocked: no file %s", name)
		}
		t.wantFile(name, "0\n")
	}
}

func keepHasNoStdin(t *checker) {
	for what, c := range map[string]workspace.Command{
		"a": {Shell: "(cat; echo ended > a) & true"},
		"b": {Shell: "(exec <&3; cat; echo ended > b) 3<&0 & exit 0"},
		"c": {Shell: "(exec <&3; cat; echo ended > c) 3<&0 & read -r x; exit 0", Stdin: strings.NewReader("line\nmore\n")},
	} {
		c.Background = workspace.BackgroundKeep
		t.run(c)
		if !t.eventually(func() bool { _, err := t.ws.Stat(t.ctx, t.path(what)); return err == nil }) {
			t.Errorf("%s: %q waits for input that never ends", what, c.Shell)
		}
	}
}

func keepSurvivesOthers(t *checker) {
	mark := t.mark()
	t.leave("sleep MARK >/dev/null 2>&1 & echo done", mark, workspace.BackgroundKeep)
	t.run(workspace.Command{Shell: "sleep 4", Timeout: t.short(), KillGrace: shortGrace})
	t.wantAlive("after another's timeout", mark)
	ctx, cancel := context.WithTimeout(t.ctx, t.short())
	defer cancel()
	_, err := t.ws.Exec(ctx, workspace.Command{Shell: "sleep 4", Dir: t.dir, KillGrace: shortGrace})
	t.wantCode("another's abort", err, workspace.ErrAborted)
	t.leave("sleep 5 & echo done", "0", "")
	t.wantAlive("after others were ended", mark)
	t.endKept(mark)
}

func keepAndTimeout(t *checker) {
	mark := t.mark()
	out := t.run(workspace.Command{
		Shell: "sleep " + mark + " & sleep 5", Background: workspace.BackgroundKeep, Timeout: t.short(), KillGrace: shortGrace,
	})
	if !out.TimedOut {
		t.Errorf("the timeout%s", told(out))
	}
	t.wantDead("after the timeout", mark)
}

func siblingsSurvive(t *checker) {
	done := make(chan *workspace.Output, 1)
	go func() {
		out, err := t.exec(workspace.Command{Shell: "sleep 1.5; echo survived", Timeout: 10 * time.Second})
		if err != nil {
			t.Error(err)
		}
		done <- out
	}()
	for range 3 {
		t.run(workspace.Command{Shell: "sleep 4 & sleep 4", Timeout: 200 * time.Millisecond, KillGrace: shortGrace})
	}
	if out := <-done; out == nil || out.ExitCode != 0 || string(out.Stdout) != "survived\n" {
		t.Errorf("a command was disturbed by the timeouts of others%s", told(out))
	}
}

func closeEndsKept(t *checker) {
	t = t.fresh(workspace.Options{KillGrace: shortGrace})
	texts := []string{"(" + growing + ") >/dev/null & echo done", "(trap '' TERM; " + growing + ") & echo done"}
	if t.caps.EndsEscapees {
		texts = append(texts, "setsid sh -c '"+growing+"' & echo done")
	}
	for _, text := range texts {
		out := t.run(workspace.Command{Shell: text, Background: workspace.BackgroundKeep})
		if out.ExitCode != 0 {
			t.Errorf("%q%s", text, told(out))
		}
	}
	t.untilGrowing()
	began := time.Now()
	t.must(t.ws.Close())
	t.within("Close", began, 5*time.Second)
	t.wantStill("after Close")
}

func keptServer(t *checker) {
	// A server by files: requests are names in a directory, answers are their
	// content. It needs no network and no program but sh.
	t.ok("mkdir requests answers")
	out := t.run(workspace.Command{
		Shell:      "while :; do for r in requests/*; do [ -e $r ] && echo served ${r#requests/} > answers/.t && mv answers/.t answers/${r#requests/} && rm -f $r; done; sleep .02; done & echo started",
		Background: workspace.BackgroundKeep,
	})
	t.wantOut("starting the server", out, 0, "started\n", "")
	for i := range 3 {
		got := t.ok(fmt.Sprintf("echo > requests/%d; i=0; while [ ! -e answers/%d ] && [ $i -lt 200 ]; do sleep .02; i=$((i+1)); done; cat answers/%d", i, i, i))
		if got != fmt.Sprintf("served %d\n", i) {
			t.Errorf("request %d: %q", i, got)
		}
	}
	t.ok("rm -r requests") // the server has nothing to do any more
}
