//go:build linux

package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

func newSnapshotRmCommand(a *app) *cobra.Command {
	var o storeOptions
	cmd := &cobra.Command{
		Use:     "rm [flags] ID…",
		Short:   "Remove snapshots",
		Long:    "Remove snapshots and free what no other one needs. When one of the ids is not there,\nnone is removed.",
		Example: "  wsctl snapshot rm 20260102-1504",
		Args:    takes(1, 1<<20, "snapshots"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.snapshotVerb(cmd, &o, snapshot.Options{}, func(ctx context.Context, k *kept) error {
				var ids []string
				for _, ref := range args {
					id, err := k.find(ctx, ref)
					if err != nil {
						return err
					}
					ids = append(ids, id)
				}
				if err := k.store.Delete(ctx, ids...); err != nil || !o.tree.json {
					return err
				}
				return a.ui.object(map[string]any{"removed": ids})
			})
		},
		ValidArgsFunction: a.completeSnapshots(&o, 1<<20),
	}
	o.addFlags(cmd)
	return cmd
}

func newSnapshotPruneCommand(a *app) *cobra.Command {
	var o struct {
		storeOptions
		retentionOptions
		label  string
		dryRun bool
	}
	cmd := &cobra.Command{
		Use:     "prune [flags]",
		Short:   "Remove snapshots that are too many, too old or too large",
		Long:    "Remove snapshots by number, age, size or label, free what no other one needs, and\nprint them. The newest always stays.",
		Example: "  wsctl snapshot prune --keep-last 20\n  wsctl snapshot prune --older-than 720h --keep-label 'release-*' --dry-run",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !o.bounded() && o.label == "" {
				return usagef(verbOf(cmd), "say which are too many: --keep-last, --older-than, --max-size or --label")
			}
			return a.snapshotVerb(cmd, &o.storeOptions, snapshot.Options{}, func(ctx context.Context, k *kept) error {
				p, err := k.store.Prune(ctx, snapshot.PruneOptions{Retention: o.retention(), Label: o.label, DryRun: o.dryRun})
				if err != nil {
					return err
				}
				if o.tree.json {
					return a.ui.object(newPrunedText(p, o.dryRun))
				}
				if err := a.listSnapshots(p.Removed, false); err != nil {
					return err
				}
				a.ui.talk(map[bool]string{true: "would free ", false: "freed "}[o.dryRun] + bytesText(p.Freed))
				return nil
			})
		},
	}
	f := cmd.Flags()
	f.Var(&named{&o.label, "GLOB"}, "label", "remove none but those whose label this matches")
	f.BoolVarP(&o.dryRun, "dry-run", "n", false, "print what would be removed, and remove nothing")
	o.retentionOptions.addFlags(cmd)
	o.storeOptions.addFlags(cmd)
	return cmd
}

// prunedText is what `wsctl snapshot prune --json` prints.
type prunedText struct {
	Removed []snapshotText `json:"removed"`
	Freed   int64          `json:"freed"`
	DryRun  bool           `json:"dryRun,omitempty"`
}

func newPrunedText(p snapshot.Pruned, dryRun bool) prunedText {
	t := prunedText{Removed: []snapshotText{}, Freed: p.Freed, DryRun: dryRun}
	for _, s := range p.Removed {
		t.Removed = append(t.Removed, newSnapshotText(s))
	}
	return t
}

func newSnapshotCopyCommand(a *app) *cobra.Command {
	var o storeOptions
	cmd := &cobra.Command{
		Use:     "copy [flags] ID DIR",
		Short:   "Copy a snapshot into another store",
		Long:    "Copy a snapshot into the store in DIR, which is made when it is missing: a backup on\nanother disk. Only what the other store does not have is copied. Give DIR as --store\nto use it.",
		Example: "  wsctl snapshot copy latest /mnt/backup/app\n  wsctl snapshot ls --store /mnt/backup/app",
		Args:    takes(2, 2, "a snapshot and a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.snapshotVerb(cmd, &o, snapshot.Options{}, func(ctx context.Context, k *kept) error {
				id, err := k.find(ctx, args[0])
				if err != nil {
					return err
				}
				dir, err := filepath.Abs(args[1])
				if err != nil {
					return workspace.Errorf(workspace.ErrInvalidArgument, "", args[1], "%w", err)
				}
				to, err := snapshot.Open(k.Root, snapshot.Place{Dir: dir})
				if err != nil {
					return err
				}
				defer to.Close()
				s, err := k.store.Copy(ctx, id, to)
				if err != nil || !o.tree.json {
					return err
				}
				return a.ui.object(newSnapshotText(s))
			})
		},
		ValidArgsFunction: a.completeSnapshots(&o, 1),
	}
	o.addFlags(cmd)
	return cmd
}

func newSnapshotVerifyCommand(a *app) *cobra.Command {
	var o storeOptions
	cmd := &cobra.Command{
		Use:     "verify [flags]",
		Short:   "Read everything that is kept, and name what is damaged",
		Long:    "Read everything that the snapshots need. What is damaged is named with the snapshots\nand paths that it belongs to, and the exit status is 1; all else can still be read.",
		Example: "  wsctl snapshot verify",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.snapshotVerb(cmd, &o, snapshot.Options{}, func(ctx context.Context, k *kept) error {
				stop := a.ui.spin("verifying")
				v, err := k.store.Verify(ctx)
				stop()
				if err != nil {
					return err
				}
				if o.tree.json {
					err = a.ui.object(v)
				} else {
					for _, p := range v.Problems {
						a.ui.warn("%s %s: %s", column(p.Snapshot), workspace.Printable(p.Path), p.Reason)
					}
					a.ui.talk(fmt.Sprintf("%d snapshots, %d objects, %s read", v.Snapshots, v.Objects, bytesText(v.Bytes)))
				}
				if err == nil && len(v.Problems) > 0 {
					return exitStatus(1)
				}
				return err
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}

func newSnapshotDuCommand(a *app) *cobra.Command {
	var o storeOptions
	cmd := &cobra.Command{
		Use:     "du [flags]",
		Short:   "Tell how much room snapshots take",
		Long:    "Tell how much room the store takes, and of each snapshot how much deleting it would\nfree (OWN) and how much others need too (SHARED).",
		Example: "  wsctl snapshot du",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.snapshotVerb(cmd, &o, snapshot.Options{}, func(ctx context.Context, k *kept) error {
				u, err := k.store.Usage(ctx)
				if err != nil {
					return err
				}
				if o.tree.json {
					return a.ui.object(u)
				}
				rows := make([][]string, 0, len(u.Snapshots))
				for _, s := range u.Snapshots {
					rows = append(rows, []string{s.ID, bytesText(s.Own), bytesText(s.Shared), strconv.Itoa(s.Stats.Files), column(s.Label)})
				}
				if err := a.ui.table([]string{"ID", "OWN", "SHARED", "FILES", "LABEL"}, rows); err != nil {
					return err
				}
				a.ui.talk(fmt.Sprintf("%s in %s, for %s of content; %s is needed by none", bytesText(u.Bytes), workspace.Printable(k.store.Name()), bytesText(u.Raw), bytesText(u.Unneeded)))
				return nil
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}
