package keeper_test

import (
	"io"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/keeper"
)

func onTerminal(line string) keeper.Request {
	req := shell(line)
	req.Terminal = &keeper.Size{Rows: 33, Cols: 99}
	return req
}

func TestTerminal(t *testing.T) {
	l := serve(t)
	got := l.run(t, onTerminal("test -t 0 && test -t 1 && test -t 2 && stty size && tty >/dev/null && echo err >&2; exit 4"), nil)
	if got.stdout != "33 99\r\nerr\r\n" || got.stderr != "" || got.Code != 4 {
		t.Errorf("got %+v", got)
	}
	// All of the output is there, though the terminal is closed by then.
	if got := l.run(t, onTerminal("head -c 300000 /dev/zero | tr '\\0' x; sleep 7795 & exit 0"), nil); len(got.stdout) != 300000 {
		t.Errorf("%d bytes", len(got.stdout))
	}
	if got := l.run(t, onTerminal("cat; echo done"), nil); !strings.HasSuffix(got.stdout, "done\r\n") {
		t.Errorf("no stdin: %+v", got)
	}
	if got := l.run(t, shell("test -t 0 || echo plain"), nil); got.stdout != "plain\n" {
		t.Errorf("after: %+v", got)
	}
}

func TestTerminalResizeAndInterrupt(t *testing.T) {
	l := serve(t)
	var out watched
	in, keys := io.Pipe()
	defer keys.Close()
	r := l.start(t, onTerminal("trap 'stty size' WINCH; echo up; while :; do sleep .02; done"), keeper.Streams{Stdin: in, Stdout: &out})
	out.await(t, "up")
	check(t, r.Resize(keeper.Size{Rows: 12, Cols: 34}))
	out.await(t, "12 34")
	_, err := keys.Write([]byte{3}) // ^C
	check(t, err)
	status, err := r.Wait(deadline(t))
	check(t, err)
	if status.Signal != 2 {
		t.Errorf("got %+v", status)
	}
}

func TestTerminalInput(t *testing.T) {
	l := serve(t)
	got := l.run(t, onTerminal("stty -echo; read a; echo got $a"), strings.NewReader("word\n"))
	if !strings.Contains(got.stdout, "got word\r\n") {
		t.Errorf("got %+v", got)
	}
}

func TestTerminalExcludesKeep(t *testing.T) {
	req := onTerminal("true")
	req.Keep = true
	if _, err := serve(t).Start(deadline(t), req, keeper.Streams{}); err == nil {
		t.Error("taken")
	}
}
