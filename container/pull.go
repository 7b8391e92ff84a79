//go:build unix

package container

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"

	"github.com/wsctl/wsctl/workspace"
)

// maxPullLine bounds one message of the engine, in bytes.
const maxPullLine = 1 << 20

// pull has the engine pull the image, and waits. When ctx ends the connection is
// closed, on which the engine stops.
func pull(ctx context.Context, api imageAPI, r imageRequest) error {
	body, err := api.ImagePull(ctx, r.Ref, image.PullOptions{})
	if err != nil {
		return pullError(ctx, r.Ref, err)
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxPullLine)
	for lines.Scan() {
		if err := pullStep(lines.Bytes(), r.Progress); err != nil {
			return pullError(ctx, r.Ref, err)
		}
	}
	if err := lines.Err(); err != nil {
		return pullError(ctx, r.Ref, err)
	}
	// A cut connection may look like the end; whether the image is there is
	// for the caller to see.
	if ctx.Err() != nil {
		return pullError(ctx, r.Ref, ctx.Err())
	}
	return nil
}

// errPull is what the engine says of a pull that has begun.
type errPull struct{ text string }

func (e errPull) Error() string { return e.text }

// pullStep reads one message of the engine.
func pullStep(line []byte, progress func(PullEvent)) error {
	if len(strings.TrimSpace(string(line))) == 0 {
		return nil
	}
	var m struct {
		ID     string `json:"id"`
		Status string `json:"status"`
		Detail struct {
			Current int64 `json:"current"`
			Total   int64 `json:"total"`
		} `json:"progressDetail"`
		Error string `json:"error"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return err
	}
	if m.Error != "" {
		return errPull{m.Error}
	}
	if progress != nil {
		progress(PullEvent{Layer: workspace.Printable(m.ID), Status: workspace.Printable(m.Status), Current: m.Detail.Current, Total: m.Detail.Total})
	}
	return nil
}

// pullError tells why an image could not be pulled and what to do. Registries
// answer "not found" and "access denied" alike for what they do not show.
func pullError(ctx context.Context, ref string, err error) error {
	var said errPull
	switch {
	case ctx.Err() != nil:
		return imageError(workspace.ErrAborted, ref, "the pull: %w", ctx.Err())
	case errdefs.IsNotFound(err), errdefs.IsUnauthorized(err), errdefs.IsPermissionDenied(err):
		return imageError(workspace.ErrUnavailable, ref, "the registry does not have this image, or not for everybody; check name and tag (for a private image: docker login and docker pull it first): %w", err)
	case errors.As(err, &said), errdefs.IsInternal(err), errdefs.IsUnavailable(err):
		return imageError(workspace.ErrUnavailable, ref, "the engine could not pull this image; check name and tag, and that it reaches the registry (offline, use an image it has, or none for this machine's own toolchain): %w", err)
	case errdefs.IsInvalidArgument(err):
		return imageError(workspace.ErrInvalidArgument, ref, "the engine does not take this name: %w", err)
	case errors.Is(err, io.ErrUnexpectedEOF), unreachable(err):
		return imageError(workspace.ErrUnavailable, ref, "the engine was lost during the pull; see whether it runs, then try again: %w", err)
	}
	return imageError(workspace.ErrUnavailable, ref, "the engine could not pull this image: %w", err)
}
