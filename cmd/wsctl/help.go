package main

import "github.com/spf13/cobra"

// newHelpCommand replaces cobra's, which takes an unknown verb for success.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "help [VERB…]",
		Short:   "Print help about a verb",
		Long:    "Print what a verb does, its flags and examples, as its --help does.",
		Example: "  wsctl help run\n  wsctl help file cat",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			var names []string
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, each := range found.Commands() {
				if each.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(each.Name(), each.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return noVerb(cmd.Root(), args)
			case len(rest) > 0:
				return noVerb(found, rest)
			}
			// These flags are made when a verb runs.
			found.InitDefaultHelpFlag()
			found.InitDefaultVersionFlag()
			return found.Help()
		},
	}
}
