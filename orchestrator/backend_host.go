//go:build unix

package orchestrator

import (
	"context"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// HostBackend has workspaces whose commands run on this machine, confined by
// nothing. Processes end with the orchestrator.
type HostBackend struct {
	// Options say how commands run.
	Options host.Options
}

// Open implements Backend.
func (b HostBackend) Open(_ context.Context, w Workspace) (workspace.Driver, error) {
	return host.New(w.Root, b.Options)
}

// Stop implements Backend: what ran has ended with the driver.
func (HostBackend) Stop(context.Context, Workspace) error { return nil }

// Running implements Backend: there is nothing to start.
func (HostBackend) Running(context.Context, Workspace) (bool, error) { return false, nil }

// Pause implements Backend.
func (HostBackend) Pause(context.Context, Workspace) error { return hostCannot("pause") }

// Resume implements Backend.
func (HostBackend) Resume(context.Context, Workspace) error { return hostCannot("resume") }

// Update implements Backend: there are no limits.
func (HostBackend) Update(context.Context, Workspace) error { return nil }

// IDs implements Backend: nothing outlives the orchestrator.
func (HostBackend) IDs(context.Context) ([]string, error) { return nil, nil }

func hostCannot(op string) error {
	return workspace.Errorf(workspace.ErrUnsupported, op, "", "commands of the host driver cannot be paused; use a container")
}
