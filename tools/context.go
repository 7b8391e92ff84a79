package tools

import (
	"context"

	"github.com/wsctl/wsctl/workspace"
)

type workspaceKey struct{}

// WithWorkspace returns a context whose calls of a set that is bound to no
// workspace work on ws: so that one set serves many.
func WithWorkspace(ctx context.Context, ws *workspace.Workspace) context.Context {
	return context.WithValue(ctx, workspaceKey{}, ws)
}

// workspaceOf is the workspace that a call works on.
func (s *Set) workspaceOf(ctx context.Context, tool string) (*workspace.Workspace, error) {
	if s.ws != nil {
		return s.ws, nil
	}
	if ws, ok := ctx.Value(workspaceKey{}).(*workspace.Workspace); ok && ws != nil {
		return ws, nil
	}
	return nil, workspace.Errorf(workspace.ErrInvalidArgument, tool, "", "there is no workspace: bind one with NewSet, or give the call one with WithWorkspace")
}
