package workspace

import (
	"context"
	"io"
	"time"
)

// ResultsDir is where the results that SaveResult keeps are read, below the
// root. Commands cannot see it.
const ResultsDir = ".wsctl/tool-results"

// ResultStore is a file tree that keeps results of tools which are too long for
// a model, in the workspace's own state: Files that implement it have one.
//
// A result is named by two parts, its run and its call, each of letters,
// digits, '.', '_' and '-', not beginning with a dot, at most 128 bytes. It is
// read as ResultsDir/run/call.
type ResultStore interface {
	// SaveResult keeps what r holds, at most limit bytes of it unless that
	// is 0 (TOO_LARGE, and nothing is kept), in the place of an older
	// result of that name.
	SaveResult(ctx context.Context, run, call string, r io.Reader, limit int64) error
	// PruneResults deletes results that were kept longer ago than age and
	// returns how many.
	PruneResults(ctx context.Context, age time.Duration) (int, error)
}

// SaveResult is that of the file tree's ResultStore; UNSUPPORTED when it is
// none.
func (w *Workspace) SaveResult(ctx context.Context, run, call string, r io.Reader, limit int64) error {
	path := ResultsDir + "/" + run + "/" + call
	return w.fileDo(ctx, "save result", path, func(ctx context.Context, f Files, _ string) error {
		store, ok := f.(ResultStore)
		if !ok {
			return unsupported("save result", "this kind of workspace keeps no results")
		}
		return store.SaveResult(ctx, run, call, &ctxReader{ctx, r}, limit)
	})
}

// PruneResults is that of the file tree's ResultStore; without one there is
// nothing to delete.
func (w *Workspace) PruneResults(ctx context.Context, age time.Duration) (int, error) {
	const op = "prune results"
	if age < 0 {
		return 0, Errorf(ErrInvalidArgument, op, "", "the age is %v; give 0 or more", age)
	}
	return fileCall(w, ctx, op, ResultsDir, func(ctx context.Context, f Files, _ string) (int, error) {
		if store, ok := f.(ResultStore); ok {
			return store.PruneResults(ctx, age)
		}
		return 0, nil
	})
}
