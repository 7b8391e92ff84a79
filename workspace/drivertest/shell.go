//go:build unix

package drivertest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

func shellCases() []testCase {
	start := []capability{needStart()}
	return []testCase{
		{name: "state", run: shellState, needs: start, rule: "A shell keeps its directory, variables and functions between commands, and begins in its Dir."},
		{name: "results", run: shellResults, needs: start, rule: "Each command has its own status and its own streams, apart and byte for byte."},
		{name: "stdin", run: shellStdin, needs: start, rule: "A command gets its own standard input, else end of file; none eats the shell's."},
		{name: "bad text", run: shellBadText, needs: start, rule: "Unbalanced quotes and syntax errors are that command's failure; the shell and its state stay."},
		{name: "exit", run: shellExit, needs: start, rule: "A command that ends the shell has its status and says that the state is lost; the next one works."},
		{name: "timeout", run: shellTimeout, needs: start, rule: "A timeout or an abort ends the running command alone, with its partial output; nothing of it is alive."},
		{name: "TERM-ignorer", run: shellIgnorer, needs: start, rule: "A command that ignores signals is ended all the same, and the session goes on."},
		{name: "close", run: shellClose, needs: start, rule: "Close ends the shell and what it left running; a later Run is DISPOSED."},
		{name: "not supported", run: shellAbsent, rule: "A shell needs Start: without it OpenShell is UNSUPPORTED, with it a shell opens."},
	}
}

// shell opens a shell in the case's directory and closes it at the end.
func (t *checker) shell() *workspace.Shell {
	t.Helper()
	s, err := t.ws.OpenShell(t.ctx, workspace.ShellOptions{Dir: t.dir, KillGrace: shortGrace})
	t.must(err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close of a shell: %v", err)
		}
	})
	return s
}

// inShell runs a command that must give a result.
func (t *checker) inShell(s *workspace.Shell, c workspace.ShellCommand) *workspace.ShellOutput {
	t.Helper()
	out, err := s.Run(t.ctx, c)
	if err != nil {
		t.Fatalf("%.80q: %v", c.Text, err)
	}
	return out
}

// wantShell runs text and compares its status and streams.
func (t *checker) wantShell(s *workspace.Shell, text string, status int, stdout, stderr string) {
	t.Helper()
	out := t.inShell(s, workspace.ShellCommand{Text: text})
	t.wantOut(text, &out.Output, status, stdout, stderr)
	if out.Lost != "" || out.TimedOut {
		t.Errorf("%q: timed out %v, lost %q", text, out.TimedOut, out.Lost)
	}
}

func shellState(t *checker) {
	s := t.shell()
	t.wantShell(s, "mkdir d; cd d; X='a b'; f() { echo \"$1 $X\"; }", 0, "", "")
	t.wantShell(s, "pwd; f 1", 0, t.pwd(t.path("d"))+"1 a b\n", "")
}

func shellResults(t *checker) {
	s := t.shell()
	t.wantShell(s, "echo out; echo err >&2; (exit 42)", 42, "out\n", "err\n")
	t.wantShell(s, "printf 'no newline'; printf 'nor here' >&2", 0, "no newline", "nor here")
	t.wantShell(s, "exec 2>&1 >/dev/null", 0, "", "")
	t.wantShell(s, "echo out; echo err >&2", 0, "out\n", "err\n")
	data := randomBytes(200_000)
	out := t.inShell(s, workspace.ShellCommand{Text: "cat", Stdin: bytes.NewReader(data)})
	t.wantBytes("200 kB of any bytes", out.Stdout, data)
}

func shellStdin(t *checker) {
	s := t.shell()
	t.wantShell(s, "cat; read -r x; echo $?", 0, "1\n", "")
	out := t.inShell(s, workspace.ShellCommand{Text: "read -r x", Stdin: strings.NewReader("line\nmore\n")})
	t.wantOut("read", &out.Output, 0, "", "")
	t.wantShell(s, "echo $x", 0, "line\n", "")
}

func shellBadText(t *checker) {
	s := t.shell()
	t.wantShell(s, "X=kept", 0, "", "")
	for _, text := range []string{"echo 'open", `echo "open`, "echo $(open", "fi", ")", "if true", "nosuchprogram", "echo ${unset_here?told}"} {
		out := t.inShell(s, workspace.ShellCommand{Text: text})
		if out.ExitCode == 0 || len(out.Stderr) == 0 || out.Lost != "" {
			t.Errorf("%q: lost %q%s", text, out.Lost, told(&out.Output))
		}
		t.wantShell(s, "echo $X", 0, "kept\n", "")
	}
}

func shellExit(t *checker) {
	s := t.shell()
	for text, status := range map[string]int{"echo out; exit 7": 7, "echo out; exec sh -c 'exit 9'": 9} {
		out := t.inShell(s, workspace.ShellCommand{Text: text})
		t.wantOut(text, &out.Output, status, "out\n", "")
		if out.Lost == "" {
			t.Errorf("%q: nothing says that the state is lost", text)
		}
		t.wantShell(s, "pwd", 0, t.pwd(t.dir), "")
	}
}

func shellTimeout(t *checker) {
	s := t.shell()
	t.wantShell(s, "X=kept", 0, "", "")
	mark := t.mark()
	text := "echo begun; sleep " + mark + "; echo no"
	began := time.Now()
	out := t.inShell(s, workspace.ShellCommand{Text: text, Timeout: t.short()})
	t.within("a timeout", began, t.short()+shortGrace+2*time.Second)
	t.wantOut(text, &out.Output, 124, "begun\n", "")
	if !out.TimedOut || out.Lost != "" {
		t.Errorf("timed out %v, lost %q", out.TimedOut, out.Lost)
	}
	t.wantDead("after a timeout", mark)
	t.wantShell(s, "echo $X", 0, "kept\n", "")

	ctx, cancel := context.WithTimeout(t.ctx, t.short())
	defer cancel()
	out, err := s.Run(ctx, workspace.ShellCommand{Text: text})
	t.wantCode("an abort", err, workspace.ErrAborted)
	if !errors.Is(err, context.DeadlineExceeded) || out == nil || string(out.Stdout) != "begun\n" || out.TimedOut {
		t.Errorf("an abort: %+v, %v", out, err)
	}
	t.wantDead("after an abort", mark)
	t.wantShell(s, "echo $X", 0, "kept\n", "")
}

func shellIgnorer(t *checker) {
	s := t.shell()
	mark := t.mark()
	began := time.Now()
	out := t.inShell(s, workspace.ShellCommand{Text: "(trap '' INT TERM HUP; sleep " + mark + "); echo no", Timeout: t.short()})
	t.within("a timeout", began, t.short()+shortGrace+2*time.Second)
	// The shell may say on stderr what became of it.
	if out.ExitCode != 124 || !out.TimedOut || len(out.Stdout) != 0 {
		t.Errorf("a TERM-ignorer%s", told(&out.Output))
	}
	t.wantDead("after a timeout", mark)
	t.wantShell(s, "echo next", 0, "next\n", "")
}

func shellClose(t *checker) {
	s := t.shell()
	mark := t.mark()
	t.wantShell(s, "sleep "+mark+" & :", 0, "", "")
	t.wantAlive("a background process of a shell", mark)
	began := time.Now()
	t.must(s.Close())
	t.within("Close", began, shortGrace+2*time.Second)
	t.wantDead("after Close", mark)
	_, err := s.Run(t.ctx, workspace.ShellCommand{Text: "echo > ran"})
	t.wantCode("Run after Close", err, workspace.ErrDisposed)
	t.wantGone("ran")
}

func shellAbsent(t *checker) {
	s, err := t.ws.OpenShell(t.ctx, workspace.ShellOptions{Dir: t.dir})
	if t.caps.Start {
		t.must(err)
		t.must(s.Close())
		return
	}
	t.wantCode("OpenShell", err, workspace.ErrUnsupported)
}
