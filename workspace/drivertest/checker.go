//go:build unix

package drivertest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// checker is what a case has in hand: a test, a workspace and a directory in
// it that no other case uses.
type checker struct {
	testing.TB
	suite *suite
	caps  Capabilities
	ctx   context.Context //nolint:containedctx // the life of one case

	ws   *workspace.Workspace
	host string // the root on this machine, "" when it cannot be reached
	dir  string // the case's directory, below the root
}

func newChecker(tb testing.TB, s *suite, ctx context.Context, name string) *checker {
	t := &checker{TB: tb, suite: s, caps: s.harness.Capabilities, ctx: ctx, dir: name}
	t.ws, t.host = s.shared()
	t.must(t.ws.Mkdir(ctx, name, workspace.MkdirOptions{Parents: true}))
	return t
}

// fresh gives the case a workspace of its own, closed at the end of the case.
// Its directory is the root.
func (t *checker) fresh(o workspace.Options) *checker {
	t.Helper()
	ws, host := t.suite.harness.New(t.TB, o)
	return t.over(ws, host)
}

// limited is fresh with bounds on what commands may use.
func (t *checker) limited(o workspace.Options, l Limits) *checker {
	t.Helper()
	ws, host := t.suite.harness.NewLimited(t.TB, o, l)
	return t.over(ws, host)
}

func (t *checker) over(ws *workspace.Workspace, host string) *checker {
	t.Cleanup(func() {
		if err := ws.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	f := *t
	f.ws, f.host, f.dir = ws, host, "."
	return &f
}

// path is the name of a file in the case's directory, relative to the root.
func (t *checker) path(name string) string {
	if t.dir == "." {
		return name
	}
	return t.dir + "/" + name
}

// abs is path as the workspace's own processes see it.
func (t *checker) abs(name string) string { return t.ws.Root() + "/" + t.path(name) }

// must fails the case at once when there is an error.
func (t *checker) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantCode fails the case unless err carries one of codes.
func (t *checker) wantCode(what string, err error, codes ...workspace.Code) {
	t.Helper()
	got := workspace.CodeOf(err)
	for _, c := range codes {
		if got == c {
			return
		}
	}
	t.Errorf("%s: error %v, want %v", what, err, codes)
}

// exec runs a command in the case's directory.
func (t *checker) exec(c workspace.Command) (*workspace.Output, error) {
	if c.Dir == "" {
		c.Dir = t.dir
	}
	return t.ws.Exec(t.ctx, c)
}

// run is exec that must give a status.
func (t *checker) run(c workspace.Command) *workspace.Output {
	t.Helper()
	out, err := t.exec(c)
	if err != nil {
		t.Fatalf("%s: %v%s", show(c), err, told(out))
	}
	return out
}

// sh runs a shell text, which must give a status.
func (t *checker) sh(text string) *workspace.Output {
	t.Helper()
	return t.run(workspace.Command{Shell: text})
}

// ok runs a shell text that must succeed and returns its standard output.
func (t *checker) ok(text string) string {
	t.Helper()
	out := t.sh(text)
	if out.ExitCode != 0 {
		t.Fatalf("%q: status %d%s", text, out.ExitCode, told(out))
	}
	return string(out.Stdout)
}

// works fails the case unless commands still run.
func (t *checker) works(after string) {
	t.Helper()
	out, err := t.exec(workspace.Command{Shell: "echo works"})
	if err != nil || out.ExitCode != 0 || string(out.Stdout) != "works\n" {
		t.Errorf("after %s the next command fails: %v%s", after, err, told(out))
	}
}

// wantOut fails the case unless a command gave exactly this.
func (t *checker) wantOut(what string, out *workspace.Output, status int, stdout, stderr string) {
	t.Helper()
	if out.ExitCode != status {
		t.Errorf("%s: status %d, want %d%s", what, out.ExitCode, status, told(out))
	}
	t.wantBytes(what+": stdout", out.Stdout, []byte(stdout))
	t.wantBytes(what+": stderr", out.Stderr, []byte(stderr))
}

// wantBytes compares bytes and shows where they part.
func (t *checker) wantBytes(what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	t.Errorf("%s: %d bytes, want %d; from byte %d on it is %q, want %q", what, len(got), len(want), at, clip(got[at:]), clip(want[at:]))
}

func clip(b []byte) []byte { return b[:min(len(b), 80)] }

// show is a command as a message tells it.
func show(c workspace.Command) string {
	what := fmt.Sprintf("%.120q", c.Args)
	if c.Shell != "" {
		what = fmt.Sprintf("sh -c %q", clip([]byte(c.Shell)))
	}
	if c.Dir != "" {
		what += fmt.Sprintf(" in %q", c.Dir)
	}
	return what
}

// told is what a command said, for messages.
func told(out *workspace.Output) string {
	if out == nil {
		return ""
	}
	return fmt.Sprintf("\n\tstatus %d timedOut %v stdout %q stderr %q", out.ExitCode, out.TimedOut, clip(out.Stdout), clip(out.Stderr))
}

// write makes a file in the case's directory.
func (t *checker) write(name, content string) {
	t.Helper()
	_, err := t.ws.WriteFile(t.ctx, t.path(name), []byte(content), workspace.WriteOptions{})
	t.must(err)
}

// wantFile fails the case unless a file in its directory has this content.
func (t *checker) wantFile(name, content string) {
	t.Helper()
	data, err := t.ws.ReadFile(t.ctx, t.path(name), 0)
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	t.wantBytes(name, data, []byte(content))
}

// wantGone fails the case when something has that name.
func (t *checker) wantGone(name string) {
	t.Helper()
	_, err := t.ws.Lstat(t.ctx, t.path(name))
	t.wantCode(name, err, workspace.ErrNotFound)
}

// names lists the case's directory.
func (t *checker) names() []string {
	t.Helper()
	list, err := t.ws.ReadDir(t.ctx, t.dir, workspace.ListOptions{})
	t.must(err)
	var names []string
	for _, e := range list.Entries {
		names = append(names, e.Name())
	}
	return names
}

// plant does something to the tree behind the back of the workspace's files: a
// shell on this machine where the root can be reached, a command otherwise. It
// runs in the case's directory and must succeed.
func (t *checker) plant(text string) string {
	t.Helper()
	if t.host == "" {
		return t.ok(text)
	}
	cmd := exec.CommandContext(t.ctx, "/bin/sh", "-c", text)
	cmd.Dir = filepath.Join(t.host, t.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%q on this machine: %v\n%s", text, err, out)
	}
	return string(out)
}

// outside returns a directory that is no part of the root, with a file
// "secret" in it, and a function that tells whether it is still as it was.
func (t *checker) outside() (dir string, intact func()) {
	t.Helper()
	if t.host == "" {
		dir = strings.TrimSpace(t.ok("d=$(mktemp -d) && echo top secret >$d/secret && echo $d"))
		return dir, func() {
			t.Helper()
			if got := t.ok("ls -A '" + dir + "'; cat '" + dir + "/secret'"); got != "secret\ntop secret\n" {
				t.Errorf("the directory outside is now %q", got)
			}
		}
	}
	dir = t.TempDir()
	secret := filepath.Join(dir, "secret")
	t.must(os.WriteFile(secret, []byte("top secret\n"), 0o644))
	before, err := os.Stat(secret)
	t.must(err)
	return dir, func() {
		t.Helper()
		entries, err := os.ReadDir(dir)
		t.must(err)
		data, err := os.ReadFile(secret)
		t.must(err)
		after, err := os.Stat(secret)
		t.must(err)
		if len(entries) != 1 || string(data) != "top secret\n" || after.Mode() != before.Mode() || !after.ModTime().Equal(before.ModTime()) {
			t.Errorf("the directory outside was changed: %v, secret %q, mode %v", entries, data, after.Mode())
		}
	}
}

// mark is a number that no other process has among its arguments, good for
// sleep(1).
func (t *checker) mark() string {
	return strconv.Itoa(1_000_000_000 + rand.IntN(1_000_000_000))
}

// alive returns the workspace's processes that have mark among their
// arguments.
func (t *checker) alive(mark string) []string {
	t.Helper()
	// The last digit in brackets keeps the search from finding itself.
	pattern := mark[:len(mark)-1] + "[" + mark[len(mark)-1:] + "]"
	out, err := t.exec(workspace.Command{Shell: `if test -r /proc/self/cmdline; then grep -las ` + pattern +
		` /proc/[0-9]*/cmdline; else ps -A -o pid=,args= | grep ` + pattern + `; fi; :`})
	if err != nil || out.ExitCode != 0 {
		t.Fatalf("looking for processes: %v%s", err, told(out))
	}
	return strings.Fields(string(out.Stdout))
}

// wantDead fails the case when a process with mark is alive. The contract says
// when it must be gone, so there is nothing to wait for.
func (t *checker) wantDead(when, mark string) {
	t.Helper()
	if got := t.alive(mark); len(got) > 0 {
		t.Errorf("%s: %d processes are alive: %v", when, len(got), got)
	}
}

// wantAlive fails the case unless a process with mark comes to be alive.
func (t *checker) wantAlive(when, mark string) {
	t.Helper()
	if !t.eventually(func() bool { return len(t.alive(mark)) > 0 }) {
		t.Errorf("%s: the process is gone", when)
	}
}

// eventually polls until ok, for at most five seconds, and more where commands are
// slower.
func (t *checker) eventually(ok func() bool) bool {
	const patience, pause = 5 * time.Second, 10 * time.Millisecond
	end := time.Now().Add(patience * time.Duration(t.suite.harness.Slower))
	for ; ; time.Sleep(pause) {
		if ok() {
			return true
		}
		if time.Now().After(end) || t.ctx.Err() != nil {
			return false
		}
	}
}

// within fails the case when more than limit, and the machine's slack, has
// passed since began.
func (t *checker) within(what string, began time.Time, limit time.Duration) {
	t.Helper()
	if took := time.Since(began); took > limit+t.suite.harness.Slack {
		t.Errorf("%s took %v, the limit is %v", what, took.Round(time.Millisecond), limit)
	}
}
