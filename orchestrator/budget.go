//go:build unix

package orchestrator

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// Budget is what all workspaces together may take; 0: no bound.
type Budget struct {
	// Workspaces is how many there may be, stopped ones included.
	Workspaces int
	// Running is how many may be able to run commands at once, Memory and
	// CPUs what their limits may add up to, in bytes and processors.
	Running int
	Memory  int64
	CPUs    float64
	// Wait is how long a command waits for room; 0: DefaultWait. After it,
	// and when MaxWaiting others wait already, it is TOO_MANY.
	Wait       time.Duration
	MaxWaiting int
}

const (
	// DefaultWait is how long a command waits for room.
	DefaultWait = 30 * time.Second
	// DefaultMaxWaiting is how many commands may wait for room.
	DefaultMaxWaiting = 1000
)

// budget hands out room. Those who wait are served owner by owner in turn, so
// that one owner's hundred requests do not hold up another's first.
type budget struct {
	limit Budget

	mu      sync.Mutex
	running int
	memory  int64
	cpus    float64
	turns   list.List // of *turn: owners that wait, the next first
	byOwner map[string]*list.Element
	waiting int
}

// turn is one owner's queue.
type turn struct {
	owner string
	queue list.List // of *waiter
}

type waiter struct {
	need  Limits
	given chan struct{}
}

func newBudget(l Budget) *budget {
	if l.Wait == 0 {
		l.Wait = DefaultWait
	}
	if l.MaxWaiting == 0 {
		l.MaxWaiting = DefaultMaxWaiting
	}
	return &budget{limit: l, byOwner: map[string]*list.Element{}}
}

// possible refuses what would never have room.
func (b *budget) possible(need Limits) error {
	if b.limit.Memory > 0 && need.Memory > b.limit.Memory || b.limit.CPUs > 0 && need.CPUs > b.limit.CPUs {
		return workspace.Errorf(workspace.ErrInvalidArgument, "create", "", "the limits are over what all workspaces together may take; lower --memory or --cpus")
	}
	return nil
}

// acquire waits for room for need and takes it; release gives it back, once.
func (b *budget) acquire(ctx context.Context, owner string, need Limits) (release func(), err error) {
	b.mu.Lock()
	if b.waiting == 0 && b.fits(need) {
		b.take(need)
		b.mu.Unlock()
		return b.releaser(need), nil
	}
	if b.waiting >= b.limit.MaxWaiting {
		b.mu.Unlock()
		return nil, b.tooMany("%d commands wait for room already", b.limit.MaxWaiting)
	}
	w := &waiter{need: need, given: make(chan struct{})}
	e, ok := b.byOwner[owner]
	if !ok {
		e = b.turns.PushBack(&turn{owner: owner})
		b.byOwner[owner] = e
	}
	t := e.Value.(*turn)
	place := t.queue.PushBack(w)
	b.waiting++
	b.serve()
	b.mu.Unlock()

	timer := time.NewTimer(b.limit.Wait)
	defer timer.Stop()
	select {
	case <-w.given:
		return b.releaser(need), nil
	case <-ctx.Done():
		err = workspace.Errorf(workspace.ErrAborted, "start", "", "waiting for room: %w", ctx.Err())
	case <-timer.C:
		err = b.tooMany("there was no room for %v", b.limit.Wait)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.given:
		// Room came in the same moment.
		return b.releaser(need), nil
	default:
	}
	t.queue.Remove(place)
	b.waiting--
	b.drop(e)
	// The one that left may have stood before a smaller one.
	b.serve()
	return nil, err
}

func (b *budget) tooMany(format string, args ...any) error {
	return workspace.Errorf(workspace.ErrTooMany, "start", "", format+"; stop a workspace, or try again later", args...)
}

// releaser returns what gives need back.
func (b *budget) releaser(need Limits) func() {
	var once sync.Once
	return func() {
		once.Do(func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.running--
			b.memory -= need.Memory
			b.cpus -= need.CPUs
			b.serve()
		})
	}
}

// force takes room whether or not there is any: for what runs already.
func (b *budget) force(need Limits) (release func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.take(need)
	return b.releaser(need)
}

func (b *budget) fits(need Limits) bool {
	l := b.limit
	return (l.Running == 0 || b.running < l.Running) &&
		(l.Memory == 0 || b.memory+need.Memory <= l.Memory) &&
		(l.CPUs == 0 || b.cpus+need.CPUs <= l.CPUs)
}

func (b *budget) take(need Limits) {
	b.running++
	b.memory += need.Memory
	b.cpus += need.CPUs
}

// serve gives room to those who wait, an owner at a time, in order. The first
// that does not fit stops it: a large one is not passed over for ever.
func (b *budget) serve() {
	for e := b.turns.Front(); e != nil; e = b.turns.Front() {
		t := e.Value.(*turn)
		first := t.queue.Front()
		w := first.Value.(*waiter)
		if !b.fits(w.need) {
			return
		}
		b.take(w.need)
		close(w.given)
		t.queue.Remove(first)
		b.waiting--
		b.turns.MoveToBack(e)
		b.drop(e)
	}
}

// drop forgets an owner who no longer waits.
func (b *budget) drop(e *list.Element) {
	if t := e.Value.(*turn); t.queue.Len() == 0 {
		if b.byOwner[t.owner] == e {
			delete(b.byOwner, t.owner)
			b.turns.Remove(e)
		}
	}
}

// usage tells what is taken and how many wait.
func (b *budget) usage() (running int, memory int64, cpus float64, waiting int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running, b.memory, b.cpus, b.waiting
}
