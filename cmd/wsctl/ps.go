package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/reaper"
	"github.com/wsctl/wsctl/workspace"
)

const psLong = `List the containers of wsctl on this engine, those of other owners included:
the directory each is over, the process that owns it, and whether that still
lives. An orphan's owner is proven to be gone; "wsctl reap", and every start of a
sandbox, removes orphans. Nothing is changed.`

// owned is one container as ps and reap tell of it.
type owned struct {
	Name  string `json:"name"`
	ID    string `json:"id"`
	Image string `json:"image"`
	State string `json:"state"`
	// Root is as text; RootBytes has the exact bytes where they are not UTF-8.
	Root      string         `json:"root"`
	RootBytes []byte         `json:"rootBase64,omitempty"`
	Workspace string         `json:"workspace,omitempty"`
	Version   string         `json:"version,omitempty"`
	Detached  bool           `json:"detached"`
	Owner     *owner         `json:"owner"`
	Created   time.Time      `json:"created"`
	Verdict   reaper.Verdict `json:"verdict"`
	Reason    string         `json:"reason"`
	// Removed is reap's.
	Removed bool `json:"removed"`
}

type owner struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`
}

func newOwned(c reaper.Container) owned {
	o := owned{
		Name: c.Name, ID: c.ID, Image: c.Image, State: c.State,
		Workspace: c.Tag.Workspace, Version: c.Tag.Version, Detached: c.Tag.Detached,
		Created: c.Created.UTC(), Verdict: c.Verdict, Reason: c.Reason, Removed: c.Removed,
	}
	valid, exact := text([]byte(c.Tag.Root))
	if o.Root = valid; exact != "" {
		o.RootBytes = []byte(c.Tag.Root)
	}
	if c.Tag.Owner.PID != 0 {
		o.Owner = &owner{Host: c.Tag.Owner.Host, PID: c.Tag.Owner.PID}
	}
	return o
}

// containers is what ps and reap print with --json.
type containers struct {
	Containers []owned  `json:"containers"`
	Error      *failure `json:"error,omitempty"`
}

func newContainers(list []reaper.Container, err error) containers {
	c := containers{Containers: make([]owned, 0, len(list))}
	for _, each := range list {
		c.Containers = append(c.Containers, newOwned(each))
	}
	if err != nil {
		c.Error = newFailure(err)
	}
	return c
}

func newPsCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ps [--json]",
		Short:   "List the containers of wsctl, and whether their owners live",
		Long:    psLong,
		Example: "  wsctl ps\n  wsctl ps --json | jq -r '.containers[] | select(.verdict == \"orphan\") | .name'",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.ps(cmd.Context(), asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (a *app) ps(ctx context.Context, asJSON bool) error {
	e, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	list, err := reaper.List(ctx, e.API())
	if err != nil {
		return err
	}
	if asJSON {
		return a.ui.object(newContainers(list, nil))
	}
	return a.ui.containers(list)
}

// containers prints a table of containers, one a line.
func (u *ui) containers(list []reaper.Container) error {
	now := time.Now()
	rows := make([][]string, 0, len(list))
	for _, c := range list {
		status := string(c.Verdict)
		if c.Removed {
			status = "removed"
		}
		// That the owner lives, the row says already.
		if c.Reason != "" && c.Verdict != reaper.Alive {
			status += ": " + workspace.Printable(c.Reason)
		}
		if c.Tag.Detached && c.Verdict == reaper.Alive && !c.Tag.Expires.IsZero() {
			status += " until " + c.Tag.Expires.Local().Format(time.DateTime)
		}
		rows = append(rows, []string{
			column(c.Name), column(c.State), age(now.Sub(c.Created)), column(ownerText(c.Tag)), column(c.Tag.Root), status,
		})
	}
	return u.table([]string{"CONTAINER", "STATE", "AGE", "OWNER", "ROOT", "STATUS"}, rows)
}

// column makes a text from elsewhere fit for one column of a line.
func column(s string) string {
	if s == "" {
		return "-"
	}
	return workspace.Printable(s)
}

// ownerText is "HOST:PID", or what there is instead.
func ownerText(t reaper.Tag) string {
	switch {
	case t.Owner.PID == 0:
		return ""
	case t.Detached:
		return "detached"
	}
	return t.Owner.Host + ":" + strconv.Itoa(t.Owner.PID)
}

// age prints how long ago something was, in its largest unit.
func age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(d, 0)/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 2*day:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/day)
}

// connect finds the engine that the environment names.
func (a *app) connect(ctx context.Context) (*container.Engine, error) {
	o, err := a.env.engine()
	if err != nil {
		return nil, err
	}
	return container.Connect(ctx, o)
}

// dial is connect for what needs to know nothing about the engine.
func (a *app) dial(ctx context.Context) (*container.Engine, error) {
	o, err := a.env.engine()
	if err != nil {
		return nil, err
	}
	return container.Dial(ctx, o)
}
