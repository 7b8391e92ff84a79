package tools

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

const snapshotCheckpointText = `Keeps the state of all files of the workspace, so that snapshot_restore can bring it back: an undo for what edits and commands do. It is quick; take one before a change that may go wrong. .git, node_modules and files that are too large are left out, and a restore leaves them alone.`

type snapshotCheckpointInput struct {
	Label string `json:"label,omitempty" jsonschema:"what the state is called, for you and the user"`
}

// snapshotFacts is what is told of a snapshot.
type snapshotFacts struct {
	ID      string `json:"id" jsonschema:"what the other snapshot tools call it"`
	Created string `json:"created" jsonschema:"when, RFC 3339"`
	Label   string `json:"label,omitempty" jsonschema:"what it was called"`
	Files   int    `json:"files" jsonschema:"files in it"`
	Bytes   int64  `json:"bytes" jsonschema:"bytes in all of them"`
}

func newSnapshotFacts(s workspace.Snapshot) snapshotFacts {
	return snapshotFacts{s.ID, s.Created.UTC().Format(time.RFC3339), s.Label, s.Stats.Files, s.Stats.Bytes}
}

func (s snapshotFacts) String() string {
	label := ""
	if s.Label != "" {
		label = " " + workspace.Printable(s.Label)
	}
	return fmt.Sprintf("%s%s, %s: %s, %s", s.ID, label, s.Created, count(s.Files, "file"), count(s.Bytes, "byte"))
}

// leftAlone is an entry that a snapshot does not hold or a restore does not
// touch.
type leftAlone struct {
	Path   string `json:"path" jsonschema:"the entry"`
	Reason string `json:"reason" jsonschema:"why"`
}

func newLeftAlone(entries []workspace.SkippedEntry) []leftAlone {
	var list []leftAlone
	for _, e := range entries {
		path, _ := valid([]byte(e.Path))
		list = append(list, leftAlone{path, e.Reason})
	}
	return list
}

type snapshotCheckpointOutput struct {
	snapshotFacts
	Skipped []leftAlone `json:"skipped,omitempty" jsonschema:"entries that it does not hold"`
	Changed []string    `json:"changed,omitempty" jsonschema:"files that went on changing while they were read"`
}

func snapshotCheckpoint() *Tool {
	return define(Tool{
		Name:        "snapshot_checkpoint",
		Title:       "Keep the state of the files",
		Description: snapshotCheckpointText,
	}, runSnapshotCheckpoint)
}

func runSnapshotCheckpoint(ctx context.Context, c *call, in snapshotCheckpointInput) (*snapshotCheckpointOutput, error) {
	store, err := c.ws.Snapshots()
	if err != nil {
		return nil, err
	}
	s, err := store.Save(ctx, workspace.SaveOptions{Label: in.Label})
	if err != nil {
		return nil, err
	}
	return &snapshotCheckpointOutput{newSnapshotFacts(s), newLeftAlone(s.Skipped), validAll(s.Changed)}, nil
}

// validAll is names as UTF-8.
func validAll(names []string) []string {
	list := make([]string, 0, len(names))
	for _, name := range names {
		s, _ := valid([]byte(name))
		list = append(list, s)
	}
	return list
}

func (o *snapshotCheckpointOutput) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Kept as %s.", o.snapshotFacts)
	for _, e := range o.Skipped {
		fmt.Fprintf(&b, "\nnot in it: %s (%s)", workspace.Printable(e.Path), e.Reason)
	}
	for _, path := range o.Changed {
		fmt.Fprintf(&b, "\nchanging while it was read: %s", workspace.Printable(path))
	}
	return b.String()
}
