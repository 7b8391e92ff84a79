package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/mcpserver"
)

const mcpLong = `Give an agent the tools of wsctl over the Model Context Protocol: files through
the guard, commands in a hardened sandbox over the directory. A client starts it
and speaks to it over standard input and output; "wsctl mcp install" tells the
client how. It ends with its input, and the sandbox with it.

Nothing but messages is written to standard output, and nothing is started
before the first command needs it.`

const mcpExample = `  wsctl mcp install --client claude-code
  wsctl mcp --root ~/src/app
  wsctl mcp --tools read_file,edit_file --approve edit_file
  wsctl mcp --http 127.0.0.1:8808 --token-file ~/.config/wsctl/token`

// mcpOptions are the flags of mcp.
type mcpOptions struct {
	place placeOptions
	env   envOptions
	tools toolOptions
	http  httpOptions
}

// howToAllow is told where a client cannot ask the user.
const howToAllow = "start wsctl mcp with a --policy that allows it, or without the --approve that asks"

func (o *mcpOptions) addFlags(cmd *cobra.Command) {
	o.http.addFlags(cmd)
	o.tools.addFlags(cmd)
	o.env.addFlags(cmd)
	o.place.addFlags(cmd)
}

func newMCPCommand(a *app) *cobra.Command {
	var o mcpOptions
	cmd := &cobra.Command{
		Use:     "mcp [flags]",
		Short:   "Serve the tools to an agent over MCP",
		Long:    mcpLong,
		Example: mcpExample,
		Args:    noVerb,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.mcp(cmd, &o)
		},
	}
	o.addFlags(cmd)
	cmd.AddCommand(newMCPInstallCommand(a), newMCPInstructionsCommand(a))
	return cmd
}

func (a *app) mcp(cmd *cobra.Command, o *mcpOptions) error {
	o.env.inheritSet = cmd.Flags().Changed("inherit-env")
	if err := o.env.check(cmd.Name()); err != nil {
		return err
	}
	if err := o.place.check(cmd); err != nil {
		return err
	}
	if err := o.http.check(cmd); err != nil {
		return err
	}
	// Standard output is the client's. What any package prints there goes to
	// standard error, as a client's logs have it.
	out := os.Stdout
	os.Stdout, a.ui.out, a.ui.outTTY = os.Stderr, os.Stderr, a.ui.errTTY

	// The first signal ends what runs, the second one wsctl itself.
	ctx, release := signal.NotifyContext(cmd.Context(), stopSignals()...)
	defer release()
	context.AfterFunc(ctx, release)
	return a.withTools(ctx, &o.place, &o.env, &o.tools, func(s *mcpserver.Server) error {
		if o.http.address != "" {
			return o.http.serve(ctx, a, s)
		}
		return s.ServeStdio(ctx, a.ui.in, out)
	})
}

// withTools serves the tools over a workspace, and closes both.
func (a *app) withTools(ctx context.Context, place *placeOptions, env *envOptions, which *toolOptions, serve func(*mcpserver.Server) error) error {
	entries, err := env.entries("mcp", a.env)
	if err != nil {
		return err
	}
	ws, closeAll, err := a.openForAgent(ctx, place, env, entries)
	if err != nil {
		return err
	}
	defer closeAll()
	set, done, err := a.toolSet(ws, which)
	if err != nil {
		return err
	}
	defer done()
	s := mcpserver.New(set, mcpserver.Options{Version: thisBuild().Version, HowToAllow: howToAllow, Logger: a.ui.logger()})
	defer s.Close()
	if err := serve(s); err != nil {
		return coded(err)
	}
	return nil
}
