package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

const (
	// keptProcesses is how many processes that have exited are remembered.
	keptProcesses = 32
	// maxQueuedInput is how much input waits for a process that does not
	// read it, in bytes.
	maxQueuedInput = 1 << 20
)

// process is a started process.
type process struct {
	id      string
	command string
	cwd     string
	started time.Time
	ws      *workspace.Workspace
	running *workspace.Process
	output  *backlog
	input   inputQueue
	exited  chan struct{} // closed when exit and err are set
	exit    workspace.Exit
	err     error
}

// alive reports whether it still runs.
func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// processTable is the processes that the calls of a set have started.
type processTable struct {
	mu       sync.Mutex
	closed   bool
	starting int
	last     int
	list     []*process // the oldest first
}

// start starts a process in the workspace of a call. It lives until it exits,
// its timeout, the end of the set or that of the workspace.
func (t *processTable) start(ctx context.Context, c *call, cmd workspace.Command) (*process, error) {
	p := &process{
		command: cmd.Shell, cwd: cmd.Dir, ws: c.ws, started: time.Now(),
		output: newBacklog(c.set.opts.Limits.ProcessOutput), exited: make(chan struct{}),
	}
	if err := t.reserve(c.set.opts.Limits.Processes); err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = p.output, p.output
	// The call's end ends the start, and then no longer the process.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	left := context.AfterFunc(ctx, cancel)
	running, err := c.ws.Start(life, cmd)
	if err != nil || !left() {
		cancel()
		if err == nil {
			_, _ = running.Wait()
			err = ctx.Err()
		}
		t.add(nil)
		return nil, err
	}
	p.running = running
	p.input.more = make(chan struct{}, 1)
	go p.input.feed(running.Stdin(), p.exited)
	go func() {
		defer cancel()
		p.exit, p.err = running.Wait()
		close(p.exited)
	}()
	if !t.add(p) {
		_ = running.Close()
		return nil, errClosedSet()
	}
	return p, nil
}

func errClosedSet() error {
	return workspace.Errorf(workspace.ErrDisposed, "process_start", "", "the set of tools is closed")
}

// reserve takes one place for a process that runs.
func (t *processTable) reserve(limit int) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errClosedSet()
	}
	alive := t.starting
	for _, p := range t.list {
		if p.alive() {
			alive++
		}
	}
	if alive >= limit {
		return workspace.Errorf(workspace.ErrTooMany, "process_start", "", "%s run already, the most there may be: end one with process_signal", count(alive, "process"))
	}
	t.starting++
	return nil
}

// add puts p in the place that was reserved; nil gives the place back. It
// reports false when the set has been closed.
func (t *processTable) add(p *process) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starting--
	if p == nil {
		return true
	}
	if t.closed {
		return false
	}
	t.last++
	p.id = fmt.Sprintf("p%d", t.last)
	t.list = append(t.list, p)
	ended := 0
	for _, q := range slices.Backward(t.list) {
		if q.alive() {
			continue
		}
		if ended++; ended > keptProcesses {
			t.list = slices.DeleteFunc(t.list, func(old *process) bool { return old == q })
		}
	}
	return true
}

// of returns the processes of a workspace, the oldest first.
func (t *processTable) of(ws *workspace.Workspace) []*process {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []*process
	for _, p := range t.list {
		if p.ws == ws {
			list = append(list, p)
		}
	}
	return list
}

// find returns the process of that id in the workspace of a call.
func (t *processTable) find(c *call, id string) (*process, error) {
	for _, p := range t.of(c.ws) {
		if p.id == id {
			return p, nil
		}
	}
	return nil, workspace.Errorf(workspace.ErrNotFound, c.tool.Name, "", "there is no process %q; process_list tells which there are", clip(id, 40))
}

// close ends all processes and returns when they are gone.
func (t *processTable) close() error {
	t.mu.Lock()
	t.closed = true
	list := t.list
	t.list = nil
	t.mu.Unlock()
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, p := range list {
		wg.Go(func() { errs[i] = p.running.Close() })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// inputQueue is input under way to a process that reads it when it likes.
type inputQueue struct {
	mu     sync.Mutex
	queued []byte
	ended  bool
	more   chan struct{} // holds one when queued or ended has changed
}

// add queues text, and the end of the input.
func (q *inputQueue) add(text string, end bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.ended:
		return workspace.Errorf(workspace.ErrInvalidArgument, "process_input", "", "the standard input of this process is closed already")
	case len(q.queued)+len(text) > maxQueuedInput:
		return workspace.Errorf(workspace.ErrBusy, "process_input", "", "the process has not read %s of its input yet, and %d may wait: try again later", count(len(q.queued), "byte"), maxQueuedInput)
	}
	q.queued = append(q.queued, text...)
	q.ended = end
	select {
	case q.more <- struct{}{}:
	default:
	}
	return nil
}

// feed hands what is queued to a process until it exits.
func (q *inputQueue) feed(stdin io.WriteCloser, exited <-chan struct{}) {
	for {
		q.mu.Lock()
		b, ended := q.queued, q.ended
		q.queued = nil
		q.mu.Unlock()
		if len(b) > 0 {
			if _, err := stdin.Write(b); err != nil {
				return
			}
			continue
		}
		if ended {
			_ = stdin.Close()
			return
		}
		select {
		case <-q.more:
		case <-exited:
			return
		}
	}
}
