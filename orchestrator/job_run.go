//go:build unix

package orchestrator

import (
	"context"
	"crypto/rand"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/spool"
	"github.com/wsctl/wsctl/workspace"
)

// JobLimits bound jobs. 0: the default.
type JobLimits struct {
	// Output bounds what is kept of the output of one job, in bytes; 0: 64 MiB.
	Output int64
	// Running is how many jobs may run at once in one workspace; 0: 32.
	Running int
	// Ended is how many that have ended are kept of one workspace, and Age for
	// how long; 0: 100, and a week.
	Ended int
	Age   time.Duration
}

func (l JobLimits) withDefaults() JobLimits {
	return JobLimits{orDefault(l.Output, 64<<20), orDefault(l.Running, 32), orDefault(l.Ended, 100), orDefault(l.Age, 7*24*time.Hour)}
}

func orDefault[T comparable](v, d T) T {
	var zero T
	if v == zero {
		return d
	}
	return v
}

// jobs are all jobs of an orchestrator. What they write lies below dir: for each
// workspace a directory, with one for each job and the door, which its container
// sees.
type jobs struct {
	dir    string
	limits JobLimits

	mu  sync.Mutex
	all map[string]*job // by id
}

// jobsName is the directory of jobs, doorName the one in that of a workspace in
// which sockets are made for keepers.
const (
	jobsName = "jobs"
	doorName = "door"
)

// job is one job in this process.
type job struct {
	e   *entry
	dir string

	mu   sync.Mutex
	rec  jobRecord
	more chan struct{} // closed when there is more, or the state is another
}

func (j *job) record() jobRecord {
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.rec
	r.Args = slices.Clone(r.Args)
	return r
}

// ring wakes who waits for more.
func (j *job) ring() { j.change(func(*jobRecord) {}) }

func (j *job) change(f func(*jobRecord)) jobRecord {
	j.mu.Lock()
	defer j.mu.Unlock()
	f(&j.rec)
	close(j.more)
	j.more = make(chan struct{})
	return j.rec
}

// look returns what is known of the job and what is closed when that is old.
func (j *job) look() (jobRecord, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.rec, j.more
}

// doorOf makes, if need be, the directory in which sockets for keepers of the jobs
// of a workspace are made. Other systems have no containers of their own.
func (o *Orchestrator) doorOf(id string) (string, error) {
	if runtime.GOOS != "linux" {
		return "", nil
	}
	door := filepath.Join(o.jobs.dir, id, doorName)
	err := os.MkdirAll(door, 0o700)
	if err == nil {
		// Others may pass, by a name that they cannot list.
		err = os.Chmod(door, 0o711)
	}
	if err != nil {
		return "", workspace.Errorf(workspace.ErrIO, "open", door, "%w", err)
	}
	return door, nil
}

// jobKey is the key of the id of the job, in the context of its start.
type jobKey struct{}

func jobOf(ctx context.Context) string {
	id, _ := ctx.Value(jobKey{}).(string)
	return id
}

// StartJob starts a command in the workspace with that id or name that outlives who
// asked and this process, and returns when it runs, or, with a Wait, when that is
// over or the job.
//
// Errors: as those of workspace.Exec before anything runs; TOO_MANY when too many
// run; UNSUPPORTED where there can be none.
func (o *Orchestrator) StartJob(ctx context.Context, ref string, s JobSpec) (Job, error) {
	if err := s.check(); err != nil {
		return Job{}, err
	}
	e, err := o.find(ref)
	if err != nil {
		return Job{}, err
	}
	ws, done, err := o.Open(ctx, e.record().ID)
	if err != nil {
		return Job{}, err
	}
	defer done()
	j, err := o.addJob(ctx, e, s)
	if err != nil {
		return Job{}, err
	}
	if err := o.runJob(ctx, ws, j, s); err != nil {
		o.endJobLine(ctx, j.record(), err)
		o.dropJob(context.WithoutCancel(ctx), j)
		return Job{}, err
	}
	o.emitJob("job-started", j.record().Job)
	return o.WaitJob(ctx, e.record().ID, j.record().ID, s.Wait)
}

// addJob writes down what is about to be started.
func (o *Orchestrator) addJob(ctx context.Context, e *entry, s JobSpec) (*job, error) {
	seal, err := spool.NewSeal()
	if err != nil {
		return nil, err
	}
	who, token := caller(ctx)
	limit := o.jobs.limits.Output
	if s.MaxOutput > 0 {
		limit = min(limit, s.MaxOutput)
	}
	r := jobRecord{Seal: seal, Token: token, Grace: s.KillGrace, Job: Job{
		ID: strings.ToLower(rand.Text())[:idLength], Workspace: e.record().ID, Args: s.Args, Shell: s.Shell, Dir: s.Dir, State: JobStarting,
		Owner: who, Created: time.Now(), Timeout: max(s.Timeout, 0), Input: s.Input, MaxOutput: limit,
	}}
	j := &job{e: e, rec: r, dir: filepath.Join(o.jobs.dir, r.Workspace, r.ID), more: make(chan struct{})}
	o.jobs.mu.Lock()
	running := 0
	for _, other := range o.jobs.all {
		if r := other.record(); r.Workspace == j.rec.Workspace && !r.Over() {
			running++
		}
	}
	if running >= o.jobs.limits.Running {
		o.jobs.mu.Unlock()
		return nil, workspace.Errorf(workspace.ErrTooMany, "job", "", "%d jobs run in the workspace, which is all there may be; wait for one to end, or end one", running)
	}
	o.jobs.all[r.ID] = j
	o.jobs.mu.Unlock()
	if err := o.store.putJob(ctx, r); err != nil {
		o.forgetJob(r.ID)
		return nil, err
	}
	return j, nil
}

func (o *Orchestrator) forgetJob(id string) {
	o.jobs.mu.Lock()
	defer o.jobs.mu.Unlock()
	delete(o.jobs.all, id)
}

// runJob has the command started and watches it from then on.
func (o *Orchestrator) runJob(ctx context.Context, ws *workspace.Workspace, j *job, s JobSpec) error {
	if err := os.MkdirAll(filepath.Dir(j.dir), 0o700); err != nil {
		return workspace.Errorf(workspace.ErrIO, "job", "", "%w", err)
	}
	sp, files, err := spool.Create(j.dir)
	if err != nil {
		return workspace.Errorf(workspace.ErrIO, "job", "", "the directory of the job: %w", err)
	}
	defer sp.Close()
	r := j.record()
	c := workspace.Command{Args: s.Args, Shell: s.Shell, Dir: s.Dir, Env: s.Env, Timeout: s.Timeout, KillGrace: s.KillGrace}
	if c.Timeout == 0 {
		c.Timeout = workspace.NoTimeout
	}
	err = ws.StartJob(context.WithValue(ctx, jobKey{}, r.ID), c, workspace.Job{Files: files, Seal: r.Seal, Input: s.Input, Limit: r.MaxOutput})
	spool.CloseFiles(files)
	if err != nil {
		// Whatever there is of it, nobody is told of it.
		_ = sp.Send(keeper.JobStop(0))
		return err
	}
	r = j.change(func(r *jobRecord) { r.State = JobRunning })
	if err := o.store.putJob(context.WithoutCancel(ctx), r); err != nil {
		o.log.Error("it cannot be written down that a job runs; the next start finds out", "job", r.ID, "err", err)
	}
	o.watchJob(j)
	return nil
}

// watchJob follows a job to its end, or that of the orchestrator.
func (o *Orchestrator) watchJob(j *job) {
	j.e.addJobs(1)
	o.goWork(func(ctx context.Context) {
		defer j.e.addJobs(-1)
		sp, err := spool.Open(j.dir)
		if err == nil {
			defer sp.Close()
			err = sp.Watch(ctx.Done(), j.ring)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			o.log.Error("a job cannot be watched", "job", j.record().ID, "err", err)
		}
		o.jobOver(ctx, j)
	})
}

// jobOver writes down how a job has ended whose keeper is gone.
func (o *Orchestrator) jobOver(ctx context.Context, j *job) {
	r := j.record()
	end, known, err := j.end(r.Seal)
	if err != nil {
		o.log.Error("the end of a job cannot be read", "job", r.ID, "err", err)
	}
	if known {
		r.exited(end)
	} else {
		r.State, r.Detail = JobLost, o.whyLost(ctx, j, r)
		if ctx.Err() != nil {
			return // the next orchestrator finds out
		}
		now := time.Now()
		r.Ended, r.Duration = &now, now.Sub(r.Created)
		r.measure(j.dir)
	}
	r.Input = false
	if err := o.store.putJob(context.WithoutCancel(ctx), r); err != nil {
		o.log.Error("the end of a job cannot be written down; the next start finds it again", "job", r.ID, "err", err)
	}
	o.metrics.jobs.WithLabelValues(r.ending()).Inc()
	o.endJobLine(ctx, r, nil)
	j.e.use()
	j.change(func(now *jobRecord) { *now = r })
	o.emitJob("job-ended", r.Job)
	o.pruneJobs(context.WithoutCancel(ctx), r.Workspace)
}

func (j *job) end(seal string) (end keeper.JobEnd, known bool, err error) {
	sp, err := spool.Open(j.dir)
	if err != nil {
		return end, false, err
	}
	defer sp.Close()
	return sp.End(seal)
}

// exited takes over what the keeper has told.
func (r *jobRecord) exited(end keeper.JobEnd) {
	r.State = JobExited
	r.Ended, r.Exit, r.Signal = &end.EndedAt, &end.Code, end.Signal
	r.TimedOut, r.Stopped, r.Duration, r.Left = end.TimedOut, end.Stopped, end.Duration, end.Ended
	if r.TimedOut {
		timedOut := 124 // as that of timeout(1), and of any command
		r.Exit = &timedOut
	}
	r.Stdout = JobStream{end.Stdout.Kept, end.Stdout.Dropped}
	r.Stderr = JobStream{end.Stderr.Kept, end.Stderr.Dropped}
	if end.Unfinished > 0 {
		r.Detail = "processes of it could not be ended; stop the workspace"
	}
}

// measure finds out how much there is of the output, never more than may be.
func (r *jobRecord) measure(dir string) {
	sp, err := spool.Open(dir)
	if err != nil {
		return
	}
	defer sp.Close()
	for of, to := range map[spool.Stream]*int64{spool.Stdout: &r.Stdout.Bytes, spool.Stderr: &r.Stderr.Bytes} {
		if n, err := sp.Size(of); err == nil {
			*to = min(n, r.MaxOutput)
		}
	}
}

// ending is a word for how a job ended, for the metrics.
func (r *jobRecord) ending() string {
	switch {
	case r.State == JobLost:
		return "lost"
	case r.TimedOut:
		return "timeout"
	case r.Stopped:
		return "stopped"
	case r.Exit == nil || *r.Exit != 0:
		return "failed"
	}
	return "ok"
}

// whyLost says why nobody knows how a job has ended. Where commands run on, what
// it has left is ended.
func (o *Orchestrator) whyLost(ctx context.Context, j *job, r jobRecord) string {
	w := j.e.record()
	if w.Driver == DriverHost {
		return "its keeper was killed, or the machine went down; what it had started may live on"
	}
	b, ok := o.backends[w.Driver]
	if !ok {
		return "this server has no workspaces of the kind " + w.Driver
	}
	const killed = "its keeper was killed, by a command of the workspace or for want of memory"
	for until := time.Now().Add(sweepTime); ; {
		running, err := b.Running(ctx, w)
		switch {
		case err != nil:
			return "the engine did not answer when it ended: " + err.Error()
		case !running:
			return "the container has ended while it ran"
		case r.State == JobStarting:
			return "the server ended as it was being started"
		}
		ws, done, err := j.e.open(ctx)
		if err == nil {
			err = ws.SweepJobs(ctx)
			done()
		}
		switch {
		case err == nil:
			return killed + "; what it had started was ended"
		case ctx.Err() != nil, time.Now().After(until):
			return killed + ", and what it had started may live on until the workspace is stopped: " + err.Error()
		}
		select {
		case <-ctx.Done():
		case <-time.After(sweepPause):
		}
	}
}

// sweepTime is how long it is tried to end what a job has left, and sweepPause the
// time between two tries: a busy engine takes seconds to see that a container has
// ended.
const (
	sweepTime  = 10 * time.Second
	sweepPause = 200 * time.Millisecond
)

func (o *Orchestrator) emitJob(what string, j Job) {
	detail := j.ID
	if j.Exit != nil {
		detail = j.ID + " " + (&jobRecord{Job: j}).ending()
	}
	o.mu.Lock()
	e := o.entries[j.Workspace]
	o.mu.Unlock()
	if e != nil {
		w := e.record()
		o.events.add(Event{Type: what, Workspace: w.ID, Name: w.Name, Detail: detail, Labels: maps.Clone(w.Labels)})
	}
}

// endJobLine writes the end of a job into the audit log, or, with an error, that it
// never began.
func (o *Orchestrator) endJobLine(ctx context.Context, r jobRecord, err error) {
	line := Entry{
		Who: r.Owner, Token: r.Token, Workspace: r.Workspace, Op: "job", Job: r.ID, Args: r.Args, Shell: r.Shell, Dir: r.Dir,
		Exit: r.Exit, TimedOut: r.TimedOut, DurationMS: float64(r.Duration) / float64(time.Millisecond),
		Bytes: r.Stdout.Bytes + r.Stdout.Dropped + r.Stderr.Bytes + r.Stderr.Dropped,
	}
	switch {
	case err != nil:
		line.Error = err.Error()
	case r.State == JobLost:
		line.Error = r.Detail
	}
	if err := o.audit.Append(line); err != nil {
		o.log.Error("the audit log cannot be written; commands are refused", "err", err)
	}
}
