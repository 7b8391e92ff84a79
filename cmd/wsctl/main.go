// Command wsctl runs commands in hardened sandboxes over directories of this
// machine. This package is flags, wiring, printing and exit statuses; it is the
// only one that reads the environment.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/workspace"
)

func main() {
	keeper.Init()
	env := environment(os.Environ())
	a := &app{ui: newUI(os.Stdin, os.Stdout, os.Stderr, env.fancy()), env: env}
	os.Exit(a.main(context.Background(), os.Args[1:]))
}

// app is what every verb works with.
type app struct {
	ui  *ui
	env environment
}

const rootLong = `wsctl is a place for commands that nobody has read: one directory of this machine,
and one hardened Docker container that goes when wsctl does.`

const rootExample = `  wsctl run -- go test ./...
  wsctl shell
  wsctl up app && wsctl exec app -- make
  wsctl file cat go.mod
  wsctl doctor`

func newRootCommand(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:     "wsctl",
		Short:   "Run commands in hardened sandboxes over a directory",
		Long:    rootLong,
		Example: rootExample,
		Version: thisBuild().String(),
		// Failures are printed and turned into a status in one place, fail.
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noVerb,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagError(verbOf(cmd), err) })
	root.SetVersionTemplate("{{.Version}}\n")
	root.SuggestionsMinimumDistance = 2
	root.SetOut(a.ui.out)
	root.SetErr(a.ui.err)
	root.SetHelpCommand(newHelpCommand())
	root.AddCommand(
		newRunCommand(a),
		newShellCommand(a),
		newMCPCommand(a),
		newToolCommand(a),
		newPsCommand(a),
		newReapCommand(a),
		newDoctorCommand(a),
		newVersionCommand(a),
		newCompletionCommand(a),
	)
	root.AddCommand(treeVerbs(a)...)
	root.AddCommand(workspaceVerbs(a)...)
	root.AddCommand(snapshotVerbs(a)...)
	group(root)
	return root
}

// main runs the verb that args name and returns the exit status.
func (a *app) main(ctx context.Context, args []string) int {
	root := newRootCommand(a)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	var status exitStatus
	if err != nil && !errors.As(err, &status) {
		if workspace.CodeOf(err) == "" {
			// Verbs return errors with a code; cobra's own is about the
			// arguments.
			err = usagef(verbOf(cmd), "%w", err)
		}
		a.fail(cmd, args, err)
	}
	return statusOf(err)
}
