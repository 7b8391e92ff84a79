//go:build unix

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/workspace"
)

const execLong = `Run one command in a workspace of "wsctl up", beside whatever else runs there. NAME
is its name or the beginning of its id. Flags of wsctl stand before the command,
before or after NAME; they mean what they mean to "wsctl run", and the exit status
is the same. With --background keep, what the command leaves running stays until
the workspace goes.

A workspace that has ended, as after a restart of the engine, is verified and
started again, and a line on standard error says why. One whose posture is not
what it must be is not used.`

const execExample = `  wsctl exec app -- make test
  wsctl exec app --dir web -c 'npm ci && npm test'
  wsctl exec --background keep app -c 'python3 -m http.server >server.log 2>&1 &'
  wsctl exec app --json --timeout 30 -- ls | jq .exitCode`

// execOptions are the flags of exec.
type execOptions struct {
	command commandOptions
	flow    flowOptions
	disk    size
	where   whereOptions
}

func newExecCommand(a *app) *cobra.Command {
	var o execOptions
	cmd := &cobra.Command{
		Use:     "exec NAME [flags] [--] CMD [ARG…]",
		Short:   "Run a command in a workspace",
		Long:    execLong,
		Example: execExample,
		Args:    takes(1, -1, "a workspace and a command"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.execIn(cmd, &o, args[0], args[1:])
		},
		ValidArgsFunction: a.completeWorkspaces(1, &o.where),
	}
	o.flow.addFlags(cmd)
	o.command.addFlags(cmd)
	addDiskFlag(cmd, &o.disk)
	o.where.addFlags(cmd)
	return cmd
}

func (a *app) execIn(cmd *cobra.Command, o *execOptions, name string, rest []string) error {
	// Flags may stand after NAME, too.
	if err := cmd.Flags().Parse(rest); err != nil {
		return flagError("exec", err)
	}
	args := cmd.Flags().Args()
	a.ui.setQuiet(o.flow.quiet)
	if help, err := cmd.Flags().GetBool("help"); err == nil && help {
		return cmd.Help()
	}
	if err := o.flow.check(cmd, a.ui, &o.command, args); err != nil {
		return err
	}
	c, err := o.flow.command(cmd, a.env, &o.command, args)
	if err != nil {
		return err
	}
	open := func(ctx context.Context) (*workspace.Workspace, error) {
		return a.openIn(ctx, &o.where, name, o.command.env.inherited(a.env), o.disk.value)
	}
	return a.runAndTell(cmd.Context(), open, &o.flow, c)
}
