//go:build unix

package container

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// brake keeps execs and pauses of the containers over one root apart, whichever
// process begins them. An engine that freezes a container while an exec is coming to
// be in it never finishes that exec, and answers nothing more about the container,
// not even that it be removed (runc 1.1, containerd 1.6).
//
// The state has two files for locks (flock(2)), which a crash gives back. Whoever
// begins an exec holds execsLock shared, whoever pauses holds it alone. Both pass
// through gateLock first, where one who pauses stays: so execs that go on beginning do
// not keep a pause waiting for ever.
type brake struct{ root *host.Root }

// Names of the files.
const (
	gateLock  = "pause.lock"
	execsLock = "execs.lock"
)

// lockPoll is the time between two tries.
const lockPoll = 2 * time.Millisecond

// enter begins an exec, after a pause that is being made. release ends what enter has
// begun: the process is there, or will not be. In a container that is paused then
// the engine makes no exec. Where the files cannot be opened or locked, because the
// file system has no locks or the root is another user's, the exec begins all the same.
func (k brake) enter(ctx context.Context) (release func(), err error) {
	release, err = k.pass(ctx, unix.LOCK_SH, false)
	switch {
	case err == nil:
		return release, nil
	case ctx.Err() != nil:
		return nil, engineError(ctx, "exec", ctx.Err())
	case workspace.CodeOf(err) == workspace.ErrDenied, workspace.CodeOf(err) == workspace.ErrUnsupported:
		return func() {}, nil
	}
	return nil, err
}

// hold returns when no exec is coming to be; none begins before release.
func (k brake) hold(ctx context.Context) (release func(), err error) {
	release, err = k.pass(ctx, unix.LOCK_EX, true)
	if ctx.Err() != nil && err != nil {
		return nil, engineError(ctx, "pause", ctx.Err())
	}
	return release, err
}

// pass takes both locks, and with stay keeps both.
func (k brake) pass(ctx context.Context, how int, stay bool) (release func(), err error) {
	gate, err := k.lock(ctx, gateLock, how)
	if err != nil {
		return nil, err
	}
	execs, err := k.lock(ctx, execsLock, how)
	if err != nil || !stay {
		_ = gate.Close()
		gate = nil
	}
	if err != nil {
		return nil, err
	}
	return func() {
		_ = execs.Close()
		if gate != nil {
			_ = gate.Close()
		}
	}, nil
}

// lock opens and locks one of the files; closing it gives the lock back.
func (k brake) lock(ctx context.Context, name string, how int) (*os.File, error) {
	const op = "lock"
	f, err := k.root.LockFile(name)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOLCK), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			_ = f.Close()
			return nil, workspace.Errorf(workspace.ErrUnsupported, op, host.StateName+"/"+name, "the root's file system has no locks (%w), and without one a container cannot be paused safely", err)
		case !errors.Is(err, unix.EWOULDBLOCK):
			_ = f.Close()
			return nil, workspace.Errorf(workspace.ErrIO, op, host.StateName+"/"+name, "%w", err)
		}
		select {
		case <-ctx.Done():
			_ = f.Close()
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// holdExecs is hold for a container over dir, which need not be a root here: on
// another machine than its owner's, or with the root gone, there is nobody whose
// execs it would hold.
func holdExecs(ctx context.Context, dir string) (release func(), err error) {
	if _, err := os.Stat(filepath.Join(dir, host.StateName)); errors.Is(err, os.ErrNotExist) {
		return func() {}, nil
	}
	root, err := host.OpenRoot(dir, host.RootOptions{Guest: guestRoot, NoMounts: true})
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return brake{root}.hold(ctx)
}
