package workspace_test

import (
	"context"
	"io"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// program is a command of the in-process driver. It returns its status.
type program func(p *goprocess) int

// inprocess is a driver without an operating system: its commands are Go
// functions that run as goroutines, its files lie in memory. It does what
// driver.go asks of a driver, so that what Workspace adds can be tried alone,
// also under a clock of the test's own.
type inprocess struct {
	root     string
	programs map[string]program
	// start, when set, is what Ready does.
	start func(ctx context.Context) error
	files *memFiles

	mu      sync.Mutex
	readies int
	closes  int
	running int
	live    []*goprocess
}

func newInprocess(programs map[string]program) *inprocess {
	return &inprocess{root: "/place", programs: programs, files: newMemFiles()}
}

func (d *inprocess) Descriptor() workspace.Descriptor {
	return workspace.Descriptor{Kind: workspace.KindLocal, Root: d.root}
}

func (d *inprocess) Files() workspace.Files { return d.files }

func (d *inprocess) Ready(ctx context.Context) error {
	d.mu.Lock()
	d.readies++
	d.mu.Unlock()
	if d.start == nil {
		return ctx.Err()
	}
	return d.start(ctx)
}

func (d *inprocess) Run(ctx context.Context, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
	return workspace.RunStarted(ctx, d, c, s)
}

func (d *inprocess) Start(ctx context.Context, c workspace.Command, s workspace.Streams) (workspace.Running, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	name := "sh"
	if len(c.Args) > 0 {
		name = c.Args[0]
	}
	main, ok := d.programs[name]
	if !ok {
		main = func(p *goprocess) int {
			io.WriteString(p.stderr, name+": not found\n")
			return 127
		}
	}
	p := &goprocess{
		command: c, stdin: s.Stdin,
		terminated: make(chan struct{}), killed: make(chan struct{}), exited: make(chan struct{}),
		signals: make(chan syscall.Signal, 8),
	}
	if p.stdin == nil {
		p.stdin = eofReader{}
	}
	p.stdout, p.stderr = &goneWriter{p, s.Stdout}, &goneWriter{p, s.Stderr}
	d.mu.Lock()
	d.running++
	d.live = append(d.live, p)
	d.mu.Unlock()
	returned := make(chan int, 1)
	go func() { returned <- main(p) }()
	go func() {
		defer close(p.exited)
		select {
		case p.exit.Code = <-returned:
		case <-p.killed:
			// A goroutine cannot be ended; what it still writes goes
			// nowhere.
			p.exit.Code, p.exit.Signal = 137, syscall.SIGKILL
		}
		p.mu.Lock()
		p.exit.Stopped = p.stopped
		p.mu.Unlock()
		d.mu.Lock()
		d.running--
		d.live = slices.DeleteFunc(d.live, func(q *goprocess) bool { return q == p })
		d.mu.Unlock()
	}()
	return p, nil
}

func (d *inprocess) Close() error {
	d.mu.Lock()
	d.closes++
	d.mu.Unlock()
	return nil
}

func (d *inprocess) counts() (readies, running, closes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.readies, d.running, d.closes
}

// goprocess is one running program.
type goprocess struct {
	command        workspace.Command
	stdin          io.Reader
	stdout, stderr io.Writer
	terminated     chan struct{} // closed by the first Stop
	killed         chan struct{} // closed when grace is over
	signals        chan syscall.Signal
	exited         chan struct{}
	exit           workspace.Exit

	mu      sync.Mutex
	stopped bool
	size    workspace.TerminalSize
}

// sleep waits for d, or until the process is asked to end.
func (p *goprocess) sleep(d time.Duration) (whole bool) {
	select {
	case <-time.After(d):
		return true
	case <-p.terminated:
		return false
	}
}

func (p *goprocess) Wait() (workspace.Exit, error) {
	<-p.exited
	return p.exit, nil
}

func (p *goprocess) Signal(sig syscall.Signal) error {
	p.signals <- sig
	return nil
}

func (p *goprocess) Resize(size workspace.TerminalSize) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.size = size
	return nil
}

func (p *goprocess) Stop(grace time.Duration) error {
	p.mu.Lock()
	first := !p.stopped
	select {
	case <-p.exited:
	default:
		p.stopped = true
	}
	p.mu.Unlock()
	if first {
		close(p.terminated)
		select {
		case <-p.exited:
		case <-time.After(grace):
			close(p.killed)
		}
	}
	<-p.exited
	return nil
}

// goneWriter drops what a program writes once it has been killed.
type goneWriter struct {
	p *goprocess
	w io.Writer
}

func (g *goneWriter) Write(b []byte) (int, error) {
	select {
	case <-g.p.killed:
		return len(b), nil
	default:
		return g.w.Write(b)
	}
}

type eofReader struct{}

func (eofReader) Read([]byte) (int, error) { return 0, io.EOF }

// open returns a workspace over d that the test closes at its end.
func open(t testing.TB, d workspace.Driver, o workspace.Options) *workspace.Workspace {
	t.Helper()
	ws, err := workspace.New(d, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ws.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return ws
}

// wantCode fails the test unless err carries code.
func wantCode(t testing.TB, err error, code workspace.Code) {
	t.Helper()
	if workspace.CodeOf(err) != code {
		t.Errorf("error %v, want code %s", err, code)
	}
}
