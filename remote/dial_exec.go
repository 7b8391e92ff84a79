package remote

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/wsctl/wsctl/workspace"
)

// Run runs one command to its end.
func (d *Driver) Run(ctx context.Context, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
	return workspace.RunStarted(ctx, runner{d}, c, s)
}

// runner starts commands that run to their end: the server sees to their
// timeout too, whatever becomes of this side.
type runner struct{ d *Driver }

// deadlineSlack is how much longer the server gives a command than this side,
// which is to end it.
const deadlineSlack = time.Second

func (r runner) Start(ctx context.Context, c workspace.Command, s workspace.Streams) (workspace.Running, error) {
	m := startOf(modeExec, c, s)
	if end, ok := ctx.Deadline(); ok {
		m.TimeoutMS = max(1, (time.Until(end) + deadlineSlack).Milliseconds())
		if most := workspace.MaxTimeout.Milliseconds(); m.TimeoutMS > most {
			m.TimeoutMS = most
		}
	}
	return r.d.begin(ctx, m, s)
}

// Start implements workspace.Starter.
func (d *Driver) Start(ctx context.Context, c workspace.Command, s workspace.Streams) (workspace.Running, error) {
	if !d.about.Start {
		return nil, workspace.Errorf(workspace.ErrUnsupported, "start", "", "the workspace on the server runs one command at a time; use Exec")
	}
	m := startOf(modeStart, c, s)
	m.Background = ""
	p, err := d.begin(ctx, m, s)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.started:
		return p, nil
	case <-p.done:
		if p.err != nil {
			return nil, p.err
		}
		return p, nil
	case <-ctx.Done():
		p.abandon(errStopped)
		<-p.done
		return nil, &workspace.Error{Code: workspace.ErrAborted, Op: "start", Err: ctx.Err()}
	}
}

// startOf is c as it is sent.
func startOf(mode string, c workspace.Command, s workspace.Streams) *startMessage {
	// Rounded up: what is asked for is given.
	grace := (c.KillGrace + time.Millisecond - 1).Milliseconds()
	m := &startMessage{
		Mode: mode, Args: texts(c.Args), Shell: text(c.Shell), Dir: text(c.Dir), Env: texts(c.Env),
		Stdin: s.Stdin != nil, KillGraceMS: &grace, Background: c.Background,
	}
	if c.Terminal != nil {
		m.Terminal = &terminalMessage{Rows: c.Terminal.Rows, Cols: c.Terminal.Cols}
	}
	return m
}

// process is a command that runs on the server.
type process struct {
	driver   *Driver
	link     *link
	hangUp   context.CancelFunc
	terminal bool

	stdin          *outflow
	stdout, stderr *inflow

	started chan struct{} // closed when the server says so
	exited  chan struct{} // closed when the server has told the end, or is lost
	done    chan struct{} // closed when all output is delivered, too

	mu       sync.Mutex
	stopping bool
	lost     error // why it was given up

	exit workspace.Exit // both are set when exited is closed
	err  error
}

// begin opens a connection and sends the command.
func (d *Driver) begin(ctx context.Context, m *startMessage, s workspace.Streams) (*process, error) {
	d.mu.Lock()
	if d.gone {
		d.mu.Unlock()
		return nil, workspace.Errorf(workspace.ErrDisposed, "exec", "", "the workspace is closed")
	}
	d.wg.Add(1)
	d.mu.Unlock()
	conn, err := d.connect(ctx)
	if err != nil {
		d.wg.Done()
		return nil, err
	}
	conn.SetReadLimit(maxFrame)
	life, hangUp := context.WithCancel(d.life)
	l := &link{conn: conn, ctx: life}
	p := &process{
		driver: d, link: l, hangUp: hangUp, terminal: m.Terminal != nil,
		stdin: newOutflow(l, frameStdin), stdout: newInflow(l, frameStdout), stderr: newInflow(l, frameStderr),
		started: make(chan struct{}), exited: make(chan struct{}), done: make(chan struct{}),
	}
	stop := context.AfterFunc(ctx, func() { conn.CloseNow() })
	err = l.sendJSON(frameStart, m)
	if !stop() || err != nil {
		hangUp()
		conn.CloseNow()
		d.wg.Done()
		if ctx.Err() != nil {
			return nil, &workspace.Error{Code: workspace.ErrAborted, Op: "exec", Err: ctx.Err()}
		}
		return nil, lostConnection(err)
	}
	go l.keepAlive(d.client.opts.Keepalive, p.abandon)
	go p.run(s)
	if s.Stdin != nil {
		// A Read of it that blocks outlives the command; nothing can end it.
		go p.feed(s.Stdin)
	}
	return p, nil
}

// connect opens the connection of one command.
func (d *Driver) connect(ctx context.Context) (*websocket.Conn, error) {
	c := d.client
	w := c.watch(ctx)
	defer w.stop()
	h := http.Header{}
	c.sign(h)
	u := *c.base
	u.Path += "/exec"
	conn, resp, err := websocket.Dial(w.ctx, u.String(), &websocket.DialOptions{
		HTTPClient:   &http.Client{Transport: c.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		HTTPHeader:   h,
		Subprotocols: []string{execProtocol},
	})
	if err != nil {
		if resp != nil && resp.StatusCode != http.StatusSwitchingProtocols && ctx.Err() == nil {
			// The library keeps the first KiB of the answer, enough for most.
			if told := c.answer(ctx, w, "exec", resp, &nothing{}); told != nil {
				return nil, told
			}
		}
		return nil, w.failed(ctx, "exec", err)
	}
	if conn.Subprotocol() != execProtocol {
		conn.CloseNow()
		return nil, misbehaved("it does not speak %s", execProtocol)
	}
	return conn, nil
}

func lostConnection(err error) error {
	return workspace.Errorf(workspace.ErrUnavailable, "exec", "", "the connection to the server is lost, which ends the command there: %w", err)
}

// feed sends the command's input.
func (p *process) feed(r io.Reader) {
	// Whatever ends it, a failing reader too, ends the command's input.
	_, _ = io.CopyBuffer(p.stdin, struct{ io.Reader }{r}, make([]byte, maxData))
	_ = p.link.send(frameEOF, nil)
}

// run delivers the command's output and sets how it ended.
func (p *process) run(s workspace.Streams) {
	defer p.driver.wg.Done()
	var outputs sync.WaitGroup
	outputs.Go(func() { p.stdout.deliver(s.Stdout) })
	outputs.Go(func() { p.stderr.deliver(s.Stderr) })
	p.exit, p.err = p.receive()
	close(p.exited)
	p.hangUp()
	p.link.conn.CloseNow()
	p.stdin.close()
	p.stdout.end(io.EOF)
	p.stderr.end(io.EOF)
	outputs.Wait()
	close(p.done)
}

// receive takes the server's frames until it tells the end.
func (p *process) receive() (workspace.Exit, error) {
	begun := false
	for {
		kind, payload, err := p.link.read()
		if err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.lost != nil {
				err = p.lost
			}
			if p.driver.life.Err() != nil {
				return workspace.Exit{}, workspace.Errorf(workspace.ErrDisposed, "exec", "", "the workspace is closed")
			}
			return workspace.Exit{}, lostConnection(err)
		}
		switch kind {
		case frameStarted:
			if begun || len(payload) > 0 {
				return workspace.Exit{}, misbehaved("it starts a command twice")
			}
			begun = true
			close(p.started)
		case frameStdout:
			err = p.stdout.put(payload)
		case frameStderr:
			err = p.stderr.put(payload)
		case frameCredit:
			stream, n, e := creditIn(payload)
			if err = e; err == nil {
				if err = errFrame; stream == frameStdin {
					err = p.stdin.add(n)
				}
			}
		case frameExit:
			return p.ended(payload)
		case frameError:
			var f failure
			if err := decodeStrict(payload, &f); err != nil || f.Code == "" {
				return workspace.Exit{}, misbehaved("its error is damaged")
			}
			return workspace.Exit{}, f.err()
		default:
			err = errFrame
		}
		if err != nil {
			return workspace.Exit{}, misbehaved("%v", err)
		}
	}
}

// ended reads the frame that tells the end.
func (p *process) ended(payload []byte) (workspace.Exit, error) {
	var m exitMessage
	if err := decodeStrict(payload, &m); err != nil {
		return workspace.Exit{}, misbehaved("the end of a command is damaged: %v", err)
	}
	exit, err := m.exit()
	if err != nil {
		return workspace.Exit{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if exit.Stopped && !p.stopping {
		why := "the server ended the command"
		if m.TimedOut {
			why += " at its own limit of time"
		}
		return exit, &workspace.Error{Code: workspace.ErrAborted, Op: "exec", Err: errors.New(why)}
	}
	return exit, nil
}

// abandon gives the process up: the server ends it when the connection is gone.
func (p *process) abandon(why error) {
	p.mu.Lock()
	if p.lost == nil {
		p.lost = why
	}
	p.mu.Unlock()
	p.hangUp()
	p.link.conn.CloseNow()
}

// Wait implements workspace.Running.
func (p *process) Wait() (workspace.Exit, error) {
	<-p.done
	return p.exit, p.err
}

// over reports whether the end is known.
func (p *process) over() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Signal implements workspace.Running.
func (p *process) Signal(sig syscall.Signal) error {
	if sig <= 0 || sig > 64 {
		return workspace.Errorf(workspace.ErrInvalidArgument, "signal", "", "there is no signal %d", int(sig))
	}
	return p.tell(frameSignal, []byte{byte(sig)})
}

// Resize implements workspace.Running.
func (p *process) Resize(size workspace.TerminalSize) error {
	if !p.terminal {
		return workspace.Errorf(workspace.ErrInvalidArgument, "resize", "", "the process has no terminal")
	}
	return p.tell(frameResize, binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, size.Rows), size.Cols))
}

func (p *process) tell(kind frameKind, payload []byte) error {
	if p.over() {
		return os.ErrProcessDone
	}
	if err := p.link.send(kind, payload); err != nil {
		if p.over() {
			return os.ErrProcessDone
		}
		return lostConnection(err)
	}
	return nil
}

// stopTime is how long, after the grace of a stop, the server may take to tell
// that all is over.
const stopTime = 900 * time.Millisecond

var errNotTold = errors.New("the server was told to end the command and has not said that it is over")

// Stop implements workspace.Running. The grace is the one that the command was
// started with; the server gives it.
func (p *process) Stop(grace time.Duration) error {
	p.mu.Lock()
	p.stopping = true
	p.mu.Unlock()
	if p.over() {
		return nil
	}
	// A send that blocks is ended with the rest.
	go func() { _ = p.link.send(frameStop, nil) }()
	t := time.NewTimer(grace + stopTime)
	defer t.Stop()
	select {
	case <-p.exited:
		return nil
	case <-t.C:
		p.abandon(errNotTold)
		<-p.exited
		return p.err
	}
}
