package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/reaper"
)

const reapLong = `Remove the containers whose owner is proven to be gone, in whatever state they
are, and print them. The proof is the owner's host, boot, PID namespace, pid and
start time, which each container carries as labels. A container whose owner
lives, or of which nothing can be proven, is left alone; "wsctl ps" tells why.
Starting a sandbox does the same.`

// reapOptions are the flags of reap.
type reapOptions struct{ dryRun, json, quiet bool }

func newReapCommand(a *app) *cobra.Command {
	var o reapOptions
	cmd := &cobra.Command{
		Use:     "reap [--dry-run] [--json]",
		Short:   "Remove the containers that dead owners left",
		Long:    reapLong,
		Example: "  wsctl reap --dry-run\n  wsctl reap\n  wsctl reap --json | jq '[.containers[] | select(.removed)] | length'",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.reap(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "print what would be removed, and remove nothing")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print no warnings")
	return cmd
}

func (a *app) reap(ctx context.Context, o reapOptions) error {
	a.ui.setQuiet(o.quiet)
	e, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	list, reapErr := a.reapOn(ctx, e, reaper.Options{DryRun: o.dryRun, Logger: a.ui.logger()})
	if list == nil && reapErr != nil {
		return reapErr
	}
	var orphans []reaper.Container
	for _, c := range list {
		if c.Verdict == reaper.Orphan {
			orphans = append(orphans, c)
		}
	}
	switch {
	case o.json && reapErr == nil:
		return a.ui.object(newContainers(orphans, nil))
	case o.json:
		return &objectError{err: reapErr, object: newContainers(orphans, reapErr)}
	case len(orphans) == 0:
		a.ui.talk("no container has lost its owner")
		return reapErr
	}
	if err := a.ui.containers(orphans); err != nil {
		return err
	}
	return reapErr
}
