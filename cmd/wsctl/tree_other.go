//go:build !unix

package main

import "github.com/spf13/cobra"

// treeVerbs are none: a root is held by its descriptor, which takes a Unix.
func treeVerbs(*app) []*cobra.Command { return nil }

// workspaceVerbs are none for the same reason.
func workspaceVerbs(*app) []*cobra.Command { return nil }

// completeWorkspaces has none to offer.
func (a *app) completeWorkspaces(int, *whereOptions) cobra.CompletionFunc {
	return cobra.NoFileCompletions
}
