//go:build unix

package host

import (
	"context"
	"slices"
	"sync"
)

// lockKey is what calls wait for each other on: an entry of a directory (the
// directory's identity and a name) or a file (its identity alone). Entries
// stay the same when a write replaces the file; the file's own identity also
// meets names that a case-folding file system takes for one.
type lockKey struct {
	id   identity
	name string
}

// less is the order in which several locks are taken, so that no two calls
// wait for each other: all entries come before all files.
func (k lockKey) less(o lockKey) bool {
	if (k.name == "") != (o.name == "") {
		return k.name != ""
	}
	if k.id != o.id {
		return k.id.less(o.id)
	}
	return k.name < o.name
}

// lockTable holds a lock for each key in use and forgets it with its last
// user. Its zero value is ready.
type lockTable struct {
	mu   sync.Mutex
	held map[lockKey]*keyLock
}

type keyLock struct {
	users int           // holders and waiters; guarded by lockTable.mu
	token chan struct{} // holds one token while the lock is free
}

// lock takes the locks of all keys, which must be sorted by less and
// different, and returns what gives them back. It fails when ctx ends first.
func (t *lockTable) lock(ctx context.Context, keys ...lockKey) (unlock func(), err error) {
	taken := 0
	unlock = func() {
		for _, k := range keys[:taken] {
			t.unlock(k)
		}
	}
	for _, k := range keys {
		if err := t.lockOne(ctx, k); err != nil {
			unlock()
			return nil, err
		}
		taken++
	}
	return unlock, nil
}

func (t *lockTable) lockOne(ctx context.Context, k lockKey) error {
	t.mu.Lock()
	if t.held == nil {
		t.held = map[lockKey]*keyLock{}
	}
	l := t.held[k]
	if l == nil {
		l = &keyLock{token: make(chan struct{}, 1)}
		l.token <- struct{}{}
		t.held[k] = l
	}
	l.users++
	t.mu.Unlock()
	select {
	case <-l.token:
		return nil
	case <-ctx.Done():
		t.drop(k, l)
		return ctx.Err()
	}
}

func (t *lockTable) unlock(k lockKey) {
	t.mu.Lock()
	l := t.held[k]
	t.mu.Unlock()
	l.token <- struct{}{}
	t.drop(k, l)
}

func (t *lockTable) drop(k lockKey, l *keyLock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(t.held, k)
	}
}

// sortedKeys sorts keys for lock and takes out those that come twice.
func sortedKeys(keys []lockKey) []lockKey {
	slices.SortFunc(keys, func(a, b lockKey) int {
		switch {
		case a == b:
			return 0
		case a.less(b):
			return -1
		}
		return 1
	})
	return slices.Compact(keys)
}
