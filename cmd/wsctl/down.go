//go:build unix

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/reaper"
	"github.com/wsctl/wsctl/workspace"
)

const downLong = `Remove workspaces of "wsctl up": what runs in them is ended, what was installed in
them is gone. Their directories stay as they are. Each name is printed when it is
gone; one that is not there is NOT_FOUND, and the others are removed all the same.`

// downOptions are the flags of down.
type downOptions struct{ all, json bool }

func newDownCommand(a *app) *cobra.Command {
	var o downOptions
	cmd := &cobra.Command{
		Use:     "down NAME… | --all",
		Short:   "Remove workspaces",
		Long:    downLong,
		Example: "  wsctl down app\n  wsctl down --all",
		Args: func(_ *cobra.Command, args []string) error {
			if o.all == (len(args) > 0) {
				return usagef("down", "name workspaces, or give --all for every one that was made on this machine")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.down(cmd.Context(), o, args)
		},
		ValidArgsFunction: a.completeWorkspaces(0),
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "all that were made on this machine")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object")
	return cmd
}

// removedWorkspaces is what `wsctl down --json` prints.
type removedWorkspaces struct {
	Removed []string `json:"removed"`
	Error   *failure `json:"error,omitempty"`
}

func (a *app) down(ctx context.Context, o downOptions, refs []string) error {
	e, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	result := removedWorkspaces{Removed: []string{}}
	var first error
	failed := func(err error) {
		if first == nil {
			first = err
		} else {
			a.ui.failure(err)
		}
	}
	targets, err := a.downTargets(ctx, e, o, refs, failed)
	if err != nil {
		return err
	}
	for _, w := range targets {
		if err := w.Remove(ctx, e, a.env.cacheDir()); err != nil {
			failed(err)
			continue
		}
		result.Removed = append(result.Removed, w.Name)
		if !o.json {
			if err := a.ui.result([]byte(workspace.Printable(w.Name) + "\n")); err != nil {
				return err
			}
		}
	}
	if !o.json {
		return first
	}
	if first != nil {
		result.Error = newFailure(first)
		return &objectError{err: first, object: result}
	}
	return a.ui.object(result)
}

// downTargets are the workspaces that refs name, each once, or all of this machine.
func (a *app) downTargets(ctx context.Context, e *container.Engine, o downOptions, refs []string, failed func(error)) ([]container.Detached, error) {
	var targets []container.Detached
	if o.all {
		self, err := reaper.Self()
		if err != nil {
			return nil, workspace.Errorf(workspace.ErrIO, "down", "", "find out what machine this is: %w", err)
		}
		list, err := container.ListDetached(ctx, e)
		for _, w := range list {
			if w.Owner.Host == self.Host && w.Owner.Machine == self.Machine {
				targets = append(targets, w)
			}
		}
		return targets, err
	}
	seen := map[string]bool{}
	for _, ref := range refs {
		w, err := container.FindDetached(ctx, e, ref)
		switch {
		case errors.Is(err, workspace.ErrNotFound):
			failed(err)
		case err != nil:
			return nil, err
		case !seen[w.ID]:
			seen[w.ID] = true
			targets = append(targets, w)
		}
	}
	return targets, nil
}
