//go:build unix

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

const fileTrashLong = `What "wsctl file rm --trash" has removed is kept in the root's state, .wsctl/trash,
until it is restored or purged. Commands in a sandbox can neither see nor change
it.`

func newFileTrashCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "trash VERB",
		Short:   "List, restore and purge what was removed",
		Long:    fileTrashLong,
		Example: "  wsctl file trash ls\n  wsctl file trash restore 20260102T150405.000000000-0a1b2c3d\n  wsctl file trash purge --older-than 720h",
		Args:    noVerb,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(newTrashLsCommand(a), newTrashRestoreCommand(a), newTrashPurgeCommand(a))
	return cmd
}

// hasState reports whether the root has a state yet. Looking into the trash
// would make one.
func (t *tree) hasState() (bool, error) {
	_, err := os.Lstat(filepath.Join(t.Name(), host.StateName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, workspace.Errorf(workspace.ErrIO, "", host.StateName, "%w", err)
	}
	return true, nil
}

// trash lists what is in the trash; it makes none.
func (t *tree) trash(ctx context.Context) ([]host.TrashItem, error) {
	if has, err := t.hasState(); !has || err != nil {
		return nil, err
	}
	return t.Trash(ctx)
}

// trashed is an item of the trash in JSON.
type trashed struct {
	ID string `json:"id"`
	pathText
	Kind string `json:"kind"`
	Mode string `json:"mode"`
	// Size is that of all regular files in it.
	Size    int64     `json:"size"`
	Removed time.Time `json:"removed"`
}

// trashList is what the verbs of the trash print with --json.
type trashList struct {
	Items []trashed `json:"items"`
	// Size is that of all items.
	Size  int64    `json:"size"`
	Error *failure `json:"error,omitempty"`
}

func newTrashList(items []host.TrashItem, err error) trashList {
	list := trashList{Items: make([]trashed, 0, len(items))}
	for _, i := range items {
		list.Items = append(list.Items, trashed{
			ID: i.ID, pathText: newPathText(i.Path), Kind: kind(i.Mode), Mode: octal(i.Mode), Size: i.Size, Removed: i.Removed.UTC(),
		})
		list.Size += i.Size
	}
	if err != nil {
		list.Error = newFailure(err)
	}
	return list
}

// trash prints items, one a line.
func (u *ui) trash(items []host.TrashItem) error {
	now := time.Now()
	rows := make([][]string, 0, len(items))
	for _, i := range items {
		rows = append(rows, []string{column(i.ID), age(now.Sub(i.Removed)), units.BytesSize(float64(i.Size)), kind(i.Mode), column(i.Path)})
	}
	return u.table([]string{"ID", "AGE", "SIZE", "KIND", "PATH"}, rows)
}

func newTrashLsCommand(a *app) *cobra.Command {
	var o treeOptions
	cmd := &cobra.Command{
		Use:     "ls [flags]",
		Short:   "List the trash, the oldest first",
		Long:    "List what is in the trash, the oldest first: the id of each item, how long ago it\nwas removed, its size, what it is, and where it was.",
		Example: "  wsctl file trash ls\n  wsctl file trash ls --json | jq -r '.items[-1].id'",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.reading(cmd, &o, func(ctx context.Context, t *tree) error {
				items, err := t.trash(ctx)
				switch {
				case err != nil:
					return failedOperation(err, nil)
				case o.json:
					return a.ui.object(newTrashList(items, nil))
				}
				return a.ui.trash(items)
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}

func newTrashRestoreCommand(a *app) *cobra.Command {
	var o treeOptions
	cmd := &cobra.Command{
		Use:     "restore [flags] ID [PATH]",
		Short:   "Put an item of the trash back",
		Long:    "Put an item of the trash back where it was, or at PATH. Directories above it are\nmade. A path that is taken is EXISTS.",
		Example: "  wsctl file trash restore 20260102T150405.000000000-0a1b2c3d\n  wsctl file trash restore \"$(wsctl file trash ls --json | jq -r '.items[-1].id')\" found",
		Args:    takes(1, 2, "the id of an item, and perhaps a path"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return a.completePath(&o)(cmd, args, begun)
			}
			return a.completeTrash(cmd.Context(), &o), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.changing(cmd, &o, func(ctx context.Context, t *tree) error {
				return a.restore(ctx, t, args, o.json)
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (a *app) restore(ctx context.Context, t *tree, args []string, asJSON bool) error {
	id := args[0]
	items, err := t.trash(ctx)
	if err != nil {
		return failedOperation(err, nil)
	}
	at := ""
	for _, i := range items {
		if i.ID == id {
			at = i.Path
		}
	}
	if at == "" {
		return failedOperation(workspace.Errorf(workspace.ErrNotFound, "restore", id, "the trash has no such item; wsctl file trash ls lists it"), nil)
	}
	if len(args) > 1 {
		at = args[1]
		err = t.do(at, func(name string) error { return t.RestoreTrash(ctx, id, name) })
	} else {
		err = t.RestoreTrash(ctx, id, "")
	}
	if err == nil && asJSON {
		return a.ui.object(newPathText(at))
	}
	return failedOperation(err, nil)
}

// completeTrash offers the ids of the trash, the newest first.
func (a *app) completeTrash(ctx context.Context, o *treeOptions) []string {
	t, err := a.openTree(o)
	if err != nil {
		return nil
	}
	defer t.Close()
	items, err := t.trash(ctx)
	if err != nil {
		return nil
	}
	var offers []string
	for _, i := range items {
		offers = append([]string{cobra.CompletionWithDesc(i.ID, workspace.Printable(i.Path))}, offers...)
	}
	return offers
}

const trashPurgeLong = `Delete items of the trash for good, and print them: those that were removed longer
ago than --older-than, then the oldest until the rest is at most --max-size, or
--all, damaged ones included.`

// purgeOptions are the flags of file trash purge.
type purgeOptions struct {
	tree      treeOptions
	olderThan duration
	maxSize   size
	all       bool
}

func newTrashPurgeCommand(a *app) *cobra.Command {
	var o purgeOptions
	const year = 365 * 24 * time.Hour
	o.olderThan.most = 100 * year
	o.maxSize.least, o.maxSize.most = 1, maxSize
	cmd := &cobra.Command{
		Use:     "purge [flags]",
		Short:   "Delete items of the trash for good",
		Long:    trashPurgeLong,
		Example: "  wsctl file trash purge --older-than 720h\n  wsctl file trash purge --max-size 1g\n  wsctl file trash purge --all",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			bounded := o.olderThan.value > 0 || o.maxSize.set
			switch {
			case !bounded && !o.all:
				return usagef(verbOf(cmd), "say what to delete: --older-than, --max-size or --all")
			case bounded && o.all:
				return usagef(verbOf(cmd), "--all leaves nothing for --older-than and --max-size; use one")
			}
			return a.changing(cmd, &o.tree, func(ctx context.Context, t *tree) error {
				return a.purge(ctx, t, &o)
			})
		},
	}
	f := cmd.Flags()
	f.Var(&o.olderThan, "older-than", "delete what was removed longer ago: 90s, 12h, 720h")
	f.Var(&o.maxSize, "max-size", "delete the oldest until so much is left")
	f.BoolVar(&o.all, "all", false, "delete everything")
	o.tree.addFlags(cmd)
	return cmd
}

func (a *app) purge(ctx context.Context, t *tree, o *purgeOptions) error {
	var gone []host.TrashItem
	has, err := t.hasState()
	if has {
		gone, err = t.PurgeTrash(ctx, host.PurgeOptions{OlderThan: o.olderThan.value, MaxBytes: o.maxSize.value, All: o.all})
	}
	switch {
	case err != nil:
		return failedOperation(err, newTrashList(gone, err))
	case o.tree.json:
		return a.ui.object(newTrashList(gone, nil))
	case len(gone) == 0:
		a.ui.talk("nothing is deleted")
		return nil
	}
	return a.ui.trash(gone)
}
