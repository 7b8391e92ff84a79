//go:build unix

package drivertest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

func processCases() []testCase {
	start, terminal := []capability{needStart()}, []capability{needStart(), needTerminal()}
	escapees := []capability{needStart(), needEscapees()}
	return []testCase{
		{name: "dialogue", run: dialogue, needs: start, rule: "A started process answers line by line for as long as it is asked."},
		{name: "end of stdin", run: endOfStdin, needs: start, rule: "Closing Stdin is end of file for the process; Wait gives its status each time."},
		{name: "exit status", run: processStatus, needs: start, rule: "Wait gives a status as Exec does, and no error for any status."},
		{name: "start errors", run: startErrors, needs: start, rule: "What is wrong with a command is told by Start, as Exec tells it; Command.Stdin is refused."},
		{name: "stderr", run: processStderr, needs: start, rule: "Standard error goes to its writer, nil drops it, and it is apart from standard output."},
		{name: "stdout writer", run: processStdout, needs: start, rule: "With a writer for Stdout it gets every byte and Process.Stdout is empty."},
		{name: "output outlives it", run: outputOutlives, needs: start, rule: "64 KiB fit without a reader, and can be read after the exit."},
		{name: "back-pressure", run: backPressure, needs: start, rule: "A process that writes more waits for a reader, and none of it is lost."},
		{name: "signal", run: processSignal, needs: start, rule: "Signal reaches the process and its group, and is os.ErrProcessDone after the exit."},
		{name: "close", run: processClose, needs: start, rule: "Close is end of file, two seconds, TERM, grace, KILL; it may be repeated and called by many."},
		{name: "ends with context", run: endsWithContext, needs: start, rule: "A process ends with its context, and Wait says so."},
		{name: "ends with timeout", run: endsWithTimeout, needs: start, rule: "A process ends with its timeout: 124 and DeadlineExceeded."},
		{name: "ends with workspace", run: endsWithWorkspace, needs: start, limit: time.Minute, rule: "A process ends with its workspace."},
		{name: "what it leaves", run: whatItLeaves, needs: start, rule: "What a process left running goes with it, and its Stdout then ends."},
		{name: "what escapes it", run: whatEscapes, needs: escapees, rule: "What left a process's session goes with it too, when it exits by itself and when it is closed."},
		{name: "many", run: manyProcesses, needs: start, rule: "Processes run beside each other and beside commands, and do not mix."},
		{name: "concurrent use", run: concurrentUse, needs: start, rule: "One goroutine may read while another writes, a third waits and a fourth signals."},
		{name: "terminal", run: terminal0, needs: terminal, rule: "With a terminal, all three streams are one, it has the size asked for, and both outputs come as Stdout."},
		{name: "terminal resize", run: terminalResize, needs: terminal, rule: "Resize sets the size and the process is told by SIGWINCH."},
		{name: "terminal keys", run: terminalKeys, needs: terminal, rule: "An interrupt key on the terminal interrupts what is in its foreground."},
	}
}

// start starts a process in the case's directory and closes it at the end.
func (t *checker) start(c workspace.Command) *workspace.Process {
	t.Helper()
	return t.startIn(t.ctx, c)
}

func (t *checker) startIn(ctx context.Context, c workspace.Command) *workspace.Process {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.dir
	}
	p, err := t.ws.Start(ctx, c)
	if err != nil {
		t.Fatalf("Start of %s: %v", show(c), err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Errorf("Close of %s: %v", show(c), err)
		}
	})
	return p
}

// wantExit fails the case unless p ends so, and says so twice.
func (t *checker) wantExit(what string, p *workspace.Process, status int, want error) {
	t.Helper()
	for range 2 {
		if exit, err := p.Wait(); exit.Code != status || err != want {
			t.Errorf("%s: Wait gives %+v, %v, want status %d, %v", what, exit, err, status, want)
		}
	}
}

// line reads one line of a process's output.
func (t *checker) line(r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("reading a line: %q, %v", s, err)
	}
	return strings.TrimRight(s, "\r\n")
}

const lineServer = `while read -r line; do case $line in quit) exit 5;; err) echo to-err >&2;; *) echo "you said $line";; esac; done; echo bye; exit 4`

func dialogue(t *checker) {
	p := t.start(workspace.Command{Shell: lineServer})
	r := bufio.NewReader(p.Stdout())
	for i := range 200 {
		fmt.Fprintf(p.Stdin(), "hello %d\n", i)
		if got, want := t.line(r), fmt.Sprintf("you said hello %d", i); got != want {
			t.Fatalf("line %d is %q", i, got)
		}
		if i == 100 {
			t.works("half a dialogue")
		}
	}
	io.WriteString(p.Stdin(), "quit\n")
	t.wantExit("quit", p, 5, nil)
}

func endOfStdin(t *checker) {
	p := t.start(workspace.Command{Shell: lineServer})
	t.must(p.Stdin().Close())
	all, err := io.ReadAll(p.Stdout())
	if string(all) != "bye\n" || err != nil {
		t.Errorf("read %q, %v", all, err)
	}
	t.wantExit("end of input", p, 4, nil)
	if _, err := p.Stdin().Write([]byte("x")); err == nil {
		t.Error("a write after the exit succeeds")
	}
	// Large input through a filter, with its end in sight.
	p = t.start(workspace.Command{Args: []string{"cat"}})
	data := randomBytes(2_000_000)
	go func() {
		p.Stdin().Write(data)
		p.Stdin().Close()
	}()
	got, err := io.ReadAll(p.Stdout())
	t.must(err)
	t.wantBytes("2 MB through cat", got, data)
	t.wantExit("cat", p, 0, nil)
}

func processStatus(t *checker) {
	for _, c := range []struct {
		text   string
		status int
		signal syscall.Signal
	}{{"exit 0", 0, 0}, {"exit 42", 42, 0}, {"exit 124", 124, 0}, {"exit 255", 255, 0}, {"kill -9 $$", 137, syscall.SIGKILL}, {"kill -TERM $$", 143, syscall.SIGTERM}} {
		p := t.start(workspace.Command{Shell: c.text})
		t.wantExit(c.text, p, c.status, nil)
		exit, _ := p.Wait()
		if !t.caps.Signals {
			c.signal = 0
		}
		if exit.Signal != c.signal || exit.Stopped {
			t.Errorf("%q: %+v, want signal %v", c.text, exit, c.signal)
		}
	}
	p := t.start(workspace.Command{Args: []string{"no-such-command-here"}})
	t.wantExit("a command that is not there", p, 127, nil)
	p = t.start(workspace.Command{Args: []string{"sh", "-c", `printf '%s|' "$@"; pwd; echo $V`, "x", "", "a b", "*"}, Env: []string{"V=v"}, Dir: t.dir})
	out, err := io.ReadAll(p.Stdout())
	t.must(err)
	if want := "|a b|*|" + t.pwd(t.dir) + "v\n"; string(out) != want {
		t.Errorf("arguments, directory and environment are %q, want %q", out, want)
	}
}

func startErrors(t *checker) {
	t.write("file", "x")
	for what, c := range map[string]struct {
		c    workspace.Command
		code workspace.Code
	}{
		"Stdin":   {workspace.Command{Shell: "echo > ran", Stdin: strings.NewReader("")}, workspace.ErrInvalidArgument},
		"nothing": {workspace.Command{}, workspace.ErrInvalidArgument},
		"gone":    {workspace.Command{Shell: "echo > ran", Dir: t.path("gone")}, workspace.ErrNotFound},
		"file":    {workspace.Command{Shell: "echo > ran", Dir: t.path("file")}, workspace.ErrNotDirectory},
		"outside": {workspace.Command{Shell: "echo > ran", Dir: "/"}, workspace.ErrOutside},
		"env":     {workspace.Command{Shell: "echo > ran", Env: []string{"x"}}, workspace.ErrInvalidArgument},
	} {
		p, err := t.ws.Start(t.ctx, c.c)
		t.wantCode(what, err, c.code)
		if p != nil {
			t.Errorf("%s: there is a process", what)
			p.Close()
		}
	}
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	_, err := t.ws.Start(ctx, workspace.Command{Shell: "echo > ran", Dir: t.dir})
	t.wantCode("an ended context", err, workspace.ErrAborted)
	t.wantGone("ran")
}

func processStderr(t *checker) {
	var stderr bytes.Buffer
	p := t.start(workspace.Command{Shell: "echo out; echo err >&2; yes x | head -c 300000 >&2", Stderr: &stderr})
	out, err := io.ReadAll(p.Stdout())
	t.must(err)
	t.wantExit("it", p, 0, nil)
	t.wantBytes("stdout", out, []byte("out\n"))
	t.wantBytes("stderr", stderr.Bytes(), []byte("err\n"+strings.Repeat("x\n", 150000)))
	p = t.start(workspace.Command{Shell: "yes x | head -c 300000 >&2; echo out"})
	t.wantExit("dropped stderr", p, 0, nil)
	out, err = io.ReadAll(p.Stdout())
	t.must(err)
	t.wantBytes("stdout beside a dropped stderr", out, []byte("out\n"))
}

func processStdout(t *checker) {
	var both bytes.Buffer
	w := &lockedWriter{w: &both}
	p := t.start(workspace.Command{Shell: "yes o | head -n 3000 & yes e | head -n 3000 >&2; wait", Stdout: w, Stderr: w})
	t.wantExit("it", p, 0, nil)
	if o, e := strings.Count(both.String(), "o"), strings.Count(both.String(), "e"); o != 3000 || e != 3000 {
		t.Errorf("the writer got %d and %d lines of 3000", o, e)
	}
	if rest, err := io.ReadAll(p.Stdout()); len(rest) != 0 || err != nil {
		t.Errorf("Process.Stdout holds %q, %v", rest, err)
	}
}

// lockedWriter is a writer for several goroutines.
type lockedWriter struct {
	mu sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

func (l *lockedWriter) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.String()
}

func outputOutlives(t *checker) {
	p := t.start(workspace.Command{Shell: "head -c 65000 /dev/zero | tr '\\0' x; exit 3"})
	t.wantExit("a full pipe", p, 3, nil)
	out, err := io.ReadAll(p.Stdout())
	t.must(err)
	t.wantBytes("the output after the exit", out, bytes.Repeat([]byte("x"), 65000))
	t.must(p.Close())
	if _, err := p.Stdout().Read(make([]byte, 1)); err == nil {
		t.Error("a read after Close succeeds")
	}
}

func backPressure(t *checker) {
	const size = 3_000_000
	p := t.start(workspace.Command{Shell: fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x; echo > written; echo end", size)})
	time.Sleep(200 * time.Millisecond)
	t.wantGone("written")
	var got int64
	buf := make([]byte, 10_000)
	for {
		n, err := p.Stdout().Read(buf)
		got += int64(n)
		if err == io.EOF {
			break
		}
		t.must(err)
		if got < 200_000 {
			time.Sleep(time.Millisecond)
		}
	}
	if got != size+4 {
		t.Errorf("read %d bytes of %d", got, size+4)
	}
	t.wantExit("it", p, 0, nil)
	// A reader that goes away holds nobody back.
	p = t.start(workspace.Command{Shell: fmt.Sprintf("head -c %d /dev/zero; exit 6", size)})
	t.must(p.Stdout().Close())
	if exit, err := p.Wait(); err != nil || exit.Code != 6 {
		t.Errorf("with its reader gone: %+v, %v", exit, err)
	}
}

func processSignal(t *checker) {
	p := t.start(workspace.Command{Shell: `trap 'echo parent; wait; exit 6' USR1; ` +
		`sh -c "trap 'echo child; exit' USR1; echo ready; while :; do sleep .05; done" & while :; do sleep .05; done`})
	r := bufio.NewReader(p.Stdout())
	if got := t.line(r); got != "ready" {
		t.Fatalf("it says %q", got)
	}
	t.must(p.Signal(syscall.SIGUSR1))
	rest, err := io.ReadAll(r)
	t.must(err)
	if got := string(rest); !strings.Contains(got, "child\n") || !strings.Contains(got, "parent\n") {
		t.Errorf("after SIGUSR1 they say %q", got)
	}
	t.wantExit("it", p, 6, nil)
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := p.Signal(sig); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("%v after the exit: %v", sig, err)
		}
	}
	p = t.start(workspace.Command{Args: []string{"sleep", "100"}})
	t.must(p.Signal(syscall.SIGTERM))
	t.wantExit("SIGTERM", p, 143, nil)
}

func manyProcesses(t *checker) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			p, err := t.ws.Start(t.ctx, workspace.Command{Shell: lineServer, Dir: t.dir})
			if err != nil {
				t.Error(err)
				return
			}
			defer p.Close()
			r := bufio.NewReader(p.Stdout())
			for j := range 20 {
				fmt.Fprintf(p.Stdin(), "%d-%d\n", i, j)
				if got, err := r.ReadString('\n'); got != fmt.Sprintf("you said %d-%d\n", i, j) {
					t.Errorf("process %d says %q, %v", i, got, err)
					return
				}
			}
			out, err := t.exec(workspace.Command{Shell: fmt.Sprintf("echo beside %d", i)})
			if err != nil || string(out.Stdout) != fmt.Sprintf("beside %d\n", i) {
				t.Errorf("a command beside process %d: %v%s", i, err, told(out))
			}
		})
	}
	wg.Wait()
}

func concurrentUse(t *checker) {
	p := t.start(workspace.Command{Shell: "trap : USR1; while read -r x || [ -n \"$x\" ]; do echo $x; done; exit 0"})
	var wg sync.WaitGroup
	const lines = 300
	wg.Go(func() {
		for i := range lines {
			fmt.Fprintf(p.Stdin(), "%d\n", i)
		}
		p.Stdin().Close()
	})
	wg.Go(func() {
		out, err := io.ReadAll(p.Stdout())
		if n := bytes.Count(out, []byte("\n")); n != lines || err != nil {
			t.Errorf("read %d lines of %d, %v", n, lines, err)
		}
	})
	for range 4 {
		wg.Go(func() {
			if exit, err := p.Wait(); exit.Code != 0 || err != nil {
				t.Errorf("Wait: %+v, %v", exit, err)
			}
		})
		wg.Go(func() {
			if err := p.Signal(syscall.SIGWINCH); err != nil && !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("Signal: %v", err)
			}
		})
	}
	wg.Wait()
}
