//go:build unix

package remote_test

import (
	"context"
	"math/rand/v2"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// proxy stands between a client and a server, and is as bad as networks are.
type proxy struct {
	address string
	target  string
	l       net.Listener

	mu sync.Mutex
	// delay is the longest time that a piece of data is held, at random, which
	// also turns the order of connections around.
	delay time.Duration
	// cutAfter cuts each connection after a random number of bytes up to
	// this; 0: never.
	cutAfter int
	conns    map[net.Conn]bool
	frozen   chan struct{} // closed: nothing passes any more
	wg       sync.WaitGroup
}

func newProxy(t testing.TB, server string) *proxy {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{address: "http://" + l.Addr().String(), target: u.Host, l: l, conns: map[net.Conn]bool{}, frozen: make(chan struct{})}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.wg.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		in, err := p.l.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		p.conns[in], p.conns[out] = true, true
		p.mu.Unlock()
		p.wg.Go(func() { p.pass(in, out) })
		p.wg.Go(func() { p.pass(out, in) })
	}
}

func (p *proxy) pass(to, from net.Conn) {
	defer func() {
		for _, c := range []net.Conn{to, from} {
			c.Close()
			p.mu.Lock()
			delete(p.conns, c)
			p.mu.Unlock()
		}
	}()
	p.mu.Lock()
	left, delay := -1, p.delay
	if p.cutAfter > 0 {
		left = 1 + rand.IntN(p.cutAfter)
	}
	p.mu.Unlock()
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		select {
		case <-p.frozen:
			continue
		default:
		}
		if delay > 0 {
			time.Sleep(rand.N(delay))
		}
		if left >= 0 && n >= left {
			_, _ = to.Write(buf[:left])
			_ = to.(*net.TCPConn).SetLinger(0) // a reset, not an end
			return
		}
		left -= min(n, max(left, 0))
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// setBad makes connections that are opened from now on as bad as that.
func (p *proxy) setBad(delay time.Duration, cutAfter int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay, p.cutAfter = delay, cutAfter
}

// cut ends all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// freeze drops all that comes from now on, and closes nothing.
func (p *proxy) freeze() { close(p.frozen) }

// frames is a command's connection that is spoken by hand.
type frames struct{ *websocket.Conn }

// startFrames opens one and sends the start.
func startFrames(t testing.TB, address, start string) frames {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	c, _, err := websocket.Dial(ctx, address+"/v1/workspaces/default/exec", &websocket.DialOptions{Subprotocols: []string{"wsctl.exec.v1"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.CloseNow() })
	c.SetReadLimit(1 << 20)
	f := frames{c}
	f.send(t, 1, start)
	return f
}

func (f frames) send(t testing.TB, kind byte, payload string) {
	t.Helper()
	if err := f.Write(t.Context(), websocket.MessageBinary, append([]byte{kind}, payload...)); err != nil {
		t.Fatal(err)
	}
}

// next reads one frame; kind 0 is the end of the connection.
func (f frames) next(t testing.TB) (kind byte, payload string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, b, err := f.Read(ctx)
	if err != nil || len(b) == 0 {
		return 0, ""
	}
	return b[0], string(b[1:])
}

// last reads to the last frame.
func (f frames) last(t testing.TB) (kind byte, payload string) {
	t.Helper()
	for {
		k, p := f.next(t)
		if k == 0 {
			return kind, payload
		}
		kind, payload = k, p
	}
}
