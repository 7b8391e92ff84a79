//go:build unix

package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/wsctl/wsctl/workspace"
)

// refuse makes an error of the guard itself; op and path are put in by
// asError, where the call began.
func refuse(code workspace.Code, format string, args ...any) *workspace.Error {
	return workspace.Errorf(code, "", "", format, args...)
}

// asError makes err an *Error of the call op on name.
func asError(op, name string, err error) error {
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
			named.Path = name
		}
		return &named
	}
	var no syscall.Errno
	if !errors.As(err, &no) {
		return &workspace.Error{Code: codeOfStandard(err), Op: op, Path: name, Err: err}
	}
	code, advice := codeOfErrno(no)
	if advice == "" {
		return &workspace.Error{Code: code, Op: op, Path: name, Err: err}
	}
	return workspace.Errorf(code, op, name, "%w; %s", err, advice)
}

// codeOfStandard is the code of an error that is neither ours nor the
// system's.
func codeOfStandard(err error) workspace.Code {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return workspace.ErrAborted
	case errors.Is(err, fs.ErrClosed), errors.Is(err, os.ErrClosed):
		return workspace.ErrDisposed
	case errors.Is(err, fs.ErrNotExist):
		return workspace.ErrNotFound
	case errors.Is(err, fs.ErrExist):
		return workspace.ErrExists
	case errors.Is(err, fs.ErrPermission):
		return workspace.ErrDenied
	case errors.Is(err, errors.ErrUnsupported):
		return workspace.ErrUnsupported
	}
	return workspace.ErrIO
}

// codeOfErrno is the one map from the system's errors (errno(3)) to codes,
// with what to do where the system's own words do not say it.
func codeOfErrno(no syscall.Errno) (workspace.Code, string) {
	switch no {
	case syscall.ENOENT:
		return workspace.ErrNotFound, ""
	case syscall.ENOTDIR:
		return workspace.ErrNotDirectory, ""
	case syscall.EISDIR:
		return workspace.ErrNotFile, ""
	case syscall.ENXIO, syscall.ENODEV:
		return workspace.ErrNotFile, "only regular files are read and written"
	case syscall.EEXIST:
		return workspace.ErrExists, ""
	case syscall.ENOTEMPTY:
		return workspace.ErrNotEmpty, "remove it recursively"
	case syscall.ELOOP:
		return workspace.ErrInvalidPath, "the links lead in a circle, or there are more than 40"
	case syscall.ENAMETOOLONG:
		return workspace.ErrInvalidPath, "a name has at most 255 bytes and a path 4,095"
	case syscall.EILSEQ:
		return workspace.ErrInvalidPath, "the file system does not take such a name"
	case syscall.EACCES, syscall.EPERM:
		return workspace.ErrDenied, "check owner and mode of it and of the directories above"
	case syscall.EROFS:
		return workspace.ErrDenied, "the file system is mounted read-only"
	case syscall.EBUSY, syscall.ETXTBSY, syscall.EAGAIN, syscall.EINTR:
		return workspace.ErrBusy, "something else uses it; try again"
	case syscall.EXDEV:
		return workspace.ErrUnsupported, "another file system is mounted there; copy instead of moving"
	case syscall.ENOSYS, syscall.ENOTSUP:
		return workspace.ErrUnsupported, "this file system cannot do it"
	case syscall.EINVAL:
		return workspace.ErrInvalidArgument, ""
	case syscall.ENOSPC, syscall.EDQUOT:
		return workspace.ErrIO, "make room and try again"
	case syscall.EFBIG:
		return workspace.ErrIO, "the file is larger than the file system or the process's limit (ulimit -f) allows"
	case syscall.EMFILE, syscall.ENFILE:
		return workspace.ErrIO, "too many files are open; close some or raise the limit (ulimit -n)"
	case syscall.EBADF:
		return workspace.ErrDisposed, ""
	}
	return workspace.ErrIO, ""
}
