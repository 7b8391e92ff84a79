//go:build !linux

package main

import "github.com/wsctl/wsctl/workspace"

// agentSnapshots are kept on Linux only.
func (a *app) agentSnapshots(workspace.Driver) (kept workspace.Snapshotter, done func()) {
	return nil, func() {}
}
