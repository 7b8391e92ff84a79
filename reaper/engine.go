package reaper

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/wsctl/wsctl/workspace"
)

// Engine is what the reaper asks of a container engine; *client.Client is one.
type Engine interface {
	ContainerList(ctx context.Context, o container.ListOptions) ([]container.Summary, error)
	ContainerInspect(ctx context.Context, id string) (container.InspectResponse, error)
	ContainerUnpause(ctx context.Context, id string) error
	ContainerRemove(ctx context.Context, id string, o container.RemoveOptions) error
	ImageInspect(ctx context.Context, image string, o ...client.ImageInspectOption) (image.InspectResponse, error)
}

// engineError turns an error of the engine's client into one of ours: ABORTED
// when ctx ended the call, UNAVAILABLE when the engine could not be asked, IO
// when it answered with an error.
func engineError(ctx context.Context, op, what string, err error) *workspace.Error {
	if ctx.Err() != nil {
		return workspace.Errorf(workspace.ErrAborted, op, "", "%s: %w", what, ctx.Err())
	}
	var network net.Error
	if client.IsErrConnectionFailed(err) || errors.As(err, &network) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errdefs.IsUnavailable(err) {
		return workspace.Errorf(workspace.ErrUnavailable, op, "", "%s: %w", what, err)
	}
	return workspace.Errorf(workspace.ErrIO, op, "", "%s: %w", what, err)
}
