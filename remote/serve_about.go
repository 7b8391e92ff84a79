package remote

import (
	"net/http"

	"github.com/wsctl/wsctl/workspace"
)

func (s *Server) serveAbout(w http.ResponseWriter, r *http.Request, c *Call) error {
	if _, err := query(r); err != nil {
		return err
	}
	d := c.Workspace.Descriptor()
	a := about{Protocol: Protocol, ID: c.ID, Kind: d.Kind, Ref: d.Ref, Root: text(d.Root)}
	if real, ok := c.Workspace.Driver().(workspace.Realer); ok {
		a.Real = text(real.Real())
	}
	_, a.Start = c.Workspace.Driver().(workspace.Starter)
	_, err := c.Workspace.Snapshots()
	a.Snapshot = err == nil
	send(w, http.StatusOK, a)
	return nil
}

func (s *Server) serveReady(w http.ResponseWriter, r *http.Request, c *Call) error {
	return change(w, r, func(nothing) error { return c.Workspace.Ready(r.Context()) })
}
