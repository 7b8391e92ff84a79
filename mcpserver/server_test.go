//go:build unix

package mcpserver_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/mcpserver"
	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

// newSet makes a directory of this machine and tools over it.
func newSet(t *testing.T, o tools.Options) (*tools.Set, string) {
	t.Helper()
	dir := t.TempDir()
	d, err := host.New(dir, host.Options{Env: host.InheritedEnv(os.Environ())})
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ws.Close() })
	set, err := tools.NewSet(ws, o)
	if err != nil {
		t.Fatal(err)
	}
	return set, dir
}

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	full := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// wire is a client that writes lines as they are and reads what comes back.
type wire struct {
	*testing.T
	in    *io.PipeWriter
	lines chan string
	done  chan error // what ServeStdio returned
}

// newWire serves set over pipes.
func newWire(t *testing.T, set *tools.Set) *wire {
	t.Helper()
	return newWireWith(t, set, mcpserver.Options{})
}

func newWireWith(t *testing.T, set *tools.Set, o mcpserver.Options) *wire {
	t.Helper()
	s := mcpserver.New(set, o)
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	w := &wire{T: t, in: inW, lines: make(chan string, 1000), done: make(chan error, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		w.done <- s.ServeStdio(ctx, inR, outW)
		_ = outW.Close()
	}()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(w.lines)
		lines := bufio.NewReader(outR)
		for {
			line, err := lines.ReadString('\n')
			if line != "" {
				w.lines <- strings.TrimSuffix(line, "\n")
			}
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = inW.Close()
		cancel()
		<-ended
		s.Close()
	})
	return w
}

// send writes lines.
func (w *wire) send(lines ...string) {
	w.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(w.in, line+"\n"); err != nil {
			w.Fatal(err)
		}
	}
}

// message is whatever comes from a server.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// result is a call's.
type result struct {
	Content []struct {
		Type, Text string
		MIMEType   string `json:"mimeType"`
		Data       []byte `json:"data"`
	} `json:"content"`
	Structured map[string]any `json:"structuredContent"`
	IsError    bool           `json:"isError"`
}

func (r result) text() string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// next is the next line, which must be a message.
func (w *wire) next() message {
	w.Helper()
	select {
	case line, ok := <-w.lines:
		if !ok {
			w.Fatal("the server has ended")
		}
		return parse(w.T, line)
	case <-time.After(time.Minute):
		w.Fatal("nothing comes")
	}
	panic("unreachable")
}

func parse(t *testing.T, line string) message {
	t.Helper()
	var m message
	if !utf8.ValidString(line) {
		t.Fatalf("a line is not UTF-8: %q", line)
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil || m.JSONRPC != "2.0" {
		t.Fatalf("a line is no message: %v: %q", err, line)
	}
	return m
}

// answer is the answer to the request with that id; notices before it are
// dropped.
func (w *wire) answer(id int) message {
	w.Helper()
	for {
		if m := w.next(); string(m.ID) == fmt.Sprint(id) && m.Method == "" {
			return m
		}
	}
}

// initialize begins a session in that revision of the protocol.
func (w *wire) initialize(revision, capabilities string) message {
	w.Helper()
	w.send(`{"jsonrpc":"2.0","id":1000,"method":"initialize","params":{"protocolVersion":"` + revision + `","capabilities":` + capabilities + `,"clientInfo":{"name":"test","version":"1"}}}`)
	m := w.answer(1000)
	w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return m
}

// call calls a tool and returns its result.
func (w *wire) call(id int, tool, args string) result {
	w.Helper()
	w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, id, tool, args))
	return resultOf(w.T, w.answer(id))
}

func resultOf(t *testing.T, m message) result {
	t.Helper()
	if m.Error != nil {
		t.Fatalf("an error of the protocol: %+v", *m.Error)
	}
	var r result
	if err := json.NewDecoder(bytes.NewReader(m.Result)).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

// alive fails the test unless the session goes on.
func (w *wire) alive(id int) {
	w.Helper()
	w.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, id))
	if m := w.answer(id); m.Error != nil {
		w.Errorf("ping: %+v", *m.Error)
	}
}
