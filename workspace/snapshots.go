package workspace

import (
	"context"
	"encoding/json"
	"io/fs"
	"time"
)

// Snapshotter keeps states of a workspace's tree: an undo for what commands
// and tools do. It is handed in with Options.Snapshots, since where snapshots
// are kept is not the driver's business. Its methods may be called by many
// goroutines, and by many processes over one store, at once.
//
// A snapshot is named by its id, or by "latest" for the newest one that is no Backup. One that is
// not there is NOT_FOUND; one whose data is damaged is CORRUPT.
type Snapshotter interface {
	// Save keeps the tree as it is. Commands may run meanwhile: each file
	// is whole, and one that changed while it was read is read again, or
	// named in Snapshot.Changed.
	Save(ctx context.Context, o SaveOptions) (Snapshot, error)
	// Restore makes the tree what the snapshot holds. It is planned first,
	// and the plan is what is done. It does not ask whether commands run;
	// Workspace.Restore does.
	Restore(ctx context.Context, id string, o RestoreOptions) (Restored, error)
	// Diff tells what changed from one snapshot to another; an empty to is
	// the tree as it is now.
	Diff(ctx context.Context, from, to string, o DiffOptions) (Diff, error)
	// List returns the workspace's snapshots, the newest first.
	List(ctx context.Context) ([]Snapshot, error)
	// Get returns one snapshot.
	Get(ctx context.Context, id string) (Snapshot, error)
	// Delete forgets snapshots and frees what no other one needs.
	Delete(ctx context.Context, ids ...string) error
}

// Snapshot describes one kept state of a tree.
type Snapshot struct {
	ID          string    `json:"id"`
	WorkspaceID string    `json:"workspaceId"`
	Created     time.Time `json:"created"`
	Label       string    `json:"label,omitempty"`
	// Turn names the turn of a conversation before which it was taken.
	Turn string `json:"turn,omitempty"`
	// Backup: a restore kept the state before it here. "latest" never names
	// one, so that a second restore of "latest" does not undo the first.
	Backup bool `json:"backup,omitempty"`
	// Metadata is the caller's, as it was given.
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Exclude are the globs that were left out, the standing ones included.
	Exclude []string `json:"exclude"`
	// MaxFileBytes is the size over which files were skipped; 0: none.
	MaxFileBytes int64 `json:"maxFileBytes,omitempty"`
	// Skipped are entries that could not be kept, or were not to be. A
	// restore leaves them alone.
	Skipped []SkippedEntry `json:"skipped,omitempty"`
	// Changed are files that went on changing while they were read. What is
	// kept of them is one reading from beginning to end.
	Changed []string      `json:"changed,omitempty"`
	Stats   SnapshotStats `json:"stats"`
}

// SkippedEntry is an entry that a snapshot does not hold, or a restore does not touch.
type SkippedEntry struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
	// Size is that of a regular file, in bytes.
	Size int64 `json:"size,omitempty"`
}

// SnapshotStats counts what is in a snapshot and what keeping it cost.
type SnapshotStats struct {
	Files       int   `json:"files"`
	Directories int   `json:"directories"`
	Links       int   `json:"links"`
	Bytes       int64 `json:"bytes"` // of all files
	// Read counts files whose content had to be read; the others were
	// unchanged since the snapshot before.
	Read int `json:"read"`
	// Added counts objects that the store did not have, and AddedBytes what
	// they take in it.
	Added      int           `json:"added"`
	AddedBytes int64         `json:"addedBytes"`
	Duration   time.Duration `json:"durationNs"`
}

// SaveOptions say what a snapshot is called and what it leaves out.
type SaveOptions struct {
	Label    string          `json:"label,omitempty"`
	Turn     string          `json:"turn,omitempty"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	// Exclude are globs of paths below the root to leave out beside the
	// workspace's standing ones; one without a slash matches at any depth.
	// The state, .git and node_modules are left out at any depth always.
	Exclude []string `json:"exclude,omitempty"`
	// MaxFileBytes skips larger files; 0: as the store is set up.
	MaxFileBytes int64 `json:"maxFileBytes,omitempty"`
}

// WhileRunning says what Workspace.Restore does while commands run.
type WhileRunning string

const (
	// RefuseWhileRunning answers BUSY; the zero value means the same.
	RefuseWhileRunning WhileRunning = "refuse"
	// PauseWhileRunning pauses the commands meanwhile.
	PauseWhileRunning WhileRunning = "pause"
	// ProceedWhileRunning restores beside them.
	ProceedWhileRunning WhileRunning = "proceed"
)

// RestoreOptions say how a snapshot is restored.
type RestoreOptions struct {
	// DryRun plans and changes nothing.
	DryRun bool `json:"dryRun,omitempty"`
	// Paths restores only these files and directories, as they are spelled,
	// never as patterns; empty: all.
	Paths []string `json:"paths,omitempty"`
	// NoBackup does not save the state before.
	NoBackup bool `json:"noBackup,omitempty"`
	// WhileRunning is for Workspace.Restore.
	WhileRunning WhileRunning `json:"whileRunning,omitempty"`
}

// Restored is what a restore did, or with DryRun would do.
type Restored struct {
	Snapshot Snapshot `json:"snapshot"`
	DryRun   bool     `json:"dryRun,omitempty"`
	// Restored are the paths made or changed, Deleted those removed, sorted.
	Restored []string `json:"restored"`
	Deleted  []string `json:"deleted"`
	// Kept are entries that differ and are left alone, with the reason.
	Kept []SkippedEntry `json:"kept,omitempty"`
	// Backup is the id of the snapshot of the state before.
	Backup string `json:"backup,omitempty"`
	// Busy reports, of a dry run, that running commands would refuse it.
	Busy bool `json:"busy,omitempty"`
}

// DiffOptions bound a Diff.
type DiffOptions struct {
	// Paths compares only these files and directories; empty: all.
	Paths []string `json:"paths,omitempty"`
	// NamesOnly leaves out the text of changes.
	NamesOnly bool `json:"namesOnly,omitempty"`
	// Context is the number of unchanged lines around a change; 0: 3;
	// negative: none.
	Context int `json:"context,omitempty"`
	// MaxBytes bounds all Patch texts together; 0: 1 MiB.
	MaxBytes int64 `json:"maxBytes,omitempty"`
}

// Diff is what differs between two states of a tree, sorted by path.
type Diff struct {
	Changes []Change `json:"changes"`
	// Truncated reports that some Patch was left out for MaxBytes.
	Truncated bool `json:"truncated,omitempty"`
}

// ChangeKind says how an entry differs.
type ChangeKind string

const (
	Added    ChangeKind = "added"
	Deleted  ChangeKind = "deleted"
	Modified ChangeKind = "modified"
	// TypeChanged is a file that became a directory or a link, or the like.
	TypeChanged ChangeKind = "type"
	// ModeChanged is an entry of which the permission bits alone changed.
	ModeChanged ChangeKind = "mode"
)

// Change is one entry of a Diff.
type Change struct {
	Path    string      `json:"path"`
	Kind    ChangeKind  `json:"kind"`
	OldMode fs.FileMode `json:"oldMode,omitempty"` // zero: there was none
	NewMode fs.FileMode `json:"newMode,omitempty"`
	OldSize int64       `json:"oldSize,omitempty"`
	NewSize int64       `json:"newSize,omitempty"`
	// Binary reports that the content is not text and Patch says so only.
	Binary bool `json:"binary,omitempty"`
	// Patch is the unified diff of the content; empty when there is none.
	Patch string `json:"patch,omitempty"`
}
