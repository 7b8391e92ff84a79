//go:build unix

package orchestrator

import (
	"context"
	"sync"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// entry is one workspace in this process.
type entry struct {
	o *Orchestrator

	// life is held by who changes what the workspace is: one at a time.
	life sync.Mutex

	mu      sync.Mutex
	w       Workspace
	ws      *workspace.Workspace // open; nil: nobody has asked yet
	after   func()               // follows the end of ws
	opening chan struct{}        // closed when an opening under way is done
	users   int                  // calls under way
	jobs    int                  // that run
	room    func()               // gives back its part of the budget; nil: it has none
	dirty   bool                 // Used is newer than the database
}

func (e *entry) record() Workspace {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.w.clone()
}

func (e *entry) busy() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.users > 0
}

// working reports whether calls are under way, or jobs.
func (e *entry) working() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.users+e.jobs > 0
}

func (e *entry) addJobs(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.jobs += n
}

// Open returns the workspace with that id or name, for as long as one call
// needs it: release must follow. Commands and changes through it are written to
// the audit log, wait for room in the budget, and count as use.
func (o *Orchestrator) Open(ctx context.Context, ref string) (*workspace.Workspace, func(), error) {
	o.mu.Lock()
	closing := o.closing
	o.mu.Unlock()
	if closing {
		return nil, nil, workspace.Errorf(workspace.ErrUnavailable, "open", ref, "the server is going down; try again when it is up")
	}
	e, err := o.find(ref)
	if err != nil {
		return nil, nil, err
	}
	return e.open(ctx)
}

func (e *entry) open(ctx context.Context) (*workspace.Workspace, func(), error) {
	for {
		e.mu.Lock()
		switch {
		case e.w.State == Removing:
			e.mu.Unlock()
			return nil, nil, noWorkspace(e.w.Name)
		case e.ws != nil:
			e.users++
			ws := e.ws
			e.mu.Unlock()
			return ws, sync.OnceFunc(e.done), nil
		case e.opening != nil:
			wait := e.opening
			e.mu.Unlock()
			select {
			case <-wait:
			case <-ctx.Done():
				return nil, nil, workspace.Errorf(workspace.ErrAborted, "open", e.w.Name, "%w", ctx.Err())
			}
			continue
		}
		opened := make(chan struct{})
		e.opening = opened
		w := e.w.clone()
		e.mu.Unlock()
		// The one who opens does it for all who wait, so its own end does
		// not count.
		ws, after, err := e.o.openWorkspace(context.WithoutCancel(ctx), e, w)
		e.mu.Lock()
		e.opening = nil
		if err == nil {
			e.ws, e.after = ws, after
		}
		e.mu.Unlock()
		close(opened)
		if err != nil {
			return nil, nil, err
		}
	}
}

func (e *entry) done() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.users--
}

// openWorkspace opens w; after follows its end.
func (o *Orchestrator) openWorkspace(ctx context.Context, e *entry, w Workspace) (ws *workspace.Workspace, after func(), err error) {
	if w.door, err = o.doorOf(w.ID); err != nil {
		return nil, nil, err
	}
	b, ok := o.backends[w.Driver]
	if !ok {
		return nil, nil, workspace.Errorf(workspace.ErrUnsupported, "open", w.Name, "this server has no workspaces of the kind %s", w.Driver)
	}
	d, err := b.Open(ctx, w)
	if err != nil {
		return nil, nil, err
	}
	opts := o.cfg.Options
	opts.Observer = observer{e}
	after = func() {}
	if o.cfg.Snapshots != nil {
		if opts.Snapshots, after, err = o.cfg.Snapshots(w, d.Files(), o.snapshotDir(w)); err != nil {
			_ = d.Close()
			return nil, nil, err
		}
	}
	if ws, err = workspace.New(d, opts); err != nil {
		_ = d.Close()
		after()
		return nil, nil, err
	}
	return ws, after, nil
}

// letGo closes the open workspace and gives its room back. Calls under way
// answer DISPOSED. e.life is held.
func (e *entry) letGo() {
	began := time.Now()
	if open, _ := e.shut(); open {
		e.o.metrics.took(phaseKill, began)
	}
	e.mu.Lock()
	room := e.room
	e.room = nil
	e.mu.Unlock()
	if room != nil {
		room()
	}
}

// shut closes the open workspace; the next who asks opens it anew.
func (e *entry) shut() (open bool, err error) {
	e.mu.Lock()
	ws, after := e.ws, e.after
	e.ws, e.after = nil, nil
	e.mu.Unlock()
	if ws == nil {
		return false, nil
	}
	err = ws.Close()
	after()
	return true, err
}

// admit gives the workspace its part of the budget, once for as long as it can
// run commands.
func (e *entry) admit(ctx context.Context) error {
	e.mu.Lock()
	has, w := e.room != nil, e.w
	e.mu.Unlock()
	if has {
		return nil
	}
	room, err := e.o.budget.acquire(ctx, w.Owner, w.Limits)
	if err != nil {
		return err
	}
	e.mu.Lock()
	if e.room != nil {
		// Another command of it was faster.
		e.mu.Unlock()
		room()
		return nil
	}
	e.room = room
	restarted := e.w.State == Stopped
	if restarted {
		e.w.State = Ready
	}
	w = e.w.clone()
	e.mu.Unlock()
	if !restarted {
		return nil
	}
	e.o.emit("started", w, "a command needs it")
	return e.o.store.update(ctx, w)
}

// use notes that something was done in the workspace.
func (e *entry) use() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.w.Used, e.dirty = time.Now(), true
}

func (o *Orchestrator) emit(what string, w Workspace, detail string) {
	o.events.add(Event{Type: what, Workspace: w.ID, Name: w.Name, Detail: detail, Labels: w.Labels})
}
