package remote

import (
	"errors"
	"io/fs"
	"log"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// listenUnix listens on a Unix socket. What is at its path already is removed
// only when it is a socket that nobody listens on.
func listenUnix(path string, logger *slog.Logger) (net.Listener, error) {
	const op = "listen"
	before, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, workspace.Errorf(workspace.ErrDenied, op, path, "%w", err)
	case before.Mode().Type() != fs.ModeSocket:
		return nil, workspace.Errorf(workspace.ErrExists, op, path, "something that is no socket is there; name another path")
	default:
		c, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			_ = c.Close()
			return nil, workspace.Errorf(workspace.ErrBusy, op, path, "a server listens there already; end it, or name another path")
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, workspace.Errorf(workspace.ErrDenied, op, path, "a socket is there, and whether a server listens cannot be told: %w", err)
		}
		if now, err := os.Lstat(path); err != nil || !os.SameFile(before, now) {
			return nil, workspace.Errorf(workspace.ErrBusy, op, path, "another server is starting there")
		}
		if err := os.Remove(path); err != nil {
			return nil, workspace.Errorf(workspace.ErrDenied, op, path, "the socket that a server left cannot be removed: %w", err)
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrUnavailable, op, path, "%w", err)
	}
	l.SetUnlinkOnClose(false)
	made, err := os.Lstat(path)
	if err != nil || made.Mode().Type() != fs.ModeSocket {
		_ = l.Close()
		return nil, workspace.Errorf(workspace.ErrConflict, op, path, "the socket was replaced as it was made")
	}
	return &ownerListener{UnixListener: l, path: path, made: made, log: logger}, nil
}

// ownerListener takes connections of this process's user, and root, alone.
type ownerListener struct {
	*net.UnixListener
	path string
	made fs.FileInfo
	log  *slog.Logger
}

// ownerConn is a connection that the kernel says is the owner's.
type ownerConn struct{ *net.UnixConn }

// Accept implements net.Listener.
func (l *ownerListener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := checkPeer(c); err != nil {
			l.log.Warn("a connection was refused", "socket", l.path, "uid", uid, "reason", err)
			_ = c.Close()
			continue
		}
		return &ownerConn{c}, nil
	}
}

// Close implements net.Listener. It removes the socket if it is still the one
// that was made.
func (l *ownerListener) Close() error {
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(l.made, now) {
		_ = os.Remove(l.path)
	}
	return l.UnixListener.Close()
}

var errOtherUser = errors.New("the other side is another user")

// checkPeer refuses a connection to or from a process of another user than this
// process's, or root.
func checkPeer(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	uid = -1
	var peerErr error
	if err := raw.Control(func(fd uintptr) { uid, peerErr = peerUID(int(fd)) }); err != nil {
		return -1, err
	}
	switch {
	case peerErr != nil:
		return -1, peerErr
	case uid != 0 && uid != os.Geteuid():
		return uid, errOtherUser
	}
	return uid, nil
}

// quietLog is the log of a http.Server: what strangers do wrong is no news.
func quietLog(logger *slog.Logger) *log.Logger {
	return slog.NewLogLogger(logger.Handler(), slog.LevelDebug)
}
