//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

const snapshotRestoreLong = `Make the directory what a snapshot holds, or only the given paths of it. What the
snapshot left out or skipped is left alone, and so is what lies in .git and
node_modules. The state before is kept as a snapshot itself, unless --no-backup
says not to. --dry-run prints what would be done; the same is then done.

While commands run in a container over the root it is BUSY; --while-running pause
pauses them meanwhile, proceed restores beside them. When it is interrupted it can
be run again.`

// restoreOptions are the flags of restore and rewind.
type restoreOptions struct {
	storeOptions
	dryRun, noBackup bool
	running          choice
}

func (o *restoreOptions) addFlags(cmd *cobra.Command) {
	o.running = choice{value: string(workspace.RefuseWhileRunning), words: []string{
		string(workspace.RefuseWhileRunning), string(workspace.PauseWhileRunning), string(workspace.ProceedWhileRunning),
	}}
	f := cmd.Flags()
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "print what would be done, and do nothing")
	f.BoolVar(&o.noBackup, "no-backup", false, "do not keep the state before")
	addChoice(cmd, &o.running, "while-running", "what to do while commands run")
	o.storeOptions.addFlags(cmd)
}

func (o *restoreOptions) options() workspace.RestoreOptions {
	return workspace.RestoreOptions{DryRun: o.dryRun, NoBackup: o.noBackup, WhileRunning: workspace.WhileRunning(o.running.value)}
}

func newSnapshotRestoreCommand(a *app) *cobra.Command {
	var o restoreOptions
	cmd := &cobra.Command{
		Use:     "restore [flags] ID [PATH…]",
		Short:   "Make the directory what a snapshot holds",
		Long:    snapshotRestoreLong,
		Example: "  wsctl snapshot restore latest --dry-run\n  wsctl snapshot restore latest\n  wsctl snapshot restore latest src/main.go 'app/[id]/page.tsx'",
		Args:    takes(1, 1<<20, "a snapshot, and perhaps paths"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.snapshotVerb(cmd, &o.storeOptions, snapshot.Options{}, func(ctx context.Context, k *kept) error {
				id, err := k.find(ctx, args[0])
				if err != nil {
					return err
				}
				options := o.options()
				if options.Paths, err = k.names(args[1:]); err != nil {
					return err
				}
				r, err := k.ws.Restore(ctx, id, options)
				return a.restored(r, err, o.tree.json)
			})
		},
		ValidArgsFunction: a.completeSnapshots(&o.storeOptions, 1),
	}
	o.addFlags(cmd)
	return cmd
}

func newRewindCommand(a *app) *cobra.Command {
	var o restoreOptions
	cmd := &cobra.Command{
		Use:     "rewind [flags] TURN",
		Short:   "Bring files back to before a turn of a conversation",
		Long:    "Restore the newest snapshot that was saved with --turn TURN. What was kept with it\nas --metadata is printed, to rewind the conversation with. It is as careful as\nwsctl snapshot restore.",
		Example: "  wsctl snapshot save --turn 12 --metadata '{\"message\":\"m_81\"}'\n  wsctl rewind 12 --json | jq .snapshot.metadata",
		Args:    takes(1, 1, "a turn"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.snapshotVerb(cmd, &o.storeOptions, snapshot.Options{}, func(ctx context.Context, k *kept) error {
				r, err := k.ws.Rewind(ctx, args[0], o.options())
				if err == nil && !o.tree.json && len(r.Snapshot.Metadata) > 0 {
					defer func() { _ = a.ui.result(append(bytes.Clone(r.Snapshot.Metadata), '\n')) }()
				}
				return a.restored(r, err, o.tree.json)
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}

// restoredText is what restore and rewind print with --json.
type restoredText struct {
	Snapshot snapshotText  `json:"snapshot"`
	DryRun   bool          `json:"dryRun,omitempty"`
	Restored []pathText    `json:"restored"`
	Deleted  []pathText    `json:"deleted"`
	Kept     []leftOutText `json:"kept,omitempty"`
	Backup   string        `json:"backup,omitempty"`
	Busy     bool          `json:"busy,omitempty"`
}

func (a *app) restored(r workspace.Restored, err error, asJSON bool) error {
	if err != nil {
		return err
	}
	if asJSON {
		if !json.Valid(r.Snapshot.Metadata) {
			r.Snapshot.Metadata = nil
		}
		return a.ui.object(restoredText{
			Snapshot: newSnapshotText(r.Snapshot), DryRun: r.DryRun, Restored: newPaths(r.Restored), Deleted: newPaths(r.Deleted),
			Kept: newSkipped(r.Kept), Backup: r.Backup, Busy: r.Busy,
		})
	}
	var b bytes.Buffer
	did := func(would, done string) string {
		if r.DryRun {
			return would
		}
		return done
	}
	for _, p := range r.Restored {
		fmt.Fprintf(&b, "%s %s\n", did("would restore", "restored"), workspace.Printable(p))
	}
	for _, p := range r.Deleted {
		fmt.Fprintf(&b, "%s %s\n", did("would delete", "deleted"), workspace.Printable(p))
	}
	for _, e := range r.Kept {
		a.ui.warn("left alone: %s: %s", workspace.Printable(e.Path), e.Reason)
	}
	if err := a.ui.result(b.Bytes()); err != nil {
		return err
	}
	switch {
	case len(r.Restored)+len(r.Deleted) == 0:
		a.ui.talk("the directory is what the snapshot holds already")
	case r.Busy:
		a.ui.talk("commands run over the root: the restore would be refused, unless --while-running says otherwise")
	case r.Backup != "":
		a.ui.talk("the state before is snapshot " + r.Backup)
	}
	return nil
}
