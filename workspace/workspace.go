package workspace

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// DefaultMaxFileBytes bounds a whole-file read, in bytes.
const DefaultMaxFileBytes = 32 << 20

// Options are what a workspace's commands and reads get unless they say
// otherwise. The zero value is good.
type Options struct {
	// Dir is where commands run, below the root; empty: the root.
	Dir string
	// Timeout of a command; 0: none.
	Timeout time.Duration
	// KillGrace between SIGTERM and SIGKILL; 0: DefaultKillGrace.
	KillGrace time.Duration
	// MaxOutput kept of each stream, in bytes; 0: DefaultMaxOutput.
	MaxOutput int
	// MaxFileBytes bounds a whole-file read or edit; 0: DefaultMaxFileBytes.
	MaxFileBytes int64
	// Env is what every command gets, entries "NAME=value". Nothing of the
	// caller's own environment is added to it.
	Env []string
	// Logger gets what is worth knowing and no call returns; nil: silent.
	Logger *slog.Logger
	// Snapshots keeps states of the tree; nil: the workspace has none.
	Snapshots Snapshotter
	// Observer is told of commands and changes; nil: nobody.
	Observer Observer
}

// Workspace is a directory in which files are read and written and commands
// run. Its methods are safe for concurrent use.
type Workspace struct {
	driver   Driver
	opts     Options
	roots    []string // absolute spellings of the root, no trailing slash
	commands commandGate

	underway *underway

	mu     sync.Mutex
	flight *flight // the start under way, if any

	closeOnce sync.Once
	closeErr  error
}

// New returns a workspace over d, which it owns from then on: Close closes it.
// It starts nothing. When the options make no sense, d is left alone.
func New(d Driver, o Options) (*Workspace, error) {
	const op = "open"
	if o.MaxFileBytes < 0 {
		return nil, Errorf(ErrInvalidArgument, op, "", "MaxFileBytes is %d; give a size in bytes, or 0 for %d", o.MaxFileBytes, DefaultMaxFileBytes)
	}
	if o.Timeout == 0 {
		o.Timeout = NoTimeout
	}
	if o.KillGrace == 0 {
		o.KillGrace = DefaultKillGrace
	}
	if o.MaxOutput == 0 {
		o.MaxOutput = DefaultMaxOutput
	}
	if o.MaxFileBytes == 0 {
		o.MaxFileBytes = DefaultMaxFileBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if err := checkLimits(op, o.Timeout, o.KillGrace, o.MaxOutput); err != nil {
		return nil, err
	}
	if err := checkEnv(op, o.Env); err != nil {
		return nil, err
	}
	o.Env = MergeEnv(o.Env)
	w := &Workspace{driver: d, opts: o, underway: newUnderway()}
	w.roots = []string{d.Descriptor().Root}
	if r, ok := d.(Realer); ok {
		w.roots = append(w.roots, r.Real())
	}
	for i, r := range w.roots {
		w.roots[i] = strings.TrimRight(r, "/")
	}
	return w, nil
}

// Root is the root as the workspace's own processes see it.
func (w *Workspace) Root() string { return w.driver.Descriptor().Root }

// Descriptor tells what the workspace is.
func (w *Workspace) Descriptor() Descriptor { return w.driver.Descriptor() }

// Driver returns what the workspace runs on, to be asserted to an optional
// interface. Commands and files go through the Workspace.
func (w *Workspace) Driver() Driver { return w.driver }

// Snapshots returns what keeps states of the tree; UNSUPPORTED when the
// workspace was opened without. The workspace's own Restore looks after
// commands that run.
func (w *Workspace) Snapshots() (Snapshotter, error) {
	if w.opts.Snapshots == nil {
		return nil, unsupported("snapshots", "this workspace was opened without a snapshot store")
	}
	return w.opts.Snapshots, nil
}

// Env returns a copy of the environment that every command gets from the
// workspace; the driver's own entries (PATH, HOME and TMPDIR of the place where
// commands run) lie below it.
func (w *Workspace) Env() []string { return slices.Clone(w.opts.Env) }

// Ready starts what commands need, verifies it and returns once they can run:
// to see errors early, or to keep a pull out of the first command. It is not
// needed otherwise.
func (w *Workspace) Ready(ctx context.Context) error {
	call, err := w.begin(ctx, "start")
	if err != nil {
		return err
	}
	defer call.finish()
	return w.ready(call, "start")
}

// Close ends everything that runs in the workspace, releases it and returns
// when that is done. Calls under way answer DISPOSED, and so does every later
// one. It may be called more than once; every call returns the same.
func (w *Workspace) Close() error {
	w.closeOnce.Do(func() {
		w.underway.end()
		w.closeErr = w.driver.Close()
	})
	return w.closeErr
}

func (w *Workspace) disposed(op, path string) *Error {
	return &Error{Code: ErrDisposed, Op: op, Path: path, Err: errors.New("the workspace is closed")}
}

// stopped is the error of an operation whose context has ended: DISPOSED when
// Close ended it, ABORTED when the caller did.
func (w *Workspace) stopped(ctx context.Context, op, path string) *Error {
	if context.Cause(ctx) == error(ErrDisposed) {
		return w.disposed(op, path)
	}
	return aborted(ctx, op, path)
}

// flight is one start of the driver that any number of callers wait for.
// Its fields but done are guarded by Workspace.mu.
type flight struct {
	waiters int
	cancel  context.CancelFunc
	done    chan struct{}
	err     error
}

// ready makes the driver ready. Callers at the same time share one start; it
// goes on as long as one of them still wants it.
func (w *Workspace) ready(ctx context.Context, op string) error {
	for {
		f, joined := w.joinFlight(ctx)
		if !joined {
			// Everybody who wanted that start has left it. It is being
			// undone; the next one begins when it is.
			select {
			case <-f.done:
				continue
			case <-ctx.Done():
				return w.stopped(ctx, op, "")
			}
		}
		select {
		case <-f.done:
			return wrap(f.err, ErrUnavailable, op, "")
		case <-ctx.Done():
		}
		w.mu.Lock()
		f.waiters--
		last := f.waiters == 0
		w.mu.Unlock()
		if last {
			// A start that nobody waits for must not outlive the calls
			// that asked for it, or Close would run beside it.
			f.cancel()
			<-f.done
		}
		return w.stopped(ctx, op, "")
	}
}

// joinFlight returns the start under way, or begins one. joined is false when
// it has been left by all its callers and is about to fail.
func (w *Workspace) joinFlight(ctx context.Context) (f *flight, joined bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.flight; f != nil {
		if f.waiters == 0 {
			return f, false
		}
		f.waiters++
		return f, true
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	f = &flight{waiters: 1, cancel: cancel, done: make(chan struct{})}
	w.flight = f
	go func() {
		defer cancel()
		f.err = w.driver.Ready(ctx)
		w.mu.Lock()
		w.flight = nil
		w.mu.Unlock()
		close(f.done)
	}()
	return f, true
}

// wrap makes err an *Error: as it is when it is one, with fallback otherwise.
func wrap(err error, fallback Code, op, path string) error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return err
	}
	return &Error{Code: fallback, Op: op, Path: path, Err: err}
}
