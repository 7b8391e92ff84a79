package workspace

import (
	"context"
	"io"
)

// Subtreer is Files of which a directory can be held as a tree of its own: for
// callers that may reach a part of the workspace and no more.
type Subtreer interface {
	// Subtree holds the directory that name leads to. No name leads out of
	// what it returns, not into the rest of the workspace either. Files,
	// edits and locks are those of the whole.
	Subtree(ctx context.Context, name string) (Tree, error)
}

// Tree is Files that are held until Close.
type Tree interface {
	Files
	io.Closer
}
