package tools

import (
	"context"
	"fmt"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

const snapshotRestoreText = `Brings the workspace's files back to a kept state: changed and deleted files come back, files that are new since then go. What the state never held (.git, node_modules, files that were too large) is left alone. The state before the restore is kept first, so a restore can be undone.

With dry_run nothing is changed and the result says what would be. While commands or processes run it is refused with BUSY, unless while_running says otherwise.`

type snapshotRestoreInput struct {
	ID           string   `json:"id" jsonschema:"id of the state, or latest"`
	Paths        []string `json:"paths,omitempty" jsonschema:"bring back only these files and directories, relative to the root (default: all)"`
	DryRun       bool     `json:"dry_run,omitempty" jsonschema:"change nothing, only tell"`
	WhileRunning string   `json:"while_running,omitempty" enum:"refuse,pause,proceed" jsonschema:"what to do while commands run: refuse, pause them meanwhile, or proceed beside them (default refuse)"`
}

func (in snapshotRestoreInput) subject() subject { return subject{trees: orRoot(in.Paths)} }

type snapshotRestoreOutput struct {
	ID       string      `json:"id" jsonschema:"the state"`
	DryRun   bool        `json:"dry_run,omitempty" jsonschema:"nothing was changed"`
	Restored []string    `json:"restored" jsonschema:"paths that were made or changed"`
	Deleted  []string    `json:"deleted" jsonschema:"paths that were removed"`
	Kept     []leftAlone `json:"kept,omitempty" jsonschema:"entries that differ and were left alone"`
	Backup   string      `json:"backup,omitempty" jsonschema:"id of the state before"`
	Busy     bool        `json:"busy,omitempty" jsonschema:"of a dry run: commands that run would refuse it"`
}

func snapshotRestore() *Tool {
	return define(Tool{
		Name:        "snapshot_restore",
		Title:       "Bring a kept state back",
		Description: snapshotRestoreText,
		Hints:       Hints{Destructive: true, Idempotent: true},
	}, runSnapshotRestore)
}

func runSnapshotRestore(ctx context.Context, c *call, in snapshotRestoreInput) (*snapshotRestoreOutput, error) {
	done, err := c.ws.Restore(ctx, in.ID, workspace.RestoreOptions{
		DryRun: in.DryRun, Paths: in.Paths, WhileRunning: workspace.WhileRunning(in.WhileRunning),
	})
	if err != nil {
		return nil, err
	}
	return &snapshotRestoreOutput{
		ID: done.Snapshot.ID, DryRun: done.DryRun, Restored: validAll(done.Restored), Deleted: validAll(done.Deleted),
		Kept: newLeftAlone(done.Kept), Backup: done.Backup, Busy: done.Busy,
	}, nil
}

func (o *snapshotRestoreOutput) text() string {
	var b strings.Builder
	if o.DryRun {
		b.WriteString("Nothing was changed. A restore of ")
	} else {
		b.WriteString("Restored ")
	}
	fmt.Fprintf(&b, "%s: %s changed, %s removed", o.ID, count(len(o.Restored), "entry"), count(len(o.Deleted), "entry"))
	if o.Busy {
		b.WriteString("; commands that run would refuse it")
	}
	if o.Backup != "" {
		fmt.Fprintf(&b, "; the state before is %s", o.Backup)
	}
	b.WriteString(".")
	for _, path := range o.Restored {
		b.WriteString("\nchanged " + workspace.Printable(path))
	}
	for _, path := range o.Deleted {
		b.WriteString("\nremoved " + workspace.Printable(path))
	}
	for _, e := range o.Kept {
		fmt.Fprintf(&b, "\nleft alone %s (%s)", workspace.Printable(e.Path), e.Reason)
	}
	return b.String()
}
