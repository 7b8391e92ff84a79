//go:build unix && !linux

package orchestrator

import (
	"context"
	"io"

	"github.com/wsctl/wsctl/workspace"
)

// unpack takes Linux.
func unpack(context.Context, io.Reader, string, unpackLimits) error {
	return workspace.Errorf(workspace.ErrUnsupported, "create", "", "a tar is unpacked by a server on Linux alone")
}
