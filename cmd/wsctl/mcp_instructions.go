package main

import (
	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/mcpserver"
	"github.com/wsctl/wsctl/tools"
)

func newMCPInstructionsCommand(a *app) *cobra.Command {
	var only []string
	cmd := &cobra.Command{
		Use:     "instructions [flags]",
		Short:   "Print the guide for the model",
		Long:    "Print the short guide to the tools that clients get for their model. A client that\ndoes not pass it on can be given it by hand, in the file that it reads.",
		Example: "  wsctl mcp instructions\n  wsctl mcp instructions --tools read_file,edit_file >>AGENTS.md",
		Args:    noArguments,
		RunE: func(*cobra.Command, []string) error {
			set, err := tools.NewSet(nil, tools.Options{Tools: only})
			if err != nil {
				return err
			}
			defer func() { _ = set.Close() }()
			return a.ui.result([]byte(mcpserver.Instructions(set)))
		},
	}
	cmd.Flags().Var(&names{&only, "NAME,…"}, "tools", "for these tools only (default: all)")
	_ = cmd.RegisterFlagCompletionFunc("tools", cobra.FixedCompletions(tools.Names(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
