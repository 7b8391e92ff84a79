//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/review"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

const reviewLong = `Show what changed since a snapshot, and on top whatever programs of this machine
could act on later: git hooks and settings, files that shells, editors and agents
read when they are started here, build files, package scripts, CI, set-id bits.
Each has its reason. A sandbox ends at its directory; you open the directory.

What changed is told by the snapshot; in .git and in dependencies, which no snapshot
holds, by the time of change that the kernel keeps. Without a snapshot the whole
tree is looked at. Nothing in the tree is run, git least of all.

The exit status is 0 whatever is found; --json is for programs that decide.`

// reviewText is what `wsctl review --json` prints.
type reviewText struct {
	Since    string        `json:"since,omitempty"` // the snapshot's id
	Findings []findingText `json:"findings"`
	Unread   []leftOutText `json:"unread,omitempty"`
	Changes  []changeText  `json:"changes"`
	Error    *failure      `json:"error,omitempty"`
}

// findingText is a review.Finding in JSON.
type findingText struct {
	pathText
	Reason  string    `json:"reason"`
	Changed time.Time `json:"changed"`
}

func newReviewCommand(a *app) *cobra.Command {
	var o storeOptions
	var all bool
	cmd := &cobra.Command{
		Use:     "review [flags] [SNAPSHOT]",
		Short:   "Show what changed, and what host programs could act on",
		Long:    reviewLong,
		Example: "  wsctl review\n  wsctl review 20260102-1504\n  wsctl review --all --json | jq -r '.findings[].path'",
		Args:    takes(0, 1, "perhaps a snapshot"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all && len(args) > 0 {
				return usagef(verbOf(cmd), "--all looks at everything; leave out the snapshot")
			}
			return a.snapshotVerb(cmd, &o, snapshot.Options{}, func(ctx context.Context, k *kept) error {
				since, err := k.since(ctx, args, all)
				if err != nil {
					return err
				}
				return a.review(ctx, k, since, o.tree.json)
			})
		},
		ValidArgsFunction: a.completeSnapshots(&o, 1),
	}
	cmd.Flags().BoolVar(&all, "all", false, "look at the whole tree, whenever it changed")
	o.addFlags(cmd)
	return cmd
}

// since is the snapshot that a review begins at; none: all is looked at.
func (k *kept) since(ctx context.Context, args []string, all bool) (workspace.Snapshot, error) {
	ref := snapshot.Latest
	if len(args) > 0 {
		ref = args[0]
	}
	if all {
		return workspace.Snapshot{}, nil
	}
	id, err := k.find(ctx, ref)
	if err != nil {
		if len(args) == 0 && errors.Is(err, workspace.ErrNotFound) {
			return workspace.Snapshot{}, nil
		}
		return workspace.Snapshot{}, err
	}
	return k.store.Get(ctx, id)
}

func (a *app) review(ctx context.Context, k *kept, since workspace.Snapshot, asJSON bool) error {
	o := review.Options{UID: -1, Attributes: k.Attributes}
	if fi, err := os.Stat(k.Name()); err == nil {
		if uid, ok := ownerOf(fi); ok {
			o.UID = uid
		}
	}
	if since.ID != "" {
		// What changed while the snapshot was taken counts as changed.
		o.Since = since.Created.Add(-since.Stats.Duration)
	}
	found, err := review.Run(ctx, k.ws, o)
	if err != nil {
		return err
	}
	var d workspace.Diff
	if since.ID != "" {
		if d, err = k.snaps.Diff(ctx, since.ID, "", workspace.DiffOptions{}); err != nil {
			return err
		}
	}
	if asJSON {
		t := reviewText{Since: since.ID, Findings: []findingText{}, Unread: newSkipped(found.Unread), Changes: newDiffText(d).Changes}
		for _, f := range found.Findings {
			t.Findings = append(t.Findings, findingText{newPathText(f.Path), f.Reason, f.Changed.UTC()})
		}
		return a.ui.object(t)
	}
	return a.ui.review(found, d, since)
}

func (u *ui) review(r review.Report, d workspace.Diff, since workspace.Snapshot) error {
	var b bytes.Buffer
	what := "in the whole tree"
	if since.ID != "" {
		what = "since " + since.ID
	}
	if len(r.Findings) == 0 {
		fmt.Fprintf(&b, "Nothing that programs of this machine are known to act on, %s.\n", what)
	} else {
		fmt.Fprintf(&b, "Programs of this machine may act on these, %s:\n", what)
		for _, f := range r.Findings {
			fmt.Fprintf(&b, "  %s\n      %s\n", workspace.Printable(f.Path), workspace.Printable(f.Reason))
		}
	}
	for _, e := range r.Unread {
		fmt.Fprintf(&b, "Not looked at: %s: %s\n", workspace.Printable(e.Path), workspace.Printable(e.Reason))
	}
	if since.ID != "" {
		fmt.Fprintf(&b, "\nChanges: %s.\n", snapshot.Summary(d))
	}
	if err := u.result(b.Bytes()); err != nil || len(d.Changes) == 0 {
		return err
	}
	return u.diff(d, false)
}
