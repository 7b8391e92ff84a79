//go:build linux

package main

import (
	"context"
	"errors"
	"strings"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

const snapshotLong = `Keep states of a directory, and bring them back: an undo for what commands and
agents do. Saving reads only what changed since the last time, so a snapshot can
be taken before every message of a conversation.

A snapshot holds files, directories, links (as links), permission bits and times.
.wsctl, .git and node_modules are left out at any depth, and never touched by a
restore. Snapshots lie outside the root, below the state directory
($XDG_STATE_HOME/wsctl or ~/.local/state/wsctl): "git clean" does not delete
them, and commands in a sandbox can neither read nor change them.

A snapshot is named by its id, by the beginning of one, or by "latest", which is
never what a restore kept as the state before. No engine is needed. Exit statuses
are those of "wsctl file".`

const snapshotExample = `  wsctl snapshot save --label before-refactoring
  wsctl snapshot ls
  wsctl snapshot diff latest
  wsctl snapshot restore latest --dry-run`

// snapshotVerbs are the verbs about snapshots.
func snapshotVerbs(a *app) []*cobra.Command {
	return []*cobra.Command{newSnapshotCommand(a), newRewindCommand(a), newReviewCommand(a)}
}

func newSnapshotCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "snapshot VERB",
		Aliases: []string{"snap"},
		Short:   "Keep states of a directory and bring them back",
		Long:    snapshotLong,
		Example: snapshotExample,
		Args:    noVerb,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(
		newSnapshotSaveCommand(a), newSnapshotLsCommand(a), newSnapshotShowCommand(a), newSnapshotDiffCommand(a),
		newSnapshotRestoreCommand(a), newSnapshotForkCommand(a), newSnapshotRmCommand(a), newSnapshotPruneCommand(a),
		newSnapshotCopyCommand(a), newSnapshotExportCommand(a), newSnapshotImportCommand(a), newSnapshotVerifyCommand(a),
		newSnapshotDuCommand(a),
	)
	return cmd
}

// find turns the beginning of an id into the id.
func (k *kept) find(ctx context.Context, ref string) (string, error) {
	list, err := k.store.List(ctx)
	if err != nil {
		return "", err
	}
	if ref == snapshot.Latest {
		s, err := k.store.Get(ctx, ref)
		if errors.Is(err, workspace.ErrNotFound) {
			err = workspace.Errorf(workspace.ErrNotFound, "", ref, "there is no snapshot of this root yet; wsctl snapshot save takes one")
		}
		return s.ID, err
	}
	var begins []string
	for _, s := range list {
		if s.ID == ref {
			return s.ID, nil
		}
		if len(ref) >= 4 && strings.HasPrefix(s.ID, ref) {
			begins = append(begins, s.ID)
		}
	}
	switch {
	case len(begins) == 1:
		return begins[0], nil
	case len(begins) > 1:
		return "", workspace.Errorf(workspace.ErrInvalidArgument, "", ref, "%d snapshots have ids that begin so; give more of it", len(begins))
	}
	return "", workspace.Errorf(workspace.ErrNotFound, "", ref, "there is no such snapshot of this root; wsctl snapshot ls lists them")
}

// completeSnapshots offers the ids of the snapshots for the first most arguments.
func (a *app) completeSnapshots(o *storeOptions, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		t, err := a.openTree(&o.tree)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer t.Close()
		k, err := a.snapshots(t, o, snapshotOptions{}.options())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer k.close()
		list, err := k.store.List(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		offers := []string{snapshot.Latest}
		for _, s := range list {
			offers = append(offers, cobra.CompletionWithDesc(s.ID, workspace.Printable(s.Label)))
		}
		return offers, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

func bytesText(n int64) string { return units.BytesSize(float64(n)) }
