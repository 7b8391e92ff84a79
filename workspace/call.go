package workspace

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// underway is what Close has to end and wait for: calls, and the processes that
// outlive theirs.
type underway struct {
	// closing ends, with cause ErrDisposed, when Close begins.
	closing context.Context //nolint:containedctx // the life of the workspace
	close   context.CancelCauseFunc

	mu   sync.Mutex
	shut bool // nothing is added any more
	n    sync.WaitGroup
}

func newUnderway() *underway {
	u := &underway{}
	u.closing, u.close = context.WithCancelCause(context.Background())
	return u
}

// add reports whether one more may begin; n.Done must follow only then.
func (u *underway) add() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.shut {
		return false
	}
	u.n.Add(1)
	return true
}

// end asks all to end and returns when they have.
func (u *underway) end() {
	u.mu.Lock()
	u.shut = true
	u.mu.Unlock()
	u.close(ErrDisposed)
	u.n.Wait()
}

// adopt registers what outlives its call; end asks it to end. The caller calls
// ended once it has.
func (w *Workspace) adopt(op string, end func(cause error)) (ended func(), err error) {
	u := w.underway
	if !u.add() {
		return nil, w.disposed(op, "")
	}
	unlink := context.AfterFunc(u.closing, func() { end(ErrDisposed) })
	return func() { unlink(); u.n.Done() }, nil
}

// call is one call under way and its context, which ends with the caller's or
// with Close. A context that can be waited for is made when somebody waits: a
// file operation mostly only asks whether it has ended, and takes no longer
// than making one.
type call struct {
	caller context.Context //nolint:containedctx // the life of one call
	u      *underway
	once   sync.Once
	waited atomic.Pointer[waited]
}

// waited is a context that ends with both. Its stop lets both go.
type waited struct {
	context.Context //nolint:containedctx // the life of one call
	stop            func()
}

// begin registers a call under way; finish must follow.
func (w *Workspace) begin(ctx context.Context, op string) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, aborted(ctx, op, "")
	}
	if !w.underway.add() {
		return nil, w.disposed(op, "")
	}
	return &call{caller: ctx, u: w.underway}, nil
}

// finish ends the call's context, if anybody waits for it.
func (c *call) finish() {
	c.once.Do(func() {})
	if m := c.waited.Load(); m != nil {
		m.stop()
	}
	c.u.n.Done()
}

// wait returns the context that can be waited for; after finish the caller's
// when nobody had.
func (c *call) wait() context.Context {
	c.once.Do(func() {
		ctx, cancel := context.WithCancelCause(c.caller)
		unlink := func() bool { return true }
		if c.u.closing.Err() != nil {
			cancel(ErrDisposed)
		} else {
			unlink = context.AfterFunc(c.u.closing, func() { cancel(ErrDisposed) })
		}
		c.waited.Store(&waited{ctx, func() { unlink(); cancel(nil) }})
	})
	if m := c.waited.Load(); m != nil {
		return m
	}
	return c.caller
}

// Done implements context.Context.
func (c *call) Done() <-chan struct{} { return c.wait().Done() }

// Err implements context.Context.
func (c *call) Err() error {
	if m := c.waited.Load(); m != nil {
		return m.Err()
	}
	if err := c.caller.Err(); err != nil {
		return err
	}
	if c.u.closing.Err() == nil {
		return nil
	}
	return c.wait().Err()
}

// Deadline implements context.Context.
func (c *call) Deadline() (time.Time, bool) { return c.caller.Deadline() }

// Value implements context.Context. It also leads package context to what the
// call ends with, so that contexts made of this one need no goroutine and know
// the cause.
func (c *call) Value(key any) any {
	if m := c.waited.Load(); m != nil {
		return m.Value(key)
	}
	return c.caller.Value(key)
}
