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

const lsLong = `List the workspaces of "wsctl up" on this engine, those that others made included;
with --remote those of a server that the token reaches.
"wsctl ps" lists all containers of wsctl. Nothing is changed, and no time to live
is renewed.

With a PATH list that directory of the root, with -R or --depth also what lies
below it. Hidden entries are left out unless -a is given, and what .gitignore
ignores unless --no-ignore is. "wsctl file ls" lists every entry of a directory.`

const lsExample = `  wsctl ls
  wsctl ls --json | jq -r '.workspaces[] | select(.state != "running") | .name'
  wsctl ls --remote https://build.example:7777 --token-file token
  wsctl ls -l src
  wsctl ls -R --time --limit 20 .`

// workspaceText is a workspace that stays, in JSON.
type workspaceText struct {
	Name      string     `json:"name"`
	ID        string     `json:"id"`
	State     string     `json:"state"`
	Root      string     `json:"root"`
	RootBytes []byte     `json:"rootBase64,omitempty"`
	Workspace string     `json:"workspace,omitempty"`
	Version   string     `json:"version,omitempty"`
	Created   time.Time  `json:"created"`
	Expires   *time.Time `json:"expires"`
	// Options are those that it was made with.
	Options container.Choices `json:"options"`
	// Served is what a server knows of it beside that.
	Served *servedFacts `json:"served,omitempty"`
}

// servedFacts are those of a server's workspace.
type servedFacts struct {
	Driver         string            `json:"driver"`
	Owner          string            `json:"owner,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Used           time.Time         `json:"used"`
	IdleTTLSeconds int64             `json:"idleTtlSeconds,omitempty"`
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
	var where whereOptions
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
				return a.withFleet(cmd.Context(), &where, func(f fleet) error {
					return a.listWorkspaces(cmd.Context(), f, o.tree.json)
				})
			}
			if where != (whereOptions{}) {
				return usagef(verbOf(cmd), "a path is one of this machine; leave out what names a server, or the path")
			}
			return a.searching(cmd, &o.searchOptions, func(ctx context.Context, t *tree, ws *workspace.Workspace) error {
				return failedOperation(a.listFiles(ctx, t, ws, &o, args[0]), nil)
			})
		},
	}
	o.addFlags(cmd)
	where.addFlags(cmd)
	return cmd
}

func (a *app) listWorkspaces(ctx context.Context, f fleet, asJSON bool) error {
	list, err := f.List(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return a.ui.object(workspaceList{Workspaces: list})
	}
	now := time.Now()
	rows := make([][]string, 0, len(list))
	for _, w := range list {
		rows = append(rows, []string{
			column(w.Name), column(w.ID[:min(len(w.ID), 12)]), column(w.State), age(now.Sub(w.Created)), expiry(now, w.Expires), column(imageText(w)), column(w.Root),
		})
	}
	return a.ui.table([]string{"NAME", "ID", "STATE", "AGE", "EXPIRES", "IMAGE", "ROOT"}, rows)
}

// imageText is the image as a person chose it.
func imageText(w workspaceText) string {
	switch {
	case w.Options.Image != "":
		return w.Options.Image
	case w.Served == nil:
		return "(this machine's programs)"
	case w.Served.Driver == driverHost:
		return "(none: host)"
	}
	return "(the server's default)"
}

// expiry prints in how long a workspace may be reaped.
func expiry(now time.Time, at *time.Time) string {
	switch {
	case at == nil:
		return "never"
	case !at.After(now):
		return "now"
	}
	return "in " + units.HumanDuration(at.Sub(now))
}
