//go:build unix

package main

import (
	"context"

	"github.com/spf13/cobra"
)

const pauseLong = `Stop all processes of workspaces where they are: they take no processor time, and
commands are refused (BUSY) until "wsctl resume". Files can be read and written
meanwhile.`

func newPauseCommand(a *app) *cobra.Command {
	return a.stateCommand("pause", "Stop what runs in workspaces where it is", pauseLong, fleet.Pause)
}

const resumeLong = `Let the processes of workspaces go on that "wsctl pause" has stopped.`

func newResumeCommand(a *app) *cobra.Command {
	return a.stateCommand("resume", "Let paused workspaces go on", resumeLong, fleet.Resume)
}

// stateCommand is a verb that changes the state of workspaces, one after the other
// up to the first failure.
func (a *app) stateCommand(verb, short, long string, change func(fleet, context.Context, string) error) *cobra.Command {
	var where whereOptions
	cmd := &cobra.Command{
		Use:     verb + " NAME…",
		Short:   short,
		Long:    long,
		Example: "  wsctl " + verb + " app",
		Args:    takes(1, -1, "workspaces"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.withFleet(ctx, &where, func(f fleet) error {
				for _, ref := range args {
					if err := change(f, ctx, ref); err != nil {
						return err
					}
				}
				return nil
			})
		},
		ValidArgsFunction: a.completeWorkspaces(0, &where),
	}
	where.addFlags(cmd)
	return cmd
}
