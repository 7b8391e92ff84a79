package remote

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/wsctl/wsctl/workspace"
)

// execProtocol is the WebSocket subprotocol of running commands.
const execProtocol = "wsctl.exec.v1"

// frameKind is the first byte of every message of a command's connection, all
// of which are binary. The rest is what the comment says.
type frameKind byte

const (
	// From the client. The first frame is frameStart, and is sent once.
	frameStart  frameKind = 1 // a startMessage, JSON
	frameStdin  frameKind = 2 // bytes
	frameEOF    frameKind = 3 // nothing: standard input ends
	frameSignal frameKind = 4 // its number, one byte
	frameResize frameKind = 5 // rows and columns, two bytes each, big-endian
	frameStop   frameKind = 6 // nothing: end it, as the end of a context does

	// From the server. The last one is frameExit or frameError.
	frameStarted frameKind = 16 // nothing: it runs; only of a start
	frameStdout  frameKind = 17 // bytes
	frameStderr  frameKind = 18 // bytes
	frameExit    frameKind = 19 // an exitMessage, JSON
	frameError   frameKind = 20 // a failure, JSON

	// From both: how many more bytes of a stream may be sent, four bytes,
	// big-endian, after the kind of the stream's frames.
	frameCredit frameKind = 32
)

const (
	// window is how many bytes of a stream may be on the way. The receiver
	// never holds more, whatever its consumer does.
	window = 256 << 10
	// maxData is how many bytes of a stream one frame carries.
	maxData = 32 << 10
	// maxStart bounds a frameStart: arguments in JSON, where a byte takes up
	// to six.
	maxStart = 6*workspace.MaxArgs + 64<<10
	// maxFrame bounds every other frame.
	maxFrame = 64 << 10
)

// Modes of a startMessage.
const (
	modeExec  = "exec"  // as Workspace.Exec
	modeStart = "start" // as Workspace.Start
)

// startMessage is a command as it is sent.
type startMessage struct {
	Mode  string `json:"mode"`
	Args  []text `json:"args,omitempty"`
	Shell text   `json:"shell,omitempty"`
	Dir   text   `json:"dir,omitempty"`
	Env   []text `json:"env,omitempty"`
	// Stdin says that frameStdin will follow; otherwise it ends at once.
	Stdin bool `json:"stdin,omitempty"`
	// TimeoutMS in milliseconds; absent: the server's own.
	TimeoutMS int64 `json:"timeoutMs,omitempty"`
	// KillGraceMS in milliseconds; absent: the server's own.
	KillGraceMS *int64               `json:"killGraceMs,omitempty"`
	Background  workspace.Background `json:"background,omitempty"`
	Terminal    *terminalMessage     `json:"terminal,omitempty"`
}

type terminalMessage struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// exitMessage is how a command ended.
type exitMessage struct {
	Code      int           `json:"code"`
	Signal    int           `json:"signal,omitempty"`
	Stopped   bool          `json:"stopped,omitempty"`
	TimedOut  bool          `json:"timedOut,omitempty"`
	OOMKilled bool          `json:"oomKilled,omitempty"`
	Ended     int           `json:"ended,omitempty"`
	Recreated text          `json:"recreated,omitempty"`
	Usage     *usageMessage `json:"usage,omitempty"`
}

type usageMessage struct {
	UserNS   int64 `json:"userNs"`
	SystemNS int64 `json:"systemNs"`
	MaxRSS   int64 `json:"maxRss"`
}

func exitMessageOf(e workspace.Exit) exitMessage {
	m := exitMessage{
		Code: e.Code, Signal: int(e.Signal), Stopped: e.Stopped, OOMKilled: e.OOMKilled,
		Ended: e.Ended, Recreated: text(e.Recreated),
	}
	if e.Usage != nil {
		m.Usage = &usageMessage{int64(e.Usage.User), int64(e.Usage.System), e.Usage.MaxRSS}
	}
	return m
}

// exit is what the server says of an end, checked. A status that no command
// can have is none.
func (m exitMessage) exit() (workspace.Exit, error) {
	u := m.Usage
	if m.Code < 0 || m.Code > 255 || m.Signal < 0 || m.Signal > 64 || m.Ended < 0 || len(m.Recreated) > maxErrorText ||
		(m.Signal != 0 && m.Code == 0) || (u != nil && (u.UserNS < 0 || u.SystemNS < 0 || u.MaxRSS < 0)) {
		return workspace.Exit{}, misbehaved("it tells of an end that no command can have")
	}
	e := workspace.Exit{
		Code: m.Code, Signal: syscall.Signal(m.Signal), Stopped: m.Stopped, OOMKilled: m.OOMKilled,
		Ended: m.Ended, Recreated: string(m.Recreated),
	}
	if u != nil {
		e.Usage = &workspace.Usage{User: time.Duration(u.UserNS), System: time.Duration(u.SystemNS), MaxRSS: u.MaxRSS}
	}
	return e, nil
}

// link is one side of a command's connection. Frames may be sent by many
// goroutines; one reads.
type link struct {
	conn *websocket.Conn
	ctx  context.Context //nolint:containedctx // the connection's life
	buf  []byte          // of read
	mu   sync.Mutex
	out  []byte // guarded by mu: of send
}

var errFrame = errors.New("a frame that has no place in the protocol")

// read returns the next frame; its payload is good until the next read.
func (l *link) read() (frameKind, []byte, error) {
	typ, r, err := l.conn.Reader(l.ctx)
	if err != nil {
		return 0, nil, err
	}
	if typ != websocket.MessageBinary {
		return 0, nil, errFrame
	}
	l.buf = l.buf[:0]
	for {
		if len(l.buf) == cap(l.buf) {
			l.buf = append(l.buf, 0)[:len(l.buf)]
		}
		n, err := r.Read(l.buf[len(l.buf):cap(l.buf)])
		l.buf = l.buf[:len(l.buf)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return 0, nil, err
		}
	}
	if len(l.buf) == 0 {
		return 0, nil, errFrame
	}
	return frameKind(l.buf[0]), l.buf[1:], nil
}

func (l *link) send(kind frameKind, payload []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.out = append(append(l.out[:0], byte(kind)), payload...)
	return l.conn.Write(l.ctx, websocket.MessageBinary, l.out)
}

func (l *link) sendJSON(kind frameKind, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return l.send(kind, payload)
}

func (l *link) sendCredit(stream frameKind, n int) error {
	return l.send(frameCredit, binary.BigEndian.AppendUint32([]byte{byte(stream)}, uint32(n)))
}

// creditIn takes a frameCredit apart.
func creditIn(payload []byte) (stream frameKind, n int, err error) {
	if len(payload) != 5 {
		return 0, 0, errFrame
	}
	n = int(binary.BigEndian.Uint32(payload[1:]))
	if n == 0 || n > window {
		return 0, 0, errFrame
	}
	return frameKind(payload[0]), n, nil
}

// signalIn takes a frameSignal apart.
func signalIn(payload []byte) (syscall.Signal, error) {
	if len(payload) != 1 || payload[0] == 0 || payload[0] > 64 {
		return 0, errFrame
	}
	return syscall.Signal(payload[0]), nil
}

// resizeIn takes a frameResize apart.
func resizeIn(payload []byte) (workspace.TerminalSize, error) {
	if len(payload) != 4 {
		return workspace.TerminalSize{}, errFrame
	}
	return workspace.TerminalSize{
		Rows: binary.BigEndian.Uint16(payload), Cols: binary.BigEndian.Uint16(payload[2:]),
	}, nil
}

// keepAlive tries the connection every interval and calls lost when the other
// side has not answered for another. Something must read meanwhile.
func (l *link) keepAlive(interval time.Duration, lost func(error)) {
	t := time.NewTicker(interval)
	defer t.Stop()
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-t.C:
		}
		ctx, cancel := context.WithTimeout(l.ctx, interval)
		err := l.conn.Ping(ctx)
		cancel()
		if err != nil {
			if l.ctx.Err() == nil {
				lost(fmt.Errorf("the other side has not answered for %v", interval))
			}
			return
		}
	}
}
