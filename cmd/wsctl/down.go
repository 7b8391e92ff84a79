//go:build unix

package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/workspace"
)

const downLong = `Remove workspaces of "wsctl up": what runs in them is ended, what was installed in
them is gone. Their directories stay as they are, but for those that a server made. Each name is printed when it is
gone; one that is not there is NOT_FOUND, and the others are removed all the same.`

// downOptions are the flags of down.
type downOptions struct {
	all, json bool
	where     whereOptions
}

func newDownCommand(a *app) *cobra.Command {
	var o downOptions
	cmd := &cobra.Command{
		Use:     "down NAME… | --all",
		Short:   "Remove workspaces",
		Long:    downLong,
		Example: "  wsctl down app\n  wsctl down --all",
		Args: func(_ *cobra.Command, args []string) error {
			if o.all == (len(args) > 0) {
				return usagef("down", "name workspaces, or give --all for every one that was made on this machine or is the server's")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withFleet(cmd.Context(), &o.where, func(f fleet) error {
				return a.down(cmd.Context(), f, o, args)
			})
		},
		ValidArgsFunction: a.completeWorkspaces(0, &o.where),
	}
	cmd.Flags().BoolVar(&o.all, "all", false, "all that were made on this machine, or with --remote all that the token reaches")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object")
	o.where.addFlags(cmd)
	return cmd
}

// removedWorkspaces is what `wsctl down --json` prints.
type removedWorkspaces struct {
	Removed []string `json:"removed"`
	Error   *failure `json:"error,omitempty"`
}

func (a *app) down(ctx context.Context, f fleet, o downOptions, refs []string) error {
	r := a.newRemoval(f, o.json)
	targets, err := downTargets(ctx, f, o, refs, r.failed)
	if err != nil {
		return err
	}
	return r.remove(ctx, targets)
}

// removal removes workspaces, each whatever becomes of the others.
type removal struct {
	app          *app
	fleet        fleet
	json, dryRun bool
	first        error // the others are printed as they come
}

func (a *app) newRemoval(f fleet, asJSON bool) *removal {
	return &removal{app: a, fleet: f, json: asJSON}
}

func (r *removal) failed(err error) {
	if r.first == nil {
		r.first = err
	} else {
		r.app.ui.failure(err)
	}
}

// remove removes targets, prints those that are gone, and returns the first failure.
func (r *removal) remove(ctx context.Context, targets []workspaceText) error {
	result := removedWorkspaces{Removed: []string{}}
	for _, w := range targets {
		if !r.dryRun {
			if err := r.fleet.Remove(ctx, w.ID); err != nil {
				r.failed(err)
				continue
			}
		}
		result.Removed = append(result.Removed, w.Name)
		if !r.json {
			if err := r.app.ui.result([]byte(workspace.Printable(w.Name) + "\n")); err != nil {
				return err
			}
		}
	}
	if !r.json {
		return r.first
	}
	if r.first != nil {
		result.Error = newFailure(r.first)
		return &objectError{err: r.first, object: result}
	}
	return r.app.ui.object(result)
}

// downTargets are the workspaces that refs name, each once, or all.
func downTargets(ctx context.Context, f fleet, o downOptions, refs []string, failed func(error)) ([]workspaceText, error) {
	if o.all {
		return f.Own(ctx)
	}
	var targets []workspaceText
	seen := map[string]bool{}
	for _, ref := range refs {
		w, err := f.Find(ctx, ref)
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
