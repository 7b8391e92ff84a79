package wrapper

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
)

// ErrNoDir is the result of a command whose directory could not be entered.
// Nothing was run.
var ErrNoDir = errors.New("wrapper: the directory cannot be entered")

// Reader reads both streams of one wrapped command. The two writers may be used
// from two goroutines; the methods are safe for concurrent use.
type Reader struct {
	out, err *Splitter

	mu      sync.Mutex
	group   int
	status  [2]int // one per stream, -1 until told
	result  error
	grouped chan struct{}
	started chan struct{}
	begun   bool
	done    chan struct{}
	over    bool
}

// NewReader returns a Reader that passes the command's output on to stdout and
// stderr; nil discards.
func NewReader(token string, stdout, stderr io.Writer) *Reader {
	if stdout == nil {
		stdout = io.Discard
	}
	if stderr == nil {
		stderr = io.Discard
	}
	r := &Reader{grouped: make(chan struct{}), started: make(chan struct{}), done: make(chan struct{}), status: [2]int{-1, -1}}
	r.out = NewSplitter(stdout, func(b []byte) error { return r.marker(0, string(b)) })
	r.err = NewSplitter(stderr, func(b []byte) error { return r.marker(1, string(b)) })
	r.out.SetToken(token)
	r.err.SetToken(token)
	return r
}

// Stdout takes the bytes of the wrapper's standard output.
func (r *Reader) Stdout() io.Writer { return r.out }

// Stderr takes the bytes of the wrapper's standard error.
func (r *Reader) Stderr() io.Writer { return r.err }

// Grouped is closed when the wrapper has answered the greeting: the command's
// group is known, and nothing runs yet.
func (r *Reader) Grouped() <-chan struct{} { return r.grouped }

// Started is closed when the command is about to run.
func (r *Reader) Started() <-chan struct{} { return r.started }

// Done is closed when both streams have told the status: all output has been
// passed on by then. It stays open when the streams end without markers.
func (r *Reader) Done() <-chan struct{} { return r.done }

// Group is the process group of the command, in the container's own numbers,
// and 0 while it is not known. It is a number greater than 1.
func (r *Reader) Group() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.group
}

// Status is the exit status, 0 to 255, once [Reader.Done] is closed. Before that
// and after a marker that makes no sense it is an error: an unknown status is
// never 0.
func (r *Reader) Status() (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.result != nil:
		return 0, r.result
	case !r.over:
		return 0, errors.New("wrapper: the command's status is not known")
	}
	return r.status[0], nil
}

// Preamble is the text that came before the command's start: the engine's own
// message when it could not start the wrapper. Call it when the streams are over.
func (r *Reader) Preamble() string {
	return strings.TrimSpace(string(r.out.Preamble()) + string(r.err.Preamble()))
}

func (r *Reader) marker(stream int, body string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	word, value, _ := strings.Cut(body, " ")
	switch {
	case r.over || r.status[stream] >= 0:
		return r.fail("a marker after the end: " + strconv.Quote(body))
	case word == "nodir" && value == "":
		if r.status[stream] = 125; r.status[1-stream] == 125 {
			r.finish(ErrNoDir)
		}
	case word == "group":
		group, ok := number(value, 2, 1<<22) // 2^22 is PID_MAX_LIMIT, proc(5)
		if !ok || (r.group != 0 && r.group != group) {
			return r.fail("an impossible process group: " + strconv.Quote(value))
		}
		if r.group == 0 {
			r.group = group
			close(r.grouped)
		}
	case word == "start" && value == "" && r.group != 0:
		if !r.begun {
			r.begun = true
			close(r.started)
		}
	case word == "exit":
		status, ok := number(value, 0, 255)
		if !ok || !r.begun {
			return r.fail("an impossible status: " + strconv.Quote(value))
		}
		if r.status[stream] = status; r.status[1-stream] >= 0 {
			if r.status[1-stream] != status {
				return r.fail("two different statuses")
			}
			r.finish(nil)
		}
	default:
		return r.fail("a marker that makes no sense: " + strconv.Quote(body))
	}
	return nil
}

func (r *Reader) fail(why string) error {
	err := errors.New("wrapper: " + why)
	r.finish(err)
	return err
}

func (r *Reader) finish(err error) {
	if r.over {
		return
	}
	r.over, r.result = true, err
	close(r.done)
}

// number reads a decimal number without sign, leading zero or blank.
func number(s string, low, high int) (int, bool) {
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= low && n <= high && strconv.Itoa(n) == s
}
