package main

import (
	"cmp"
	"context"

	"github.com/wsctl/wsctl/workspace"
)

// open makes the workspace that the flags describe. It starts nothing. The
// caller closes it, and with it what stands below it.
func (a *app) open(ctx context.Context, place *placeOptions, env *envOptions) (*workspace.Workspace, error) {
	d, base, err := a.driver(ctx, place, env)
	if err != nil {
		return nil, err
	}
	return a.newWorkspace(d, base, nil)
}

// openForAgent is open with what an agent has beside: entries that every command
// gets, and snapshots. done closes the workspace and them.
func (a *app) openForAgent(ctx context.Context, place *placeOptions, env *envOptions, more []string) (ws *workspace.Workspace, done func(), err error) {
	d, base, err := a.driver(ctx, place, env)
	if err != nil {
		return nil, nil, err
	}
	snapshots, closeStore := a.agentSnapshots(d)
	if ws, err = a.newWorkspace(d, workspace.MergeEnv(base, more), snapshots); err != nil {
		closeStore()
		return nil, nil, err
	}
	return ws, func() {
		if err := ws.Close(); err != nil {
			a.ui.warn("%v", err)
		}
		closeStore()
	}, nil
}

// driver makes the driver that the flags describe, and the environment of a
// workspace over it; that of one command comes on top.
func (a *app) driver(ctx context.Context, place *placeOptions, env *envOptions) (d workspace.Driver, base []string, err error) {
	if place.driver.value == driverHost {
		a.ui.warn("--driver host confines nothing: the command can read and change what you can, ~/.ssh included")
		d, err = a.hostDriver(place, env)
		return d, nil, err
	}
	d, err = a.containerDriver(ctx, place)
	return d, env.inherited(a.env), err
}

// newWorkspace is the workspace over d, which is closed when there is none.
func (a *app) newWorkspace(d workspace.Driver, base []string, snapshots workspace.Snapshotter) (*workspace.Workspace, error) {
	ws, err := workspace.New(d, workspace.Options{Env: base, Snapshots: snapshots, Logger: a.ui.logger()})
	if err != nil {
		return nil, cmp.Or(err, d.Close())
	}
	return ws, nil
}
