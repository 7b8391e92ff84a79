//go:build unix

package orchestrator

import (
	"context"
	"errors"
	"os"

	"github.com/wsctl/wsctl/workspace"
)

// Remove ends everything in a workspace and removes it, and the root too unless
// that was a directory of the caller's. Calls under way in it answer DISPOSED.
// Once it has begun it is finished, by the next orchestrator if need be.
func (o *Orchestrator) Remove(ctx context.Context, ref string) error {
	e, err := o.find(ref)
	if err != nil {
		return o.logged(ctx, "remove", Workspace{Spec: Spec{Name: ref}}, err)
	}
	return o.logged(ctx, "remove", e.record(), o.remove(ctx, e, "removed", ""))
}

func (o *Orchestrator) remove(ctx context.Context, e *entry, event, why string) error {
	e.life.Lock()
	defer e.life.Unlock()
	w := e.record()
	if w.State == Removing {
		return noWorkspace(w.Name)
	}
	if err := o.setState(ctx, e, Removing); err != nil {
		return err
	}
	if err := o.discard(context.WithoutCancel(ctx), e); err != nil {
		o.log.Error("a workspace is not wholly removed; the next start goes on", "workspace", w.ID, "err", err)
		return err
	}
	o.emit(event, w, why)
	return nil
}

// discard takes a workspace away, whatever there is of it: first the processes,
// then the root, last what is known of it. e.life is held.
func (o *Orchestrator) discard(ctx context.Context, e *entry) error {
	e.letGo()
	o.endJobs(ctx, e)
	w := e.record()
	if b, ok := o.backends[w.Driver]; ok {
		if err := b.Stop(ctx, w); err != nil {
			return err
		}
	}
	if w.managed() {
		if err := o.removeRoot(ctx, w.ID); err != nil {
			return err
		}
		if err := o.removeSnapshots(w); err != nil {
			return err
		}
	}
	if err := o.dropJobs(ctx, e); err != nil {
		return err
	}
	if err := o.store.delete(ctx, w.ID); err != nil {
		return err
	}
	o.forget(e)
	return nil
}

// removeRoot removes a root of our own, through the guard: what is in it was
// made by anybody.
func (o *Orchestrator) removeRoot(ctx context.Context, id string) error {
	err := o.roots.Remove(ctx, id, workspace.RemoveOptions{Recursive: true})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// recover brings what is known and what is there together, after a crash or not.
func (o *Orchestrator) recover(ctx context.Context) error {
	list, err := o.store.all(ctx)
	if err != nil {
		return err
	}
	var unfinished []*entry
	for _, w := range list {
		e := &entry{o: o, w: w}
		o.entries[w.ID] = e
		if w.State != Pooled {
			o.names[w.Name] = w.ID
		}
		switch w.State {
		case Creating, Removing:
			unfinished = append(unfinished, e)
		default:
			o.takeOver(ctx, e)
		}
	}
	if err := o.recoverJobs(ctx); err != nil {
		return err
	}
	for _, e := range unfinished {
		// Nobody was told of the one, and everybody of the other's end. What
		// cannot be finished now, for want of an engine, is tried again by
		// the next start.
		if err := o.discard(ctx, e); err != nil {
			o.log.Warn("a workspace that was left half done cannot be removed yet", "workspace", e.w.ID, "err", err)
		}
	}
	return o.removeLeaks(ctx)
}

// takeOver counts what runs already as running.
func (o *Orchestrator) takeOver(ctx context.Context, e *entry) {
	b, ok := o.backends[e.w.Driver]
	if !ok || e.w.State == Stopped {
		return
	}
	running, err := b.Running(ctx, e.w)
	if err != nil {
		o.log.Warn("it is not known whether a workspace runs", "workspace", e.w.ID, "err", err)
	}
	if running {
		e.room = o.budget.force(e.w.Limits)
	}
}

// removeLeaks removes containers and roots that no workspace has: their
// workspace was removed, or never came to be, as the process died.
func (o *Orchestrator) removeLeaks(ctx context.Context) error {
	for kind, b := range o.backends {
		ids, err := b.IDs(ctx)
		if err != nil {
			o.log.Warn("containers that belong to nobody cannot be looked for", "err", err)
			continue
		}
		for _, id := range ids {
			if o.entries[id] == nil {
				o.leak(id, b.Stop(ctx, Workspace{ID: id, Spec: Spec{Driver: kind}}))
			}
		}
	}
	if err := o.removeLostSnapshots(); err != nil {
		return err
	}
	l, err := o.roots.ReadDir(ctx, ".", workspace.ListOptions{})
	if err != nil {
		return err
	}
	for _, d := range l.Entries {
		if o.entries[d.Name()] == nil {
			o.leak(d.Name(), o.removeRoot(ctx, d.Name()))
		}
	}
	return o.removeJobLeaks()
}

func (o *Orchestrator) leak(id string, err error) {
	o.metrics.leaks.Inc()
	o.log.Warn("removed what belonged to no workspace", "id", id, "err", err)
	o.events.add(Event{Type: "leak", Workspace: id})
}
