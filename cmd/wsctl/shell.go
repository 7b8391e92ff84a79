package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/workspace"
)

const shellLong = `Open an interactive shell in a fresh sandbox over a directory, and remove the
sandbox when it ends; with NAME, in that workspace of "wsctl up", which stays. It
is bash where there is one, sh otherwise. The flags are those of "wsctl run", or
with NAME of "wsctl exec", and so is the exit status.`

const shellExample = `  wsctl shell
  wsctl shell app
  wsctl shell --root ~/src/app --network bridge
  wsctl shell --image alpine -e EDITOR=vi`

// pickShell becomes the best shell there is.
const pickShell = `if command -v bash >/dev/null 2>&1; then exec bash -i; else exec sh -i; fi`

// shellOptions are the flags of shell.
type shellOptions struct {
	place placeOptions
	env   envOptions
	dir   string
	quiet bool
	where whereOptions
}

func newShellCommand(a *app) *cobra.Command {
	var o shellOptions
	cmd := &cobra.Command{
		Use:     "shell [NAME] [flags]",
		Short:   "Open a shell in a fresh sandbox, or in a workspace",
		Long:    shellLong,
		Example: shellExample,
		Args:    takes(0, 1, "one workspace, or none for a fresh sandbox"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.shell(cmd, &o, args)
		},
		ValidArgsFunction: a.completeWorkspaces(1, &o.where),
	}
	f := cmd.Flags()
	f.Var(&named{&o.dir, "DIR"}, "dir", "start in this directory, below the root or as the shell sees it")
	_ = cmd.MarkFlagDirname("dir")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print no warnings and no progress")
	o.env.addFlags(cmd)
	o.place.addFlags(cmd)
	o.where.addFlags(cmd)
	return cmd
}

func (a *app) shell(cmd *cobra.Command, o *shellOptions, args []string) error {
	a.ui.setQuiet(o.quiet)
	o.env.inheritSet = cmd.Flags().Changed("inherit-env")
	if err := o.env.check(cmd.Name()); err != nil {
		return err
	}
	if !a.ui.inTTY {
		instead := "run"
		if len(args) > 0 {
			instead = "exec " + workspace.Printable(args[0])
		}
		return usagef(cmd.Name(), "a shell needs a terminal on standard input; for a script use wsctl %s -i -- sh", instead)
	}
	if err := o.place.check(cmd); err != nil {
		return err
	}
	open := func(ctx context.Context) (*workspace.Workspace, error) { return a.open(ctx, &o.place, &o.env) }
	if len(args) > 0 {
		if flag := o.place.changed(cmd); flag != "" {
			return usagef(cmd.Name(), "--%s is decided when a workspace is made; leave it out, or leave out %s", flag, args[0])
		}
		open = func(ctx context.Context) (*workspace.Workspace, error) {
			return a.openIn(ctx, &o.where, args[0], o.env.inherited(a.env), o.place.disk.value)
		}
	}
	line := commandOptions{dir: o.dir, env: o.env}
	c, err := line.command(cmd.Name(), a.env)
	if err != nil {
		return err
	}
	c.Shell = pickShell
	out, err := a.runIn(cmd.Context(), open, runMode{tty: true}, c)
	if err != nil {
		return err
	}
	return exitStatus(out.ExitCode)
}
