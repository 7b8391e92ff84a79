//go:build unix && !linux

package host_test

import (
	"testing"

	"github.com/wsctl/wsctl/workspace"
)

// snapshots are for Linux.
var snapshots func(testing.TB, string) workspace.Snapshotter
