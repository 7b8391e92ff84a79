//go:build unix

package spool

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Door is a socket by which a keeper in a container gets a job's files. It is there
// while one job starts. Whatever runs in the container can connect to it, and gets
// nothing: it does not know the token.
type Door struct {
	// Name is the socket's in its directory.
	Name     string
	listener *net.UnixListener
	dir      *os.File
}

// OpenDoor makes a socket in dir, which is mounted where the keeper is.
func OpenDoor(dir string) (*Door, error) {
	held, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	d := &Door{Name: strings.ToLower(rand.Text())[:16], dir: held}
	// By the descriptor: a path of any length fits into an address (unix(7)).
	d.listener, err = net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: fmt.Sprintf("/proc/self/fd/%d/%s", held.Fd(), d.Name)})
	if err == nil {
		d.listener.SetUnlinkOnClose(false)
		// Whoever the commands' user is. It cannot be listed by name, and
		// connecting is all that there is to do.
		if err = unix.Fchmodat(int(held.Fd()), d.Name, 0o666, 0); err == nil {
			return d, nil
		}
		return nil, errors.Join(err, d.Close())
	}
	return nil, errors.Join(err, held.Close())
}

// HandOver waits for the keeper that knows the token and is HandOver with it.
// Failed ends the wait when the keeper is known to have ended.
func (d *Door) HandOver(ctx context.Context, token string, files []*os.File, failed <-chan error) error {
	if err := d.listener.SetDeadline(time.Now().Add(startTime)); err != nil {
		return err
	}
	accept := make(chan struct{})
	defer close(accept)
	ended := make(chan error, 1)
	go func() {
		select {
		case err := <-failed:
			ended <- err
		case <-ctx.Done():
		case <-accept:
			return
		}
		_ = d.listener.SetDeadline(time.Unix(1, 0))
	}()
	for {
		conn, err := d.listener.AcceptUnix()
		if err != nil {
			select {
			case err := <-ended:
				return err
			default:
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("spool: the keeper of the job does not come, or something in the workspace keeps it away: %w", err)
		}
		err = HandOver(ctx, conn, token, files)
		_ = conn.Close()
		if !errors.Is(err, errStranger) {
			return err
		}
	}
}

// Close removes the socket.
func (d *Door) Close() error {
	return errors.Join(d.listener.Close(), unix.Unlinkat(int(d.dir.Fd()), d.Name, 0), d.dir.Close())
}
