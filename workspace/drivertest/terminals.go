//go:build unix

package drivertest

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"syscall"

	"github.com/wsctl/wsctl/workspace"
)

func terminal0(t *checker) {
	for _, c := range []workspace.Command{
		{Shell: "test -t 0 && test -t 1 && test -t 2 && stty size; echo err >&2; exit 3"},
		{Args: []string{"sh", "-c", "test -t 0 && test -t 1 && test -t 2 && stty size; echo err >&2; exit 3"}},
	} {
		c.Terminal = &workspace.TerminalSize{Rows: 31, Cols: 97}
		var stderr bytes.Buffer
		c.Stderr = &stderr
		p := t.start(c)
		out, err := io.ReadAll(p.Stdout())
		t.must(err)
		if got := strings.ReplaceAll(string(out), "\r\n", "\n"); got != "31 97\nerr\n" || stderr.Len() != 0 {
			t.Errorf("on a terminal of 31 by 97 it says %q, on stderr %q", got, stderr.String())
		}
		t.wantExit("it", p, 3, nil)
	}
	p := t.start(workspace.Command{Shell: "test -t 0 || test -t 1 || test -t 2 || echo none"})
	if out, err := io.ReadAll(p.Stdout()); string(out) != "none\n" || err != nil {
		t.Errorf("without a terminal it says %q, %v", out, err)
	}
	if err := p.Resize(workspace.TerminalSize{Rows: 1, Cols: 1}); err == nil {
		t.Error("Resize without a terminal succeeds")
	}
}

func terminalResize(t *checker) {
	p := t.start(workspace.Command{
		Shell:    "trap 'stty size' WINCH; echo ready; while :; do sleep .05; done",
		Terminal: &workspace.TerminalSize{Rows: 24, Cols: 80}, KillGrace: shortGrace,
	})
	r := bufio.NewReader(p.Stdout())
	if got := t.line(r); got != "ready" {
		t.Fatalf("it says %q", got)
	}
	t.must(p.Resize(workspace.TerminalSize{Rows: 50, Cols: 132}))
	if got := t.line(r); got != "50 132" {
		t.Errorf("after Resize its size is %q", got)
	}
	t.must(p.Signal(syscall.SIGKILL))
	t.wantExit("it", p, 137, nil)
}

func terminalKeys(t *checker) {
	p := t.start(workspace.Command{
		Shell:    "trap 'echo interrupted; exit 9' INT; echo ready; while :; do sleep .05; done",
		Terminal: &workspace.TerminalSize{Rows: 24, Cols: 80}, KillGrace: shortGrace,
	})
	r := bufio.NewReader(p.Stdout())
	if got := t.line(r); got != "ready" {
		t.Fatalf("it says %q", got)
	}
	io.WriteString(p.Stdin(), "\x03")
	rest, err := io.ReadAll(r)
	t.must(err)
	if !strings.Contains(string(rest), "interrupted") {
		t.Errorf("after ctrl-C it says %q", rest)
	}
	t.wantExit("it", p, 9, nil)
	// ctrl-D is end of file for who reads lines.
	p = t.start(workspace.Command{Args: []string{"cat"}, Terminal: &workspace.TerminalSize{Rows: 24, Cols: 80}})
	io.WriteString(p.Stdin(), "line\n\x04")
	out, err := io.ReadAll(p.Stdout())
	t.must(err)
	if strings.Count(string(out), "line\r\n") < 1 {
		t.Errorf("cat on a terminal says %q", out)
	}
	t.wantExit("cat", p, 0, nil)
}
