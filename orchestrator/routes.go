//go:build unix

package orchestrator

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// Routes are those of a server of this orchestrator, beside remote's: give them
// to remote.New with the Orchestrator as the source.
func (o *Orchestrator) Routes() []remote.Route {
	admin := []remote.Scope{remote.Admin}
	const one = "/v1/workspaces/{workspace}"
	return append(o.jobRoutes(), []remote.Route{
		{Method: "GET", Path: "/v1/workspaces", Open: true, Serve: o.serveList},
		{Method: "POST", Path: "/v1/workspaces", Scopes: admin, Serve: o.serveCreate},
		{Method: "POST", Path: "/v1/uploads", Scopes: admin, Serve: o.serveUpload},
		{Method: "GET", Path: one + "/info", Open: true, Serve: o.serveInfo},
		{Method: "PATCH", Path: one, Scopes: admin, Serve: o.serveUpdate},
		{Method: "DELETE", Path: one, Scopes: admin, Serve: o.serveStep(o.Remove)},
		{Method: "POST", Path: one + "/pause", Scopes: admin, Serve: o.serveStep(o.Pause)},
		{Method: "POST", Path: one + "/resume", Scopes: admin, Serve: o.serveStep(o.Resume)},
		{Method: "POST", Path: one + "/stop", Scopes: admin, Serve: o.serveStep(o.Stop)},
		{Method: "GET", Path: "/v1/events", Scopes: admin, Serve: o.serveEvents},
		{Method: "GET", Path: "/v1/audit", Scopes: admin, Serve: o.serveAudit},
		{Method: "GET", Path: "/v1/metrics", Scopes: admin, Serve: o.serveMetrics},
	}...)
}

func (o *Orchestrator) serveList(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	return c.Reply(w, r, func() (any, error) {
		list := []Workspace{}
		for _, ws := range o.List() {
			if c.Who.Covers(ws.ID) {
				list = append(list, ws)
			}
		}
		return listMessage{list}, nil
	})
}

func (o *Orchestrator) serveCreate(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
	var s Spec
	if err := c.ReadJSON(w, r, &s); err != nil {
		return err
	}
	if err := mayMake(c); err != nil {
		return err
	}
	return c.Reply(w, r, func() (any, error) { return o.Create(r.Context(), s) })
}

// mayMake refuses a token for some workspaces: it cannot make others.
func mayMake(c *remote.Call) error {
	if !c.Who.Covers(remote.AllWorkspaces) {
		return workspace.Errorf(workspace.ErrDenied, "create", "", "the token is for some workspaces alone; making one takes a token for all")
	}
	return nil
}

func (o *Orchestrator) serveUpload(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	if err := mayMake(c); err != nil {
		return err
	}
	return c.Receive(w, r, func(body io.Reader) (any, error) { return o.Upload(r.Context(), body) })
}

func (o *Orchestrator) serveInfo(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	return c.Reply(w, r, func() (any, error) { return o.Get(c.ID) })
}

func (o *Orchestrator) serveUpdate(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
	var change Change
	if err := c.ReadJSON(w, r, &change); err != nil {
		return err
	}
	return c.Reply(w, r, func() (any, error) { return o.Update(r.Context(), c.ID, change) })
}

// serveStep serves what takes a workspace from one state to another.
func (o *Orchestrator) serveStep(step func(context.Context, string) error) func(http.ResponseWriter, *http.Request, *remote.Call) error {
	return func(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
		if r.Method == http.MethodPost {
			if err := c.ReadJSON(w, r, &nothing{}); err != nil {
				return err
			}
		}
		return c.Reply(w, r, func() (any, error) { return nothing{}, step(r.Context(), c.ID) })
	}
}

// eventWait is how long a request for events waits for one.
const eventWait = 25 * time.Second

func (o *Orchestrator) serveEvents(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
	after, _, err := page(r)
	if err != nil {
		return err
	}
	return c.Reply(w, r, func() (any, error) {
		ctx, cancel := context.WithTimeout(r.Context(), eventWait)
		defer cancel()
		list, err := o.Events(ctx, after)
		if list == nil {
			list = []Event{}
		}
		return eventsMessage{list}, err
	})
}

// maxAuditPage is the largest number of entries in one answer.
const maxAuditPage = 1000

func (o *Orchestrator) serveAudit(w http.ResponseWriter, r *http.Request, c *remote.Call) error {
	after, limit, err := page(r)
	if err != nil {
		return err
	}
	if limit == 0 || limit > maxAuditPage {
		limit = maxAuditPage
	}
	return c.Reply(w, r, func() (any, error) {
		list, last, err := ReadAudit(filepath.Join(o.cfg.Dir, auditName), after, limit)
		return auditMessage{list, last}, err
	})
}

func (o *Orchestrator) serveMetrics(w http.ResponseWriter, r *http.Request, _ *remote.Call) error {
	if _, err := parameters(r); err != nil {
		return err
	}
	o.Metrics().ServeHTTP(w, r)
	return nil
}

// parameters returns the query of a request, which has at most the names given,
// each once.
func parameters(r *http.Request, names ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "request", "", "the query is malformed")
	}
	for name, values := range q {
		known := false
		for _, n := range names {
			known = known || n == name
		}
		if !known || len(values) != 1 {
			return nil, workspace.Errorf(workspace.ErrInvalidArgument, "request", "", "the query has %.40q, which this path does not take, or takes once: it takes %s", name, strings.Join(names, ", "))
		}
	}
	return q, nil
}

// page returns the parameters after and limit, 0 where they are not given.
func page(r *http.Request) (after int64, limit int, err error) {
	q, err := parameters(r, "after", "limit")
	if err != nil {
		return 0, 0, err
	}
	number := func(name string) (n int64) {
		s := q.Get(name)
		if s == "" || err != nil {
			return 0
		}
		n, bad := strconv.ParseInt(s, 10, 64)
		if bad != nil || n < 0 {
			err = workspace.Errorf(workspace.ErrInvalidArgument, "request", "", "%s is %.40q; give a number, 0 or more", name, s)
		}
		return n
	}
	after, limit = number("after"), int(min(number("limit"), maxAuditPage))
	return after, limit, err
}
