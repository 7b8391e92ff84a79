//go:build unix

package main

import (
	"context"

	"github.com/wsctl/wsctl/workspace"
)

// fleet is where the workspaces are that stay: those on the engine of this machine,
// of which labels are all that is kept, or those of a server. A ref is a name, an
// id, or the beginning of an id.
type fleet interface {
	// List returns all, Own those that --all means.
	List(ctx context.Context) ([]workspaceText, error)
	Own(ctx context.Context) ([]workspaceText, error)
	// Find returns one: NOT_FOUND when there is none.
	Find(ctx context.Context, ref string) (workspaceText, error)
	// Up makes one, or finds that it is there as it is wanted: made is false
	// then. It is ready.
	Up(ctx context.Context, want wantedWorkspace) (w workspaceText, made bool, err error)
	// Open opens one for commands, each with the entries of base.
	Open(ctx context.Context, ref string, base []string, disk int64) (*workspace.Workspace, error)
	Pause(ctx context.Context, ref string) error
	Resume(ctx context.Context, ref string) error
	Remove(ctx context.Context, ref string) error
	Close() error
}

// wantedWorkspace is what up is asked for.
type wantedWorkspace struct {
	name string // empty: whatever is fit
	*upOptions
	// given tells whether a flag was.
	given func(flag string) bool
}

// fleet connects to where the flags say that workspaces are.
func (a *app) fleet(ctx context.Context, where *whereOptions) (fleet, error) {
	e, err := where.endpoint(ctx, a.env)
	if err != nil {
		return nil, err
	}
	if e == nil {
		return &engineFleet{app: a}, nil
	}
	c, err := e.connect()
	if err != nil {
		return nil, err
	}
	return &serverFleet{app: a, server: c}, nil
}

// withFleet does something where the flags say.
func (a *app) withFleet(ctx context.Context, where *whereOptions, do func(fleet) error) error {
	f, err := a.fleet(ctx, where)
	if err != nil {
		return err
	}
	defer f.Close()
	return do(f)
}

// openIn opens a workspace for one command; closing it closes the connection.
func (a *app) openIn(ctx context.Context, where *whereOptions, ref string, base []string, disk int64) (*workspace.Workspace, error) {
	f, err := a.fleet(ctx, where)
	if err != nil {
		return nil, err
	}
	// What is open has a connection of its own.
	defer f.Close()
	return f.Open(ctx, ref, base, disk)
}
