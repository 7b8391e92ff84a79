//go:build unix

package main

import (
	"context"
	"os"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/workspace"
)

// nobody is the user that owns nothing on most systems.
const nobody = 65534

// examine looks at what there is. An engine that does not answer is a finding,
// not a failure to look.
func (a *app) examine(ctx context.Context, place *placeOptions) (*examination, error) {
	e, err := a.connect(ctx)
	if err != nil {
		return &examination{Checks: []container.Check{{Name: "engine", Status: container.CheckFail, Detail: err.Error()}}}, nil
	}
	defer e.Close()
	o, err := a.containerOptions(e, place)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "wsctl-doctor-")
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrIO, "doctor", "", "directory for the probe container: %w", err)
	}
	defer os.RemoveAll(dir)
	if os.Geteuid() == 0 && !e.Info().Rootless {
		// Commands run as the owner of the root; nobody will do.
		if err := os.Chown(dir, nobody, nobody); err != nil {
			return nil, workspace.Errorf(workspace.ErrIO, "doctor", "", "directory for the probe container: %w", err)
		}
	}
	pull := a.ui.newPullProgress(place.image)
	o.Progress = pull.event
	r := container.Examine(ctx, e, dir, o)
	pull.done()
	return &examination{OK: !r.Failed(), Engine: &r.Engine, Checks: r.Checks}, nil
}
