//go:build unix

package orchestrator

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/spool"
	"github.com/wsctl/wsctl/workspace"
)

// openJobs makes the directory of jobs.
func (o *Orchestrator) openJobs() error {
	// A container's mounts are compared by their real names.
	dir, err := filepath.EvalSymlinks(o.cfg.Dir)
	if err != nil {
		return workspace.Errorf(workspace.ErrIO, "open", o.cfg.Dir, "%w", err)
	}
	o.jobs.dir = filepath.Join(dir, jobsName)
	if err := os.Mkdir(o.jobs.dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return workspace.Errorf(workspace.ErrIO, "open", o.jobs.dir, "%w", err)
	}
	return nil
}

// recoverJobs takes over what runs, and finds out what became of the rest.
func (o *Orchestrator) recoverJobs(ctx context.Context) error {
	list, err := o.store.allJobs(ctx)
	if err != nil {
		return err
	}
	var running []*job
	for _, r := range list {
		e := o.entries[r.Workspace]
		if e == nil {
			if err := o.store.deleteJob(ctx, r.ID); err != nil {
				return err
			}
			continue
		}
		j := &job{e: e, rec: r, dir: filepath.Join(o.jobs.dir, r.Workspace, r.ID), more: make(chan struct{})}
		o.jobs.all[r.ID] = j
		if !r.Over() {
			running = append(running, j)
		}
	}
	// One that has ended shows at once, and may be forgotten: the others must be
	// known by then.
	for _, j := range running {
		o.watchJob(j)
	}
	return nil
}

// removeJobLeaks removes what jobs wrote that nobody knows of.
func (o *Orchestrator) removeJobLeaks() error {
	if err := o.removeUnknown(o.jobs.dir, o.hasWorkspace); err != nil {
		return err
	}
	// Those that run are watched already.
	hasJob := func(name string) bool {
		o.jobs.mu.Lock()
		defer o.jobs.mu.Unlock()
		return o.jobs.all[name] != nil || name == doorName
	}
	for id := range o.entries {
		if err := o.removeUnknown(filepath.Join(o.jobs.dir, id), hasJob); err != nil {
			return err
		}
	}
	return nil
}

// stopGrace is the longest time that jobs have to end by themselves when their
// workspace is stopped.
const stopGrace = 2 * time.Second

// endJobs ends the jobs of a workspace that is to be stopped or removed. What does
// not end goes with the container. e.life is held.
func (o *Orchestrator) endJobs(ctx context.Context, e *entry) {
	var all sync.WaitGroup
	for _, j := range o.jobsOf(e) {
		if j.record().Over() {
			continue
		}
		all.Go(func() {
			r := j.record()
			grace := min(orDefault(r.Grace, stopGrace), stopGrace)
			sp, err := spool.Open(j.dir)
			if err == nil {
				defer sp.Close()
				err = sp.Send(keeper.JobStop(max(grace, 0)))
			}
			if err != nil && !errors.Is(err, spool.ErrGone) {
				o.log.Warn("a job cannot be told to end", "job", r.ID, "err", err)
			}
			o.awaitJob(ctx, j, max(grace, 0)+killMargin)
		})
	}
	all.Wait()
}

// awaitJob waits for the end of a job, as long as that.
func (o *Orchestrator) awaitJob(ctx context.Context, j *job, wait time.Duration) {
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		r, more := j.look()
		if r.Over() {
			return
		}
		late, err := o.await(ctx, "stop", r.ID, more, t)
		if late {
			o.log.Warn("a job has not ended with its workspace", "job", r.ID)
		}
		if late || err != nil {
			return
		}
	}
}

func (o *Orchestrator) jobsOf(e *entry) []*job {
	o.jobs.mu.Lock()
	defer o.jobs.mu.Unlock()
	var list []*job
	for _, j := range o.jobs.all {
		if j.e == e {
			list = append(list, j)
		}
	}
	return list
}

// dropJob forgets one job and removes what it wrote.
func (o *Orchestrator) dropJob(ctx context.Context, j *job) error {
	if err := os.RemoveAll(j.dir); err != nil {
		return workspace.Errorf(workspace.ErrIO, "remove", j.record().ID, "%w", err)
	}
	if err := o.store.deleteJob(ctx, j.record().ID); err != nil {
		return err
	}
	o.forgetJob(j.record().ID)
	return nil
}

// dropJobs forgets those of a workspace that is gone, with all they wrote.
func (o *Orchestrator) dropJobs(ctx context.Context, e *entry) error {
	id := e.record().ID
	if err := os.RemoveAll(filepath.Join(o.jobs.dir, id)); err != nil {
		return workspace.Errorf(workspace.ErrIO, "remove", id, "what its jobs wrote: %w", err)
	}
	if err := o.store.deleteJobs(ctx, id); err != nil {
		return err
	}
	for _, j := range o.jobsOf(e) {
		o.forgetJob(j.record().ID)
	}
	return nil
}

// pruneJobs forgets what has ended, beyond the newest ones and what is too old.
func (o *Orchestrator) pruneJobs(ctx context.Context, id string) {
	o.jobs.mu.Lock()
	var ended []*job
	for _, j := range o.jobs.all {
		if r := j.record(); r.Workspace == id && r.Over() {
			ended = append(ended, j)
		}
	}
	o.jobs.mu.Unlock()
	slices.SortFunc(ended, func(a, b *job) int { return b.record().Ended.Compare(*a.record().Ended) })
	for i, j := range ended {
		if i < o.jobs.limits.Ended && time.Since(*j.record().Ended) < o.jobs.limits.Age {
			continue
		}
		if err := o.dropJob(ctx, j); err != nil {
			o.log.Error("a job that has ended cannot be forgotten", "job", j.record().ID, "err", err)
		}
	}
}
