//go:build unix

package main

import "github.com/spf13/cobra"

// treeVerbs are the verbs that open a root on this machine themselves.
func treeVerbs(a *app) []*cobra.Command {
	return []*cobra.Command{newFileCommand(a), newGrepCommand(a), newGlobCommand(a), newStatusCommand(a)}
}

// workspaceVerbs are the verbs about detached workspaces.
func workspaceVerbs(a *app) []*cobra.Command {
	return []*cobra.Command{
		newUpCommand(a), newExecCommand(a), newLsCommand(a), newInspectCommand(a),
		newPauseCommand(a), newResumeCommand(a), newDownCommand(a), newPruneCommand(a),
		newCpCommand(a), newServeCommand(a), newTokenCommand(a), newContextCommand(a),
		newAuditCommand(a), newEventsCommand(a), newJobCommand(a), newLogsCommand(a), newAttachCommand(a),
	}
}
