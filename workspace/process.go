package workspace

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// closeWait is how long Process.Close waits after end of file on stdin before
// it ends the process, as the stdio transport of MCP asks of a client.
const closeWait = 2 * time.Second

// Process is a process started in a workspace. It ends with its context, its
// Timeout, its Close and its workspace; whatever it left running goes with it.
// Its methods are safe for concurrent use: one goroutine may read Stdout while
// another writes Stdin and a third waits.
type Process struct {
	running Running
	stdin   *stdinPipe
	stdout  *pipe
	pumps   []*pump

	ctx    context.Context //nolint:containedctx // the process's life
	cancel context.CancelCauseFunc

	exited chan struct{} // closed when exit and err are set
	exit   Exit
	err    error

	closeOnce sync.Once
	closeErr  error
}

// Start starts a command that runs for longer than one call, with pipes to it,
// and returns at once. Its standard error goes to c.Stderr, nil drops it; its
// standard output to c.Stdout when that is set, else to Process.Stdout. A
// caller that is done calls Close, even after the process has exited.
//
// The error is UNSUPPORTED when the driver cannot, and as Exec's otherwise.
func (w *Workspace) Start(ctx context.Context, c Command) (*Process, error) {
	const op = "start"
	starter, ok := w.driver.(Starter)
	switch {
	case !ok:
		return nil, unsupported(op, "this kind of workspace runs one command at a time; use Exec")
	case c.Stdin != nil:
		return nil, Errorf(ErrInvalidArgument, op, "", "a started process reads Process.Stdin; leave Command.Stdin nil")
	case c.MaxOutput != 0:
		return nil, Errorf(ErrInvalidArgument, op, "", "a started process keeps no output; leave MaxOutput 0")
	case c.Signals != nil:
		return nil, Errorf(ErrInvalidArgument, op, "", "a started process takes Process.Signal; leave Command.Signals nil")
	case c.Background != "":
		return nil, Errorf(ErrInvalidArgument, op, "", "what a started process leaves goes with it; leave Background empty")
	}
	end, err := w.beginCommand(ctx, op, c)
	if err != nil {
		return nil, err
	}
	p, err := w.startReady(ctx, starter, c, end)
	if err != nil {
		end(nil, false, err)
	}
	return p, err
}

// startReady starts c once the driver is ready. end is told when the process
// that it returns has ended.
func (w *Workspace) startReady(ctx context.Context, starter Starter, c Command, end func(*int, bool, error)) (*Process, error) {
	const op = "start"
	call, err := w.begin(ctx, op)
	if err != nil {
		return nil, err
	}
	defer call.finish()
	c, err = w.prepare(call, op, c)
	if err != nil {
		return nil, err
	}
	if err := w.ready(call, op); err != nil {
		return nil, err
	}
	return w.start(ctx, call, starter, c, end)
}

// start hands c to the driver. life is the context that the process ends with,
// call the one of the Start that is under way.
func (w *Workspace) start(life, call context.Context, starter Starter, c Command, end func(*int, bool, error)) (*Process, error) {
	const op = "start"
	p := &Process{exited: make(chan struct{}), stdin: newStdinPipe()}
	life, p.cancel = context.WithCancelCause(life)
	var stopTimer context.CancelFunc
	p.ctx, stopTimer = withTimeout(life, c.Timeout)

	streams := Streams{Stdin: p.stdin.r, Stdout: io.Discard, Stderr: io.Discard}
	if c.Stdout != nil {
		p.pumps = append(p.pumps, newPump(p.ctx, c.Stdout))
		streams.Stdout = &sink{to: p.pumps[0]}
	} else {
		p.stdout = newPipe(p.ctx)
		streams.Stdout = p.stdout
	}
	switch {
	case sameWriter(c.Stdout, c.Stderr):
		streams.Stderr = &sink{to: p.pumps[0]}
	case c.Stderr != nil:
		pump := newPump(p.ctx, c.Stderr)
		p.pumps = append(p.pumps, pump)
		streams.Stderr = &sink{to: pump}
	}
	c.Stdin, c.Stdout, c.Stderr, c.Timeout = nil, nil, nil, 0

	ended, err := w.adopt(op, p.cancel)
	if err == nil {
		if p.running, err = starter.Start(call, c, streams); err != nil {
			ended()
			if call.Err() != nil && errors.Is(err, call.Err()) {
				err = w.stopped(call, op, "")
			}
		}
	}
	if err != nil {
		p.cancel(err)
		stopTimer()
		p.release()
		return nil, wrap(err, ErrIO, op, "")
	}
	go p.watch(c.KillGrace)
	go func() {
		defer stopTimer()
		defer p.cancel(nil)
		exit, err := p.running.Wait()
		p.finished(exit, wrap(err, ErrIO, op, ""))
		if err == nil {
			end(&p.exit.Code, errors.Is(p.err, context.DeadlineExceeded), p.err)
		} else {
			end(nil, false, p.err)
		}
		close(p.exited)
		ended()
	}()
	return p, nil
}

// watch ends the process when its context does.
func (p *Process) watch(grace time.Duration) {
	select {
	case <-p.exited:
	case <-p.ctx.Done():
		// Wait tells what came of it.
		_ = p.running.Stop(grace)
	}
}

// finished sets what Wait returns.
func (p *Process) finished(exit Exit, err error) {
	p.exit, p.err = exit, err
	if exit.Stopped && err == nil {
		switch cause := context.Cause(p.ctx); {
		case cause == errTimeout:
			p.exit.Code, p.err = statusTimedOut, context.DeadlineExceeded
		case cause == error(ErrDisposed), cause == errProcessClosed:
		default:
			p.err = p.ctx.Err()
		}
	}
	p.release()
}

// release ends the pipes. What Stdout still holds can be read.
func (p *Process) release() {
	p.stdin.end()
	if p.stdout != nil {
		p.stdout.closeWrite()
	}
	for _, pump := range p.pumps {
		pump.close()
	}
}

// Stdin is the process's standard input. Closing it is end of file for the
// process. A Write after the process has exited is syscall.EPIPE.
func (p *Process) Stdin() io.WriteCloser { return p.stdin }

// Stdout is the process's standard output. It buffers 64 KiB, as a pipe does:
// a process that writes more waits for a reader. It ends once the process and
// everything it started are gone. With Command.Stdout set it is empty.
func (p *Process) Stdout() io.ReadCloser {
	if p.stdout == nil {
		return io.NopCloser(eof{})
	}
	return p.stdout
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// Wait waits for the process to exit and returns its status as Exec would. The
// error is nil whatever the status; it is context.DeadlineExceeded when
// Timeout ended the process, the context's error when that did, and an *Error
// when the status cannot be known. It may be called any number of times.
func (p *Process) Wait() (Exit, error) {
	<-p.exited
	return p.exit, p.err
}

// Signal sends sig to the process and its group. The error is
// os.ErrProcessDone once it has exited.
func (p *Process) Signal(sig os.Signal) error {
	n, err := asSignal(sig)
	if err != nil {
		return err
	}
	select {
	case <-p.exited:
		return os.ErrProcessDone
	default:
		return p.running.Signal(n)
	}
}

// Resize sets the size of the process's terminal.
func (p *Process) Resize(size TerminalSize) error {
	select {
	case <-p.exited:
		return os.ErrProcessDone
	default:
		return p.running.Resize(size)
	}
}

// errProcessClosed is the cause of the context of a process that Close ended.
var errProcessClosed = errors.New("process closed")

// Close ends the process and everything it started: end of file on its
// standard input, two seconds to leave, SIGTERM, its KillGrace, SIGKILL. It
// returns once the process is gone, with the error that made its status
// unknown, if any. It may be called more than once.
func (p *Process) Close() error {
	p.closeOnce.Do(func() {
		_ = p.stdin.Close()
		if p.stdout != nil {
			p.stdout.set(&p.stdout.loose)
		}
		t := time.NewTimer(closeWait)
		defer t.Stop()
		select {
		case <-p.exited:
		case <-t.C:
			p.cancel(errProcessClosed)
			<-p.exited
		}
		if p.stdout != nil {
			_ = p.stdout.Close()
		}
		if CodeOf(p.err) != "" {
			p.closeErr = p.err
		}
	})
	return p.closeErr
}

// stdinPipe is the writing end of a process's standard input.
type stdinPipe struct {
	*io.PipeWriter
	r *io.PipeReader
}

func newStdinPipe() *stdinPipe {
	r, w := io.Pipe()
	return &stdinPipe{PipeWriter: w, r: r}
}

// end makes every later Write fail as a write to a closed pipe does.
func (s *stdinPipe) end() { _ = s.r.CloseWithError(syscall.EPIPE) }
