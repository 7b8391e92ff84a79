//go:build unix

package orchestrator

import (
	"context"

	"github.com/wsctl/wsctl/workspace"
)

// Update changes a workspace, all of it or nothing.
func (o *Orchestrator) Update(ctx context.Context, ref string, c Change) (Workspace, error) {
	e, err := o.find(ref)
	if err != nil {
		return Workspace{}, o.logged(ctx, "update", Workspace{Spec: Spec{Name: ref}}, err)
	}
	w, err := o.change(ctx, e, c)
	return w, o.logged(ctx, "update", e.record(), err)
}

func (o *Orchestrator) change(ctx context.Context, e *entry, c Change) (Workspace, error) {
	e.life.Lock()
	defer e.life.Unlock()
	old := e.record()
	w := old.clone()
	if c.Name != nil {
		w.Name = *c.Name
	}
	for k, v := range c.Labels {
		if w.Labels == nil {
			w.Labels = map[string]string{}
		}
		if w.Labels[k] = v; v == "" {
			delete(w.Labels, k)
		}
	}
	if c.Limits != nil {
		w.Limits = c.Limits.or(w.Limits)
	}
	if c.IdleTTL != nil {
		w.IdleTTL = *c.IdleTTL
	}
	if c.TTL != nil {
		w.TTL = *c.TTL
	}
	if w.Name == "" {
		w.Name = w.ID
	}
	if err := w.check("update"); err != nil {
		return old, err
	}
	if w.Limits != old.Limits {
		if err := o.changeLimits(ctx, e, old, w); err != nil {
			return old, err
		}
	}
	o.mu.Lock()
	if id, taken := o.names[w.Name]; taken && id != w.ID || o.entries[w.Name] != nil && w.Name != w.ID {
		o.mu.Unlock()
		return old, nameTaken(w.Name)
	}
	o.names[w.Name] = w.ID
	o.mu.Unlock()
	if err := o.store.update(ctx, w); err != nil {
		o.mu.Lock()
		if w.Name != old.Name {
			delete(o.names, w.Name)
		}
		o.mu.Unlock()
		return old, err
	}
	e.mu.Lock()
	w.State, w.Used = e.w.State, e.w.Used
	e.w = w
	e.mu.Unlock()
	if w.Name != old.Name {
		o.mu.Lock()
		delete(o.names, old.Name)
		o.mu.Unlock()
	}
	o.emit("updated", w, "")
	return w.clone(), nil
}

// changeLimits applies other limits to what runs, within the budget.
func (o *Orchestrator) changeLimits(ctx context.Context, e *entry, old, w Workspace) error {
	if err := o.budget.possible(w.Limits); err != nil {
		return err
	}
	e.mu.Lock()
	had := e.room
	e.mu.Unlock()
	if had == nil {
		return o.backends[w.Driver].Update(ctx, w)
	}
	// Its own room counts as free for it, and is kept when there is no more.
	had()
	room, err := o.budget.acquire(ctx, w.Owner, w.Limits)
	if err == nil {
		if err = o.backends[w.Driver].Update(ctx, w); err != nil {
			room()
		}
	}
	if err != nil {
		room = o.budget.force(old.Limits)
	}
	e.mu.Lock()
	e.room = room
	e.mu.Unlock()
	return err
}

// Pause stops the processes of a workspace where they are; they keep their
// memory. Commands answer BUSY until Resume; files can be used.
func (o *Orchestrator) Pause(ctx context.Context, ref string) error {
	return o.step(ctx, ref, "pause", func(e *entry, b Backend, w Workspace) error {
		if w.State == Paused {
			return nil
		}
		if err := b.Pause(ctx, w); err != nil {
			return err
		}
		o.emit("paused", w, "")
		return o.setState(ctx, e, Paused)
	})
}

// Resume lets the processes of a paused workspace go on.
func (o *Orchestrator) Resume(ctx context.Context, ref string) error {
	return o.step(ctx, ref, "resume", func(e *entry, b Backend, w Workspace) error {
		if w.State != Paused {
			return nil
		}
		if err := b.Resume(ctx, w); err != nil {
			return err
		}
		e.use()
		o.emit("resumed", w, "")
		return o.setState(ctx, e, Ready)
	})
}

// Stop ends everything in a workspace and gives back what it takes. The root
// stays; the next command starts it again.
func (o *Orchestrator) Stop(ctx context.Context, ref string) error {
	return o.step(ctx, ref, "stop", func(e *entry, b Backend, _ Workspace) error {
		return o.stop(ctx, e, b, "")
	})
}

// stop is Stop of an entry whose life is held.
func (o *Orchestrator) stop(ctx context.Context, e *entry, b Backend, why string) error {
	w := e.record()
	if w.State == Stopped {
		return nil
	}
	e.letGo()
	o.endJobs(ctx, e)
	if err := b.Stop(ctx, w); err != nil {
		return err
	}
	o.emit("stopped", w, why)
	return o.setState(ctx, e, Stopped)
}

// step does one thing to one workspace, with nobody else changing it, and writes
// it down.
func (o *Orchestrator) step(ctx context.Context, ref, op string, do func(*entry, Backend, Workspace) error) error {
	e, err := o.find(ref)
	if err != nil {
		return o.logged(ctx, op, Workspace{Spec: Spec{Name: ref}}, err)
	}
	e.life.Lock()
	defer e.life.Unlock()
	w := e.record()
	switch {
	case w.State == Removing:
		err = noWorkspace(ref)
	case o.backends[w.Driver] == nil:
		err = workspace.Errorf(workspace.ErrUnsupported, op, ref, "this server has no workspaces of the kind %s", w.Driver)
	default:
		err = do(e, o.backends[w.Driver], w)
	}
	return o.logged(ctx, op, w, err)
}
