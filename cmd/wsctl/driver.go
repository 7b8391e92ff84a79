package main

import (
	"cmp"
	"context"

	"github.com/wsctl/wsctl/workspace"
)

// open makes the workspace that the flags describe; every command in it gets the
// entries of more. It starts nothing. The caller closes it, and with it what
// stands below it.
func (a *app) open(ctx context.Context, place *placeOptions, env *envOptions, more []string) (*workspace.Workspace, error) {
	var d workspace.Driver
	var err error
	// The environment of the workspace; that of one command comes on top.
	var base []string
	if place.driver.value == driverHost {
		a.ui.warn("--driver host confines nothing: the command can read and change what you can, ~/.ssh included")
		d, err = a.hostDriver(place, env)
	} else {
		base = env.inherited(a.env)
		d, err = a.containerDriver(ctx, place)
	}
	if err != nil {
		return nil, err
	}
	return a.newWorkspace(d, workspace.MergeEnv(base, more))
}

// newWorkspace is the workspace over d, which is closed when there is none.
func (a *app) newWorkspace(d workspace.Driver, base []string) (*workspace.Workspace, error) {
	ws, err := workspace.New(d, workspace.Options{Env: base, Logger: a.ui.logger()})
	if err != nil {
		return nil, cmp.Or(err, d.Close())
	}
	return ws, nil
}
