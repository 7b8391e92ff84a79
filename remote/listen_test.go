//go:build unix

package remote_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// listen serves ws at an address and returns where it listens.
func listen(t testing.TB, o remote.Options, address string, config *tls.Config) (net.Addr, error) {
	t.Helper()
	ws, _ := newHost(t)
	h, err := remote.Handler(ws, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := h.Listen(address, config)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr(), nil
}

func selfSigned(t testing.TB, names ...string) (certificate, key []byte) {
	t.Helper()
	certificate, key, err := remote.SelfSigned(names...)
	if err != nil {
		t.Fatal(err)
	}
	return certificate, key
}

func TestListeningBeyondLoopbackNeedsTLSAndTokens(t *testing.T) {
	certificate, key := selfSigned(t, "localhost")
	config, err := remote.ServerTLS(certificate, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	a := authority(t)
	for _, c := range []struct {
		address string
		o       remote.Options
		tls     *tls.Config
		code    workspace.Code
	}{
		{":0", remote.Options{}, nil, workspace.ErrDenied},
		{":0", remote.Options{Authority: a}, nil, workspace.ErrDenied},
		{":0", remote.Options{}, config, workspace.ErrDenied},
		{":0", remote.Options{Anonymous: true}, config, workspace.ErrDenied},
		{":0", remote.Options{Authority: a, Anonymous: true}, config, workspace.ErrDenied},
		{"0.0.0.0:0", remote.Options{Authority: a}, nil, workspace.ErrDenied},
		{"[::]:0", remote.Options{Authority: a}, nil, workspace.ErrDenied},
		{"192.0.2.1:0", remote.Options{Authority: a}, nil, workspace.ErrDenied},
		{"127.0.0.1.evil.example:0", remote.Options{Authority: a}, nil, workspace.ErrDenied},
		{"127.0.0.1:0", remote.Options{}, nil, workspace.ErrDenied},
		{"127.0.0.1", remote.Options{Authority: a}, nil, workspace.ErrInvalidArgument},
		{"", remote.Options{Authority: a}, nil, workspace.ErrInvalidArgument},
		{":0", remote.Options{Authority: a}, config, ""},
		{"127.0.0.1:0", remote.Options{Authority: a}, nil, ""},
		{"127.0.0.1:0", remote.Options{Anonymous: true}, nil, ""},
		{"localhost:0", remote.Options{Authority: a}, config, ""},
	} {
		if _, err := listen(t, c.o, c.address, c.tls); workspace.CodeOf(err) != c.code {
			t.Errorf("%q, tokens %v, anonymous %v, TLS %v: %v, want %q", c.address, c.o.Authority != nil, c.o.Anonymous, c.tls != nil, err, c.code)
		}
	}
}

func TestTLS(t *testing.T) {
	certificate, key := selfSigned(t, "127.0.0.1")
	client, clientKey := selfSigned(t)
	stranger, strangerKey := selfSigned(t)
	a := authority(t)
	token := issue(t, a, "*", remote.Read)
	config, err := remote.ServerTLS(certificate, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	address, err := listen(t, remote.Options{Authority: a}, "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	url := "https://" + address.String()
	pin := func(pem []byte) *tls.Config {
		f, err := remote.Fingerprint(pem)
		if err != nil {
			t.Fatal(err)
		}
		c, err := remote.Pinned(f)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	try := func(what, url string, c *tls.Config, good bool) {
		t.Helper()
		d, err := remote.Dial(t.Context(), url, token, remote.DialOptions{TLS: c})
		if (err == nil) != good {
			t.Errorf("%s: %v", what, err)
		}
		if err == nil {
			_ = d.Close()
		}
	}
	try("the certificate that is trusted", url, pin(certificate), true)
	try("another certificate", url, pin(client), false)
	try("a certificate of nobody's", url, nil, false)
	try("an old version", url, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}, false) //nolint:gosec // it is to be refused
	mutual, err := remote.ServerTLS(certificate, key, client)
	if err != nil {
		t.Fatal(err)
	}
	if address, err = listen(t, remote.Options{Authority: a}, "127.0.0.1:0", mutual); err != nil {
		t.Fatal(err)
	}
	url = "https://" + address.String()
	with := func(own, ownKey []byte) *tls.Config {
		pair, err := tls.X509KeyPair(own, ownKey)
		if err != nil {
			t.Fatal(err)
		}
		c := pin(certificate)
		c.Certificates = []tls.Certificate{pair}
		return c
	}
	try("no client certificate", url, pin(certificate), false)
	try("a stranger's", url, with(stranger, strangerKey), false)
	try("the client's", url, with(client, clientKey), true)
	if _, err := remote.ServerTLS(certificate, clientKey, nil); err == nil {
		t.Error("a certificate and another's key go together")
	}
	if _, err := remote.ServerTLS(certificate, key, []byte("x")); err == nil {
		t.Error("no certificate is one of a client")
	}
	if _, err := remote.Pinned("abc"); err == nil {
		t.Error("a short fingerprint is one")
	}
}

func TestAUnixSocketIsTheOwners(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil { //nolint:gosec // another user looks in
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "socket")
	var log lockedBuffer
	o := remote.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	for what, plant := range map[string]func() error{
		"a file":       func() error { return os.WriteFile(path, []byte("x"), 0o600) },
		"a directory":  func() error { return os.Mkdir(path, 0o700) },
		"a link":       func() error { return os.Symlink(filepath.Join(dir, "elsewhere"), path) },
		"a link to it": func() error { return os.Symlink("socket", path) },
		"a FIFO":       func() error { return syscall.Mkfifo(path, 0o600) },
	} {
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		before, _ := os.Lstat(path)
		_, err := listen(t, o, "unix:"+path, nil)
		if workspace.CodeOf(err) != workspace.ErrExists {
			t.Errorf("%s at the path of the socket: %v", what, err)
		}
		if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s is gone: %v", what, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	// A server that was killed leaves its socket.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	if _, err := listen(t, o, "unix:"+path, nil); err != nil {
		t.Fatalf("over a socket that nobody listens on: %v", err)
	}
	if _, err := listen(t, o, "unix:"+path, nil); workspace.CodeOf(err) != workspace.ErrBusy {
		t.Errorf("over a socket that a server listens on: %v", err)
	}
	d, err := remote.Dial(t.Context(), "http://localhost", "", remote.DialOptions{Socket: path})
	if err != nil {
		t.Fatalf("the owner, without a token: %v", err)
	}
	ws, err := workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Close()
	if out, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"echo", "mine"}}); err != nil || string(out.Stdout) != "mine\n" {
		t.Errorf("a command of the owner's: %v, %v", out, err)
	}
	if os.Geteuid() != 0 {
		t.Log("not root: that another user is refused was not tried")
		return
	}
	if err := os.Chmod(path, 0o777); err != nil { // the mode is not what holds
		t.Fatal(err)
	}
	out := asNobody(t, "connect", path)
	if !strings.Contains(out, "refused") {
		t.Errorf("another user: %s", out)
	}
	if !strings.Contains(log.String(), "uid=65534") {
		t.Errorf("the log does not tell of it: %s", log.String())
	}
	// And a socket of another user's gets no token.
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	theirs := filepath.Join(dir, "theirs")
	trap := nobody(t, "listen", theirs)
	if err := trap.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = trap.Process.Kill(); _ = trap.Wait() }()
	eventually(t, "the trap listens", 5*time.Second, func() bool {
		c, err := net.Dial("unix", theirs)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	_, err = remote.Dial(t.Context(), "http://localhost", issue(t, authority(t), "*", remote.Read), remote.DialOptions{Socket: theirs})
	if err == nil || !strings.Contains(err.Error(), "another user") {
		t.Errorf("a server of another user's: %v", err)
	}
}

// nobody is this test program as another user, told what to do.
func nobody(t testing.TB, what, path string) *exec.Cmd {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(filepath.Dir(path), "program")
	if err := os.WriteFile(program, self, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = []string{"REMOTE_TEST_AS=" + what, "REMOTE_TEST_PATH=" + path}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return cmd
}

func asNobody(t testing.TB, what, path string) string {
	t.Helper()
	out, err := nobody(t, what, path).CombinedOutput()
	if err != nil {
		t.Fatalf("as another user: %v: %s", err, out)
	}
	return string(out)
}

// another is what this program does as another user.
func another(what, path string) {
	switch what {
	case "connect":
		c, err := net.Dial("unix", path)
		if err == nil {
			fmt.Fprint(c, "GET /v1/workspaces/default HTTP/1.1\r\nHost: localhost\r\n\r\n")
			_ = c.SetReadDeadline(time.Now().Add(3 * time.Second))
			var b []byte
			if b, err = io.ReadAll(c); err == nil && len(b) == 0 {
				err = errors.New("nothing is answered")
			}
		}
		fmt.Println("refused:", err)
	case "listen":
		l, err := net.Listen("unix", path)
		if err != nil {
			fmt.Println(err)
			return
		}
		_ = http.Serve(l, http.NotFoundHandler()) //nolint:gosec // it is killed
	}
}

// TestSlowAndManyConnections opens more connections than are held, none of
// which says anything, and headers that do not end.
func TestSlowAndManyConnections(t *testing.T) {
	address, err := listen(t, remote.Options{Anonymous: true, MaxConnections: 20}, "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	var quiet []net.Conn
	for i := range 100 {
		c, err := net.Dial("tcp", address.String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			fmt.Fprint(c, "GET /v1/openapi.json HTTP/1.1\r\nHost: localh")
		}
		quiet = append(quiet, c)
	}
	resp, err := http.Get("http://" + address.String() + "/v1/openapi.json")
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("another client: %v", err)
	}
	resp.Body.Close()
	_ = quiet[0].SetReadDeadline(time.Now().Add(5 * time.Second))
	if n, err := quiet[0].Read(make([]byte, 1)); n > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest one is still held: %d, %v", n, err)
	}
	huge := raw(t, "http://"+address.String(), get("/v1/openapi.json", "X: "+strings.Repeat("a", 64<<10)+"\r\n"))
	if huge.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("headers of 64 KiB: %d", huge.StatusCode)
	}
}

// TestATransferThatStandsStillIsCut uploads a part and then nothing, downloads
// a part and then reads no more, and opens a command without a start.
func TestATransferThatStandsStillIsCut(t *testing.T) {
	ws, dir := newHost(t)
	if err := os.Truncate(touch(t, filepath.Join(dir, "big")), 64<<20); err != nil {
		t.Fatal(err)
	}
	address := serve(t, ws, remote.Options{Idle: 300 * time.Millisecond})
	host := strings.TrimPrefix(address, "http://")
	for what, request := range map[string]string{
		"an upload":  "PUT /v1/workspaces/default/file?path=f HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 10\r\n\r\nhello",
		"JSON":       "POST /v1/workspaces/default/mkdir HTTP/1.1\r\nHost: " + host + "\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{",
		"a download": "GET /v1/workspaces/default/file?path=big HTTP/1.1\r\nHost: " + host + "\r\n\r\n",
		"no start":   "GET /v1/workspaces/default/exec HTTP/1.1\r\nHost: " + host + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: wsctl.exec.v1\r\n\r\n",
		"no body":    "GET /v1/workspaces/default HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 1000\r\n\r\n",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", host)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprint(c, request)
			time.Sleep(900 * time.Millisecond)
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
			n, err := io.Copy(io.Discard, c)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("it is still held after %d bytes", n)
			}
			if n > 60<<20 {
				t.Errorf("all of it was sent")
			}
		})
	}
}

func touch(t testing.TB, path string) string {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}
