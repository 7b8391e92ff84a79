//go:build unix

package orchestrator

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// jobRoutes are those about jobs. All take exec, reading too: what a command
// prints is no file, and who may read files need not see it.
func (o *Orchestrator) jobRoutes() []remote.Route {
	exec := []remote.Scope{remote.Exec}
	const all = "/v1/workspaces/{workspace}/jobs"
	const one = all + "/{job}"
	return []remote.Route{
		{Method: "GET", Path: "/v1/jobs", Scopes: exec, Serve: o.serveAllJobs},
		{Method: "GET", Path: all, Scopes: exec, Serve: o.serveJobs},
		{Method: "POST", Path: all, Scopes: exec, Serve: o.serveStartJob},
		{Method: "GET", Path: one, Scopes: exec, Serve: o.serveJob},
		{Method: "DELETE", Path: one, Scopes: exec, Serve: o.serveRemoveJob},
		{Method: "GET", Path: one + "/output", Scopes: exec, Serve: o.serveJobOutput},
		{Method: "POST", Path: one + "/input", Scopes: exec, Serve: o.serveJobInput},
		{Method: "POST", Path: one + "/signal", Scopes: exec, Serve: o.serveJobSignal},
		{Method: "POST", Path: one + "/kill", Scopes: exec, Serve: o.serveJobKill},
	}
}

func (o *Orchestrator) serveAllJobs(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	return c.Reply(w, r, func() (any, error) {
		all, err := o.Jobs("")
		list := []Job{}
		for _, j := range all {
			if c.Who.Covers(j.Workspace) {
				list = append(list, j)
			}
		}
		return jobsMessage{list}, err
	})
}

func (o *Orchestrator) serveJobs(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	return c.Reply(w, r, func() (any, error) {
		list, err := o.Jobs(c.ID)
		return jobsMessage{list}, err
	})
}

func (o *Orchestrator) serveStartJob(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
	var s JobSpec
	if err := c.ReadJSON(w, r, &s); err != nil {
		return err
	}
	return c.Reply(w, r, func() (any, error) { return o.StartJob(r.Context(), c.ID, s) })
}

func (o *Orchestrator) serveJob(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
	q, err := parameters(r, "wait")
	if err != nil {
		return err
	}
	wait, err := waitOf(q)
	if err != nil {
		return err
	}
	return c.Reply(w, r, func() (any, error) { return o.WaitJob(r.Context(), c.ID, r.PathValue("job"), wait) })
}

func (o *Orchestrator) serveRemoveJob(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
	q, err := parameters(r, "force")
	if err != nil {
		return err
	}
	if force := q.Get("force"); force != "" && force != "true" {
		return workspace.Errorf(workspace.ErrInvalidArgument, "request", "", "force is %.40q; give true, or leave it out", force)
	}
	return c.Reply(w, r, func() (any, error) {
		return nothing{}, o.RemoveJob(r.Context(), c.ID, r.PathValue("job"), q.Has("force"))
	})
}

func (o *Orchestrator) serveJobOutput(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
	v, err := parameters(r, "stdout", "stderr", "limit", "wait")
	if err != nil {
		return err
	}
	q := JobQuery{}
	if q.Wait, err = waitOf(v); err != nil {
		return err
	}
	limit, err := numberOf(v, "limit")
	if err != nil {
		return err
	}
	q.Limit = int(min(limit, MaxJobRead))
	for name, to := range map[string]**int64{"stdout": &q.Stdout, "stderr": &q.Stderr} {
		if !v.Has(name) {
			continue
		}
		n, err := numberOf(v, name)
		if err != nil {
			return err
		}
		*to = &n
	}
	return c.Reply(w, r, func() (any, error) { return o.JobOutput(r.Context(), c.ID, r.PathValue("job"), q) })
}

func (o *Orchestrator) serveJobInput(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
	var in JobInput
	if err := c.ReadJSON(w, r, &in); err != nil {
		return err
	}
	return c.Reply(w, r, func() (any, error) {
		n, err := o.WriteJob(r.Context(), c.ID, r.PathValue("job"), in)
		return acceptedMessage{n}, err
	})
}

func (o *Orchestrator) serveJobSignal(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
	var m signalMessage
	if err := c.ReadJSON(w, r, &m); err != nil {
		return err
	}
	return c.Reply(w, r, func() (any, error) {
		return nothing{}, o.SignalJob(r.Context(), c.ID, r.PathValue("job"), m.Signal)
	})
}

func (o *Orchestrator) serveJobKill(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
	var m killMessage
	if err := c.ReadJSON(w, r, &m); err != nil {
		return err
	}
	return c.Reply(w, r, func() (any, error) { return o.KillJob(r.Context(), c.ID, r.PathValue("job"), m.Grace) })
}

// waitOf is how long a request may wait, which it says in seconds.
func waitOf(q url.Values) (time.Duration, error) {
	n, err := numberOf(q, "wait")
	return min(time.Duration(min(n, 3600))*time.Second, MaxJobWait), err
}

// numberOf is a parameter that is a number, 0 where it is not given.
func numberOf(q url.Values, name string) (int64, error) {
	s := q.Get(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0, workspace.Errorf(workspace.ErrInvalidArgument, "request", "", "%s is %.40q; give a number, 0 or more", name, s)
	}
	return n, nil
}
