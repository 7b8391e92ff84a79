package search

import (
	"sync"

	"github.com/wsctl/wsctl/workspace"
)

// task is a piece of a walk: a directory to be listed, or a run of entries of
// one to be visited. What it finds stays in it until its turn to be told.
type task[R any] struct {
	at      *place
	entries []workspace.DirName // nil: the directory itself is to be listed
	// key sorts as the paths of what is found do.
	key string

	// The rest is guarded by the queue, but for what a worker fills in while
	// the task is running.
	next   *task[R]
	state  taskState
	found  []R
	seen   int // entries listed
	skips  Skipped
	weight int // bytes that found takes up, roughly
}

type taskState uint8

const (
	pending taskState = iota
	running
	done
)

// queue keeps the tasks of a walk in the order in which results are told, and
// hands out the first that is pending, so that workers run little ahead of the
// telling. A task that lists a directory puts what follows from it right behind
// itself.
type queue[R any] struct {
	mu      sync.Mutex
	work    sync.Cond // something may be taken, or all is over
	ready   sync.Cond // the front may be done
	front   *task[R]  // the next to be told
	cursor  *task[R]  // no task before it is pending
	running int
	weight  int // of all that is done and not told
	stopped bool
}

// budget is how much may wait to be told, in bytes. Beyond it, only the front is
// worked on.
const budget = 32 << 20

func newQueue[R any](first *task[R]) *queue[R] {
	q := &queue[R]{front: first, cursor: first}
	q.work.L, q.ready.L = &q.mu, &q.mu
	return q
}

// take waits for a task. It is nil when there will be none.
func (q *queue[R]) take() *task[R] {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.stopped {
		for q.cursor != nil && q.cursor.state != pending {
			q.cursor = q.cursor.next
		}
		t := q.cursor
		if t != nil && (q.weight <= budget || t == q.front) {
			t.state = running
			q.running++
			return t
		}
		if t == nil && q.running == 0 {
			q.work.Broadcast()
			return nil
		}
		q.work.Wait()
	}
	return nil
}

// full reports whether what is found had better wait for its turn.
func (q *queue[R]) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.weight > budget
}

// finish ends a task; first is what follows from it, chained up to last.
func (q *queue[R]) finish(t, first, last *task[R]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	t.state = done
	q.running--
	q.weight += t.weight
	if first != nil {
		last.next, t.next = t.next, first
		if q.cursor == nil || t.key < q.cursor.key {
			q.cursor = first
		}
		for n := first; ; n = n.next {
			if n.state == done {
				q.weight += n.weight
			}
			if n == last {
				break
			}
		}
	}
	q.work.Broadcast()
	q.ready.Signal()
}

// tell waits for the front to be done and takes it; nil when all was told or
// the walk has stopped.
func (q *queue[R]) tell() *task[R] {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.stopped && q.front != nil && q.front.state != done {
		q.ready.Wait()
	}
	if q.stopped || q.front == nil {
		return nil
	}
	t := q.front
	q.front = t.next
	was := q.weight
	q.weight -= t.weight
	if was > budget {
		q.work.Broadcast()
	}
	return t
}

// stop ends the walk for all who wait.
func (q *queue[R]) stop() {
	q.mu.Lock()
	q.stopped = true
	q.mu.Unlock()
	q.work.Broadcast()
	q.ready.Broadcast()
}
