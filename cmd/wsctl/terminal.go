package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/wsctl/wsctl/workspace"
)

// terminal is the user's terminal while a command has it.
type terminal struct {
	ui *ui

	mu    sync.Mutex
	state *term.State // guarded by mu; nil: as it was
}

// makeRaw hands every key to the command, interrupt keys included.
func (t *terminal) makeRaw() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	state, err := term.MakeRaw(int(t.ui.in.Fd()))
	if err != nil {
		return workspace.Errorf(workspace.ErrIO, "", "", "raw mode of the terminal: %w", err)
	}
	t.state = state
	t.ui.setRaw(true)
	return nil
}

// restore puts the terminal back as it was. It may be called more than once.
func (t *terminal) restore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == nil {
		return
	}
	// The terminal may be gone, and then there is nothing to restore.
	_ = term.Restore(int(t.ui.in.Fd()), t.state)
	t.state = nil
	t.ui.setRaw(false)
}

// guard restores the terminal before a panic ends the program. Deferred, in
// every goroutine that runs while the terminal is raw.
func (t *terminal) guard() {
	if r := recover(); r != nil {
		t.restore()
		panic(r)
	}
}

// size is the terminal's, or that of a VT100 where it does not tell.
func (t *terminal) size() workspace.TerminalSize {
	cols, rows, err := term.GetSize(int(t.ui.in.Fd()))
	if err != nil || cols < 1 || rows < 1 || cols > math.MaxUint16 || rows > math.MaxUint16 {
		return workspace.TerminalSize{Rows: 24, Cols: 80}
	}
	return workspace.TerminalSize{Rows: uint16(rows), Cols: uint16(cols)}
}

// runTerminal runs c in a terminal of its own that is joined to the user's,
// until it ends.
func (t *terminal) runTerminal(ctx context.Context, ws *workspace.Workspace, c workspace.Command, s *stopper) (*workspace.Output, error) {
	size := t.size()
	c.Terminal = &size
	out := &outlet{name: "standard output", to: t.ui.out, broken: s.broken}
	c.Stdout = out
	// Raw before the command prints: else its line ends are made twice.
	defer t.guard()
	defer t.restore()
	if err := t.makeRaw(); err != nil {
		return nil, err
	}
	p, err := ws.Start(ctx, c)
	if err != nil {
		return nil, err
	}

	resized := make(chan os.Signal, 1)
	signal.Notify(resized, resizeSignal)
	defer signal.Stop(resized)
	ended := make(chan struct{})
	go t.follow(p, resized, ended)
	go t.feed(p)
	s.running(func(sig syscall.Signal) {
		go func() {
			defer t.guard()
			// A command that has just ended needs no signal.
			_ = p.Signal(sig)
		}()
	})
	exit, err := p.Wait()
	s.running(nil)
	close(ended)
	result := &workspace.Output{ExitCode: exit.Code, Signal: exit.Signal, OOMKilled: exit.OOMKilled, Ended: exit.Ended, Recreated: exit.Recreated}
	if errors.Is(err, context.DeadlineExceeded) {
		result.TimedOut, err = true, nil
	}
	return result, cmp.Or(err, p.Close(), out.err())
}

// follow passes on the size of the user's terminal as it changes.
func (t *terminal) follow(p *workspace.Process, resized <-chan os.Signal, ended <-chan struct{}) {
	defer t.guard()
	for {
		// It may have changed between the start and the first signal.
		_ = p.Resize(t.size())
		select {
		case <-resized:
		case <-ended:
			return
		}
	}
}

// feed passes on what is typed. Its last read is left behind when the command
// ends, and wsctl ends then too.
func (t *terminal) feed(p *workspace.Process) {
	defer t.guard()
	_, _ = io.Copy(p.Stdin(), t.ui.in)
	_ = p.Stdin().Close()
}
