//go:build unix && !linux

package container_test

import (
	"testing"

	"github.com/wsctl/wsctl/workspace"
)

// snapshots are for Linux.
var snapshots func(testing.TB, string) workspace.Snapshotter
