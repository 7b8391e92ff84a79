//go:build unix

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/reaper"
)

// TestScripts runs testdata/script/<verb>_<case>.txtar, each a session as a user
// types it. Beside testscript's own commands they have
//
//	exits N CMD ARG…      run it; its status must be N
//	json PATH VALUE       stdout is one JSON document with this VALUE (as JSON) at PATH
//	json PATH             … with anything but null at PATH
//	lines stream N        the last stdout or stderr has N lines
//	left                  containers over this script's directory: none may be there, 5 s later
//
// and the condition [docker], which fails under WSCTL_REQUIRE_DOCKER=1 when there
// is no engine. Each starts in a new directory, proj, which is a good root; $IMAGE
// is a BusyBox image, $NAME the name of a workspace that nobody else has.
func TestScripts(t *testing.T) {
	bin := filepath.Dir(binary(t))
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Condition:           condition,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", bin+string(filepath.ListSeparator)+e.Getenv("PATH"))
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			for _, name := range []string{"DOCKER_HOST", "GOPATH", "GOCACHE", "GOMODCACHE", "GOFLAGS"} {
				if v, ok := os.LookupEnv(name); ok {
					e.Setenv(name, v)
				}
			}
			// Environment of the kind that must not reach a command.
			e.Setenv("CANARY", "a-secret-of-wsctl")
			e.Cd = filepath.Join(e.WorkDir, "proj")
			for _, dir := range []string{e.Cd, e.Getenv("HOME"), e.Getenv("XDG_CACHE_HOME")} {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return err
				}
			}
			t, ok := e.T().(testing.TB)
			if !ok {
				return errors.New("testscript's T is no testing.TB any more")
			}
			e.Values[testKey{}] = t
			// The engine is shared, and names of workspaces are unique on it.
			e.Setenv("NAME", "script-"+reaper.NewID())
			if haveEngine() {
				e.Setenv("IMAGE", enginetest.BusyBox(t))
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"json":  checkJSON,
			"lines": countLines,
			"left":  left,
		},
	})
}

func condition(cond string) (bool, error) {
	if cond != "docker" {
		return false, fmt.Errorf("there is no condition %q", cond)
	}
	if !haveEngine() && os.Getenv("WSCTL_REQUIRE_DOCKER") == "1" {
		return false, errors.New("no engine answers, and WSCTL_REQUIRE_DOCKER=1")
	}
	return haveEngine(), nil
}

// exits runs a command whose status matters.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N CMD ARG…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("status %d, want %d", got, want)
	}
}

// checkJSON looks into the one document on stdout.
func checkJSON(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: json PATH [VALUE]")
	}
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	var doc any
	if err := dec.Decode(&doc); err != nil {
		ts.Fatalf("stdout is no JSON: %v", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		ts.Fatalf("stdout holds more than one JSON document")
	}
	for _, key := range strings.Split(args[0], ".") {
		switch v := doc.(type) {
		case map[string]any:
			doc = v[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(v) {
				ts.Fatalf("%s: there is no element %s", args[0], key)
			}
			doc = v[i]
		default:
			doc = nil
		}
	}
	var ok bool
	if len(args) == 1 {
		ok = doc != nil
	} else {
		var want any
		if err := json.Unmarshal([]byte(args[1]), &want); err != nil {
			ts.Fatalf("%s is no JSON: %v", args[1], err)
		}
		// Encoded, both have their keys in the same order.
		a, _ := json.Marshal(doc)
		b, _ := json.Marshal(want)
		ok = string(a) == string(b)
	}
	if ok == neg {
		got, _ := json.Marshal(doc)
		ts.Fatalf("%s is %s", args[0], got)
	}
}

func countLines(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lines stdout|stderr N")
	}
	text := ts.ReadFile(args[0])
	if got := strings.Count(text, "\n"); strconv.Itoa(got) != args[1] {
		ts.Fatalf("%s has %d lines: %s", args[0], got, text)
	}
}

// testKey is where a script's own test is kept.
type testKey struct{}

// left looks for containers over the script's directory.
func left(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: left")
	}
	t, ok := ts.Value(testKey{}).(testing.TB)
	if !ok {
		ts.Fatalf("the script has no test")
	}
	nothingLeft(t, ts.Getenv("WORK"), 5*time.Second)
}
