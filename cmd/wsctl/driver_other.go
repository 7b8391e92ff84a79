//go:build !unix

package main

import (
	"context"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/reaper"
	"github.com/wsctl/wsctl/workspace"
)

// noDriver is why nothing can be run on this system: both drivers hold a
// directory by its descriptor, which takes a Unix.
func noDriver(op string) error {
	return workspace.Errorf(workspace.ErrUnsupported, op, "", "wsctl runs nothing on %s; use it on Linux or macOS", runtime.GOOS)
}

func (a *app) hostDriver(*placeOptions, *envOptions) (workspace.Driver, error) {
	return nil, noDriver("open")
}

func (a *app) containerDriver(context.Context, *placeOptions) (workspace.Driver, error) {
	return nil, noDriver("open")
}

func (a *app) openIn(context.Context, *whereOptions, string, []string, int64) (*workspace.Workspace, error) {
	return nil, noDriver("open")
}

// whereOptions are none: workspaces that stay take a Unix.
type whereOptions struct{}

func (*whereOptions) addFlags(*cobra.Command) {}

func (a *app) reapOn(ctx context.Context, e *container.Engine, o reaper.Options) ([]reaper.Container, error) {
	return reaper.Reap(ctx, e.API(), o)
}

func (a *app) examine(context.Context, *placeOptions) (*examination, error) {
	return nil, noDriver("doctor")
}
