//go:build unix

package orchestrator

import (
	"context"
	"errors"
	"strings"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/workspace"
)

// ContainerBackend has workspaces in containers, which outlive the orchestrator:
// their names on the engine are the prefix and the workspace's id.
type ContainerBackend struct {
	Engine *container.Engine
	// Options are for every container, but for Name, Image, Network and the
	// limits that a Spec gives.
	Options container.Options
	// Prefix tells the containers of one orchestrator from those of others.
	Prefix string
}

func (b ContainerBackend) name(w Workspace) string { return b.Prefix + w.ID }

// Open implements Backend.
func (b ContainerBackend) Open(ctx context.Context, w Workspace) (workspace.Driver, error) {
	o := b.Options
	o.Name, o.Door = b.name(w), w.door
	if w.Image != "" {
		o.Image, o.Toolchain = w.Image, nil
	}
	if w.Network != "" {
		o.Network = w.Network
	}
	l := w.Limits
	o.Memory, o.CPUs, o.Pids = l.Memory, l.CPUs, l.Pids
	return container.New(ctx, b.Engine, w.Root, o)
}

// find returns the container of w; nil: there is none.
func (b ContainerBackend) find(ctx context.Context, w Workspace) (*container.Detached, error) {
	d, err := container.FindDetached(ctx, b.Engine, b.name(w))
	if errors.Is(err, workspace.ErrNotFound) {
		return nil, nil
	}
	return &d, err
}

// Stop implements Backend.
func (b ContainerBackend) Stop(ctx context.Context, w Workspace) error {
	d, err := b.find(ctx, w)
	if err != nil || d == nil {
		return err
	}
	return d.Remove(ctx, b.Engine, b.Options.CacheDir)
}

// Running implements Backend.
func (b ContainerBackend) Running(ctx context.Context, w Workspace) (bool, error) {
	d, err := b.find(ctx, w)
	return d != nil && (d.State == "running" || d.State == "paused"), err
}

// Pause implements Backend.
func (b ContainerBackend) Pause(ctx context.Context, w Workspace) error {
	d, err := b.find(ctx, w)
	switch {
	case err != nil:
		return err
	case d == nil:
		return workspace.Errorf(workspace.ErrNotStarted, "pause", w.Name, "it has no container yet; the first command makes one")
	}
	return d.Pause(ctx, b.Engine)
}

// Resume implements Backend.
func (b ContainerBackend) Resume(ctx context.Context, w Workspace) error {
	d, err := b.find(ctx, w)
	if err != nil || d == nil {
		return err
	}
	err = d.Resume(ctx, b.Engine)
	if errors.Is(err, workspace.ErrNotStarted) {
		return nil
	}
	return err
}

// Update implements Backend.
func (b ContainerBackend) Update(ctx context.Context, w Workspace) error {
	d, err := b.find(ctx, w)
	if err != nil || d == nil {
		return err
	}
	return d.Update(ctx, b.Engine, container.Limits(w.Limits))
}

// IDs implements Backend.
func (b ContainerBackend) IDs(ctx context.Context) ([]string, error) {
	all, err := container.ListDetached(ctx, b.Engine)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, d := range all {
		if id, ours := strings.CutPrefix(d.Name, b.Prefix); ours {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
