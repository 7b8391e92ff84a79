package main

import "github.com/spf13/cobra"

// verbGroups is the order in which the help of wsctl lists its verbs. One that is
// in no group comes last.
var verbGroups = []struct {
	title string
	verbs []string
}{
	{"Sandboxes", []string{"run", "shell", "doctor", "ps", "reap"}},
	{"Workspaces that stay", []string{"up", "exec", "job", "logs", "attach", "ls", "inspect", "pause", "resume", "cp", "down", "prune"}},
	{"Files", []string{"file", "grep", "glob", "status"}},
	{"Snapshots", []string{"snapshot", "rewind", "review"}},
	{"Agents", []string{"mcp", "tool"}},
	{"Servers", []string{"serve", "token", "context", "audit", "events"}},
}

// group puts the verbs of root, as many as this system has, into their groups.
func group(root *cobra.Command) {
	verbs := map[string]*cobra.Command{}
	for _, cmd := range root.Commands() {
		verbs[cmd.Name()] = cmd
	}
	for _, g := range verbGroups {
		found := false
		for _, name := range g.verbs {
			if cmd := verbs[name]; cmd != nil {
				cmd.GroupID, found = g.title, true
			}
		}
		if found {
			root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		}
	}
}
