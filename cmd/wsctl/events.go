//go:build unix

package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/workspace"
)

const eventsLong = `Print what happened to the workspaces of a server: created, started, paused, resumed,
stopped, updated, removed, expired; and to jobs: job-started, job-ended. Without
--remote it is that of your own server. It takes a token with the scope admin. The
last thousand or so since the server was started are kept.`

const eventsExample = `  wsctl events --follow
  wsctl events --json | jq -r 'select(.type == "expired") | .name'`

// eventsOptions are the flags of events.
type eventsOptions struct {
	where        whereOptions
	follow, json bool
}

// eventsTime is how long a server that has no events is waited for.
const eventsTime = time.Second

func newEventsCommand(a *app) *cobra.Command {
	var o eventsOptions
	cmd := &cobra.Command{
		Use:     "events [flags]",
		Short:   "Print what happens to the workspaces of a server",
		Long:    eventsLong,
		Example: eventsExample,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			c, err := a.server(ctx, &o.where)
			if err != nil {
				return err
			}
			defer c.Close()
			err = eachEvent(ctx, c, o.follow, func(e orchestrator.Event) error {
				if o.json {
					return a.ui.line(e)
				}
				return a.ui.result([]byte(eventText(e) + "\n"))
			})
			return followed(ctx, o.follow, err)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "go on with what happens, until a signal comes")
	f.BoolVar(&o.json, "json", false, "print one JSON object a line")
	o.where.addFlags(cmd)
	return cmd
}

// eachEvent calls do for what happened, and with follow for what will.
func eachEvent(ctx context.Context, c *connection, follow bool, do func(orchestrator.Event) error) error {
	after := int64(0)
	for {
		list, err := nextEvents(ctx, c, after, follow)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := do(e); err != nil {
				return err
			}
			after = max(after, e.Seq)
		}
		if !follow || ctx.Err() != nil {
			return nil
		}
	}
}

// nextEvents asks once. The server waits for an event; who does not follow does not.
func nextEvents(ctx context.Context, c *connection, after int64, wait bool) ([]orchestrator.Event, error) {
	if wait {
		return c.Events(ctx, after)
	}
	short, cancel := context.WithTimeout(ctx, eventsTime)
	defer cancel()
	list, err := c.Events(short, after)
	if errors.Is(err, workspace.ErrAborted) && ctx.Err() == nil {
		return nil, nil
	}
	return list, err
}

// eventText is an event as a person reads it.
func eventText(e orchestrator.Event) string {
	name := e.Name
	if name != e.Workspace {
		name += " (" + e.Workspace + ")"
	}
	parts := []string{e.Time.Local().Format(time.DateTime), e.Type, name}
	if e.Detail != "" {
		parts = append(parts, e.Detail)
	}
	parts = append(parts, sortedLabels(e.Labels)...)
	return escapeLine(strings.Join(parts, " "))
}
