//go:build unix

package main

import (
	"context"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/workspace"
)

const lsLong = `List the workspaces of "wsctl up" on this engine, those that others made included.
"wsctl ps" lists all containers of wsctl. Nothing is changed, and no time to live
is renewed.

With a PATH list that directory of the root, with -R or --depth also what lies
below it. Hidden entries are left out unless -a is given, and what .gitignore
ignores unless --no-ignore is. "wsctl file ls" lists every entry of a directory.`

const lsExample = `  wsctl ls
  wsctl ls --json | jq -r '.workspaces[] | select(.state != "running") | .name'
  wsctl ls -l src
  wsctl ls -R --time --limit 20 .`

// workspaceText is a detached workspace in JSON.
type workspaceText struct {
	Name      string     `json:"name"`
	ID        string     `json:"id"`
	State     string     `json:"state"`
	Root      string     `json:"root"`
	RootBytes []byte     `json:"rootBase64,omitempty"`
	Workspace string     `json:"workspace,omitempty"`
	Version   string     `json:"version"`
	Created   time.Time  `json:"created"`
	Expires   *time.Time `json:"expires"`
	// Options are those that it was made with.
	Options container.Choices `json:"options"`
}

func newWorkspaceText(w container.Detached) workspaceText {
	t := workspaceText{
		Name: w.Name, ID: w.ID, State: w.State, Workspace: w.Workspace, Version: w.Version, Created: w.Created.UTC(), Options: w.Choices,
	}
	valid, exact := text([]byte(w.Root))
	if t.Root = valid; exact != "" {
		t.RootBytes = []byte(w.Root)
	}
	if !w.Expires.IsZero() {
		t.Expires = &w.Expires
	}
	return t
}

// workspaceList is what `wsctl ls --json` prints.
type workspaceList struct {
	Workspaces []workspaceText `json:"workspaces"`
}

func newLsCommand(a *app) *cobra.Command {
	var o lsFilesOptions
	cmd := &cobra.Command{
		Use:               "ls [flags] [PATH]",
		Short:             "List the workspaces, or the files of a directory",
		Long:              lsLong,
		Example:           lsExample,
		Args:              takes(0, 1, "at most one path"),
		ValidArgsFunction: a.completePath(&o.tree),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if flag := aboutFiles(cmd); flag != "" {
					return usagef(verbOf(cmd), "%s is about files; give a path, . for the root", flag)
				}
				return a.listWorkspaces(cmd.Context(), o.tree.json)
			}
			return a.searching(cmd, &o.searchOptions, func(ctx context.Context, t *tree, ws *workspace.Workspace) error {
				return failedOperation(a.listFiles(ctx, t, ws, &o, args[0]), nil)
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (a *app) listWorkspaces(ctx context.Context, asJSON bool) error {
	e, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	list, err := container.ListDetached(ctx, e)
	if err != nil {
		return err
	}
	if asJSON {
		all := workspaceList{Workspaces: []workspaceText{}}
		for _, w := range list {
			all.Workspaces = append(all.Workspaces, newWorkspaceText(w))
		}
		return a.ui.object(all)
	}
	now := time.Now()
	rows := make([][]string, 0, len(list))
	for _, w := range list {
		rows = append(rows, []string{
			column(w.Name), w.ID[:min(len(w.ID), 12)], column(w.State), age(now.Sub(w.Created)), expiry(w.Expires.Sub(now), w.Expires), column(imageText(w.Choices)), column(w.Root),
		})
	}
	return a.ui.table([]string{"NAME", "ID", "STATE", "AGE", "EXPIRES", "IMAGE", "ROOT"}, rows)
}

// imageText is the image as a person chose it.
func imageText(c container.Choices) string {
	if c.Image == "" {
		return "(this machine's programs)"
	}
	return c.Image
}

// expiry prints in how long a workspace may be reaped.
func expiry(left time.Duration, at time.Time) string {
	switch {
	case at.IsZero():
		return "never"
	case left <= 0:
		return "now"
	}
	return "in " + units.HumanDuration(left)
}
