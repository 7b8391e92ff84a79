package orchestrator

import (
	"context"

	"github.com/wsctl/wsctl/workspace"
)

// Backend is one way to have workspaces. Its methods may be called by many
// goroutines at once, but not for one workspace.
type Backend interface {
	// Open returns a driver over the workspace's root. It is cheap: what
	// commands need is made, or found, when the driver is made ready. Closing
	// the driver leaves that for the next Open.
	Open(ctx context.Context, w Workspace) (workspace.Driver, error)
	// Stop removes what commands need, and with it every process. The root
	// stays. It is no failure that there is nothing.
	Stop(ctx context.Context, w Workspace) error
	// Running reports whether commands can run without a start.
	Running(ctx context.Context, w Workspace) (bool, error)
	// Pause and Resume stop and continue its processes. UNSUPPORTED where
	// that cannot be.
	Pause(ctx context.Context, w Workspace) error
	Resume(ctx context.Context, w Workspace) error
	// Update applies changed limits to what runs.
	Update(ctx context.Context, w Workspace) error
	// IDs lists the workspaces of which something is there, also such that
	// the orchestrator knows nothing of.
	IDs(ctx context.Context) ([]string, error)
}
