package container

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"strings"
	"syscall"

	"github.com/docker/docker/client"

	"github.com/wsctl/wsctl/workspace"
)

// connectError tells why no engine answers at host, and what to do.
func connectError(host string, err error) *workspace.Error {
	const op = "connect"
	socket, isSocket := strings.CutPrefix(host, "unix://")
	var timeout net.Error
	switch {
	case isSocket && errors.Is(err, fs.ErrPermission):
		return workspace.Errorf(workspace.ErrUnavailable, op, "", "no permission on the engine's socket %s; become a member of its group (usually docker: such members are root on this machine), or use a rootless engine: %w", socket, syscall.EACCES)
	case isSocket && errors.Is(err, fs.ErrNotExist):
		return workspace.Errorf(workspace.ErrUnavailable, op, "", "no Docker engine: there is no socket %s; start the engine, or name another address: %w", socket, syscall.ENOENT)
	case errors.Is(err, syscall.ECONNREFUSED):
		return workspace.Errorf(workspace.ErrUnavailable, op, "", "no Docker engine listens at %s; start it: %w", host, syscall.ECONNREFUSED)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return workspace.Errorf(workspace.ErrUnavailable, op, "", "the engine at %s does not answer within %v; see whether it hangs (its log), restart it", host, connectTimeout)
	}
	return workspace.Errorf(workspace.ErrUnavailable, op, "", "the engine at %s: %w", host, err)
}

// engineError turns an error of the Docker client into one of the contract: the
// caller's context is ABORTED, an engine that cannot be reached UNAVAILABLE,
// anything else that the engine says IO. Errors of the contract pass as they
// are. What is about the container, (*box).lost tells.
func engineError(ctx context.Context, op string, err error) error {
	var told *workspace.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &told):
		return err
	case ctx.Err() != nil:
		return &workspace.Error{Code: workspace.ErrAborted, Op: op, Err: ctx.Err()}
	case unreachable(err):
		return workspace.Errorf(workspace.ErrUnavailable, op, "", "the engine is lost; see whether it runs, then try again: %w", err)
	}
	return &workspace.Error{Code: workspace.ErrIO, Op: op, Err: err}
}

// unreachable tells whether err is of a connection and not an answer of the
// engine.
func unreachable(err error) bool {
	var network net.Error
	return client.IsErrConnectionFailed(err) || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
