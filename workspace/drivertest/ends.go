//go:build unix

package drivertest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

func processClose(t *checker) {
	for _, c := range []struct {
		what, text  string
		least, most time.Duration
	}{
		{"leaves at end of input", "cat", 0, time.Second},
		{"leaves at TERM", "sleep 100", 1900 * time.Millisecond, 3 * time.Second},
		{"must be killed", "trap '' TERM INT HUP; echo ready; while :; do sleep .1; done", 1900*time.Millisecond + shortGrace, 3*time.Second + shortGrace},
		{"has left", "exit 3", 0, time.Second},
		{"is blocked on its output", "yes | head -c 1000000", 0, time.Second},
	} {
		p := t.start(workspace.Command{Shell: c.text, KillGrace: shortGrace})
		if strings.Contains(c.text, "ready") {
			t.line(bufio.NewReader(p.Stdout()))
		}
		began := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := p.Close(); err != nil {
					t.Errorf("%s: Close: %v", c.what, err)
				}
			})
		}
		wg.Wait()
		t.within("Close of what "+c.what, began, c.most)
		if took := time.Since(began); took < c.least {
			t.Errorf("Close of what %s took %v, it has %v to leave", c.what, took, c.least)
		}
		if exit, err := p.Wait(); err != nil {
			t.Errorf("%s: Wait after Close: %+v, %v", c.what, exit, err)
		}
		t.must(p.Close())
	}
}

func endsWithContext(t *checker) {
	mark := t.mark()
	ctx, cancel := context.WithCancel(t.ctx)
	p := t.startIn(ctx, workspace.Command{Shell: "sleep " + mark + " & echo ready; wait", KillGrace: shortGrace})
	t.line(bufio.NewReader(p.Stdout()))
	began := time.Now()
	cancel()
	exit, err := p.Wait()
	t.within("the end", began, shortGrace+time.Second)
	if err != context.Canceled || !exit.Stopped || exit.Code == 0 {
		t.Errorf("Wait: %+v, %v", exit, err)
	}
	t.wantDead("after its context ended", mark)
}

func endsWithTimeout(t *checker) {
	mark := t.mark()
	began := time.Now()
	p := t.start(workspace.Command{Shell: "trap '' TERM; sleep " + mark + " & wait; sleep 5", Timeout: t.short(), KillGrace: shortGrace})
	t.wantExit("a timeout", p, 124, context.DeadlineExceeded)
	t.within("the timeout", began, t.short()+shortGrace+time.Second)
	t.wantDead("after the timeout", mark)
}

func endsWithWorkspace(t *checker) {
	t = t.fresh(workspace.Options{KillGrace: shortGrace})
	p := t.start(workspace.Command{Shell: growing})
	t.untilGrowing()
	began := time.Now()
	t.must(t.ws.Close())
	t.within("Close", began, shortGrace+2*time.Second)
	t.wantStill("after Close")
	if exit, err := p.Wait(); err != nil || exit.Code == 0 {
		t.Errorf("Wait: %+v, %v", exit, err)
	}
	if err := p.Signal(syscall.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("Signal: %v", err)
	}
}

func whatItLeaves(t *checker) {
	for what, text := range leaving() {
		mark := t.mark()
		began := time.Now()
		p := t.start(workspace.Command{Shell: strings.ReplaceAll(text, "MARK", mark) + "; exit 3", KillGrace: shortGrace})
		out, err := io.ReadAll(p.Stdout())
		t.must(err)
		t.within(what, began, shortGrace+time.Second)
		if !strings.Contains(string(out), "done\n") {
			t.Errorf("%s: it says %q", what, out)
		}
		t.wantExit(what, p, 3, nil)
		t.wantDead(what, mark)
	}
}

func whatEscapes(t *checker) {
	for what, text := range escaping() {
		mark := t.mark()
		text = "(" + strings.ReplaceAll(text, "MARK", mark) + ") & sleep .3; "
		p := t.start(workspace.Command{Shell: text + "exit 3", KillGrace: shortGrace})
		t.wantExit(what, p, 3, nil)
		t.wantDead(what+", after its exit", mark)
		p = t.start(workspace.Command{Shell: text + "cat", KillGrace: shortGrace})
		t.wantAlive(what, mark)
		t.must(p.Close())
		t.wantDead(what+", after Close", mark)
	}
}
