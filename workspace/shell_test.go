//go:build unix

package workspace_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

func TestShellKeepsState(t *testing.T) {
	eachShell(t, func(t *testing.T, s *shellTest) {
		s.want("mkdir -p d && cd d; X='a b'; f() { echo \"f $1 $X\"; }; set -- p q; umask 027; alias ll='echo alias'", 0, "", "")
		s.want("pwd; f 1; echo $# $2; umask", 0, s.dir+"/d\nf 1 a b\n2 q\n0027\n", "")
		s.want("ll", 0, "alias\n", "")
		s.want("set -u; exec 5>&1", 0, "", "")
		s.want("case $- in *u*) echo u;; esac; set +u", 0, "u\n", "")
		s.want("trap 'echo usr1' USR1", 0, "", "")
		s.want("kill -USR1 $$", 0, "usr1\n", "")
	})
}

func TestShellTellsEachCommandApart(t *testing.T) {
	eachShell(t, func(t *testing.T, s *shellTest) {
		s.want("echo out; echo err >&2; false", 1, "out\n", "err\n")
		s.want("", 0, "", "")
		s.want("# a comment", 0, "", "")
		s.want("(exit 42)", 42, "", "")
		s.want("echo $?", 0, "0\n", "") // each begins with the status of its own frame
		s.want("printf 'no newline'; printf 'here neither' >&2", 0, "no newline", "here neither")
		s.want("printf '\\036\\036half\\036'", 0, "\x1e\x1ehalf\x1e", "")
		s.want("echo it\\'s 'a \"quote\"' \\\\", 0, "it's a \"quote\" \\\n", "")
		s.want("cat <<X\none\ntwo\nX\necho three", 0, "one\ntwo\nthree\n", "")
		s.want("echo 'a!b'; echo \"c!d\"", 0, "a!b\nc!d\n", "")
		s.want("sleep 30 & echo started; kill -9 $!; wait $! 2>/dev/null; :", 0, "started\n", "")
		if out := s.run(workspace.ShellCommand{Text: "/nonexistent/x"}); out.ExitCode != 127 || len(out.Stderr) == 0 {
			t.Errorf("not found: %+v", out)
		}
		if out := s.run(workspace.ShellCommand{Text: "sh -c 'kill -9 $$'"}); out.ExitCode != 137 || out.Lost != "" {
			t.Errorf("a killed program: %+v", out)
		}
	})
}

func TestShellSurvives(t *testing.T) {
	eachShell(t, func(t *testing.T, s *shellTest) {
		for _, text := range []string{
			"echo 'open", `echo "open`, "echo `open", "echo $(open", "fi", "done", ")", "} }", "&& x", "if true", "while :; do", "case x in", "f() {",
			"echo ${unset_here?told}", "set -u; echo $unset_here; echo no", "readonly RO=1; RO=2; echo no",
			"exec >&-; echo x", ". /nonexistent/file", "cat </nonexistent", "nosuchprogram", "trap x NOSUCHSIGNAL",
		} {
			s.fails(text)
			s.run(workspace.ShellCommand{Text: "set +u"})
		}
		// bash says on stderr that the document has no end.
		if out := s.run(workspace.ShellCommand{Text: "cat <<X | tr -d '\\n'\nno end"}); string(out.Stdout) != "no end" || out.ExitCode != 0 || out.Lost != "" {
			t.Errorf("a document without an end: %+v", out)
		}
	})
}

func TestShellUndoesAbuse(t *testing.T) {
	eachShell(t, func(t *testing.T, s *shellTest) {
		for _, text := range []string{
			"exec 2>&1", "exec >/dev/null", "exec <&-", "exec 8>&- 9>&-", "exec 8>/dev/null 9>/dev/null", "set -e", "set -x", "set -v", "trap '' INT TERM HUP",
			"printf() { echo mine; }", "command() { echo mine; }", "PATH=", "IFS=x1", "alias printf=false command=false eval=false",
			"PS1='prompt ' PS2='more '", "trap 'echo bye' EXIT", "set -C -f -a", "unset PATH", "unset IFS",
		} {
			s.run(workspace.ShellCommand{Text: text})
			s.want("echo out; echo err >&2; (exit 3)", 3, "out\n", "err\n")
			s.run(workspace.ShellCommand{Text: "PATH=/usr/bin:/bin; IFS=' '; unalias -a; unset -f printf; trap - EXIT INT TERM HUP"})
		}
		s.want("kill -INT $$; echo no", 130, "", "")
		s.want("echo still", 0, "still\n", "")
	})
}

func TestShellBeginsAnew(t *testing.T) {
	eachShell(t, func(t *testing.T, s *shellTest) {
		for text, status := range map[string]int{"echo out; exit 7": 7, "set -e; false; echo no": 1, "exec sh -c 'exit 9'": 9, "kill -9 $$": 137} {
			s.want("cd /; X=1", 0, "", "")
			out := s.run(workspace.ShellCommand{Text: text})
			if out.ExitCode != status || out.Lost == "" || out.TimedOut || len(out.Stderr) != 0 {
				t.Errorf("%q: %+v %q", text, out, out.Stderr)
			}
			if strings.Contains(text, "out") != (string(out.Stdout) == "out\n") {
				t.Errorf("%q: stdout %q", text, out.Stdout)
			}
			s.want("pwd; echo $X", 0, s.dir+"\n\n", "")
		}
		// It is ended between commands.
		s.want("(sleep .2; kill -9 $$) >/dev/null 2>&1 &", 0, "", "")
		deadline := time.Now().Add(10 * time.Second)
		for {
			out := s.run(workspace.ShellCommand{Text: "echo here"})
			if out.Lost != "" {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("nobody says that the shell was killed")
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

func TestShellStdin(t *testing.T) {
	eachShell(t, func(t *testing.T, s *shellTest) {
		data := make([]byte, 300_000)
		for i := range data {
			data[i] = byte(rand.IntN(256))
		}
		out := s.run(workspace.ShellCommand{Text: "cat; echo to-err >&2", Stdin: bytes.NewReader(data)})
		if !bytes.Equal(out.Stdout, data) || string(out.Stderr) != "to-err\n" {
			t.Errorf("%d bytes came back of %d, stderr %q", len(out.Stdout), len(data), out.Stderr)
		}
		out = s.run(workspace.ShellCommand{Text: "read -r x", Stdin: strings.NewReader("line\nmore\n")})
		if out.ExitCode != 0 {
			t.Errorf("read: %+v", out)
		}
		s.want("echo $x; cat; echo end", 0, "line\nend\n", "")
		// A reader that never delivers holds nothing back.
		r, w := io.Pipe()
		defer w.Close()
		if out := s.run(workspace.ShellCommand{Text: "echo done", Stdin: r}); string(out.Stdout) != "done\n" {
			t.Errorf("beside a silent reader: %+v", out)
		}
		names, err := os.ReadDir(s.dir)
		if err != nil || len(names) != 0 {
			t.Errorf("left in TMPDIR: %v, %v", names, err)
		}
	})
}

func TestShellTimeout(t *testing.T) {
	eachShell(t, func(t *testing.T, s *shellTest) {
		s.want("cd /; X=kept; sleep 1000 & B=$!", 0, "", "")
		for _, text := range []string{
			"echo begun; sleep 30; echo no", "echo begun; while :; do :; done", "f() { while :; do sleep .02; done; }; echo begun; f; f; echo no",
			"echo begun; sleep 30 | sleep 30; echo no", "echo begun; wait $B; echo no", "echo begun; (sleep 30; echo no); echo no",
		} {
			began := time.Now()
			out := s.run(workspace.ShellCommand{Text: text, Timeout: 300 * time.Millisecond})
			if out.ExitCode != 124 || !out.TimedOut || out.Lost != "" || string(out.Stdout) != "begun\n" {
				t.Errorf("%q: %+v %q", text, out, out.Stdout)
			}
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%q took %v", text, took)
			}
			s.want("pwd; echo $X; kill -0 $B; echo $?", 0, "/\nkept\n0\n", "")
		}
		s.want("kill -9 $B", 0, "", "")
	})
}

func TestShellTimeoutOfWhatIgnoresIt(t *testing.T) {
	eachShell(t, func(t *testing.T, s *shellTest) {
		s.want("X=kept", 0, "", "")
		began := time.Now()
		out := s.run(workspace.ShellCommand{Text: "sh -c \"trap '' INT TERM HUP; echo begun; while :; do sleep 1; done\"; echo no", Timeout: 300 * time.Millisecond})
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("it took %v", took)
		}
		if !out.TimedOut || out.ExitCode != 124 || string(out.Stdout) != "begun\n" || (out.Lost != "") != s.bash {
			t.Errorf("%+v %q", out, out.Stdout)
		}
		want := "kept\n"
		if s.bash {
			want = "\n"
		}
		s.want("echo $X", 0, want, "")
		out = s.run(workspace.ShellCommand{Text: "trap '' INT; while :; do :; done", Timeout: 300 * time.Millisecond})
		if !out.TimedOut || out.Lost == "" {
			t.Errorf("a shell that ignores interrupts itself: %+v", out)
		}
		s.want("echo anew", 0, "anew\n", "")
	})
}

// A shell that goes on with the text, because a program has taken the interrupt for
// itself, is interrupted again; a program that cleans up is not.
func TestShellTimeoutOfWhatHandlesIt(t *testing.T) {
	eachShellWith(t, 5*time.Second, func(t *testing.T, s *shellTest) {
		s.want("X=kept", 0, "", "")
		out := s.run(workspace.ShellCommand{
			Text:    `sh -c 'trap "exit 0" INT; echo begun; while :; do sleep .02; done'; sleep 30; echo no`,
			Timeout: 300 * time.Millisecond,
		})
		if !out.TimedOut || out.Lost != "" || string(out.Stdout) != "begun\n" {
			t.Errorf("goes on: %+v %q", out, out.Stdout)
		}
		s.want("echo $X", 0, "kept\n", "")
		if !s.bash {
			return // it does not wait for the program
		}
		out = s.run(workspace.ShellCommand{
			Text: `sh -c 'clean() { trap "echo twice" INT; sh -c "trap : INT; sleep .4"; sleep .4; echo clean; exit 0; }
				trap clean INT; echo begun; while :; do sleep .02; done'`,
			Timeout: 300 * time.Millisecond,
		})
		if !out.TimedOut || out.Lost != "" || string(out.Stdout) != "begun\nclean\n" {
			t.Errorf("cleans up: %+v %q", out, out.Stdout)
		}
		s.want("echo $X", 0, "kept\n", "")
	})
}

func TestShellAbort(t *testing.T) {
	eachShell(t, func(t *testing.T, s *shellTest) {
		s.want("X=kept", 0, "", "")
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		out, err := s.sh.Run(ctx, workspace.ShellCommand{Text: "echo partial; sleep 30"})
		wantCode(t, err, workspace.ErrAborted)
		if !errors.Is(err, context.DeadlineExceeded) || out == nil || string(out.Stdout) != "partial\n" || out.TimedOut || out.Lost != "" {
			t.Errorf("%+v, %v", out, err)
		}
		s.want("echo $X", 0, "kept\n", "")
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(20_000))*time.Microsecond)
			_, err := s.sh.Run(ctx, workspace.ShellCommand{Text: "echo " + strings.Repeat("x", 50_000)})
			cancel()
			if err != nil {
				wantCode(t, err, workspace.ErrAborted)
			}
			if out := s.run(workspace.ShellCommand{Text: "echo next"}); string(out.Stdout) != "next\n" || len(out.Stderr) != 0 {
				t.Fatalf("after an early abort: %+v %q %q", out, out.Stdout, out.Stderr)
			}
		}
	})
}

func TestShellLargeOutput(t *testing.T) {
	eachShell(t, func(t *testing.T, s *shellTest) {
		var got bytes.Buffer
		out := s.run(workspace.ShellCommand{Text: "head -c 3000000 /dev/zero; echo end", MaxOutput: 1000, Stdout: &got})
		if got.Len() != 3_000_004 || len(out.Stdout) != 1000 || out.StdoutDropped.Bytes != 2_999_004 || !out.Truncated || !bytes.HasSuffix(out.Stdout, []byte("end\n")) {
			t.Errorf("writer %d bytes, kept %d, dropped %+v", got.Len(), len(out.Stdout), out.StdoutDropped)
		}
		text := "echo '" + strings.Repeat("0123456789\n", 20_000) + "'"
		if out := s.run(workspace.ShellCommand{Text: text, MaxOutput: 1 << 20}); len(out.Stdout) != 220_001 {
			t.Errorf("a long text gave %d bytes", len(out.Stdout))
		}
	})
}

// A command that runs when its writer blocks is held back, and its timeout is
// kept all the same.
func TestShellBlockedWriter(t *testing.T) {
	eachShell(t, func(t *testing.T, s *shellTest) {
		r, w := io.Pipe()
		defer r.Close()
		began := time.Now()
		out := s.run(workspace.ShellCommand{Text: "while :; do echo tick; done", Stdout: w, Timeout: 300 * time.Millisecond})
		if !out.TimedOut || time.Since(began) > 4*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), out)
		}
		s.want("echo next", 0, "next\n", "")
	})
}

// What a background process writes between commands blocks nobody and is not
// in a later command's output.
func TestShellDropsBetweenCommands(t *testing.T) {
	eachShell(t, func(t *testing.T, s *shellTest) {
		s.want("(sleep .3; head -c 500000 /dev/zero; : >written) & :", 0, "", "")
		deadline := time.Now().Add(10 * time.Second)
		for _, err := os.Stat(s.dir + "/written"); err != nil; _, err = os.Stat(s.dir + "/written") {
			if time.Now().After(deadline) {
				t.Fatal("a background process is blocked on its output")
			}
			time.Sleep(10 * time.Millisecond)
		}
		s.want("echo own", 0, "own\n", "")
	})
}

// The end mark is nowhere that a command sees.
func TestShellMarkIsSecret(t *testing.T) {
	eachShell(t, func(t *testing.T, s *shellTest) {
		out := s.run(workspace.ShellCommand{Text: "set; env; tr '\\0' ' ' </proc/$$/cmdline; tr '\\0' ' ' </proc/$$/environ; ls -l /proc/self/fd; alias; trap"})
		marks := s.marks()
		if end := marks[len(marks)-1]; bytes.Contains(out.Stdout, []byte(end[1:])) {
			t.Errorf("it shows: %q in %q", end, out.Stdout)
		}
	})
}

func TestShellTurns(t *testing.T) {
	eachShell(t, func(t *testing.T, s *shellTest) {
		s.want("n=0", 0, "", "")
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if out, err := s.sh.Run(t.Context(), workspace.ShellCommand{Text: "m=$n; sleep .01; n=$((m+1)); echo x"}); err != nil || string(out.Stdout) != "x\n" {
					t.Errorf("%+v, %v", out, err)
				}
			})
		}
		wg.Wait()
		s.want("echo $n", 0, "8\n", "")
	})
}

func TestShellClose(t *testing.T) {
	eachShell(t, func(t *testing.T, s *shellTest) {
		got := make(chan error, 1)
		ready := make(chan struct{})
		go func() {
			_, err := s.sh.Run(t.Context(), workspace.ShellCommand{Text: "echo x; sleep 30; sleep 30", Stdout: writerFunc(func(b []byte) (int, error) {
				close(ready)
				return len(b), nil
			})})
			got <- err
		}()
		<-ready
		began := time.Now()
		for range 2 {
			if err := s.sh.Close(); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("Close took %v", took)
		}
		wantCode(t, <-got, workspace.ErrDisposed)
		_, err := s.sh.Run(t.Context(), workspace.ShellCommand{Text: "echo no"})
		wantCode(t, err, workspace.ErrDisposed)
	})
}

func TestShellEndsWithItsWorkspaceAndContext(t *testing.T) {
	before := runtime.NumGoroutine()
	d := &processes{inprocess: newInprocess(nil), dir: t.TempDir()}
	ws := open(t, d, workspace.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	one, err := ws.OpenShell(ctx, workspace.ShellOptions{})
	if err != nil {
		t.Fatal(err)
	}
	two, err := ws.OpenShell(t.Context(), workspace.ShellOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	_, err = one.Run(t.Context(), workspace.ShellCommand{Text: "echo no"})
	wantCode(t, err, workspace.ErrAborted)
	began := time.Now()
	if err := ws.Close(); err != nil || time.Since(began) > time.Second {
		t.Errorf("Close: %v after %v; an idle shell is hung up", err, time.Since(began))
	}
	_, err = two.Run(t.Context(), workspace.ShellCommand{Text: "echo no"})
	wantCode(t, err, workspace.ErrDisposed)
	for _, s := range []*workspace.Shell{one, two} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestShellRefuses(t *testing.T) {
	d := &processes{inprocess: newInprocess(nil), dir: t.TempDir()}
	ws := open(t, d, workspace.Options{})
	for path, code := range map[string]workspace.Code{"cat": workspace.ErrUnavailable, "false": workspace.ErrUnavailable} {
		_, err := ws.OpenShell(t.Context(), workspace.ShellOptions{Path: path})
		wantCode(t, err, code)
	}
	_, err := ws.OpenShell(t.Context(), workspace.ShellOptions{Dir: "/elsewhere"})
	wantCode(t, err, workspace.ErrOutside)
	_, err = ws.OpenShell(t.Context(), workspace.ShellOptions{Env: []string{"x"}})
	wantCode(t, err, workspace.ErrInvalidArgument)
	sh, err := ws.OpenShell(t.Context(), workspace.ShellOptions{Env: []string{"V=v"}})
	if err != nil {
		t.Fatal(err)
	}
	defer sh.Close()
	for _, c := range []struct {
		c    workspace.ShellCommand
		code workspace.Code
	}{
		{workspace.ShellCommand{Text: "a\x00b"}, workspace.ErrInvalidArgument},
		{workspace.ShellCommand{Text: strings.Repeat("x", workspace.MaxShellText+1)}, workspace.ErrTooLarge},
		{workspace.ShellCommand{Text: ":", Timeout: -2}, workspace.ErrInvalidArgument},
		{workspace.ShellCommand{Text: ":", MaxOutput: -2}, workspace.ErrInvalidArgument},
	} {
		_, err := sh.Run(t.Context(), c.c)
		wantCode(t, err, c.code)
	}
	if out, err := sh.Run(t.Context(), workspace.ShellCommand{Text: "echo $V"}); err != nil || string(out.Stdout) != "v\n" {
		t.Errorf("%+v, %v", out, err)
	}
}
