package workspace

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// Pauser is a driver that can stop everything that runs in the workspace where
// it is, and let it go on. A driver without it answers UNSUPPORTED to a restore
// that is to pause.
type Pauser interface {
	// Pause returns when nothing in the workspace runs any more.
	Pause(ctx context.Context) error
	// Unpause lets everything go on. It is no failure that nothing is
	// paused.
	Unpause(ctx context.Context) error
}

// Busier is a driver that knows of what runs beside this Workspace's own calls:
// processes that a command left with BackgroundKeep, and those of others who
// use the same container.
type Busier interface {
	Busy(ctx context.Context) (bool, error)
}

// CommandGuard is a Snapshotter whose Restore looks after running commands by
// itself, as that of a server does, which knows all of them.
type CommandGuard interface {
	GuardsCommands() bool
}

// unpauseTime bounds the end of a pause, whatever became of the restore.
const unpauseTime = 30 * time.Second

// commandGate counts the commands that run, and holds new ones off while the
// tree is restored.
type commandGate struct {
	mu        sync.Mutex
	running   int
	restoring bool
}

func (g *commandGate) enter(op string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.restoring {
		return Errorf(ErrBusy, op, "", "the workspace's files are being restored; try again when that is done")
	}
	g.running++
	return nil
}

func (g *commandGate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
}

// shut holds new commands off; it fails when that is done already.
func (g *commandGate) shut() (running bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.restoring {
		return false, Errorf(ErrBusy, "restore", "", "another restore of the workspace is under way; try again when it is done")
	}
	g.restoring = true
	return g.running > 0, nil
}

func (g *commandGate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.restoring = false
}

func (g *commandGate) any() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running > 0
}

// Restore makes the tree what a snapshot holds, by its id or "latest". While
// commands run it is BUSY unless o.WhileRunning says otherwise, and commands
// that begin meanwhile are BUSY; an idle Shell does not count. A dry run
// restores nothing and tells in Busy whether it would be refused.
// o.Paths are spelled as for the file verbs.
func (w *Workspace) Restore(ctx context.Context, id string, o RestoreOptions) (done Restored, err error) {
	const op = "restore"
	snaps, err := w.Snapshots()
	if err != nil {
		return Restored{}, err
	}
	switch o.WhileRunning {
	case "":
		o.WhileRunning = RefuseWhileRunning
	case RefuseWhileRunning, PauseWhileRunning, ProceedWhileRunning:
	default:
		return Restored{}, Errorf(ErrInvalidArgument, op, "", "WhileRunning is %q; use %q, %q or %q", o.WhileRunning, RefuseWhileRunning, PauseWhileRunning, ProceedWhileRunning)
	}
	if o.Paths, err = w.names(op, o.Paths); err != nil {
		return Restored{}, err
	}
	call, err := w.begin(ctx, op)
	if err != nil {
		return Restored{}, err
	}
	defer call.finish()
	if guard, ok := snaps.(CommandGuard); ok && guard.GuardsCommands() {
		done, err = snaps.Restore(call, id, o)
	} else {
		done, err = w.restore(call, snaps, id, o)
	}
	if call.Err() != nil && errors.Is(err, ErrAborted) {
		return done, w.stopped(call, op, "")
	}
	return done, wrap(err, ErrIO, op, "")
}

func (w *Workspace) restore(ctx context.Context, snaps Snapshotter, id string, o RestoreOptions) (done Restored, err error) {
	const op = "restore"
	if o.DryRun {
		busy, err := w.busy(ctx, w.commands.any())
		if err != nil {
			return Restored{}, err
		}
		done, err = snaps.Restore(ctx, id, o)
		done.Busy = busy
		return done, err
	}
	defer w.change(ctx, op, "", id)(&err)
	if o.WhileRunning == ProceedWhileRunning {
		return snaps.Restore(ctx, id, o)
	}
	running, err := w.commands.shut()
	if err != nil {
		return Restored{}, err
	}
	defer w.commands.open()
	if running, err = w.busy(ctx, running); err != nil {
		return Restored{}, err
	}
	if !running {
		return snaps.Restore(ctx, id, o)
	}
	if o.WhileRunning == RefuseWhileRunning {
		return Restored{}, Errorf(ErrBusy, op, "", "commands run in the workspace; wait for them to end, or have them paused or disregarded")
	}
	pauser, ok := w.driver.(Pauser)
	if !ok {
		return Restored{}, unsupported(op, "commands of this kind of workspace cannot be paused; wait for them to end, or have them disregarded")
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), unpauseTime)
		defer cancel()
		if unpaused := pauser.Unpause(end); err == nil {
			err = unpaused
		}
	}()
	if err := pauser.Pause(ctx); err != nil {
		return Restored{}, err
	}
	return snaps.Restore(ctx, id, o)
}

// busy adds to what the gate knows what the driver knows.
func (w *Workspace) busy(ctx context.Context, running bool) (bool, error) {
	b, ok := w.driver.(Busier)
	if running || !ok {
		return running, nil
	}
	return b.Busy(ctx)
}

// Checkpoint saves the tree before a turn of a conversation, with what the
// caller needs to take up the conversation there.
func (w *Workspace) Checkpoint(ctx context.Context, turn string, metadata json.RawMessage) (Snapshot, error) {
	const op = "checkpoint"
	if turn == "" {
		return Snapshot{}, Errorf(ErrInvalidArgument, op, "", "the turn has no name")
	}
	snaps, err := w.Snapshots()
	if err != nil {
		return Snapshot{}, err
	}
	call, err := w.begin(ctx, op)
	if err != nil {
		return Snapshot{}, err
	}
	defer call.finish()
	return snaps.Save(call, SaveOptions{Turn: turn, Metadata: metadata})
}

// Rewind restores the newest checkpoint of a turn; its metadata are in
// Restored.Snapshot. NOT_FOUND when there is none.
func (w *Workspace) Rewind(ctx context.Context, turn string, o RestoreOptions) (Restored, error) {
	const op = "rewind"
	snaps, err := w.Snapshots()
	if err != nil {
		return Restored{}, err
	}
	list, err := snaps.List(ctx)
	if err != nil {
		return Restored{}, err
	}
	for _, s := range list {
		if s.Turn == turn && turn != "" {
			return w.Restore(ctx, s.ID, o)
		}
	}
	return Restored{}, Errorf(ErrNotFound, op, "", "there is no checkpoint of turn %s; wsctl snapshot ls lists what is kept", Printable(turn))
}
