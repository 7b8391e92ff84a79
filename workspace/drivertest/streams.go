//go:build unix

package drivertest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/wsctl/wsctl/workspace"
)

func streamCases() []testCase {
	return []testCase{
		{name: "apart", run: streamsApart, rule: "Streams are byte-exact and apart; nothing of a framing or a marker is in them."},
		{name: "any bytes", run: anyBytes, rule: "Output may be any bytes, with or without a final newline, and comes through as it is."},
		{name: "look-alikes", run: lookAlikes, rule: "What looks like a marker but lacks the token is output."},
		{name: "large", run: largeOutput, limit: time.Minute, rule: "Megabytes on both streams at once come through whole."},
		{name: "stdin", run: stdin, rule: "Stdin reaches the command byte for byte and then ends; without one it ends at once."},
		{name: "stdin not read", run: stdinNotRead, rule: "A command that does not read its stdin ends all the same, with its own status."},
		{name: "stdin that blocks", run: stdinThatBlocks, rule: "A Read of Stdin that is blocked when the command exits is left behind."},
		{name: "stdin that fails", run: stdinThatFails, rule: "A Stdin that fails ends the command's input, not the call's truth about its status."},
		{name: "output after stdin", run: outputAfterStdin, rule: "The end of stdin closes nothing else: what is written after it arrives."},
		{name: "truncation", run: truncation, rule: "Over MaxOutput head and tail are kept, for each stream apart; what is dropped is counted and placed."},
		{name: "truncation of characters", run: truncationOfCharacters, rule: "A cut never goes through a character."},
		{name: "flood", run: flood, rule: "A flood of output starves no timeout, is truncated, and holds no memory."},
		{name: "writers", run: writers, rule: "Writers get every byte as it comes, in addition to Output, also the bytes that Output drops."},
		{name: "live", run: liveOutput, rule: "A writer sees output while the command runs."},
		{name: "slow writer", run: slowWriter, rule: "A slow consumer gets every byte: it holds the command back."},
		{name: "blocked writer", run: blockedWriter, rule: "A writer that blocks holds no timeout: back within grace + 1 s."},
		{name: "failing writer", run: failingWriter, rule: "A writer that fails gets nothing more, and the command goes on to its own end."},
		{name: "shared writer", run: sharedWriter, rule: "One writer given for both streams is called one call at a time."},
	}
}

func streamsApart(t *checker) {
	out := t.sh("printf '%075d\\n' 0; printf 0123456789 >&2")
	t.wantOut("chunks of printable sizes", out, 0, strings.Repeat("0", 75)+"\n", "0123456789")
	out = t.sh("for i in 1 2 3 4 5 6 7 8 9; do echo o$i; echo e$i >&2; done; exit 3")
	t.wantOut("lines in turn", out, 3, "o1\no2\no3\no4\no5\no6\no7\no8\no9\n", "e1\ne2\ne3\ne4\ne5\ne6\ne7\ne8\ne9\n")
	t.wantOut("nothing at all", t.sh(":"), 0, "", "")
	t.wantOut("stdout only", t.sh("echo x"), 0, "x\n", "")
	t.wantOut("stderr only", t.sh("echo x >&2"), 0, "", "x\n")
	t.wantOut("closed streams", t.sh("exec >&- 2>&-; exit 4"), 4, "", "")
	t.wantOut("one closed stream", t.sh("exec 2>&-; echo x; exit 4"), 4, "x\n", "")
	t.wantOut("stderr into stdout", t.sh("exec 2>&1; echo o; echo e >&2"), 0, "o\ne\n", "")
}

func anyBytes(t *checker) {
	t.wantOut("bytes that are no text", t.sh(`printf 'ok\376\377\000z\n'`), 0, "ok\xfe\xff\x00z\n", "")
	t.wantOut("no newline", t.sh("printf 'no newline' >&2; exit 3"), 3, "", "no newline")
	t.wantOut("newlines only", t.sh(`printf '\n\n'; printf '\n' >&2`), 0, "\n\n", "\n")
	t.wantOut("carriage returns", t.sh(`printf 'a\r\nb\rc'`), 0, "a\r\nb\rc", "")
	all := randomBytes(300_000)
	t.write("random", string(all))
	out := t.sh("cat random; cat random >&2")
	t.wantOut("random bytes", out, 0, string(all), string(all))
	zeros := t.sh("head -c 70000 /dev/zero")
	t.wantOut("zeros", zeros, 0, strings.Repeat("\x00", 70000), "")
}

func lookAlikes(t *checker) {
	var b strings.Builder
	for _, m := range []string{
		"\x00", "\x1e", "\x1f", "\x01\x00\x00\x00\x00\x00\x00\x05hello", "\x02\x00\x00\x00\x00\x00\x00\x05hello", "wsctl", "WSCTL", "exit:0", "0\n", "start ", "end ", ":0:", "\x04", "\x1a", "\n.\n",
		strings.Repeat("0123456789abcdef", 4), "token", "EOF", "\x00\x00\x00",
	} {
		b.WriteString(m)
		b.WriteString("\n" + m)
	}
	text := b.String()
	t.write("look", text)
	for range 2 {
		t.wantOut("text like markers", t.sh("cat look; cat look >&2; exit 9"), 9, text, text)
	}
	// The wrapper's own text, were a command to see it, is output too.
	out := t.sh("tr '\\0' '\\n' < /proc/$PPID/cmdline 2>/dev/null | head -c 20000 > seen; cat seen; cat seen >&2; wc -c < seen")
	if n := len(out.Stderr); out.ExitCode != 0 || !strings.HasPrefix(string(out.Stdout), string(out.Stderr)) {
		t.Errorf("the %d bytes of the parent's arguments did not come through%s", n, told(out))
	}
}

func largeOutput(t *checker) {
	const size = 10_000_000
	line := "0123456789abcde\n"
	out := t.run(workspace.Command{
		Shell:     fmt.Sprintf("yes 0123456789abcde | head -c %d & yes 0123456789abcde | head -c %d >&2; wait; echo END", size, size),
		MaxOutput: 2*size + 100,
	})
	whole := strings.Repeat(line, size/len(line)+1)[:size]
	t.wantOut("10 MB on each", out, 0, whole+"END\n", whole)
	out = t.run(workspace.Command{Shell: fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x >&2", size), MaxOutput: size})
	t.wantOut("10 MB without a newline", out, 0, "", strings.Repeat("x", size))
}

func stdin(t *checker) {
	for what, c := range map[string]workspace.Command{
		"cat": {Args: []string{"cat"}}, "a shell's cat": {Shell: "cat"}, "a pipeline": {Shell: "cat | cat"}, "a reader at a time": {Shell: "read -r a; read -r b; printf '%s\\n' \"$a\" \"$b\"; cat"},
	} {
		out := t.run(c)
		if c.Shell == "" || !strings.Contains(c.Shell, "read") {
			t.wantOut(what+" without stdin", out, 0, "", "")
		}
		for _, text := range []string{"abc", "a\nb\nc\n", "line\nsecond\n\x00\xff no end"} {
			if strings.Contains(c.Shell, "read") && strings.Count(text, "\n") < 2 {
				continue
			}
			c.Stdin = strings.NewReader(text)
			t.wantOut(fmt.Sprintf("%s of %q", what, text), t.run(c), 0, text, "")
		}
	}
	t.wantOut("the end of stdin", t.run(workspace.Command{Shell: "cat; echo done", Stdin: strings.NewReader("abc")}), 0, "abcdone\n", "")
	t.wantOut("no stdin", t.sh("cat; sort; echo done"), 0, "done\n", "")
	large := randomBytes(3_000_000)
	out := t.run(workspace.Command{Args: []string{"cat"}, Stdin: bytes.NewReader(large), MaxOutput: len(large)})
	t.wantOut("3 MB through cat", out, 0, string(large), "")
	// A script on standard input is the command's, not its wrapper's.
	out = t.run(workspace.Command{Args: []string{"sh"}, Stdin: strings.NewReader("echo one\nexit 5\n")})
	t.wantOut("a script on stdin", out, 5, "one\n", "")
	// Bytes come as they are written, not when stdin ends.
	r, w := io.Pipe()
	defer w.Close()
	got := make(chan struct{})
	var once sync.Once
	go func() {
		io.WriteString(w, "first\n")
		<-got
		io.WriteString(w, "second\n")
		w.Close()
	}()
	out = t.run(workspace.Command{Shell: "read -r a; echo $a; cat", Stdin: r, Stdout: writerFunc(func(b []byte) (int, error) {
		once.Do(func() { close(got) })
		return len(b), nil
	})})
	t.wantOut("stdin in two parts", out, 0, "first\nsecond\n", "")
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func stdinNotRead(t *checker) {
	for _, size := range []int{1, 100_000, 3_000_000} {
		for _, text := range []string{"exit 6", "read -r x; exit 6", "exec <&-; sleep .1; exit 6"} {
			began := time.Now()
			out := t.run(workspace.Command{Shell: text, Stdin: strings.NewReader(strings.Repeat("x\n", size/2+1))})
			t.wantOut(fmt.Sprintf("%q with %d bytes of stdin", text, size), out, 6, "", "")
			t.within(text, began, 2*time.Second)
		}
	}
}

func stdinThatBlocks(t *checker) {
	began := time.Now()
	out := t.run(workspace.Command{Shell: "echo out; exit 3", Stdin: blockedReader(t)})
	t.wantOut("a command", out, 3, "out\n", "")
	out = t.run(workspace.Command{Shell: "echo out; sleep .1; exit 3", Stdin: readerFunc(func([]byte) (int, error) {
		<-t.ctx.Done()
		return 0, io.EOF
	})})
	t.wantOut("a command with a reader that is no file", out, 3, "out\n", "")
	t.within("two commands", began, 2*time.Second)
}

func stdinThatFails(t *checker) {
	broken := io.MultiReader(strings.NewReader("some\n"), errReader{errors.New("broken source")})
	out, err := t.exec(workspace.Command{Shell: "cat; exit 3", Stdin: broken})
	if err != nil {
		t.Fatalf("%v%s", err, told(out))
	}
	t.wantOut("cat of a broken stdin", out, 3, "some\n", "")
}

func outputAfterStdin(t *checker) {
	out := t.run(workspace.Command{Shell: "cat >/dev/null; sleep .7; echo late; echo late2 >&2", Stdin: strings.NewReader("x")})
	t.wantOut("output after the end of stdin", out, 0, "late\n", "late2\n")
}

func truncation(t *checker) {
	out := t.run(workspace.Command{Shell: "yes | head -c 2000000; echo boom >&2; exit 4", MaxOutput: 64 << 10})
	if !out.Truncated || out.ExitCode != 4 || string(out.Stderr) != "boom\n" || out.StderrDropped.Bytes != 0 {
		t.Errorf("truncated %v, stderr dropped %+v%s", out.Truncated, out.StderrDropped, told(out))
	}
	if n := len(out.Stdout); n != 64<<10 || out.StdoutDropped != (workspace.Dropped{Bytes: 2_000_000 - 64<<10, Offset: 32 << 10}) {
		t.Errorf("kept %d bytes, dropped %+v", n, out.StdoutDropped)
	}
	out = t.run(workspace.Command{Shell: "i=0; while [ $i -lt 1000 ]; do echo line $i >&2; i=$((i+1)); done; echo x", MaxOutput: 100})
	if got := string(out.Stderr); !strings.HasPrefix(got, "line 0\nline 1\n") || !strings.HasSuffix(got, "line 998\nline 999\n") {
		t.Errorf("head and tail of stderr are %q", got)
	}
	if out.StdoutDropped.Bytes != 0 || string(out.Stdout) != "x\n" || out.StderrDropped.Bytes+int64(len(out.Stderr)) != 8890 {
		t.Errorf("dropped %+v and %+v", out.StdoutDropped, out.StderrDropped)
	}
	out = t.run(workspace.Command{Shell: "printf 12345; printf 1234567890 >&2", MaxOutput: 10})
	t.wantOut("exactly the limit", out, 0, "12345", "1234567890")
	if out.Truncated {
		t.Error("the limit itself is told as truncated")
	}
	out = t.run(workspace.Command{Shell: "echo x; exit 2", MaxOutput: workspace.NoOutput})
	if len(out.Stdout) != 0 || out.StdoutDropped.Bytes != 2 || !out.Truncated || out.ExitCode != 2 {
		t.Errorf("with NoOutput: %+v", out)
	}
}

func truncationOfCharacters(t *checker) {
	t.write("text", strings.Repeat("漢é😀a", 500))
	for limit := 20; limit < 32; limit++ {
		out := t.run(workspace.Command{Args: []string{"cat", "text"}, MaxOutput: limit})
		if !utf8.Valid(out.Stdout) {
			t.Errorf("limit %d: %q is cut in a character", limit, out.Stdout)
		}
		if int64(len(out.Stdout))+out.StdoutDropped.Bytes != 5000 || len(out.Stdout) > limit || out.StdoutDropped.Offset > len(out.Stdout) {
			t.Errorf("limit %d: kept %d, dropped %+v of 5000", limit, len(out.Stdout), out.StdoutDropped)
		}
	}
}

func flood(t *checker) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for _, text := range []string{"yes", "yes >&2", "yes & yes >&2"} {
		began := time.Now()
		out := t.run(workspace.Command{Shell: text, Timeout: t.short(), KillGrace: shortGrace, MaxOutput: 64 << 10})
		t.within(text, began, t.short()+shortGrace+time.Second)
		if out.ExitCode != 124 || !out.TimedOut || !out.Truncated {
			t.Errorf("%q: truncated %v%s", text, out.Truncated, told(out))
		}
		if max(len(out.Stdout), len(out.Stderr)) != 64<<10 {
			t.Errorf("%q: kept %d and %d bytes of 64 KiB", text, len(out.Stdout), len(out.Stderr))
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	// Other cases run at the same time; a flood that is kept is gigabytes.
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 256<<20 {
		t.Errorf("the heap grew by %d MiB", grown>>20)
	}
}

func writers(t *checker) {
	var stdout, stderr bytes.Buffer
	out := t.run(workspace.Command{
		Shell: "i=0; while [ $i -lt 300 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done; exit 5", Stdout: &stdout, Stderr: &stderr, MaxOutput: 50,
	})
	var o, e strings.Builder
	for i := range 300 {
		fmt.Fprintf(&o, "out %d\n", i)
		fmt.Fprintf(&e, "err %d\n", i)
	}
	t.wantBytes("the writer of stdout", stdout.Bytes(), []byte(o.String()))
	t.wantBytes("the writer of stderr", stderr.Bytes(), []byte(e.String()))
	if out.ExitCode != 5 || !out.Truncated || !strings.HasPrefix(string(out.Stdout), "out 0\n") {
		t.Errorf("Output beside the writers%s", told(out))
	}
}

func liveOutput(t *checker) {
	for _, to := range []string{"", " >&2"} {
		seen := make(chan struct{})
		var once sync.Once
		w := writerFunc(func(b []byte) (int, error) {
			once.Do(func() { close(seen) })
			return len(b), nil
		})
		c := workspace.Command{Shell: "echo first" + to + "; while [ ! -e go ]; do sleep .02; done; rm go; exit 7", Stdout: w, Stderr: w, Timeout: 8 * time.Second}
		done := make(chan *workspace.Output, 1)
		go func() {
			out, err := t.exec(c)
			if err != nil {
				t.Error(err)
			}
			done <- out
		}()
		select {
		case <-seen:
		case <-time.After(5 * time.Second):
			t.Errorf("the writer of %q saw nothing while the command ran", to)
		}
		t.write("go", "")
		if out := <-done; out == nil || out.ExitCode != 7 {
			t.Errorf("the command%s", told(out))
		}
	}
}

func slowWriter(t *checker) {
	const size = 4_000_000
	var got int64
	var tail []byte
	slow := writerFunc(func(b []byte) (int, error) {
		time.Sleep(time.Duration(len(b)) * 200 * time.Nanosecond) // 5 MB/s
		got += int64(len(b))
		tail = append(tail, b[max(0, len(b)-16):]...)
		return len(b), nil
	})
	out := t.run(workspace.Command{Shell: fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; echo END", size), Stdout: slow, MaxOutput: 1000})
	if got != size+4 || !strings.HasSuffix(string(tail), "END\n") {
		t.Errorf("the writer got %d bytes of %d", got, size+4)
	}
	if !out.Truncated || out.StdoutDropped.Bytes+int64(len(out.Stdout)) != size+4 || out.ExitCode != 0 {
		t.Errorf("Output: dropped %+v%s", out.StdoutDropped, told(out))
	}
}

func blockedWriter(t *checker) {
	for what, set := range map[string]func(*workspace.Command, io.Writer){
		"stdout": func(c *workspace.Command, w io.Writer) { c.Stdout = w },
		"stderr": func(c *workspace.Command, w io.Writer) { c.Stderr = w },
		"both":   func(c *workspace.Command, w io.Writer) { c.Stdout, c.Stderr = w, w },
	} {
		release := make(chan struct{})
		var calls atomic.Int32
		mark := t.mark()
		c := workspace.Command{
			Shell: "echo head; echo head >&2; sleep " + mark + " & yes & yes >&2; wait", Timeout: t.short(), KillGrace: shortGrace,
		}
		w := writerFunc(func(b []byte) (int, error) {
			calls.Add(1)
			<-release
			return len(b), nil
		})
		set(&c, &w)
		began := time.Now()
		out := t.run(c)
		t.within("a blocked writer of "+what, began, t.short()+shortGrace+time.Second)
		if out.ExitCode != 124 || !out.TimedOut || !strings.HasPrefix(string(out.Stdout), "head\n") {
			t.Errorf("a blocked writer of %s%s", what, told(out))
		}
		t.wantDead("a blocked writer of "+what, mark)
		close(release)
		if n := calls.Load(); n != 1 {
			t.Errorf("a writer left behind was called %d times", n)
		}
	}
}

func failingWriter(t *checker) {
	var calls atomic.Int32
	w := writerFunc(func([]byte) (int, error) {
		calls.Add(1)
		return 0, errors.New("no room")
	})
	out := t.run(workspace.Command{Shell: "echo one; sleep .1; yes | head -c 1000000; sleep .1; echo end; exit 6", Stdout: w, MaxOutput: 100})
	if out.ExitCode != 6 || !strings.HasPrefix(string(out.Stdout), "one\n") || !strings.HasSuffix(string(out.Stdout), "end\n") {
		t.Errorf("the command did not go on%s", told(out))
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("the failing writer was called %d times", n)
	}
}

func sharedWriter(t *checker) {
	var inside atomic.Int32
	var got bytes.Buffer
	w := writerFunc(func(b []byte) (int, error) {
		if inside.Add(1) != 1 {
			t.Error("two calls at once")
		}
		defer inside.Add(-1)
		return got.Write(b)
	})
	shared := &w
	out := t.run(workspace.Command{
		Shell: "yes o | head -n 5000 & yes e | head -n 5000 >&2; wait", Stdout: shared, Stderr: shared, MaxOutput: 100,
	})
	if o, e := strings.Count(got.String(), "o"), strings.Count(got.String(), "e"); o != 5000 || e != 5000 || out.ExitCode != 0 {
		t.Errorf("the writer got %d and %d lines of 5000%s", o, e, told(out))
	}
	out = t.run(workspace.Command{Shell: "echo 1; echo 2 >&2; echo 3", Stdout: io.Discard, Stderr: io.Discard})
	t.wantOut("a writer of no size", out, 0, "1\n3\n", "2\n")
}
