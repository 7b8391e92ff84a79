package remote

import (
	"context"
	"net/http"

	"github.com/wsctl/wsctl/workspace"
)

// Snapshots is what keeps states of the workspace, on the server, for
// workspace.Options; nil when the served workspace has none.
func (d *Driver) Snapshots() workspace.Snapshotter {
	if !d.about.Snapshot {
		return nil
	}
	return &snapshots{d.client}
}

// snapshots implements workspace.Snapshotter. A restore asks the server whether
// commands run in the workspace, whoever started them.
type snapshots struct{ client *client }

// GuardsCommands implements workspace.CommandGuard: the server knows what runs.
func (s *snapshots) GuardsCommands() bool { return true }

// snapshot is what the server says of one, checked.
func (m snapshotMessage) snapshot() (workspace.Snapshot, error) {
	s := m.Snapshot
	var err error
	if s.Skipped, err = skippedEntries(m.Skipped); err != nil {
		return workspace.Snapshot{}, err
	}
	if s.Changed, err = paths(m.Changed); err != nil {
		return workspace.Snapshot{}, err
	}
	if !ValidID(s.ID) {
		return workspace.Snapshot{}, misbehaved("it names a snapshot %.80q", s.ID)
	}
	s.Exclude = stringsOf(m.Exclude)
	return s, nil
}

// paths are paths that the server sends, checked.
func paths(list []text) ([]string, error) {
	for _, p := range list {
		if !validPath(string(p)) {
			return nil, misbehaved("it names an entry %.300q", string(p))
		}
	}
	return stringsOf(list), nil
}

func skippedEntries(list []skippedMessage) ([]workspace.SkippedEntry, error) {
	var out []workspace.SkippedEntry
	for _, m := range list {
		if !validPath(string(m.Path)) {
			return nil, misbehaved("it names an entry %.300q", string(m.Path))
		}
		e := m.SkippedEntry
		e.Path = string(m.Path)
		out = append(out, e)
	}
	return out, nil
}

// one checks that id can be sent in a path.
func one(id string) error {
	if !ValidID(id) {
		return workspace.Errorf(workspace.ErrNotFound, "snapshot", "", "there is no snapshot %.80q", id)
	}
	return nil
}

// Save implements workspace.Snapshotter.
func (s *snapshots) Save(ctx context.Context, o workspace.SaveOptions) (workspace.Snapshot, error) {
	if !sendable(o.Label) || !sendable(o.Turn) {
		return workspace.Snapshot{}, workspace.Errorf(workspace.ErrInvalidArgument, "save", "", "the label of a snapshot is UTF-8")
	}
	var m snapshotMessage
	in := saveRequest{o, texts(o.Exclude)}
	if err := s.client.call(ctx, "save", http.MethodPost, "/snapshots", nil, in, &m); err != nil {
		return workspace.Snapshot{}, err
	}
	return m.snapshot()
}

// List implements workspace.Snapshotter.
func (s *snapshots) List(ctx context.Context) ([]workspace.Snapshot, error) {
	var m snapshotsMessage
	if err := s.client.call(ctx, "snapshots", http.MethodGet, "/snapshots", nil, nil, &m); err != nil {
		return nil, err
	}
	var list []workspace.Snapshot
	for _, one := range m.Snapshots {
		snap, err := one.snapshot()
		if err != nil {
			return nil, err
		}
		list = append(list, snap)
	}
	return list, nil
}

// Get implements workspace.Snapshotter.
func (s *snapshots) Get(ctx context.Context, id string) (workspace.Snapshot, error) {
	if err := one(id); err != nil {
		return workspace.Snapshot{}, err
	}
	var m snapshotMessage
	if err := s.client.call(ctx, "snapshot", http.MethodGet, "/snapshots/"+id, nil, nil, &m); err != nil {
		return workspace.Snapshot{}, err
	}
	return m.snapshot()
}

// Delete implements workspace.Snapshotter.
func (s *snapshots) Delete(ctx context.Context, ids ...string) error {
	for _, id := range ids {
		if err := one(id); err != nil {
			return err
		}
	}
	return s.client.call(ctx, "delete", http.MethodPost, "/snapshots/delete", nil, deleteRequest{orEmpty(ids)}, &nothing{})
}

// Restore implements workspace.Snapshotter.
func (s *snapshots) Restore(ctx context.Context, id string, o workspace.RestoreOptions) (workspace.Restored, error) {
	if err := one(id); err != nil {
		return workspace.Restored{}, err
	}
	var m restoredMessage
	in := restoreRequest{o, texts(o.Paths)}
	if err := s.client.call(ctx, "restore", http.MethodPost, "/snapshots/"+id+"/restore", nil, in, &m); err != nil {
		return workspace.Restored{}, err
	}
	r := workspace.Restored{DryRun: m.DryRun, Backup: m.Backup, Busy: m.Busy}
	var err error
	if r.Snapshot, err = m.Snapshot.snapshot(); err != nil {
		return workspace.Restored{}, err
	}
	if r.Restored, err = paths(m.Restored); err != nil {
		return workspace.Restored{}, err
	}
	if r.Deleted, err = paths(m.Deleted); err != nil {
		return workspace.Restored{}, err
	}
	if r.Kept, err = skippedEntries(m.Kept); err != nil {
		return workspace.Restored{}, err
	}
	return r, nil
}

// Diff implements workspace.Snapshotter.
func (s *snapshots) Diff(ctx context.Context, from, to string, o workspace.DiffOptions) (workspace.Diff, error) {
	if !sendable(from) || !sendable(to) {
		return workspace.Diff{}, one(from + "/" + to)
	}
	var m diffMessage
	in := diffRequest{From: from, To: to, DiffOptions: o, Paths: texts(o.Paths)}
	if err := s.client.call(ctx, "diff", http.MethodPost, "/diff", nil, in, &m); err != nil {
		return workspace.Diff{}, err
	}
	d := workspace.Diff{Changes: []workspace.Change{}, Truncated: m.Truncated}
	for _, c := range m.Changes {
		if !validPath(string(c.Path)) {
			return workspace.Diff{}, misbehaved("it names an entry %.300q", string(c.Path))
		}
		change := c.Change
		change.Path, change.Patch = string(c.Path), string(c.Patch)
		d.Changes = append(d.Changes, change)
	}
	return d, nil
}
