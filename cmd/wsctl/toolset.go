package main

import (
	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

// toolOptions are the flags that say which tools an agent has and what it may
// do with them.
type toolOptions struct {
	tools []string
}

func (o *toolOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&names{&o.tools, "NAME,…"}, "tools", "only these tools (default: all)")
	_ = cmd.RegisterFlagCompletionFunc("tools", cobra.FixedCompletions(tools.Names(), cobra.ShellCompDirectiveNoFileComp))
}

// toolSet makes the tools that the flags describe.
func (a *app) toolSet(ws *workspace.Workspace, o *toolOptions) (*tools.Set, error) {
	return tools.NewSet(ws, tools.Options{Tools: o.tools, Logger: a.ui.logger()})
}
