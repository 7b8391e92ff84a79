package tools

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/wsctl/wsctl/workspace"
)

// ReadSnapshots returns the kept states of the workspace's files as JSON, as the
// tool snapshot_list does, and under the same policy; nobody is asked.
func (s *Set) ReadSnapshots(ctx context.Context) (Blob, error) {
	return s.readWith(ctx, "snapshot_list", snapshotListInput{Limit: 1000})
}

// ReadSnapshot returns what has changed since a kept state, as the tool
// snapshot_diff does.
func (s *Set) ReadSnapshot(ctx context.Context, id string) (Blob, error) {
	return s.readWith(ctx, "snapshot_diff", snapshotDiffInput{From: id})
}

func (s *Set) readWith(ctx context.Context, tool string, in any) (Blob, error) {
	if s.Tool(tool) == nil {
		return Blob{}, workspace.Errorf(workspace.ErrDenied, tool, "", "kept states are no resources here: the tool is not enabled")
	}
	args, err := json.Marshal(in)
	if err != nil {
		return Blob{}, err
	}
	r := s.Call(ctx, Request{Name: tool, Args: args, Ask: func(context.Context, Question) (bool, error) {
		return false, errors.New("reading a resource asks nobody; call " + tool)
	}})
	switch {
	case r.IsError:
		return Blob{}, r.Err
	case r.Structured != nil:
		return Blob{MIME: "application/json", Data: r.Structured}, nil
	}
	return Blob{MIME: "text/plain", Data: []byte(r.Text)}, nil
}

// SnapshotsVersion is a text that changes when a state is kept or forgotten,
// empty when there can be none. It asks no policy: it is for one who has read
// the resource.
func (s *Set) SnapshotsVersion(ctx context.Context) string {
	ws, err := s.workspaceOf(ctx, "snapshot_list")
	if err != nil {
		return ""
	}
	store, err := ws.Snapshots()
	if err != nil {
		return ""
	}
	all, err := store.List(ctx)
	if err != nil {
		return ""
	}
	version := "none"
	for _, snap := range all {
		version += " " + snap.ID
	}
	return version
}
