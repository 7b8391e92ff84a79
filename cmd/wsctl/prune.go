//go:build unix

package main

import (
	"slices"

	"github.com/spf13/cobra"
)

const pruneLong = `Remove the workspaces in which nothing runs: on the engine those of this machine whose
container has ended or never started, on a server those that are stopped. What was
installed in them is gone; their directories stay, but for those that a server made.
Each name is printed. --dry-run removes nothing.`

// idleStates are those in which nothing runs, in the words of the engine and of a
// server.
var idleStates = []string{"created", "exited", "dead", "stopped"}

func newPruneCommand(a *app) *cobra.Command {
	var o downOptions
	var dryRun bool
	cmd := &cobra.Command{
		Use:     "prune [flags]",
		Short:   "Remove the workspaces in which nothing runs",
		Long:    pruneLong,
		Example: "  wsctl prune --dry-run\n  wsctl prune --remote https://build.example:7777",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			return a.withFleet(ctx, &o.where, func(f fleet) error {
				all, err := f.Own(ctx)
				if err != nil {
					return err
				}
				idle := slices.DeleteFunc(all, func(w workspaceText) bool { return !slices.Contains(idleStates, w.State) })
				r := a.newRemoval(f, o.json)
				r.dryRun = dryRun
				return r.remove(ctx, idle)
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be removed")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object")
	o.where.addFlags(cmd)
	return cmd
}
