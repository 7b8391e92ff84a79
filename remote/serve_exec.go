package remote

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/coder/websocket"

	"github.com/wsctl/wsctl/workspace"
)

// serveExec runs one command over a WebSocket. The command lives as long as the
// connection: when that is lost, or the other side stops answering, it is ended
// as the end of a context ends it.
func (s *Server) serveExec(w http.ResponseWriter, r *http.Request, c *Call) error {
	if _, err := query(r); err != nil {
		return err
	}
	if !offers(r, execProtocol) {
		return workspace.Errorf(workspace.ErrUnsupported, "exec", "", "commands run over a WebSocket with the subprotocol %s; use a client of this protocol's version", execProtocol)
	}
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{execProtocol},
		// What is foreign was refused before (Server.checkSender).
		InsecureSkipVerify: true,
	})
	if err != nil {
		if a, ok := w.(*answer); ok {
			a.begun = true // Accept has answered
		}
		return nil //nolint:nilerr // it is told
	}
	defer conn.CloseNow()
	// The request's context no longer knows of the connection.
	life, hangUp := context.WithCancel(context.WithoutCancel(r.Context()))
	defer hangUp()
	x := &execution{server: s, call: c, link: &link{conn: conn, ctx: life}}
	run, end := context.WithCancelCause(r.Context())
	defer end(nil)
	x.end = end
	if err := x.serve(run); err != nil {
		if why := whyEnded(run); why != nil {
			err = why
		}
		// Written whatever became of the command: the other side must not
		// take silence for an end.
		_ = x.link.sendJSON(frameError, failureOf(err))
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
	return nil
}

// whyEnded is the error of a request that neither side has ended: its token did,
// or the server is closing. nil: it was none of these.
func whyEnded(ctx context.Context) error {
	switch cause := context.Cause(ctx); cause {
	case errRevoked, errExpired:
		return badToken(cause.Error())
	case errServerCloses:
		return workspace.Errorf(workspace.ErrUnavailable, "request", "", "%w", cause)
	}
	return nil
}

func offers(r *http.Request, protocol string) bool {
	for _, p := range r.Header.Values("Sec-WebSocket-Protocol") {
		if p == protocol {
			return true
		}
	}
	return false
}

// execution is one command that runs for a client.
type execution struct {
	server *Server
	call   *Call
	link   *link
	end    context.CancelCauseFunc

	stdin          *inflow
	stdout, stderr *outflow
	signals        chan os.Signal
	resize         chan workspace.TerminalSize
}

var (
	errGone    = errors.New("the client is gone")
	errStopped = errors.New("the client ended it")
)

// serve runs the command that the first frame names and sends how it ended.
func (x *execution) serve(ctx context.Context) error {
	m, err := x.first()
	if err != nil {
		return err
	}
	cmd, err := m.command()
	if err != nil {
		return err
	}
	x.stdin = newInflow(x.link, frameStdin)
	x.stdout, x.stderr = newOutflow(x.link, frameStdout), newOutflow(x.link, frameStderr)
	x.signals = make(chan os.Signal, 16)
	x.resize = make(chan workspace.TerminalSize, 16)
	if !m.Stdin {
		x.stdin.end(io.EOF)
	}
	// Nothing waits for the client once the command is to end.
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(lastWords, x.stdout.close)
		time.AfterFunc(lastWords, x.stderr.close)
	})()
	defer x.stdin.end(io.ErrClosedPipe)
	go x.receive()
	go x.link.keepAlive(x.server.opts.Keepalive, func(error) { x.end(errGone); x.link.conn.CloseNow() })
	cmd.Stdout, cmd.Stderr = x.stdout, x.stderr
	var exit exitMessage
	if m.Mode == modeStart {
		exit, err = x.start(ctx, cmd)
	} else {
		exit, err = x.exec(ctx, cmd, m.Stdin)
	}
	if err != nil {
		return err
	}
	if why := whyEnded(ctx); exit.Stopped && why != nil {
		return why
	}
	return x.link.sendJSON(frameExit, exit)
}

// lastWords is how long output that is under way may wait for a client once the
// command is to end.
const lastWords = 500 * time.Millisecond

// first reads the frame that every connection begins with.
func (x *execution) first() (*startMessage, error) {
	late := time.AfterFunc(x.server.opts.Idle, func() { x.link.conn.CloseNow() })
	defer late.Stop()
	x.link.conn.SetReadLimit(maxStart)
	kind, payload, err := x.link.read()
	if err != nil {
		return nil, errGone
	}
	if kind != frameStart {
		return nil, badRequest("the first frame is no start")
	}
	m := &startMessage{}
	if err := decodeStrict(payload, m); err != nil {
		return nil, badRequest("the start is not what it should be: %w", err)
	}
	x.link.buf = nil
	x.link.conn.SetReadLimit(maxFrame)
	return m, nil
}

// command is the command that m asks for, checked where a Workspace does not.
func (m *startMessage) command() (workspace.Command, error) {
	if m.Mode != modeExec && m.Mode != modeStart {
		return workspace.Command{}, badRequest("the mode is %q; there are %s and %s", m.Mode, modeExec, modeStart)
	}
	const most = int64(workspace.MaxTimeout / time.Millisecond)
	c := workspace.Command{
		Args: stringsOf(m.Args), Shell: string(m.Shell), Dir: string(m.Dir), Env: stringsOf(m.Env), Background: m.Background,
	}
	if m.Mode == modeExec {
		c.MaxOutput = workspace.NoOutput
	}
	if m.TimeoutMS < 0 || m.TimeoutMS > most {
		return c, badRequest("the timeout is out of bounds")
	}
	c.Timeout = time.Duration(m.TimeoutMS) * time.Millisecond
	if g := m.KillGraceMS; g != nil {
		if *g < 0 || *g > most {
			return c, badRequest("the kill grace is out of bounds")
		}
		if c.KillGrace = time.Duration(*g) * time.Millisecond; *g == 0 {
			c.KillGrace = workspace.NoKillGrace
		}
	}
	if t := m.Terminal; t != nil {
		c.Terminal = &workspace.TerminalSize{Rows: t.Rows, Cols: t.Cols}
	}
	return c, nil
}

// receive takes the client's frames until the connection ends, and the command
// with it. It never waits for the command.
func (x *execution) receive() {
	defer x.stdin.end(io.ErrUnexpectedEOF)
	defer x.end(errGone)
	for {
		kind, payload, err := x.link.read()
		if err != nil {
			return
		}
		if err := x.take(kind, payload); err != nil {
			_ = x.link.conn.Close(websocket.StatusProtocolError, err.Error())
			return
		}
	}
}

func (x *execution) take(kind frameKind, payload []byte) error {
	switch kind {
	case frameStdin:
		return x.stdin.put(payload)
	case frameEOF:
		x.stdin.end(io.EOF)
	case frameSignal:
		sig, err := signalIn(payload)
		if err != nil {
			return err
		}
		select {
		case x.signals <- sig:
		default: // the command has not taken the last sixteen
		}
	case frameResize:
		size, err := resizeIn(payload)
		if err != nil {
			return err
		}
		select {
		case x.resize <- size:
		default:
		}
	case frameStop:
		x.end(errStopped)
	case frameCredit:
		stream, n, err := creditIn(payload)
		if err != nil {
			return err
		}
		switch stream {
		case frameStdout:
			return x.stdout.add(n)
		case frameStderr:
			return x.stderr.add(n)
		default:
			return errFrame
		}
	default:
		return errFrame
	}
	return nil
}

// exec runs the command as Workspace.Exec does.
func (x *execution) exec(ctx context.Context, c workspace.Command, stdin bool) (exitMessage, error) {
	if stdin {
		c.Stdin = x.stdin
	}
	c.Signals = x.signals
	out, err := x.call.Workspace.Exec(ctx, c)
	if out == nil || err != nil && !(errors.Is(err, workspace.ErrAborted) && (out.ExitCode != 0 || out.Signal != 0)) {
		return exitMessage{}, err
	}
	m := exitMessageOf(workspace.Exit{
		Code: out.ExitCode, Signal: out.Signal, Stopped: err != nil || out.TimedOut,
		OOMKilled: out.OOMKilled, Ended: out.Ended, Recreated: out.Recreated, Usage: out.Usage,
	})
	m.TimedOut = out.TimedOut
	return m, nil
}

// start runs the command as Workspace.Start does.
func (x *execution) start(ctx context.Context, c workspace.Command) (exitMessage, error) {
	p, err := x.call.Workspace.Start(ctx, c)
	if err != nil {
		return exitMessage{}, err
	}
	defer p.Close()
	if err := x.link.send(frameStarted, nil); err != nil {
		x.end(errGone)
	}
	go func() {
		// It ends with the process, whose Stdin then fails, or with the
		// client's.
		_, _ = io.Copy(p.Stdin(), x.stdin)
		_ = p.Stdin().Close()
	}()
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ended:
				return
			case sig := <-x.signals:
				_ = p.Signal(sig) // one that comes as it exits has nobody to go to
			case size := <-x.resize:
				_ = p.Resize(size)
			}
		}
	}()
	exit, err := p.Wait()
	close(ended)
	if err != nil && !exit.Stopped {
		return exitMessage{}, err
	}
	m := exitMessageOf(exit)
	m.TimedOut = errors.Is(err, context.DeadlineExceeded) && exit.Code == statusTimedOut
	return m, nil
}

// statusTimedOut is the status of a command that its timeout ended.
const statusTimedOut = 124
