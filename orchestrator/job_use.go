//go:build unix

package orchestrator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/spool"
	"github.com/wsctl/wsctl/workspace"
)

// Jobs returns the jobs of the workspace with that id or name, or of all for "", the
// oldest first.
func (o *Orchestrator) Jobs(ref string) ([]Job, error) {
	id := ""
	if ref != "" {
		e, err := o.find(ref)
		if err != nil {
			return nil, err
		}
		id = e.record().ID
	}
	o.jobs.mu.Lock()
	list := make([]*job, 0, len(o.jobs.all))
	for _, j := range o.jobs.all {
		list = append(list, j)
	}
	o.jobs.mu.Unlock()
	all := []Job{}
	for _, j := range list {
		if r := j.now(); id == "" || r.Workspace == id {
			all = append(all, r.Job)
		}
	}
	slices.SortFunc(all, func(a, b Job) int { return a.Created.Compare(b.Created) })
	return all, nil
}

// now is what is known of the job at this moment.
func (j *job) now() jobRecord {
	r := j.record()
	if !r.Over() {
		r.measure(j.dir)
	}
	return r
}

// findJob returns the job with that id, of the workspace with that id or name.
func (o *Orchestrator) findJob(ref, id string) (*job, error) {
	e, err := o.find(ref)
	if err != nil {
		return nil, err
	}
	o.jobs.mu.Lock()
	defer o.jobs.mu.Unlock()
	if j := o.jobs.all[id]; j != nil && j.e == e {
		return j, nil
	}
	return nil, noJob(id)
}

// WaitJob returns what is known of a job once it is over, or so much later.
func (o *Orchestrator) WaitJob(ctx context.Context, ref, id string, wait time.Duration) (Job, error) {
	j, err := o.findJob(ref, id)
	if err != nil {
		return Job{}, err
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		r, more := j.look()
		if r.Over() || wait <= 0 {
			return j.now().Job, nil
		}
		late, err := o.await(ctx, "job", id, more, t)
		if err != nil {
			return Job{}, err
		}
		if late {
			return j.now().Job, nil
		}
	}
}

// await waits until there is more of a job; late tells that t has run down before.
func (o *Orchestrator) await(ctx context.Context, op, id string, more <-chan struct{}, t *time.Timer) (late bool, err error) {
	select {
	case <-more:
		return false, nil
	case <-t.C:
		return true, nil
	case <-ctx.Done():
		return false, workspace.Errorf(workspace.ErrAborted, op, id, "%w", ctx.Err())
	case <-o.life.Done():
		return false, workspace.Errorf(workspace.ErrUnavailable, op, id, "the server is going down; the job goes on")
	}
}

// JobOutput returns a part of what a job has written. Whatever there is of either
// stream beyond its offset is returned at once, and so is the end.
func (o *Orchestrator) JobOutput(ctx context.Context, ref, id string, q JobQuery) (JobOutput, error) {
	const op = "output"
	j, err := o.findJob(ref, id)
	if err != nil {
		return JobOutput{}, err
	}
	for _, offset := range []*int64{q.Stdout, q.Stderr} {
		if offset != nil && *offset < 0 {
			return JobOutput{}, workspace.Errorf(workspace.ErrInvalidArgument, op, id, "the offset %d is negative", *offset)
		}
	}
	if q.Limit <= 0 || q.Limit > MaxJobRead {
		q.Limit = MaxJobRead
	}
	sp, err := spool.Open(j.dir)
	if err != nil {
		return JobOutput{}, spoolError(op, id, err)
	}
	defer sp.Close()
	t := time.NewTimer(min(q.Wait, MaxJobWait))
	defer t.Stop()
	for late := q.Wait <= 0; ; {
		// Before the files are looked at: nothing follows once it is over.
		r, more := j.look()
		out := JobOutput{}
		n := 0
		for _, s := range []struct {
			of     spool.Stream
			offset *int64
			to     **JobChunk
		}{{spool.Stdout, q.Stdout, &out.Stdout}, {spool.Stderr, q.Stderr, &out.Stderr}} {
			if s.offset == nil {
				continue
			}
			chunk, err := readChunk(sp, s.of, *s.offset, q.Limit, r)
			if err != nil {
				return JobOutput{}, spoolError(op, id, err)
			}
			n += len(chunk.Data)
			*s.to = chunk
		}
		if n > 0 || r.Over() || late {
			out.Job = r.Job
			if !r.Over() {
				out.Job = j.now().Job
			}
			return out, nil
		}
		if late, err = o.await(ctx, op, id, more, t); err != nil {
			return JobOutput{}, err
		}
	}
}

// readChunk reads what there is, no more than the job may have written.
func readChunk(sp *spool.Spool, of spool.Stream, offset int64, limit int, r jobRecord) (*JobChunk, error) {
	size, err := sp.Size(of)
	if err != nil {
		return nil, err
	}
	size = min(size, r.MaxOutput)
	c := &JobChunk{Offset: offset, Data: make([]byte, max(min(size-offset, int64(limit)), 0))}
	n, err := sp.ReadAt(of, c.Data, offset)
	c.Data = c.Data[:n]
	c.End = r.Over() && offset+int64(n) >= size
	return c, err
}

func spoolError(op, id string, err error) error {
	return workspace.Errorf(workspace.ErrIO, op, id, "what the job has written cannot be read: %w", err)
}

// inputWait is how long a piece of input waits for the job to take it.
const inputWait = 5 * time.Second

// WriteJob writes to the standard input of a job and tells how much of it was
// taken, which is less when the job reads slowly; what was not is for the next call.
// End is done when all of Data was taken.
//
// Errors: INVALID_ARGUMENT for a job without input; NOT_STARTED for one that is
// over, or reads no more.
func (o *Orchestrator) WriteJob(ctx context.Context, ref, id string, in JobInput) (accepted int, err error) {
	const op = "input"
	j, err := o.findJob(ref, id)
	if err != nil {
		return 0, err
	}
	r := j.record()
	switch {
	case r.Over():
		return 0, jobIsOver(op, id)
	case !r.Input:
		return 0, workspace.Errorf(workspace.ErrInvalidArgument, op, id, "the job has no standard input, or it was ended; start it with an input")
	case len(in.Data) > MaxJobInput:
		return 0, workspace.Errorf(workspace.ErrTooLarge, op, id, "%d bytes are too much for one piece of input; the most is %d", len(in.Data), MaxJobInput)
	}
	err = o.useJob(ctx, j, op, int64(len(in.Data)), func(sp *spool.Spool) error {
		var err error
		deadline := time.Now().Add(inputWait)
		if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
			deadline = d
		}
		if len(in.Data) > 0 {
			accepted, err = sp.Input(in.Data, deadline)
		}
		if err != nil || !in.End || accepted < len(in.Data) {
			return err
		}
		if err := sp.Send(keeper.JobEndInput()); err != nil {
			return err
		}
		return o.store.putJob(context.WithoutCancel(ctx), j.change(func(r *jobRecord) { r.Input = false }))
	})
	return accepted, err
}

func jobIsOver(op, id string) error {
	return workspace.Errorf(workspace.ErrNotStarted, op, id, "the job is over, or reads no more")
}

// SignalJob sends a signal, by its number, to the command of a job and its group.
// NOT_STARTED when it is over.
func (o *Orchestrator) SignalJob(ctx context.Context, ref, id string, signal int) error {
	const op = "signal"
	j, err := o.findJob(ref, id)
	if err != nil {
		return err
	}
	if signal <= 0 || signal > 64 {
		return workspace.Errorf(workspace.ErrInvalidArgument, op, id, "%d is no signal", signal)
	}
	if j.record().Over() {
		return jobIsOver(op, id)
	}
	return o.useJob(ctx, j, op, 0, func(sp *spool.Spool) error { return sp.Send(keeper.JobSignal(signal)) })
}

// killMargin is how long after the grace the end of a job has to show.
const killMargin = 5 * time.Second

// KillJob ends a job and everything that it has started: SIGTERM, SIGKILL after the
// grace, and returns when it is over. It is no failure that it is already.
func (o *Orchestrator) KillJob(ctx context.Context, ref, id string, grace time.Duration) (Job, error) {
	const op = "kill"
	j, err := o.findJob(ref, id)
	if err != nil {
		return Job{}, err
	}
	if grace < 0 || grace > workspace.MaxKillGrace {
		return Job{}, workspace.Errorf(workspace.ErrInvalidArgument, op, id, "a grace of %v is out of bounds; give up to %v", grace, workspace.MaxKillGrace)
	}
	if !j.record().Over() {
		err := o.useJob(ctx, j, op, 0, func(sp *spool.Spool) error { return sp.Send(keeper.JobStop(grace)) })
		if err != nil && !errors.Is(err, workspace.ErrNotStarted) {
			return Job{}, err
		}
	}
	got, err := o.WaitJob(ctx, ref, id, grace+killMargin)
	if err == nil && !got.Over() {
		err = workspace.Errorf(workspace.ErrBusy, op, id, "the job is not over %v after it was killed: something in the workspace has stopped its keeper; stop the workspace", killMargin)
	}
	return got, err
}

// useJob does something to a running job, and writes it down.
func (o *Orchestrator) useJob(ctx context.Context, j *job, op string, bytes int64, do func(*spool.Spool) error) error {
	j.e.use()
	r := j.record()
	sp, err := spool.Open(j.dir)
	if err == nil {
		defer sp.Close()
		err = do(sp)
	}
	switch {
	case errors.Is(err, spool.ErrGone):
		err = jobIsOver(op, r.ID)
	case errors.Is(err, spool.ErrFull):
		err = workspace.Errorf(workspace.ErrBusy, op, r.ID, "the job's keeper does not listen; is the workspace paused?")
	case err != nil:
		err = workspace.Errorf(workspace.ErrIO, op, r.ID, "%w", err)
	}
	who, token := caller(ctx)
	line := Entry{Who: who, Token: token, Workspace: r.Workspace, Op: "job." + op, Job: r.ID, Bytes: bytes}
	if err != nil {
		line.Error = err.Error()
	}
	return errors.Join(err, o.audit.Append(line))
}

// RemoveJob forgets a job that is over, with what it wrote. BUSY while it runs,
// unless force is given, which kills it first.
func (o *Orchestrator) RemoveJob(ctx context.Context, ref, id string, force bool) error {
	const op = "remove"
	j, err := o.findJob(ref, id)
	if err != nil {
		return err
	}
	if !j.record().Over() {
		if !force {
			return workspace.Errorf(workspace.ErrBusy, op, id, "the job runs; end it first, or remove it by force")
		}
		if _, err := o.KillJob(ctx, ref, id, 0); err != nil {
			return err
		}
	}
	return o.dropJob(context.WithoutCancel(ctx), j)
}

// runningJobs counts the jobs that are not over.
func (o *Orchestrator) runningJobs() (n int) {
	o.jobs.mu.Lock()
	defer o.jobs.mu.Unlock()
	for _, j := range o.jobs.all {
		if r, _ := j.look(); !r.Over() {
			n++
		}
	}
	return n
}
