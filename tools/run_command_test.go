//go:build unix

package tools_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

func TestRunCommand(t *testing.T) {
	b := newBench(t, tools.Options{})
	b.put("sub/f", "x")
	got := b.ok("run_command", args{"command": "echo out; echo err >&2; ls; cat; echo $A; exit 3", "cwd": "sub", "stdin": "in\n", "env": args{"A": "b c"}})
	if got["exit_code"] != 3.0 || got["stdout"] != "out\nf\nin\nb c\n" || got["stderr"] != "err\n" || got["timed_out"] != false || got["output_path"] != nil {
		t.Errorf("got %v", got)
	}
	r := b.call("run_command", args{"command": "echo out; echo err >&2"})
	if !strings.HasPrefix(r.Text, "Exit code 0 after 0.") || !strings.HasSuffix(r.Text, "s.\n--- stdout ---\nout\n--- stderr ---\nerr") {
		t.Errorf("got %q", r.Text)
	}
	b.fails("run_command", args{"command": "true", "cwd": "gone"}, workspace.ErrNotFound, "gone")
	b.fails("run_command", args{"command": "true", "cwd": "sub/f"}, workspace.ErrNotDirectory)
	b.fails("run_command", args{"command": "true", "cwd": "../"}, workspace.ErrOutside)
	b.fails("run_command", args{"command": ""}, workspace.ErrInvalidArgument)
	b.fails("run_command", args{"command": ": " + strings.Repeat("x", 140_000)}, workspace.ErrTooLarge)
	b.fails("run_command", args{"command": "true", "env": args{"A=B": "c"}}, workspace.ErrInvalidArgument, "A=B")
	b.fails("run_command", args{"command": "true", "env": args{"A": 1}}, workspace.ErrInvalidArgument, "env.A: must be a string, not a number (1)")
}

func TestRunCommandTimesOut(t *testing.T) {
	t.Parallel()
	b := newBench(t, tools.Options{})
	for _, bad := range []string{"0", "-1", "1e15", "9223372036854775807", `"5"`, "null", "true", "1e999"} {
		b.fails("run_command", fmt.Sprintf(`{"command":"true","timeout":%s}`, bad), workspace.ErrInvalidArgument, "timeout: ")
	}
	got := b.ok("run_command", args{"command": "echo CRIT; echo W >&2; sleep 30", "timeout": 0.5})
	if got["exit_code"] != 124.0 || got["timed_out"] != true || got["stdout"] != "CRIT\n" || got["stderr"] != "W\n" {
		t.Errorf("got %v", got)
	}
	if got := b.ok("run_command", args{"command": "exit 124"}); got["timed_out"] != false {
		t.Errorf("a status of 124 is taken for a timeout: %v", got)
	}
	set := newSet(t, b.ws, tools.Options{Limits: tools.Limits{CommandTimeout: 300 * time.Millisecond}})
	if r := b.callIn(set, "run_command", args{"command": "sleep 30"}); !strings.Contains(r.Text, "the timeout ended it") {
		t.Errorf("got %q", r.Text)
	}
}

// The end of the call's context ends the command, and what it wrote is there.
func TestRunCommandIsCancelled(t *testing.T) {
	b := newBench(t, tools.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	r := b.set.Call(ctx, tools.Request{
		Name: "run_command", Args: rawArgs(t, args{"command": "echo CRIT; echo W >&2; sleep 30; touch late"}),
		Progress: func(p tools.Progress) {
			if p.Stream == "stderr" {
				cancel()
			}
		},
	})
	checkResult(t, b.set, "run_command", r)
	if r.Code != workspace.ErrAborted || !strings.Contains(r.Text, "CRIT") || structuredOf(t, r)["stderr"] != "W\n" {
		t.Errorf("got %+v", r)
	}
}

// Of long output the head and the tail are shown, the rest is counted, and all
// of it can be read.
func TestRunCommandSavesLongOutput(t *testing.T) {
	t.Parallel()
	b := newBench(t, tools.Options{Run: "r"})
	r := b.set.Call(t.Context(), tools.Request{Name: "run_command", ID: "c", Args: rawArgs(t, args{
		"command": "echo first; i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done; echo last; echo boom >&2; exit 4",
	})})
	checkResult(t, b.set, "run_command", r)
	got := structuredOf(t, r)
	stdout := got["stdout"].(string)
	if !strings.HasPrefix(stdout, "first\n") || !strings.HasSuffix(stdout, "\nlast\n") || got["stderr"] != "boom\n" || got["exit_code"] != 4.0 {
		t.Errorf("got %v", got)
	}
	path := tools.ToolResultPath("r", "c")
	if got["output_path"] != path || r.Path != path || !strings.Contains(r.Text, path) {
		t.Errorf("saved in %v and %v, want %s", got["output_path"], r.Path, path)
	}
	all := b.get(path)
	dropped := int(got["stdout_dropped"].(float64))
	note := fmt.Sprintf("\n[%d bytes left out here]\n", dropped)
	if !strings.Contains(stdout, note) || len(stdout)-len(note)+dropped+len("boom\n") != len(all) {
		t.Errorf("%d bytes shown, %d dropped, %d saved", len(stdout)-len(note), dropped, len(all))
	}
	if !strings.Contains(all, "line 10000\n") || !strings.Contains(all, "boom\n") {
		t.Error("what is left out is not in the file")
	}
	if page := b.ok("read_file", args{"path": path, "offset": 10002, "limit": 1}); page["content"] != "line 10000\n" {
		t.Errorf("read %v", page)
	}
}

// More than the file may hold is told, and memory does not grow with it.
func TestRunCommandBoundsWhatItSaves(t *testing.T) {
	b := newBench(t, tools.Options{Limits: tools.Limits{SavedOutput: 100_000}})
	got := b.ok("run_command", args{"command": "head -c 5000000 /dev/zero | tr '\\0' x"})
	if warning, _ := got["warning"].(string); !strings.Contains(warning, "5000000 bytes of output the first 100000") {
		t.Errorf("got %v", got["warning"])
	}
	if fi, err := os.Stat(filepath.Join(b.dir, got["output_path"].(string))); err != nil || fi.Size() != 100_000 {
		t.Errorf("saved %v, %v", fi.Size(), err)
	}
	if err := os.RemoveAll(filepath.Join(b.dir, ".wsctl/tool-results")); err != nil {
		t.Fatal(err)
	}
	b.put(".wsctl/tool-results", "in the way")
	got = b.ok("run_command", args{"command": "head -c 5000000 /dev/zero | tr '\\0' x; echo end"})
	if warning, _ := got["warning"].(string); !strings.Contains(warning, "could not be saved and is lost: INVALID_PATH") || got["output_path"] != nil {
		t.Errorf("got %v, %v", got["warning"], got["output_path"])
	}
	if !strings.HasSuffix(got["stdout"].(string), "xend\n") {
		t.Error("the tail is missing")
	}
}

func TestRunCommandOutputIsText(t *testing.T) {
	b := newBench(t, tools.Options{})
	got := b.ok("run_command", args{"command": `printf 'ok\376\377\000z\n'; exit 7`})
	if got["stdout"] != "ok\uFFFD\uFFFD\x00z\n" || got["replaced"] != 2.0 || got["exit_code"] != 7.0 {
		t.Errorf("got %v", got)
	}
	const escapes = `printf 'a\033[31mred\033[0m \033]0;title\007b\033]8;;http://x\033\\link\033(B\302\2335mc\033]52;open\nnext\033'`
	if got := b.ok("run_command", args{"command": escapes, "strip_ansi": true}); got["stdout"] != "ared blinkc\nnext" {
		t.Errorf("got %q", got["stdout"])
	}
	if got := b.ok("run_command", args{"command": escapes}); !strings.Contains(got["stdout"].(string), "\x1b[31m") {
		t.Errorf("removed without being asked: %q", got["stdout"])
	}
}

// Progress is text in whole characters, stream by stream, and all of it.
func TestRunCommandTellsProgress(t *testing.T) {
	b := newBench(t, tools.Options{})
	var mu sync.Mutex
	told := map[string]string{}
	r := b.set.Call(t.Context(), tools.Request{
		Name: "run_command",
		Args: rawArgs(t, args{"command": `printf '\303'; sleep 0.1; printf '\251'; echo '{"stream":"stderr"}'; echo err >&2; printf '\303' >&2`}),
		Progress: func(p tools.Progress) {
			mu.Lock()
			defer mu.Unlock()
			told[p.Stream] += p.Text
		},
	})
	checkResult(t, b.set, "run_command", r)
	if told["stdout"] != "é{\"stream\":\"stderr\"}\n" || told["stderr"] != "err\n\uFFFD" || len(told) != 2 {
		t.Errorf("told %q", told)
	}
}

// A background command is kept when that is asked for, else it is ended.
func TestRunCommandBackground(t *testing.T) {
	t.Parallel()
	b := newBench(t, tools.Options{})
	for mode, want := range map[string]bool{"kill": false, "keep": true} {
		b.ok("run_command", args{"command": "(sleep 0.4; touch " + mode + ") & true", "background": mode})
		time.Sleep(time.Second)
		if _, err := os.Stat(filepath.Join(b.dir, mode)); (err == nil) != want {
			t.Errorf("background %s: %v", mode, err)
		}
	}
}
