//go:build linux

package container_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/internal/enginetest"
)

// endless passes execs on to the engine and never ends the stream of one, as an engine
// does that has lost its hold on the process. open tells how many this program has
// not closed.
type endless struct {
	socket string
	mu     sync.Mutex
	conns  []net.Conn
}

func (n *endless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	engine, err := net.Dial("unix", n.socket)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer engine.Close()
	if err := r.Write(engine); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, "no hijacker", http.StatusInternalServerError)
		return
	}
	conn, from, err := hijacker.Hijack()
	if err != nil {
		return
	}
	n.mu.Lock()
	n.conns = append(n.conns, conn)
	n.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(conn, engine) })
	_, _ = io.Copy(engine, from)
	if half, ok := engine.(*net.UnixConn); ok {
		_ = half.CloseWrite()
	}
	both.Wait()
}

func (n *endless) open() (count, all int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		if !hungUp(c) {
			count++
		}
	}
	return count, len(n.conns)
}

// hungUp tells whether the other end has closed both ways (POLLHUP, poll(2)).
func hungUp(c net.Conn) (yes bool) {
	socket, ok := c.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(fds, 0)
		yes = err == nil && n == 1 && fds[0].Revents&unix.POLLHUP != 0
	})
	return yes
}

// Whatever becomes of the streams of an engine, those of a workspace that is closed
// are: a program that opens many would run out of descriptors.
func TestStreamsEndWithTheWorkspace(t *testing.T) {
	t.Parallel()
	socket, ok := strings.CutPrefix(enginetest.Client(t).DaemonHost(), "unix://")
	if !ok {
		t.Skip("needs an engine behind a socket")
	}
	n := &endless{socket: socket}
	t.Cleanup(func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		for _, c := range n.conns {
			_ = c.Close()
		}
	})
	e := between(t, func(pass http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/exec/") && strings.HasSuffix(r.URL.Path, "/start") {
				n.ServeHTTP(w, r)
				return
			}
			pass.ServeHTTP(w, r)
		})
	})
	w := openWorkspace(t, e, newRoot(t), options(t))
	exec(t, w, "echo x")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the streams are closed", 10*time.Second, func() bool {
		left, all := n.open()
		return all > 0 && left == 0
	})
}
