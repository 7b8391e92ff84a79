//go:build unix

package orchestrator

import (
	"context"
	"time"
)

// sweep ends what has had its time, and keeps in the database when workspaces
// were used, until ctx ends.
func (o *Orchestrator) sweep(ctx context.Context) {
	tick := time.NewTicker(o.cfg.Sweep)
	defer tick.Stop()
	saved := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		o.expire(ctx, time.Now())
		o.expireUploads(time.Now())
		if time.Since(saved) >= useEvery {
			o.saveUse(ctx)
			saved = time.Now()
		}
	}
}

// useEvery is how often it is written down when workspaces were used. After a
// crash one may seem unused for so much longer.
const useEvery = 10 * time.Second

// expire stops what was idle too long and removes what is too old.
func (o *Orchestrator) expire(ctx context.Context, now time.Time) {
	o.mu.Lock()
	all := o.sorted()
	o.mu.Unlock()
	for _, e := range all {
		w := e.record()
		if w.State != Ready && w.State != Paused && w.State != Stopped {
			continue
		}
		stop, remove := w.expires()
		switch {
		case !remove.IsZero() && !now.Before(remove):
			o.metrics.expired.WithLabelValues("ttl").Inc()
			if err := o.logged(ctx, "expire", w, o.remove(ctx, e, "expired", "its time to live is over")); err != nil {
				o.log.Error("a workspace that has had its time cannot be removed", "workspace", w.ID, "err", err)
			}
		case !stop.IsZero() && !now.Before(stop):
			o.stopIdle(ctx, e)
		}
	}
}

// stopIdle stops a workspace unless somebody has begun to use it meanwhile.
func (o *Orchestrator) stopIdle(ctx context.Context, e *entry) {
	e.life.Lock()
	defer e.life.Unlock()
	w := e.record()
	if stop, _ := w.expires(); stop.IsZero() || time.Now().Before(stop) || e.working() || o.backends[w.Driver] == nil {
		return
	}
	o.metrics.expired.WithLabelValues("idle").Inc()
	if err := o.logged(ctx, "expire", w, o.stop(ctx, e, o.backends[w.Driver], "nothing was done in it for "+w.IdleTTL.String())); err != nil {
		o.log.Error("an idle workspace cannot be stopped", "workspace", w.ID, "err", err)
	}
}

// saveUse writes down when workspaces were used.
func (o *Orchestrator) saveUse(ctx context.Context) {
	o.mu.Lock()
	all := o.sorted()
	o.mu.Unlock()
	used := map[string]time.Time{}
	for _, e := range all {
		e.mu.Lock()
		if e.dirty {
			used[e.w.ID], e.dirty = e.w.Used, false
		}
		e.mu.Unlock()
	}
	if len(used) == 0 {
		return
	}
	if err := o.store.touch(ctx, used); err != nil {
		o.log.Error("it cannot be written down when workspaces were used", "err", err)
	}
}
