//go:build unix

package spool

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/keeper"
)

// errStranger: who connected does not know the token.
var errStranger = errors.New("spool: this is not the job's keeper")

// handTime bounds how long a keeper may take to show its token, and to start the
// command, which takes milliseconds.
const (
	tokenTime = time.Second
	startTime = 10 * time.Second
)

// HandOver gives a job's files to its keeper, at the other end of conn, and returns
// when the command runs, or with a *keeper.StartError when it does not. The keeper
// knows the token from keeper.Job.Encode.
func HandOver(ctx context.Context, conn *net.UnixConn, token string, files []*os.File) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := know(conn, token); err != nil {
		return err
	}
	fds := make([]int, len(files))
	for i, f := range files {
		raw, err := f.SyscallConn()
		if err != nil {
			return err
		}
		// Not File.Fd, which would make the bell wait.
		if err := raw.Control(func(fd uintptr) { fds[i] = int(fd) }); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := conn.SetDeadline(time.Now().Add(startTime)); err != nil {
		return err
	}
	if _, _, err := conn.WriteMsgUnix([]byte{1}, unix.UnixRights(fds...), nil); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	return started(conn)
}

// know reads the token.
func know(conn *net.UnixConn, token string) error {
	if err := conn.SetDeadline(time.Now().Add(tokenTime)); err != nil {
		return err
	}
	got := make([]byte, len(token))
	if _, err := io.ReadFull(conn, got); err != nil || subtle.ConstantTimeCompare(got, []byte(token)) == 0 {
		return errStranger
	}
	return nil
}

// started reads the answer.
func started(conn *net.UnixConn) error {
	var answer []byte
	buf := make([]byte, 64)
	for len(answer) < len(buf) {
		n, err := conn.Read(buf)
		answer = append(answer, buf[:n]...)
		if _, whole, bad := keeper.ParseJobAnswer(answer); whole || bad != nil {
			return bad
		}
		if err != nil {
			return fmt.Errorf("spool: the keeper of the job has ended before it told whether it runs: %w", err)
		}
	}
	return errors.New("spool: the keeper of the job answers with what makes no sense")
}
