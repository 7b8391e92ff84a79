//go:build unix

package orchestrator

import (
	"context"
	"crypto/rand"
	"strings"
	"time"
)

// The pool holds workspaces over empty roots whose containers run already. A
// Create that wants nothing special takes one: it has only to be given its name,
// and to be verified once more.

// claim gives a workspace out of the pool the name and the rest of w. ok is
// false when w is special, or the pool has none.
func (o *Orchestrator) claim(ctx context.Context, w Workspace) (claimed Workspace, ok bool, err error) {
	if o.cfg.Pool == 0 || !o.plain(w.Spec) {
		return w, false, nil
	}
	for {
		e := o.takePooled()
		if e == nil {
			o.metrics.pool.WithLabelValues("miss").Inc()
			return w, false, nil
		}
		claimed, err := o.handOut(ctx, e, w)
		// Now the pool is one short, and knows it.
		defer o.wakePool()
		if err == nil {
			o.metrics.pool.WithLabelValues("hit").Inc()
			return claimed, true, nil
		}
		// Whatever is wrong with it, or with the name, it is not handed out
		// to the next one.
		if undo := o.discard(context.WithoutCancel(ctx), e); undo != nil {
			o.log.Error("a pooled workspace cannot be removed; the next start removes it", "workspace", e.w.ID, "err", undo)
		}
		e.life.Unlock()
		if ctx.Err() != nil || o.nameIsTaken(w.Name) || o.full() {
			return w, false, err
		}
	}
}

func (o *Orchestrator) nameIsTaken(name string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, taken := o.names[name]
	return taken
}

func (o *Orchestrator) full() bool {
	return o.cfg.Budget.Workspaces > 0 && o.count() >= o.cfg.Budget.Workspaces
}

// plain reports whether a spec is what the pool holds.
func (o *Orchestrator) plain(s Spec) bool {
	return s.Driver == DriverContainer && s.Image == "" && s.Network == "" && s.Limits == o.cfg.Limits && s.Source == Source{} && !s.Lazy
}

// takePooled returns a workspace of the pool, its life held; nil: there is none.
func (o *Orchestrator) takePooled() *entry {
	o.mu.Lock()
	all := o.sorted()
	o.mu.Unlock()
	for _, e := range all {
		if e.record().State != Pooled || !e.life.TryLock() {
			continue
		}
		if e.record().State == Pooled {
			return e
		}
		e.life.Unlock()
	}
	return nil
}

// handOut verifies a pooled workspace and makes it w. On success its life is let
// go.
func (o *Orchestrator) handOut(ctx context.Context, e *entry, w Workspace) (Workspace, error) {
	if o.nameIsTaken(w.Name) && w.Name != w.ID {
		return w, nameTaken(w.Name)
	}
	// A new driver takes nothing of the old one's word for it: it compares
	// the container with what it must be and asks its first process.
	if _, err := e.shut(); err != nil {
		return w, err
	}
	ws, done, err := e.open(ctx)
	if err != nil {
		return w, err
	}
	defer done()
	if err := ws.Ready(ctx); err != nil {
		return w, err
	}
	pooled := e.record()
	named := w.Name != w.ID
	w.ID, w.Root, w.State = pooled.ID, pooled.Root, Ready
	if !named {
		w.Name = w.ID
	}
	o.mu.Lock()
	if limit := o.cfg.Budget.Workspaces; limit > 0 && len(o.names) >= limit {
		o.mu.Unlock()
		return w, o.budget.tooMany("there are %d workspaces, which is all this server has room for", limit)
	}
	if _, taken := o.names[w.Name]; taken {
		o.mu.Unlock()
		return w, nameTaken(w.Name)
	}
	o.names[w.Name] = w.ID
	o.mu.Unlock()
	if err := o.store.update(ctx, w); err != nil {
		o.mu.Lock()
		delete(o.names, w.Name)
		o.mu.Unlock()
		return w, err
	}
	e.mu.Lock()
	e.w = w
	e.mu.Unlock()
	e.life.Unlock()
	o.emit("claimed", w, "")
	return w.clone(), nil
}

func (o *Orchestrator) wakePool() {
	select {
	case o.refill <- struct{}{}:
	default:
	}
}

// fillPool keeps the pool full until ctx ends. When one cannot be made it tries
// again later.
func (o *Orchestrator) fillPool(ctx context.Context) {
	retry := time.NewTicker(30 * time.Second)
	defer retry.Stop()
	for {
		o.trimPool(ctx)
		for o.pooled() < o.cfg.Pool && ctx.Err() == nil {
			if err := o.addPooled(ctx); err != nil {
				if ctx.Err() == nil {
					o.log.Warn("the pool cannot be filled", "err", err)
				}
				break
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-o.refill:
		case <-retry.C:
		}
	}
}

// trimPool gives up what is over: an earlier process was to have more ready.
func (o *Orchestrator) trimPool(ctx context.Context) {
	for o.pooled() > o.cfg.Pool && ctx.Err() == nil {
		e := o.takePooled()
		if e == nil {
			return
		}
		err := o.discard(ctx, e)
		e.life.Unlock()
		if err != nil {
			o.log.Warn("a workspace that the pool no longer needs cannot be removed; it is tried again", "workspace", e.w.ID, "err", err)
			return
		}
	}
}

func (o *Orchestrator) pooled() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.entries {
		if e.record().State == Pooled {
			n++
		}
	}
	return n
}

// addPooled makes one more workspace for the pool.
func (o *Orchestrator) addPooled(ctx context.Context) error {
	now := time.Now()
	id := strings.ToLower(rand.Text())[:idLength]
	w := Workspace{
		// No caller can have a name with a space.
		ID: id, Spec: Spec{Name: "pool " + id, Driver: DriverContainer, Limits: o.cfg.Limits},
		State: Creating, Created: now, Used: now,
	}
	w.Root = o.roots.Real() + "/" + id
	e := &entry{o: o, w: w}
	e.life.Lock()
	defer e.life.Unlock()
	if err := o.store.insert(ctx, w); err != nil {
		return err
	}
	o.mu.Lock()
	o.entries[id] = e
	o.mu.Unlock()
	err := o.build(ctx, e)
	if err == nil {
		err = o.setState(ctx, e, Pooled)
	}
	if err != nil {
		if undo := o.discard(context.WithoutCancel(ctx), e); undo != nil {
			o.log.Error("a pooled workspace cannot be removed; the next start removes it", "workspace", id, "err", undo)
		}
	}
	return err
}
