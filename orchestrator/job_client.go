package orchestrator

import (
	"context"
	"net/url"
	"strconv"
	"time"
)

func jobPath(id, job string) string { return path(id) + "/jobs/" + url.PathEscape(job) }

// Jobs returns the jobs of a workspace, or of all that the token reaches for "",
// the oldest first.
func (c *Client) Jobs(ctx context.Context, id string) ([]Job, error) {
	var m jobsMessage
	at := "/v1/jobs"
	if id != "" {
		at = path(id) + "/jobs"
	}
	err := c.remote.Call(ctx, "jobs", "GET", at, nil, nil, &m)
	return m.Jobs, err
}

// FindJob returns the job with that id, or beginning of an id that no other has, of
// four characters or more. NOT_FOUND when there is none.
func (c *Client) FindJob(ctx context.Context, ref string) (Job, error) {
	list, err := c.Jobs(ctx, "")
	if err != nil {
		return Job{}, err
	}
	return FindJob(list, ref)
}

// StartJob starts a job.
func (c *Client) StartJob(ctx context.Context, id string, s JobSpec) (j Job, err error) {
	if err := s.check(); err != nil {
		return j, err
	}
	err = c.remote.Call(ctx, "job", "POST", path(id)+"/jobs", nil, s, &j)
	return j, err
}

// WaitJob returns what is known of a job once it is over, or so much later,
// MaxJobWait at most.
func (c *Client) WaitJob(ctx context.Context, id, job string, wait time.Duration) (j Job, err error) {
	err = c.remote.Call(ctx, "job", "GET", jobPath(id, job), waitQuery(url.Values{}, wait), nil, &j)
	return j, err
}

// JobOutput returns a part of what a job has written.
func (c *Client) JobOutput(ctx context.Context, id, job string, q JobQuery) (out JobOutput, err error) {
	v := waitQuery(url.Values{"limit": {strconv.Itoa(q.Limit)}}, q.Wait)
	for name, offset := range map[string]*int64{"stdout": q.Stdout, "stderr": q.Stderr} {
		if offset != nil {
			v.Set(name, strconv.FormatInt(*offset, 10))
		}
	}
	err = c.remote.Call(ctx, "output", "GET", jobPath(id, job)+"/output", v, nil, &out)
	return out, err
}

// waitQuery adds a wait, in whole seconds.
func waitQuery(v url.Values, wait time.Duration) url.Values {
	if wait > 0 {
		v.Set("wait", strconv.FormatInt(int64((wait+time.Second-1)/time.Second), 10))
	}
	return v
}

// WriteJob writes to the standard input of a job, and tells how much was taken.
func (c *Client) WriteJob(ctx context.Context, id, job string, in JobInput) (accepted int, err error) {
	var m acceptedMessage
	err = c.remote.Call(ctx, "input", "POST", jobPath(id, job)+"/input", nil, in, &m)
	return m.Accepted, err
}

// SignalJob sends a signal to a job.
func (c *Client) SignalJob(ctx context.Context, id, job string, signal int) error {
	return c.remote.Call(ctx, "signal", "POST", jobPath(id, job)+"/signal", nil, signalMessage{signal}, &nothing{})
}

// KillJob ends a job.
func (c *Client) KillJob(ctx context.Context, id, job string, grace time.Duration) (j Job, err error) {
	err = c.remote.Call(ctx, "kill", "POST", jobPath(id, job)+"/kill", nil, killMessage{grace}, &j)
	return j, err
}

// RemoveJob forgets a job.
func (c *Client) RemoveJob(ctx context.Context, id, job string, force bool) error {
	q := url.Values{}
	if force {
		q.Set("force", "true")
	}
	return c.remote.Call(ctx, "remove", "DELETE", jobPath(id, job), q, nil, &nothing{})
}
