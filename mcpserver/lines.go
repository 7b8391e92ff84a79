package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	// maxLine bounds one message of a client, in bytes.
	maxLine = 16 << 20
	// maxPending and maxPendingBytes bound the requests that wait for their
	// answers; later ones are refused.
	maxPending      = 512
	maxPendingBytes = 64 << 20
	// drainTime is how long requests may still be answered after the end of
	// the input: a client that pipes its messages in reads the answers, and
	// one that is gone is not waited for long.
	drainTime = 2 * time.Second
)

// codeBusy is the error of a request that is one too many, of those that
// JSON-RPC leaves to servers.
const codeBusy = -32000

// lines is a connection whose messages are lines. The SDK's own ends at the
// first line that is no message, never answers a batch with a notification in
// it, and drops the answers that are due at the end of the input; this one goes
// on. It takes batches in every revision: 2025-03-26 has them, the others do not
// mind.
type lines struct {
	incoming chan jsonrpc.Message
	closed   chan struct{}
	close    sync.Once
	finished chan struct{} // no more messages are taken
	finishIt sync.Once

	writing sync.Mutex
	out     io.Writer

	mu      sync.Mutex
	pending map[jsonrpc.ID]request // guarded by mu
	bytes   int                    // guarded by mu: of all pending
	idle    chan struct{}          // guarded by mu: closed when nothing is pending; nil: nobody waits
}

// request is one that is not answered yet.
type request struct {
	size  int
	batch *batch // nil: it came alone
}

// batch collects the answers to the requests that came in one array.
type batch struct {
	left    int
	answers []json.RawMessage
}

func newLines(in io.Reader, out io.Writer) *lines {
	l := &lines{
		incoming: make(chan jsonrpc.Message),
		closed:   make(chan struct{}),
		finished: make(chan struct{}),
		out:      out,
		pending:  map[jsonrpc.ID]request{},
	}
	go l.scan(bufio.NewReaderSize(in, 64<<10))
	return l
}

// SessionID implements mcp.Connection: there is one session, without a name.
func (l *lines) SessionID() string { return "" }

// Close implements mcp.Connection. A read of the input that is under way is left
// behind.
func (l *lines) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

// finish takes no more messages: Read ends when what is pending is answered.
func (l *lines) finish() { l.finishIt.Do(func() { close(l.finished) }) }

// Read implements mcp.Connection.
func (l *lines) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-l.incoming:
		return m, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.closed:
		return nil, io.EOF
	case <-l.finished:
	}
	select {
	case <-l.whenIdle():
	case <-time.After(drainTime):
	case <-ctx.Done():
	case <-l.closed:
	}
	return nil, io.EOF
}

// whenIdle is closed when no request is pending.
func (l *lines) whenIdle() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	idle := make(chan struct{})
	if len(l.pending) == 0 {
		close(idle)
	} else {
		l.idle = idle
	}
	return idle
}

// scan reads lines until the end of the input.
func (l *lines) scan(in *bufio.Reader) {
	defer l.finish()
	for {
		line, err := readLine(in)
		switch {
		case errors.Is(err, errLongLine):
			l.refuse(nil, jsonrpc.CodeInvalidRequest, "a message is longer than 16 MiB; send less at a time")
		case err != nil && len(line) == 0:
			return
		}
		if line = bytes.TrimSpace(line); len(line) > 0 && !l.take(line) {
			return
		}
	}
}

var errLongLine = errors.New("a line is too long")

// readLine returns one line; of one that is longer than maxLine, nothing.
func readLine(in *bufio.Reader) ([]byte, error) {
	var line []byte
	long := false
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxLine; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if long {
			return nil, errLongLine
		}
		return line, err
	}
}

// take hands the messages of a line on. It reports whether somebody still wants
// them.
func (l *lines) take(line []byte) bool {
	if line[0] != '[' {
		return l.message(line, nil)
	}
	var parts []json.RawMessage
	if err := json.Unmarshal(line, &parts); err != nil || len(parts) == 0 {
		l.refuse(nil, jsonrpc.CodeParseError, "a line is no JSON-RPC message")
		return true
	}
	// One more is left until all are read, so that the answers do not go
	// out before.
	b := &batch{left: 1}
	for _, part := range parts {
		if !l.message(part, b) {
			return false
		}
	}
	l.settle(b, nil)
	return true
}

// message hands one message on, or answers what is none.
func (l *lines) message(raw []byte, b *batch) bool {
	m, err := jsonrpc.DecodeMessage(raw)
	if err != nil {
		code, text := int64(jsonrpc.CodeParseError), "a line is no JSON"
		if json.Valid(raw) {
			code, text = jsonrpc.CodeInvalidRequest, "a line is JSON, but no JSON-RPC 2.0 message"
		}
		l.refuse(b, code, text)
		return true
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		if why := l.begin(r.ID, request{size: len(raw), batch: b}); why != nil {
			l.answer(b, &jsonrpc.Response{ID: r.ID, Error: why})
			return true
		}
	}
	select {
	case l.incoming <- m:
		return true
	case <-l.closed:
		return false
	case <-l.finished:
		return false
	}
}

// begin notes a request, or says why it is refused.
func (l *lines) begin(id jsonrpc.ID, r request) *jsonrpc.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, twice := l.pending[id]; twice {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "a request with this id is still being answered"}
	}
	if len(l.pending) >= maxPending || l.bytes+r.size > maxPendingBytes {
		return &jsonrpc.Error{Code: codeBusy, Message: "too many requests at once; wait for answers first"}
	}
	l.pending[id] = r
	l.bytes += r.size
	if r.batch != nil {
		r.batch.left++
	}
	return nil
}

// Write implements mcp.Connection: one line, whole.
func (l *lines) Write(_ context.Context, m jsonrpc.Message) error {
	r, ok := m.(*jsonrpc.Response)
	if ok {
		r = plain(r)
		m = r
	}
	raw, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	if !ok {
		return l.line(raw)
	}
	l.mu.Lock()
	waiting := l.pending[r.ID]
	l.mu.Unlock()
	if waiting.batch != nil {
		err = l.settle(waiting.batch, raw)
	} else {
		err = l.line(raw)
	}
	// Only now: nobody is told that all is answered before it is written.
	l.mu.Lock()
	delete(l.pending, r.ID)
	l.bytes -= waiting.size
	if len(l.pending) == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
	l.mu.Unlock()
	return err
}

// plain is an answer that does not name Go's types: the SDK says of params that
// do not fit what its decoder says.
func plain(r *jsonrpc.Response) *jsonrpc.Response {
	var e *jsonrpc.Error
	if !errors.As(r.Error, &e) || !strings.Contains(r.Error.Error(), "json: ") {
		return r
	}
	return &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: e.Code, Message: "invalid params: a field is of another type than the protocol has it"}}
}

// settle adds an answer to a batch and writes the batch when it is complete.
func (l *lines) settle(b *batch, answer json.RawMessage) error {
	l.mu.Lock()
	b.left--
	if answer != nil {
		b.answers = append(b.answers, answer)
	}
	all := b.answers
	complete := b.left == 0 && len(all) > 0
	l.mu.Unlock()
	if !complete {
		return nil
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return l.line(raw)
}

// refuse answers what has no id that could be told.
func (l *lines) refuse(b *batch, code int64, text string) {
	raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": &jsonrpc.Error{Code: code, Message: text}})
	if err == nil {
		l.put(b, raw)
	}
}

// answer answers a request that goes no further.
func (l *lines) answer(b *batch, r *jsonrpc.Response) {
	if raw, err := jsonrpc.EncodeMessage(r); err == nil {
		l.put(b, raw)
	}
}

// put writes an answer, or adds it to its batch. That the client does not read
// it shows at the next write.
func (l *lines) put(b *batch, raw json.RawMessage) {
	if b == nil {
		_ = l.line(raw)
		return
	}
	l.mu.Lock()
	b.answers = append(b.answers, raw)
	l.mu.Unlock()
}

// line writes one line. When that fails there is no client any more.
func (l *lines) line(raw []byte) error {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if _, err := l.out.Write(append(raw, '\n')); err != nil {
		_ = l.Close()
		return err
	}
	return nil
}
