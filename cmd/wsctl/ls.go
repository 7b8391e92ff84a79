//go:build unix

package main

import (
	"context"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/container"
)

const lsLong = `List the workspaces of "wsctl up" on this engine, those that others made included.
"wsctl ps" lists all containers of wsctl. Nothing is changed, and no time to live
is renewed.`

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
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls [--json]",
		Short:   "List the workspaces",
		Long:    lsLong,
		Example: "  wsctl ls\n  wsctl ls --json | jq -r '.workspaces[] | select(.state != \"running\") | .name'",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("ls", "%q is too much; for the files of a directory use wsctl file ls", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.listWorkspaces(cmd.Context(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
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
