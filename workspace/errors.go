package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Code names a kind of failure. Every failure of a workspace carries exactly
// one, and callers tell failures apart by it, never by text. A Code is itself
// an error, so each constant below is the sentinel for its kind:
//
//	if errors.Is(err, workspace.ErrOutside) { … }
type Code string

// The codes. The comment of each says when it is used and which error of the
// standard library errors.Is finds in it as well.
const (
	// ErrOutside: a path leaves the root, by name or through a link.
	ErrOutside Code = "OUTSIDE_ROOT"
	// ErrNotFound: nothing has that name (fs.ErrNotExist).
	ErrNotFound Code = "NOT_FOUND"
	// ErrNotFile: a regular file is needed and something else is there: a
	// directory, a FIFO, a socket, a device.
	ErrNotFile Code = "NOT_A_FILE"
	// ErrNotDirectory: a directory is needed and something else is there.
	ErrNotDirectory Code = "NOT_A_DIRECTORY"
	// ErrExists: the name is taken (fs.ErrExist).
	ErrExists Code = "EXISTS"
	// ErrNotEmpty: a directory that must be empty is not.
	ErrNotEmpty Code = "NOT_EMPTY"
	// ErrTooLarge: a file, a command or an argument is over its limit.
	ErrTooLarge Code = "TOO_LARGE"
	// ErrInvalidPath: the text of a path can name nothing, or names what
	// must not be touched: empty, NUL, over-long, a loop of links, the
	// workspace's own state (fs.ErrInvalid).
	ErrInvalidPath Code = "INVALID_PATH"
	// ErrNotStarted: the operation needs a started workspace.
	ErrNotStarted Code = "NOT_STARTED"
	// ErrDisposed: the workspace is closed (fs.ErrClosed).
	ErrDisposed Code = "DISPOSED"
	// ErrUnavailable: the place where commands run cannot be had, is lost,
	// or is not as hardened as it must be.
	ErrUnavailable Code = "UNAVAILABLE"
	// ErrAborted: the caller's context ended the operation. The context's
	// own error is wrapped (context.Canceled, context.DeadlineExceeded).
	ErrAborted Code = "ABORTED"
	// ErrDenied: the system or a policy refused it (fs.ErrPermission).
	ErrDenied Code = "DENIED"
	// ErrBusy: it cannot be done while something else goes on; the same
	// call works later.
	ErrBusy Code = "BUSY"
	// ErrUnsupported: this driver or file system cannot do it
	// (errors.ErrUnsupported).
	ErrUnsupported Code = "UNSUPPORTED"
	// ErrIO: the system failed in a way no other code names: disk full,
	// input/output error, an error of the container engine.
	ErrIO Code = "IO"
	// ErrInvalidArgument: a value that is not a path makes no sense
	// (fs.ErrInvalid).
	ErrInvalidArgument Code = "INVALID_ARGUMENT"
	// ErrConflict: somebody else changed the file in between.
	ErrConflict Code = "CONFLICT"
	// ErrCorrupt: stored data is damaged.
	ErrCorrupt Code = "CORRUPT"
	// ErrTooMany: a budget is used up.
	ErrTooMany Code = "TOO_MANY"
)

// Error returns the code's text.
func (c Code) Error() string { return string(c) }

// standard lists, for each code that has one, the error of the standard
// library that it stands for.
func (c Code) standard() error {
	switch c {
	case ErrNotFound:
		return fs.ErrNotExist
	case ErrExists:
		return fs.ErrExist
	case ErrDenied:
		return fs.ErrPermission
	case ErrInvalidPath, ErrInvalidArgument:
		return fs.ErrInvalid
	case ErrDisposed:
		return fs.ErrClosed
	case ErrUnsupported:
		return errors.ErrUnsupported
	}
	return nil
}

// maxErrorText bounds the text of one error, in bytes: paths and output that
// a command controls end up in it.
const maxErrorText = 4096

// Error is the one error type of the contract. It is immutable once returned.
type Error struct {
	Code Code
	// Op is the verb that failed ("read", "exec"); may be empty.
	Op string
	// Path is the path as the caller spelled it; empty when no path is meant.
	Path string
	// Err says what went wrong and what to do next; may be nil.
	Err error
}

// Errorf makes an Error whose message is formatted as by fmt.Errorf; %w wraps.
func Errorf(code Code, op, path, format string, args ...any) *Error {
	return &Error{Code: code, Op: op, Path: path, Err: fmt.Errorf(format, args...)}
}

// Error returns one line: the code, the verb, the path, the reason. Control
// characters are escaped and the text is cut at 4 KiB, so that it is safe to
// print.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Code))
	sep := ": "
	for _, part := range []string{e.Op, Printable(e.Path)} {
		if part != "" {
			b.WriteString(sep)
			b.WriteString(part)
			sep = " "
		}
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(escapeControls(e.Err.Error()))
	}
	return cutText(b.String(), maxErrorText)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is this error's code or the standard error that
// the code stands for.
func (e *Error) Is(target error) bool {
	if c, ok := target.(Code); ok {
		return c == e.Code
	}
	std := e.Code.standard()
	return std != nil && target == std
}

// CodeOf returns the code of the first Error in err's tree, or "" when there
// is none.
func CodeOf(err error) Code {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	var c Code
	if errors.As(err, &c) {
		return c
	}
	return ""
}

// aborted is the error of an operation that ctx ended.
func aborted(ctx context.Context, op, path string) *Error {
	return &Error{Code: ErrAborted, Op: op, Path: path, Err: ctx.Err()}
}

// Printable returns s as it is when a person can read it on one line of a
// terminal, and quoted in Go's syntax otherwise: names come from commands and
// may hold anything.
func Printable(s string) string {
	if escapeControls(s) == s {
		return s
	}
	return strconv.Quote(s)
}

// escapeControls replaces what a terminal would act on, or could not show, by
// its escape in Go's syntax.
func escapeControls(s string) string {
	clean := true
	for i := 0; i < len(s) && clean; i++ {
		clean = s[i] >= 0x20 && s[i] < 0x7f
	}
	if clean {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[n:]
	}
	return b.String()
}

// cutText shortens s to at most n bytes, at a character, and marks the cut.
func cutText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	const mark = "…"
	n -= len(mark)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}
