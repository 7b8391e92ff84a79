//go:build unix

package container

import (
	"context"
	"slices"
	"strings"

	"github.com/containerd/errdefs"

	"github.com/wsctl/wsctl/workspace"
)

var (
	_ workspace.Pauser = (*Driver)(nil)
	_ workspace.Busier = (*Driver)(nil)
)

// Pause implements workspace.Pauser by the engine's freezer, which holds every
// process, whatever it does. Should this process die meanwhile, its own container
// is removed by the reaper like any other of a dead owner; a detached one stays
// paused, and commands are BUSY until somebody resumes it.
func (d *Driver) Pause(ctx context.Context) error {
	b := d.current()
	if b == nil {
		return nil
	}
	if err := b.execs.hold(ctx); err != nil {
		return err
	}
	err := d.engine.cli.ContainerPause(ctx, b.id)
	if err == nil || errdefs.IsNotFound(err) {
		return nil
	}
	// Paused already, or over: in neither state does anything run.
	got, lookErr := d.engine.cli.ContainerInspect(ctx, b.id)
	if lookErr == nil && got.State != nil && (got.State.Paused || !got.State.Running) {
		return nil
	}
	b.execs.release()
	return engineError(ctx, "pause", err)
}

// Unpause implements workspace.Pauser.
func (d *Driver) Unpause(ctx context.Context) error {
	b := d.current()
	if b == nil {
		return nil
	}
	defer b.execs.release()
	err := d.engine.cli.ContainerUnpause(ctx, b.id)
	if err == nil || errdefs.IsNotFound(err) {
		return nil
	}
	got, lookErr := d.engine.cli.ContainerInspect(ctx, b.id)
	if lookErr == nil && got.State != nil && !got.State.Paused {
		return nil
	}
	return engineError(ctx, "resume", err)
}

// Busy implements workspace.Busier: whether the container has other processes
// than its keepers. Without a keeper what commands left behind cannot be told
// from what keeps the container, and does not count.
func (d *Driver) Busy(ctx context.Context) (bool, error) {
	const op = "restore"
	b := d.current()
	if b == nil || b.keeper == "" {
		return false, nil
	}
	top, err := d.engine.cli.ContainerTop(ctx, b.id, []string{"-o", "pid,args"})
	if err != nil {
		got, lookErr := d.engine.cli.ContainerInspect(ctx, b.id)
		if errdefs.IsNotFound(lookErr) || lookErr == nil && got.State != nil && !got.State.Running {
			return false, nil
		}
		return false, engineError(ctx, op, err)
	}
	args := slices.IndexFunc(top.Titles, func(title string) bool { return title == "COMMAND" || title == "CMD" })
	if args < 0 {
		return false, workspace.Errorf(workspace.ErrIO, op, "", "the engine does not tell what runs in the container (it has the columns %q); have running commands disregarded", top.Titles)
	}
	return slices.ContainsFunc(top.Processes, func(p []string) bool {
		if args >= len(p) {
			return true
		}
		program, _, _ := strings.Cut(p[args], " ")
		return program != b.keeper && !strings.HasSuffix(p[args], "<defunct>")
	}), nil
}
