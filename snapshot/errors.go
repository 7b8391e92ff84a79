//go:build linux

package snapshot

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/wsctl/wsctl/workspace"
)

// asError makes err an *workspace.Error of the call op on path.
func asError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	var e *workspace.Error
	if errors.As(err, &e) {
		named := *e
		if named.Op == "" {
			named.Op = op
		}
		if named.Path == "" {
			named.Path = path
		}
		return &named
	}
	code := workspace.ErrIO
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		code = workspace.ErrAborted
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		code = workspace.ErrDenied
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return workspace.Errorf(code, op, path, "%w; make room for the snapshot store and try again", err)
	}
	return &workspace.Error{Code: code, Op: op, Path: path, Err: err}
}

// reason is what an error says without its code, op and path.
func reason(err error) error {
	var e *workspace.Error
	if errors.As(err, &e) && e.Err != nil {
		return e.Err
	}
	return err
}
