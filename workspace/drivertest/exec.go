//go:build unix

package drivertest

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

func execCases() []testCase {
	return []testCase{
		{name: "exit codes", run: exitCodes, rule: "A status other than zero is a result, not an error, and comes through as it is."},
		{name: "signals", run: endedBySignal, rule: "A command that a signal ended has 128+n; Signal tells it from one that exits with that number, where the driver can."},
		{name: "not found", run: notFound, rule: "127 not found, 126 not executable, with the shell's message on stderr."},
		{name: "shell texts", run: shellTexts, rule: "A Shell text is handed to sh -c as it is: no pre-check, nothing added, nothing swallowed."},
		{name: "argv", run: argvIsKept, rule: "Arguments are kept as they are: empty ones, spaces, stars, dashes, quotes, any bytes."},
		{name: "large arguments", run: largeArguments, rule: "A command runs up to the system's limit for one argument; over it is TOO_LARGE before anything runs, never E2BIG as the command's own failure."},
		{name: "lookup", run: lookup, rule: "Args[0] is looked up in the command's own PATH; with a slash it is relative to Dir; a bare sh is found even without PATH."},
		{name: "dir", run: execDir, rule: "A command runs in Dir, whatever its name; the workspace's own Dir is the default."},
		{name: "bad dir", run: badDir, rule: "Dir missing is NOT_FOUND, a file NOT_A_DIRECTORY, not to be entered DENIED, before anything runs and with no text of the engine's."},
		{name: "env layers", run: envLayers, rule: "Env is the workspace's and the command's, the last of a name wins, values are kept byte for byte."},
		{name: "env refused", run: envRefused, rule: "An environment entry that no shell can carry is refused before anything runs."},
		{name: "env of the host", run: hostEnv, rule: "Nothing of the caller's own environment reaches a command."},
		{name: "clean start", run: cleanStart, rule: "A command starts with default signals, none blocked, three descriptors and a group of its own."},
		{name: "SIGPIPE", run: sigpipe, rule: "SIGPIPE has its default action: the writing end of a pipeline ends with its reader."},
		{name: "timeout", run: timeoutStatus, rule: "A timeout is status 124 with TimedOut; a command's own 124 is without."},
		{name: "timeout keeps output", run: timeoutKeepsOutput, rule: "A timeout keeps what was written before it, on both streams."},
		{name: "timeout stops it", run: timeoutStops, rule: "When the call returns, the command has stopped: nothing grows after it."},
		{name: "timeout of a TERM-ignorer", run: timeoutIgnorer, rule: "A command that ignores TERM is ended by KILL after KillGrace; back within grace + 1 s, always."},
		{name: "grace", run: graceIsGiven, rule: "TERM comes first and KillGrace is given: a command can still write and tidy up."},
		{name: "abort", run: abort, rule: "An abort is ABORTED, wraps ctx.Err() and carries the partial Output; the command has stopped."},
		{name: "caller's deadline", run: callersDeadline, rule: "The caller's own deadline is ABORTED and DeadlineExceeded, not TimedOut."},
		{name: "cancel storm", run: cancelStorm, limit: time.Minute, rule: "However early an abort comes, the call is ABORTED or finished, and nothing is left over."},
		{name: "passed signals", run: passedSignals, rule: "What comes over Command.Signals goes to the command and its group."},
		{name: "many at once", run: manyAtOnce, limit: time.Minute, rule: "Commands that run at once do not mix results."},
		{name: "usage", run: usage, needs: []capability{needUsage()}, rule: "Usage tells processor time and peak memory of the one command."},
		{name: "duration", run: duration, rule: "Duration is the wall time from start to end."},
		{name: "group kill", run: killOwnGroup, rule: "A command that kills its own group is told as what it is, harms nobody else, and the next one works."},
	}
}

func exitCodes(t *checker) {
	for _, code := range []int{0, 1, 2, 42, 124, 125, 126, 127, 128, 129, 137, 143, 254, 255} {
		n := strconv.Itoa(code)
		for what, c := range map[string]workspace.Command{
			"Shell": {Shell: "exit " + n}, "Args": {Args: []string{"sh", "-c", "exit $1", "x", n}},
		} {
			out, err := t.exec(c)
			if err != nil || out.ExitCode != code || out.TimedOut || out.Signal != 0 || out.OOMKilled || out.Truncated || len(out.Stdout)+len(out.Stderr) != 0 {
				t.Errorf("%s exit %d: %+v, %v", what, code, out, err)
			}
		}
	}
}

func endedBySignal(t *checker) {
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGKILL, syscall.SIGTERM, syscall.SIGSEGV} {
		text := fmt.Sprintf("echo out; kill -%d $$; sleep 5", sig)
		for what, c := range map[string]workspace.Command{"Shell": {Shell: text}, "Args": {Args: []string{"sh", "-c", text}}} {
			out := t.run(c)
			if out.ExitCode != 128+int(sig) || out.TimedOut || string(out.Stdout) != "out\n" || len(out.Stderr) != 0 {
				t.Errorf("%s ended by %v:%s", what, sig, told(out))
			}
			want := sig
			if !t.caps.Signals {
				want = 0
			}
			if out.Signal != want {
				t.Errorf("%s ended by %v: Signal is %v", what, sig, out.Signal)
			}
		}
	}
	if out := t.sh("exit 137"); out.ExitCode != 137 || out.Signal != 0 || out.OOMKilled {
		t.Errorf("exit 137 is told as a signal: %+v", out)
	}
}

func notFound(t *checker) {
	t.plant("echo '#!/nonexistent/interpreter' > script; chmod 755 script; echo 'echo x' > plain; chmod 644 plain; mkdir d")
	for _, c := range []struct {
		args   []string
		status int
		tells  string
	}{
		{[]string{"no-such-command-here"}, 127, "no-such-command-here"},
		{[]string{"./gone"}, 127, "gone"},
		{[]string{"./script"}, 127, "script"},
		{[]string{"./plain"}, 126, "plain"},
		{[]string{"./d"}, 126, "d"},
		{[]string{"/nonexistent/x"}, 127, "/nonexistent/x"},
	} {
		out := t.run(workspace.Command{Args: c.args})
		if out.ExitCode != c.status || len(out.Stdout) != 0 || !strings.Contains(string(out.Stderr), c.tells) {
			t.Errorf("%q: want status %d and a message that names it%s", c.args, c.status, told(out))
		}
		if strings.Contains(string(out.Stderr), "OCI") || strings.Contains(string(out.Stderr), "runc") {
			t.Errorf("%q: the engine's own text is shown: %q", c.args, out.Stderr)
		}
		sh := t.sh(strings.Join(c.args, " "))
		if sh.ExitCode != c.status {
			t.Errorf("sh -c %q: status %d, want %d", c.args, sh.ExitCode, c.status)
		}
	}
}

func shellTexts(t *checker) {
	for _, c := range []struct {
		text   string
		stdout string
		status int // -1: what sh says, not 0; -2: what sh says
	}{
		{"echo a #", "a\n", 0},
		{"echo a # comment\n", "a\n", 0},
		{`echo a \`, "", -2},
		{"cat <<E\nbody\nE", "body\n", 0},
		{"cat <<E\nbody", "", -2},
		{`echo "open`, "", -1},
		{"echo a; }", "", -1},
		{") ; echo x", "", -1},
		{"fi", "", -1},
		{"done", "", -1},
		{"&& echo x", "", -1},
		{"case x in x) echo 1;; esac", "1\n", 0},
		{"echo $((1<<2))", "4\n", 0},
		{"a=$(cat <<E\nit's\nE\n); echo \"$a\"", "it's\n", 0},
		{`echo "${x:-"}"}"`, "}\n", 0},
		{"exec 2>&1; echo e >&2", "e\n", 0},
		{"exec >/dev/null; echo lost; exit 3", "", 3},
		{"echo $0", "sh\n", 0},
		{"echo $#", "0\n", 0},
		{"set -e; false; echo no", "", 1},
		{"trap 'echo bye' EXIT; echo hi", "hi\nbye\n", 0},
		{"return 3 2>/dev/null; exit 4", "", -1},
		{"exit", "", 0},
		{"(exit 7)", "", 7},
		{"\n\n  \n", "", 0},
		{"# only a comment", "", 0},
		{":", "", 0},
		{"echo 'one\ntwo'", "one\ntwo\n", 0},
		{"printf '%s' \"a\tb\"", "a\tb", 0},
		{"read x; echo \"[$x]\"", "[]\n", 0},
		{"exec </dev/null; exec cat", "", 0},
		{"eval 'echo ev'; . /dev/null", "ev\n", 0},
		{"-c echo x", "", -1},
		{"kill -9 $$", "", 137},
	} {
		a := t.sh(c.text)
		b := t.run(workspace.Command{Args: []string{"sh", "-c", c.text}})
		what := fmt.Sprintf("Shell %q against sh -c", c.text)
		t.wantOut(what, a, b.ExitCode, string(b.Stdout), string(b.Stderr))
		if c.status >= 0 && (a.ExitCode != c.status || string(a.Stdout) != c.stdout) {
			t.Errorf("%q: want status %d, stdout %q%s", c.text, c.status, c.stdout, told(a))
		}
		if c.status == -1 && a.ExitCode == 0 {
			t.Errorf("%q succeeds%s", c.text, told(a))
		}
	}
}

func argvIsKept(t *checker) {
	args := []string{"", "a b", "*", "é", "- h", "--help", "-x", "-c", "--", "'", `"`, `\`, "\\n", "$HOME", "$(touch pwned)", "`id`", "a\nb", "\n", "\xff\xfe", "\t", "%s", "a=b", "~", "{a,b}", "#", ";", "&", "|", ">x", "!", "^"}
	out := t.run(workspace.Command{Args: append([]string{"printf", "%s|"}, args...)})
	t.wantOut("printf", out, 0, strings.Join(args, "|")+"|", "")
	out = t.run(workspace.Command{Args: append([]string{"sh", "-c", `printf '%s|' "$0" "$@"; echo $#`}, args...)})
	t.wantOut("sh", out, 0, strings.Join(args, "|")+"|"+strconv.Itoa(len(args)-1)+"\n", "")
	t.wantGone("pwned")
	t.wantGone("x")
	for _, name := range []string{"-x", "--help", "a b", "$x", "a'b", "x=y"} {
		t.plant("cat > './" + strings.ReplaceAll(name, "'", `'\''`) + "' <<'E'\n#!/bin/sh\nprintf '%s|' \"$@\"\nE\nchmod 755 ./*")
		out := t.run(workspace.Command{Args: []string{"./" + name, "1", "", "2"}})
		t.wantOut("./"+name, out, 0, "1||2|", "")
	}
}

func largeArguments(t *checker) {
	fits := strings.Repeat("x", workspace.MaxArg-len(": # "))
	out := t.run(workspace.Command{Shell: ": # " + fits})
	t.wantOut("a shell text of the largest size", out, 0, "", "")
	out = t.run(workspace.Command{Args: []string{"sh", "-c", "echo ${#1}", "x", fits}})
	t.wantOut("an argument of the largest size", out, 0, strconv.Itoa(len(fits))+"\n", "")
	limit := workspace.MaxArgs
	if m := t.suite.harness.MaxArgs; m > 0 {
		limit = m
	}
	many := func(n int) workspace.Command {
		args := []string{"sh", "-c", "echo $# > ran; cat ran", "x"}
		return workspace.Command{Args: append(args, slices.Repeat([]string{fits}, n)...)}
	}
	// Some room is left for the environment.
	n := (limit - 16<<10) / len(fits)
	out = t.run(many(n))
	t.wantOut(strconv.Itoa(n)+" largest arguments", out, 0, strconv.Itoa(n)+"\n", "")
	t.must(t.ws.Remove(t.ctx, t.path("ran"), workspace.RemoveOptions{}))
	_, err := t.exec(many(n + 2))
	t.wantCode(strconv.Itoa(n+2)+" largest arguments", err, workspace.ErrTooLarge)
	t.wantGone("ran")
	_, err = t.exec(workspace.Command{Shell: "echo > ran # " + strings.Repeat("x", 140_000)})
	t.wantCode("a shell text of 140000 bytes", err, workspace.ErrTooLarge)
	t.wantGone("ran")
}

func lookup(t *checker) {
	t.plant("mkdir -p bin sub; for d in bin sub .; do printf '#!/bin/sh\\necho '$d'\\n' > $d/wsctl-tool; chmod 755 $d/wsctl-tool; done")
	pwd := strings.TrimSuffix(t.pwd(t.dir), "\n")
	for _, c := range []struct {
		what   string
		c      workspace.Command
		status int
		stdout string
	}{
		{"in the command's PATH", workspace.Command{Args: []string{"wsctl-tool"}, Env: []string{"PATH=/nonexistent:" + pwd + "/bin:/bin:/usr/bin"}}, 0, "bin\n"},
		{"not in the PATH", workspace.Command{Args: []string{"wsctl-tool"}}, 127, ""},
		{"relative to Dir", workspace.Command{Args: []string{"./wsctl-tool"}, Dir: t.path("sub")}, 0, "sub\n"},
		{"relative, up", workspace.Command{Args: []string{"../bin/wsctl-tool"}, Dir: t.path("sub")}, 0, "bin\n"},
		{"relative, down", workspace.Command{Args: []string{"sub/wsctl-tool"}}, 0, "sub\n"},
		{"absolute", workspace.Command{Args: []string{pwd + "/sub/wsctl-tool"}}, 0, "sub\n"},
		{"a bare sh with an empty PATH", workspace.Command{Args: []string{"sh", "-c", "echo sh"}, Env: []string{"PATH="}}, 0, "sh\n"},
		{"Shell with a useless PATH", workspace.Command{Shell: "echo sh", Env: []string{"PATH=/nonexistent"}}, 0, "sh\n"},
		{"a useless PATH", workspace.Command{Args: []string{"wsctl-tool"}, Env: []string{"PATH=/nonexistent"}}, 127, ""},
	} {
		out := t.run(c.c)
		if out.ExitCode != c.status || string(out.Stdout) != c.stdout {
			t.Errorf("%s: want status %d, %q%s", c.what, c.status, c.stdout, told(out))
		}
	}
}

func execDir(t *checker) {
	root := strings.TrimSuffix(t.pwd("."), "\n")
	for _, name := range []string{"d", "-rf", "--", "a b", "a\nb", "é", "\xff", "$(touch pwned)", "*", "~", "'", `"`, `\`, " ", "d/e/f"} {
		t.must(t.ws.Mkdir(t.ctx, t.path(name), workspace.MkdirOptions{Parents: true}))
		for _, c := range []workspace.Command{{Shell: "pwd"}, {Args: []string{"sh", "-c", "pwd"}}, {Shell: "pwd -P"}} {
			c.Dir = t.path(name)
			out := t.run(c)
			if got := string(out.Stdout); got != root+"/"+t.path(name)+"\n" && got != t.abs(name)+"\n" {
				t.Errorf("in %q it is in %q", name, got)
			}
		}
	}
	t.wantGone("pwned")
	f := t.fresh(workspace.Options{Dir: "sub"})
	f.must(f.ws.Mkdir(f.ctx, "sub/below", workspace.MkdirOptions{Parents: true}))
	for dir, want := range map[string]string{"": "sub", "sub/below": "sub/below", ".": "."} {
		out, err := f.ws.Exec(f.ctx, workspace.Command{Shell: "pwd -P", Dir: dir})
		t.must(err)
		if got := string(out.Stdout); got != f.pwd(want) {
			t.Errorf("with the workspace's Dir sub, Dir %q is %q", dir, got)
		}
	}
}

func badDir(t *checker) {
	t.plant("echo x > file; mkdir locked; mkdir here; ln -s file link; ln -s gone dangling")
	for dir, code := range map[string]workspace.Code{
		"gone": workspace.ErrNotFound, "here/gone/x": workspace.ErrNotFound, "file": workspace.ErrNotDirectory, "link": workspace.ErrNotDirectory,
		"file/x": workspace.ErrNotDirectory, "dangling": workspace.ErrNotFound, "a\x00": workspace.ErrInvalidPath,
	} {
		out, err := t.exec(workspace.Command{Shell: "echo > " + "ran", Dir: t.path(dir)})
		t.wantCode(fmt.Sprintf("in %q", dir), err, code)
		if out != nil && len(out.Stdout)+len(out.Stderr) > 0 {
			t.Errorf("in %q there is output%s", dir, told(out))
		}
	}
	// Whether a directory may be entered depends on who the commands are;
	// they tell themselves.
	t.plant("chmod 600 locked")
	defer t.plant("chmod 700 locked")
	entered := t.sh("cd locked").ExitCode == 0
	out, err := t.exec(workspace.Command{Shell: "pwd", Dir: t.path("locked")})
	switch {
	case entered && (err != nil || out.ExitCode != 0):
		t.Errorf("in a directory that commands can enter: %v%s", err, told(out))
	case !entered:
		t.wantCode("in a directory without x", err, workspace.ErrDenied)
	}
	// The directory of the last command goes away.
	t.run(workspace.Command{Shell: "pwd", Dir: t.path("here")})
	t.plant("rmdir here")
	_, err = t.exec(workspace.Command{Shell: "pwd", Dir: t.path("here")})
	t.wantCode("in the last command's directory, removed", err, workspace.ErrNotFound)
	t.works("bad directories")
}

func envLayers(t *checker) {
	f := t.fresh(workspace.Options{Env: []string{"WS_ONLY=ws", "BOTH=ws", "TWICE=1", "TWICE=2"}})
	out := f.run(workspace.Command{
		Shell: `printf '%s|' "$WS_ONLY" "$BOTH" "$TWICE" "$CMD" "${UNSET-unset}"`, Env: []string{"BOTH=first", "BOTH=command", "CMD=x"},
	})
	t.wantOut("the layers", out, 0, "ws|command|2|x|unset|", "")
	values := []string{"", " ", "a b", "é", "\xff\xfe", "a\nb\n", "'", `"`, "$(touch pwned)", "`id`", "=", "a=b", "\\", "*", "#", "\t\r", "%s", strings.Repeat("x", 100_000)}
	for i, v := range values {
		name := "V" + strconv.Itoa(i)
		for what, c := range map[string]workspace.Command{
			"Shell": {Shell: `printf %s "$` + name + `"`}, "Args": {Args: []string{"sh", "-c", `printf %s "$` + name + `"`}},
		} {
			c.Env = []string{name + "=" + v}
			out := t.run(c)
			t.wantOut(fmt.Sprintf("%s with the value %.20q", what, v), out, 0, v, "")
		}
	}
	t.wantGone("pwned")
	// The names a shell itself uses are the caller's too.
	out = t.run(workspace.Command{
		Args: []string{"env"}, Env: []string{"IFS=x", "PS1=p", "ENV=/nonexistent", "BASH_ENV=/nonexistent", "_x=1", "CDPATH=/"},
	})
	lines := strings.Split(string(out.Stdout), "\n")
	for _, want := range []string{"PS1=p", "_x=1", "CDPATH=/"} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is not in the environment %q", want, lines)
		}
	}
	names := map[string]bool{}
	for _, line := range lines {
		name, _, _ := strings.Cut(line, "=")
		if names[name] && name != "" {
			t.Errorf("%s is in the environment twice", name)
		}
		names[name] = true
		if strings.HasPrefix(strings.ToUpper(name), "WSCTL") {
			t.Errorf("a variable of our own reaches the command: %s", line)
		}
	}
}

func envRefused(t *checker) {
	for _, entry := range []string{"NOVALUE", "=x", "1A=x", "A-B=x", "A B=x", "BASH_FUNC_f%%=() { :; }", "É=x", "A\x00=x", "A=\x00", ""} {
		_, err := t.exec(workspace.Command{Shell: "echo > ran", Env: []string{entry}})
		t.wantCode(fmt.Sprintf("%q", entry), err, workspace.ErrInvalidArgument)
	}
	t.wantGone("ran")
}

func hostEnv(t *checker) {
	f := t.fresh(workspace.Options{})
	for _, c := range []workspace.Command{{Args: []string{"env"}}, {Shell: "env; cat /proc/1/environ 2>/dev/null || :"}} {
		out := f.run(c)
		if out.ExitCode != 0 || strings.Contains(string(out.Stdout), canary) && !strings.Contains(c.Shell, "/proc/1") {
			t.Errorf("the caller's environment is in the command's%s", told(out))
		}
	}
}

func cleanStart(t *checker) {
	if t.sh("test -r /proc/self/status").ExitCode != 0 {
		t.wantOut("a pipeline", t.sh("yes | head -n1"), 0, "y\n", "")
		return
	}
	for _, c := range []workspace.Command{
		{Args: []string{"grep", "-E", "^Sig(Ign|Blk|Pnd)|^ShdPnd", "/proc/self/status"}},
		{Shell: "exec grep -E '^Sig(Ign|Blk|Pnd)|^ShdPnd' /proc/self/status"},
		{Shell: "exec grep -E '^Sig(Ign|Blk|Pnd)|^ShdPnd' /proc/self/status", Background: workspace.BackgroundKeep},
	} {
		out := t.run(c)
		for line := range strings.Lines(string(out.Stdout)) {
			name, set, _ := strings.Cut(strings.TrimSpace(line), ":")
			if strings.Trim(strings.TrimSpace(set), "0") != "" {
				t.Errorf("%s: %s is %s", show(c), name, strings.TrimSpace(set))
			}
		}
		if strings.Count(string(out.Stdout), "\n") != 4 {
			t.Errorf("%s%s", show(c), told(out))
		}
	}
	// ls itself has the directory open; and a test may have been started with
	// descriptors that every program started from it gets.
	want := "0\n1\n2\n3\n"
	if !t.caps.Confined {
		mine, err := exec.CommandContext(t.ctx, "ls", "/proc/self/fd").Output()
		t.must(err)
		want = string(mine)
	}
	for _, c := range []workspace.Command{{Args: []string{"ls", "/proc/self/fd"}}, {Shell: "exec ls /proc/self/fd"}, {Shell: "exec ls /proc/self/fd", Stdin: strings.NewReader("x")}} {
		if out := t.run(c); string(out.Stdout) != want && string(out.Stdout) != "0\n1\n2\n3\n" {
			t.Errorf("%s: descriptors %q, want 0, 1, 2 and that of ls", show(c), out.Stdout)
		}
	}
	if out := t.sh("read -r s < /proc/self/stat; set -- ${s##*) }; echo $3 $$"); out.ExitCode == 0 {
		group, pid, _ := strings.Cut(strings.TrimSpace(string(out.Stdout)), " ")
		if group == strconv.Itoa(os.Getpid()) || group == "0" || pid == "" {
			t.Errorf("a command's group is %s, its pid %s", group, pid)
		}
	}
}

func sigpipe(t *checker) {
	began := time.Now()
	t.wantOut("yes | head", t.sh("yes | head -n1"), 0, "y\n", "")
	t.wantOut("find | head", t.sh("find / 2>/dev/null | head -n1"), 0, "/\n", "")
	out := t.sh("{ yes; echo $? >&2; } | head -n1")
	if got := strings.TrimSpace(string(out.Stderr)); got != "141" {
		t.Errorf("yes ended with %q, want 141", got)
	}
	t.within("three pipelines", began, 3*time.Second)
}
