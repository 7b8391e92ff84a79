//go:build unix

package main

import (
	"context"
	"errors"
	"os"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/reaper"
	"github.com/wsctl/wsctl/workspace"
)

// engineFleet are the workspaces on the engine of this machine.
type engineFleet struct {
	app    *app
	engine *container.Engine // nil: nobody has asked yet
}

// dial connects for what needs to know nothing about the engine.
func (f *engineFleet) dial(ctx context.Context) (*container.Engine, error) {
	if f.engine != nil {
		return f.engine, nil
	}
	var err error
	f.engine, err = f.app.dial(ctx)
	return f.engine, err
}

func (f *engineFleet) list(ctx context.Context) ([]container.Detached, error) {
	e, err := f.dial(ctx)
	if err != nil {
		return nil, err
	}
	return container.ListDetached(ctx, e)
}

func (f *engineFleet) List(ctx context.Context) ([]workspaceText, error) {
	list, err := f.list(ctx)
	all := make([]workspaceText, 0, len(list))
	for _, w := range list {
		all = append(all, newWorkspaceText(w))
	}
	return all, err
}

// Own are those that were made on this machine: others may use the engine too.
func (f *engineFleet) Own(ctx context.Context) ([]workspaceText, error) {
	self, err := reaper.Self()
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrIO, "down", "", "find out what machine this is: %w", err)
	}
	list, err := f.list(ctx)
	var own []workspaceText
	for _, w := range list {
		if w.Owner.Host == self.Host && w.Owner.Machine == self.Machine {
			own = append(own, newWorkspaceText(w))
		}
	}
	return own, err
}

func (f *engineFleet) Find(ctx context.Context, ref string) (workspaceText, error) {
	w, err := f.find(ctx, ref)
	if err != nil {
		return workspaceText{}, err
	}
	return newWorkspaceText(w), nil
}

func (f *engineFleet) find(ctx context.Context, ref string) (container.Detached, error) {
	e, err := f.dial(ctx)
	if err != nil {
		return container.Detached{}, err
	}
	return container.FindDetached(ctx, e, ref)
}

// serverOnly are the flags of up that take a server: labels of the engine cannot be
// changed, and nobody looks after what is idle.
var serverOnly = []string{"idle-ttl", "label", "template", "snapshot", "tar", "bundle"}

func (f *engineFleet) Up(ctx context.Context, want wantedWorkspace) (workspaceText, bool, error) {
	none := workspaceText{}
	for _, flag := range serverOnly {
		if want.given(flag) {
			return none, false, usagef("up", "--%s takes a server (wsctl serve); name one with --remote, or leave it out", flag)
		}
	}
	if want.name != "" && !container.ValidName(want.name) {
		return none, false, usagef("up", "%s cannot be a name; use up to 48 lower-case letters, digits and, not first, any of -_.", workspace.Printable(want.name))
	}
	e, err := f.app.connect(ctx)
	if err != nil {
		return none, false, err
	}
	f.engine = e
	c, err := f.app.containerOptions(e, &want.place)
	if err != nil {
		return none, false, err
	}
	name := want.name
	if name == "" {
		if name, err = nameFor(ctx, e, want.place.root); err != nil {
			return none, false, err
		}
	}
	c.Name, c.TTL = name, want.ttl.value
	pull := f.app.ui.newPullProgress(want.place.image)
	defer pull.done()
	c.Progress = pull.event
	d, err := container.New(ctx, e, want.place.root, c)
	if err != nil {
		return none, false, err
	}
	defer d.Close()
	if err := d.Ready(ctx); err != nil {
		return none, false, err
	}
	w, err := container.FindDetached(ctx, e, name)
	if errors.Is(err, workspace.ErrNotFound) && c.TTL > 0 {
		return none, false, workspace.Errorf(workspace.ErrUnavailable, "up", name, "its time to live of %v is over already, and it was reaped; give it a longer one, or none", c.TTL)
	}
	if err != nil {
		return none, false, err
	}
	return newWorkspaceText(w), !d.Adopted(), nil
}

// nameFor is the name of the workspace over a directory, or a free one for it.
func nameFor(ctx context.Context, e *container.Engine, root string) (string, error) {
	list, err := container.ListDetached(ctx, e)
	if err != nil {
		return "", err
	}
	this, err := os.Stat(root)
	if err != nil {
		return container.DefaultName(root, list), nil // opening it says what is wrong
	}
	var over []string
	for _, w := range list {
		if fi, err := os.Stat(w.Root); err == nil && os.SameFile(fi, this) {
			over = append(over, w.Name)
		}
	}
	switch len(over) {
	case 0:
		return container.DefaultName(absolute(root), list), nil
	case 1:
		return over[0], nil
	}
	return "", usagef("up", "%d workspaces are over this directory; name one (wsctl ls), or a new one", len(over))
}

func (f *engineFleet) Open(ctx context.Context, ref string, base []string, disk int64) (*workspace.Workspace, error) {
	return f.app.adopt(ctx, ref, base, disk)
}

func (f *engineFleet) Pause(ctx context.Context, ref string) error {
	w, err := f.find(ctx, ref)
	if err != nil {
		return err
	}
	return w.Pause(ctx, f.engine)
}

func (f *engineFleet) Resume(ctx context.Context, ref string) error {
	w, err := f.find(ctx, ref)
	if err != nil {
		return err
	}
	return w.Resume(ctx, f.engine)
}

func (f *engineFleet) Remove(ctx context.Context, ref string) error {
	w, err := f.find(ctx, ref)
	if err != nil {
		return err
	}
	return w.Remove(ctx, f.engine, f.app.env.cacheDir())
}

func (f *engineFleet) Close() error {
	if f.engine == nil {
		return nil
	}
	return f.engine.Close()
}
