package workspace

import (
	"context"
	"errors"
)

// Diff tells what changed from one snapshot, by its id or "latest", to another; an
// empty to is the tree as it is now. o.Paths are spelled as for the file verbs.
func (w *Workspace) Diff(ctx context.Context, from, to string, o DiffOptions) (Diff, error) {
	const op = "diff"
	snaps, err := w.Snapshots()
	if err != nil {
		return Diff{}, err
	}
	if o.Paths, err = w.names(op, o.Paths); err != nil {
		return Diff{}, err
	}
	call, err := w.begin(ctx, op)
	if err != nil {
		return Diff{}, err
	}
	defer call.finish()
	d, err := snaps.Diff(call, from, to, o)
	if call.Err() != nil && errors.Is(err, ErrAborted) {
		return Diff{}, w.stopped(call, op, "")
	}
	return d, wrap(err, ErrIO, op, "")
}
