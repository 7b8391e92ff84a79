//go:build unix

package host

import (
	"context"
	"crypto/rand"
	"log/slog"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/workspace"
)

const (
	// maxIdle is how many keepers wait for their next command. One costs
	// about 2 MB; to start one costs a command some milliseconds.
	maxIdle = 4
	// goneTime is how long a keeper may take to end everything and exit once
	// it was told that its owner is done with it. It gives up itself after 5 s.
	goneTime = 6 * time.Second
)

// pool starts commands below keepers. A keeper has one command at a time; those
// that have none wait for the next.
type pool struct {
	path string
	log  *slog.Logger

	mu     sync.Mutex
	closed bool
	proven bool // a keeper has run a command
	idle   []*server
	all    map[*server]struct{} // every keeper that has not exited
}

// server is a serving keeper, a child of this process.
type server struct {
	*keeper.Client
	cmd    *exec.Cmd
	exited chan struct{}
}

func newPool(path string, log *slog.Logger) *pool {
	return &pool{path: path, log: log, all: map[*server]struct{}{}}
}

// ready lets a keeper run one command that does nothing, the first time.
func (p *pool) ready(ctx context.Context) error {
	p.mu.Lock()
	proven := p.proven
	p.mu.Unlock()
	if proven {
		return nil
	}
	v, err := p.take()
	if err != nil {
		return err
	}
	r, err := v.Start(ctx, keeper.Request{Path: shell, Args: []string{"sh", "-c", ":"}, Dir: "/"}, keeper.Streams{})
	if err == nil {
		_, err = r.Wait(ctx)
	}
	if err != nil {
		p.discard(v)
		if ctx.Err() != nil {
			return aborted(ctx)
		}
		return workspace.Errorf(workspace.ErrUnavailable, "start", "", "the keeper %s does not work: %w", workspace.Printable(p.path), err)
	}
	p.mu.Lock()
	p.proven = true
	p.mu.Unlock()
	p.put(v)
	return nil
}

// take returns a keeper that is free: one that waits, or a new one.
func (p *pool) take() (*server, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.idle) > 0 {
		last := len(p.idle) - 1
		v := p.idle[last]
		p.idle = p.idle[:last]
		if v.Free() {
			return v, nil
		}
	}
	if p.closed {
		return nil, disposed()
	}
	return p.serve()
}

// serve starts a keeper. mu is held: none is started behind the back of close.
func (p *pool) serve() (*server, error) {
	cmd := &exec.Cmd{
		Path: p.path,
		Args: []string{keeper.Name, keeper.ModeServe},
		Env:  []string{},
		Dir:  "/",
		// Out of the terminal's reach: its interrupt key is for this
		// process, which passes it on to the command it is meant for.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		// What could not be ended may hold the keeper's output.
		WaitDelay: stopTime,
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, startError("exec", err)
	}
	v := &server{Client: keeper.NewClient(stdin, rand.Reader), cmd: cmd, exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = v.Stdout(), v.Stderr()
	if err := cmd.Start(); err != nil {
		v.Lost(err)
		return nil, workspace.Errorf(workspace.ErrUnavailable, "start", "", "the keeper cannot be started; Keeper must name a program that calls keeper.Init: %w", err)
	}
	p.all[v] = struct{}{}
	go func() {
		v.Lost(cmd.Wait())
		p.mu.Lock()
		delete(p.all, v)
		p.idle = slices.DeleteFunc(p.idle, func(i *server) bool { return i == v })
		p.mu.Unlock()
		close(v.exited)
	}()
	return v, nil
}

// put takes back a keeper whose command is over. One that has retired stays as
// the parent of what was kept, and exits by itself when that is gone.
func (p *pool) put(v *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !v.Free():
	case p.closed || len(p.idle) >= maxIdle:
		_ = v.Close()
	default:
		p.idle = append(p.idle, v)
	}
}

// discard ends a keeper and all it runs, and returns when it is gone.
func (p *pool) discard(v *server) bool {
	_ = v.Close()
	if within(goneTime, v.exited) {
		return true
	}
	// It is stuck, or not a keeper. What it had started is not known.
	_ = v.cmd.Process.Kill()
	within(2*stopTime, v.exited)
	return false
}

// busy reports whether a keeper has a command, or is the parent of what was kept.
func (p *pool) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for v := range p.all {
		if !slices.Contains(p.idle, v) && !within(0, v.exited) {
			return true
		}
	}
	return false
}

func (p *pool) close() error {
	p.mu.Lock()
	p.closed = true
	p.idle = nil
	var all []*server
	for v := range p.all {
		all = append(all, v)
		_ = v.Close()
	}
	p.mu.Unlock()
	stuck := 0
	for _, v := range all {
		if !p.discard(v) {
			stuck++
		}
	}
	if stuck > 0 {
		return workspace.Errorf(workspace.ErrIO, "close", "", "%d keepers had to be killed; commands they ran may live on", stuck)
	}
	return nil
}
