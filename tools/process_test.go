//go:build unix

package tools_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

func TestProcesses(t *testing.T) {
	t.Parallel()
	b := newBench(t, tools.Options{})
	defer b.set.Close()
	id := b.ok("process_start", args{"command": `echo ready; while read x; do echo "got $x"; done; echo end; exit 5`})["id"]
	// output waits for text.
	next := 0.0
	output := func(want string) map[string]any {
		t.Helper()
		seen := ""
		for deadline := time.Now().Add(20 * time.Second); ; {
			got := b.ok("process_output", args{"id": id, "offset": next, "wait": 10})
			next = got["next_offset"].(float64)
			if seen += got["output"].(string); strings.Contains(seen, want) {
				return got
			}
			if got["running"] == false || time.Now().After(deadline) {
				t.Fatalf("%q never came, but %q", want, seen)
			}
		}
	}
	output("ready\n")
	b.ok("process_input", args{"id": id, "text": "one\n"})
	output("got one\n")
	if got := b.ok("process_output", args{"id": id, "offset": next}); got["output"] != "" || got["running"] != true {
		t.Errorf("got %v", got)
	}
	list := b.ok("process_list", args{})["processes"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["running"] != true || list[0].(map[string]any)["id"] != id {
		t.Errorf("listed %v", list)
	}
	b.ok("process_input", args{"id": id, "text": "two\n", "close": true})
	output("end\n")
	got := b.ok("process_output", args{"id": id, "offset": next, "wait": 10})
	if got["running"] != false || got["exit_code"] != 5.0 {
		t.Errorf("got %v", got)
	}
	if got := b.ok("process_output", args{"id": id}); got["output"] != "ready\ngot one\ngot two\nend\n" {
		t.Errorf("got %v", got)
	}
	if got := b.ok("process_signal", args{"id": id}); got["running"] != false {
		t.Errorf("got %v", got)
	}
	b.fails("process_input", args{"id": id, "text": "x"}, workspace.ErrInvalidArgument, "exited with code 5")
	b.fails("process_output", args{"id": "p99"}, workspace.ErrNotFound, "process_list")
	b.fails("process_start", args{"command": "true", "cwd": "gone"}, workspace.ErrNotFound)
}

// A signal ends a process and the call waits for that; a call's end does not end
// the process, the set's does.
func TestProcessesEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t, tools.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	start := func(command string) any {
		t.Helper()
		r := b.set.Call(ctx, tools.Request{Name: "process_start", Args: rawArgs(t, args{"command": command})})
		checkResult(t, b.set, "process_start", r)
		if r.IsError {
			t.Fatal(r.Text)
		}
		return structuredOf(t, r)["id"]
	}
	first, second := start("sleep 60"), start("trap '' TERM; while :; do sleep 0.1; done")
	cancel()
	if got := b.ok("process_output", args{"id": first}); got["running"] != true {
		t.Errorf("the end of the call ended the process: %v", got)
	}
	if got := b.ok("process_signal", args{"id": first}); got["running"] != false || got["exit_code"] != 143.0 {
		t.Errorf("after TERM: %v", got)
	}
	if got := b.ok("process_signal", args{"id": second, "signal": "KILL"}); got["running"] != false || got["exit_code"] != 137.0 {
		t.Errorf("after KILL: %v", got)
	}
	b.fails("process_signal", args{"id": second, "signal": "9"}, workspace.ErrInvalidArgument, "signal: must be one of")

	timed := b.ok("process_start", args{"command": "sleep 60", "timeout": 0.2})["id"]
	if got := b.ok("process_output", args{"id": timed, "wait": 10}); got["running"] != false || got["error"] != "its timeout ended it" {
		t.Errorf("got %v", got)
	}
	last := b.ok("process_start", args{"command": "sleep 60"})["id"]
	began := time.Now()
	if err := b.set.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("closing took %v", took)
	}
	b.fails("process_output", args{"id": last}, workspace.ErrNotFound)
	b.fails("process_start", args{"command": "true"}, workspace.ErrDisposed)
}

// What is kept of a process's output is bounded, and what is gone is counted.
func TestProcessOutputIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, tools.Options{Limits: tools.Limits{ProcessOutput: 10_000, Processes: 2}})
	defer b.set.Close()
	id := b.ok("process_start", args{"command": "yes é | head -n 100000; echo END"})["id"]
	if got := b.ok("process_output", args{"id": id, "offset": 400_000, "wait": 20}); got["output"] == nil {
		t.Error("nothing came")
	}
	for b.ok("process_output", args{"id": id, "offset": 300_004, "wait": 5})["running"] == true {
	}
	got := b.ok("process_output", args{"id": id})
	dropped, from := got["dropped"].(float64), got["offset"].(float64)
	if dropped != from || dropped < 300_004-20_000 || got["next_offset"].(float64)+got["remaining"].(float64) != 300_004 {
		t.Errorf("dropped %v, from %v to %v, %v remain", dropped, from, got["next_offset"], got["remaining"])
	}
	b.ok("process_start", args{"command": "sleep 60"})
	b.ok("process_start", args{"command": "sleep 60"})
	b.fails("process_start", args{"command": "sleep 60"}, workspace.ErrTooMany, "2 processes run already")
}

// One set serves many workspaces, and a process of one is none of another.
func TestProcessesBelongToTheirWorkspace(t *testing.T) {
	t.Parallel()
	a, b := newBench(t, tools.Options{}), newBench(t, tools.Options{})
	set := newSet(t, nil, tools.Options{})
	defer set.Close()
	call := func(ws *workspace.Workspace, name string, a args) *tools.Result {
		ctx := t.Context()
		if ws != nil {
			ctx = tools.WithWorkspace(ctx, ws)
		}
		r := set.Call(ctx, tools.Request{Name: name, Args: rawArgs(t, a)})
		checkResult(t, set, name, r)
		return r
	}
	id := structuredOf(t, call(a.ws, "process_start", args{"command": "sleep 60"}))["id"]
	if r := call(a.ws, "process_output", args{"id": id}); r.IsError {
		t.Error(r.Text)
	}
	if r := call(b.ws, "process_output", args{"id": id}); r.Code != workspace.ErrNotFound {
		t.Error(r.Text)
	}
	if r := call(b.ws, "process_list", args{}); len(structuredOf(t, r)["processes"].([]any)) != 0 {
		t.Error(r.Text)
	}
	if r := call(nil, "process_list", args{}); r.Code != workspace.ErrInvalidArgument || !strings.Contains(r.Text, "no workspace") {
		t.Error(r.Text)
	}
}
