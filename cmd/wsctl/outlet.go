package main

import (
	"errors"
	"io"
	"sync"
	"syscall"

	"github.com/wsctl/wsctl/workspace"
)

// outlet is one of wsctl's output streams while a command writes to it. When a
// write fails it says so once, by broken, and takes no more.
type outlet struct {
	name   string
	to     io.Writer
	broken func()

	mu     sync.Mutex
	failed error // guarded by mu
}

func (o *outlet) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil {
		o.mu.Lock()
		o.failed = err
		o.mu.Unlock()
		o.broken()
	}
	return n, err
}

// err is why output was lost. A reader that left is no failure: it has what it
// wanted.
func (o *outlet) err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.failed == nil || errors.Is(o.failed, syscall.EPIPE) {
		return nil
	}
	return workspace.Errorf(workspace.ErrIO, "", "", "%s: %w", o.name, o.failed)
}
