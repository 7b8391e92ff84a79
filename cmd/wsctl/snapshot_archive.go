//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

func newSnapshotForkCommand(a *app) *cobra.Command {
	var o storeOptions
	cmd := &cobra.Command{
		Use:     "fork [flags] ID DIR",
		Short:   "Make a new directory of a snapshot",
		Long:    "Make DIR, which must be missing or empty, what the snapshot holds. The root stays as\nit is. Files that the root still has as they were saved take no room of their own\nwhere the file system can share their content (XFS, Btrfs).",
		Example: "  wsctl snapshot fork latest ../app-experiment",
		Args:    takes(2, 2, "a snapshot and a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.snapshotVerb(cmd, &o, snapshot.Options{}, func(ctx context.Context, k *kept) error {
				id, err := k.find(ctx, args[0])
				if err != nil {
					return err
				}
				s, err := k.snaps.Fork(ctx, id, args[1])
				if err != nil || !o.tree.json {
					return err
				}
				return a.ui.object(newSnapshotText(s))
			})
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return nil, cobra.ShellCompDirectiveFilterDirs
			}
			return a.completeSnapshots(&o, 1)(cmd, args, begun)
		},
	}
	o.addFlags(cmd)
	return cmd
}

const snapshotExportLong = `Write a snapshot into one file, a tar in zstd that any tar reads: its entries lie
below tree/. Without FILE, or with -, it goes to standard output. A file that is
there is EXISTS.`

func newSnapshotExportCommand(a *app) *cobra.Command {
	var o storeOptions
	cmd := &cobra.Command{
		Use:     "export [flags] ID [FILE]",
		Short:   "Write a snapshot into one file",
		Long:    snapshotExportLong,
		Example: "  wsctl snapshot export latest app.tar.zst\n  wsctl snapshot export latest | ssh host wsctl snapshot import --root app -",
		Args:    takes(1, 2, "a snapshot, and perhaps a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.snapshotVerb(cmd, &o, snapshot.Options{}, func(ctx context.Context, k *kept) error {
				id, err := k.find(ctx, args[0])
				if err != nil {
					return err
				}
				if len(args) > 1 && args[1] != "-" {
					return exportTo(ctx, k, id, args[1])
				}
				if a.ui.outTTY {
					return usagef(verbOf(cmd), "an archive is nothing for a terminal; give a FILE, or redirect standard output")
				}
				_, err = k.store.Export(ctx, id, a.ui.out)
				return err
			})
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return a.completeSnapshots(&o, 1)(cmd, args, begun)
		},
	}
	o.addFlags(cmd)
	return cmd
}

// exportTo writes a new file, and leaves none when it fails.
func exportTo(ctx context.Context, k *kept, id, name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return workspace.Errorf(workspace.ErrExists, "", name, "there is a file of this name; give another one")
	}
	if err != nil {
		return workspace.Errorf(workspace.ErrIO, "", name, "%w", err)
	}
	if _, err = k.store.Export(ctx, id, f); err == nil {
		if err = f.Sync(); err != nil {
			err = workspace.Errorf(workspace.ErrIO, "", name, "%w", err)
		}
	}
	_ = f.Close()
	if err != nil {
		_ = os.Remove(name)
	}
	return err
}

func newSnapshotImportCommand(a *app) *cobra.Command {
	var o storeOptions
	limit := size{least: 1, most: maxSize}
	cmd := &cobra.Command{
		Use:     "import [flags] FILE",
		Short:   "Take a snapshot out of a file that export wrote",
		Long:    "Add the snapshot of an archive to those of the root, and print its id; - is standard\ninput. The archive may come from anybody: names that lead out, links as parents,\ndevices and more than --max-size are refused, and nothing is kept then.",
		Example: "  wsctl snapshot import app.tar.zst\n  wsctl snapshot restore \"$(wsctl snapshot import app.tar.zst)\"",
		Args:    takes(1, 1, "a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.snapshotVerb(cmd, &o, snapshot.Options{}, func(ctx context.Context, k *kept) error {
				var from io.Reader = a.ui.in
				if args[0] != "-" {
					f, err := os.Open(args[0])
					if err != nil {
						return workspace.Errorf(workspace.ErrNotFound, "", args[0], "%w", err)
					}
					defer f.Close()
					from = f
				}
				s, err := k.store.Import(ctx, from, snapshot.ImportOptions{MaxBytes: limit.value})
				switch {
				case err != nil:
					return err
				case o.tree.json:
					return a.ui.object(newSnapshotText(s))
				}
				return a.ui.result([]byte(s.ID + "\n"))
			})
		},
	}
	cmd.Flags().Var(&limit, "max-size", "the most that its files may take together (default 64 GiB)")
	o.addFlags(cmd)
	return cmd
}
