//go:build unix && !linux

package main

import (
	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/workspace"
)

// serverSnapshots are none: they take Linux.
func (a *app) serverSnapshots(orchestrator.Workspace, workspace.Files, string) (workspace.Snapshotter, func(), error) {
	return nil, func() {}, nil
}
