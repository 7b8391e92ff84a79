//go:build unix

package container

import (
	"context"
	"sync"

	"github.com/wsctl/wsctl/workspace"
)

// brake keeps execs and pauses apart. An engine that freezes a container while an
// exec is coming to be in it never finishes that exec, and answers nothing more
// about the container, not even that it be removed (runc 1.1, containerd 1.6).
type brake struct {
	mu    sync.Mutex
	under int           // execs that are coming to be
	held  bool          // no exec may begin
	idle  chan struct{} // closed when under has become 0; nil: nobody waits
}

// enter begins an exec; BUSY while the container is paused. leave ends what enter
// has begun: the process is there, or will not be.
func (k *brake) enter() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held {
		return workspace.Errorf(workspace.ErrBusy, "exec", "", "the workspace is paused; try again when it goes on")
	}
	k.under++
	return nil
}

func (k *brake) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.under--
	if k.under == 0 && k.idle != nil {
		close(k.idle)
		k.idle = nil
	}
}

// hold lets no exec begin, and returns when none is coming to be. After an error
// nothing is held.
func (k *brake) hold(ctx context.Context) error {
	k.mu.Lock()
	k.held = true
	if k.under == 0 {
		k.mu.Unlock()
		return nil
	}
	if k.idle == nil {
		k.idle = make(chan struct{})
	}
	idle := k.idle
	k.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		k.release()
		return engineError(ctx, "pause", ctx.Err())
	}
}

func (k *brake) release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.held = false
}
