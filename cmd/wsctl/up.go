//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/workspace"
)

const upLong = `Make a workspace that stays: a sandbox over a directory that belongs to no process,
for "wsctl exec" and "wsctl shell", of several at once. What its commands install
and leave running (with --background keep) is there for the next one. It goes with
"wsctl down", or after --ttl at the next start of any sandbox or "wsctl reap".

NAME is unique on the engine; without one it is that of the directory, or that of
the workspace which is over it already. A workspace that is there with the same
options is left as it is, and made ready. The name is printed.`

const upExample = `  wsctl up
  wsctl up app --root ~/src/app --network bridge --memory 4g
  wsctl up ci-42 --image golang:1.26 --ttl 8h
  wsctl exec app -- make test`

// upOptions are the flags of up.
type upOptions struct {
	place placeOptions
	ttl   duration
	json  bool
	quiet bool
}

// maxTTL bounds --ttl; nobody means more.
const maxTTL = 10 * 365 * 24 * time.Hour

func newUpCommand(a *app) *cobra.Command {
	o := upOptions{ttl: duration{most: maxTTL}}
	cmd := &cobra.Command{
		Use:     "up [NAME] [flags]",
		Short:   "Make a workspace that stays",
		Long:    upLong,
		Example: upExample,
		Args:    takes(0, 1, "one name, or none for that of the directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.ui.setQuiet(o.quiet)
			name := ""
			if len(args) > 0 {
				if name = args[0]; !container.ValidName(name) {
					return usagef("up", "%s cannot be a name; use up to 48 lower-case letters, digits and, not first, any of -_.", workspace.Printable(name))
				}
			}
			if err := o.place.check(cmd); err != nil {
				return err
			}
			if o.ttl.value%time.Second != 0 {
				return usagef("up", "--ttl: give whole seconds")
			}
			return a.up(cmd.Context(), &o, name)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	o.place.addRootFlag(cmd)
	o.place.addContainerFlags(cmd)
	f.Var(&o.ttl, "ttl", "reap the workspace this long after it was made, in seconds or as 90m, 8h; 0: never (default 0)")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print no warnings and no progress")
	return cmd
}

// madeWorkspace is what `wsctl up --json` prints.
type madeWorkspace struct {
	workspaceText
	// Made is false when it was there already.
	Made bool `json:"made"`
}

func (a *app) up(ctx context.Context, o *upOptions, name string) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	e, err := a.connect(ctx)
	if err != nil {
		return err
	}
	c, err := a.containerOptions(e, &o.place)
	if err == nil && name == "" {
		name, err = nameFor(ctx, e, o.place.root)
	}
	if err != nil {
		return errors.Join(err, e.Close())
	}
	c.Name, c.TTL = name, o.ttl.value
	d, err := a.newContainer(ctx, e, &o.place, c)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Ready(ctx); err != nil {
		return stopped(ctx, err)
	}
	if d.Adopted() {
		a.ui.talk("workspace " + name + " is there already, with these options")
	}
	if !o.json {
		return a.ui.result([]byte(name + "\n"))
	}
	w, err := container.FindDetached(ctx, e, name)
	if err != nil {
		return err
	}
	return a.ui.object(madeWorkspace{newWorkspaceText(w), !d.Adopted()})
}

// nameFor is the name of the workspace over a directory, or a free one for it.
func nameFor(ctx context.Context, e *container.Engine, root string) (string, error) {
	list, err := container.ListDetached(ctx, e)
	if err != nil {
		return "", err
	}
	this, err := os.Stat(root)
	if err != nil {
		return container.DefaultName(root, list), nil // opening it says what is wrong
	}
	var over []string
	for _, w := range list {
		if fi, err := os.Stat(w.Root); err == nil && os.SameFile(fi, this) {
			over = append(over, w.Name)
		}
	}
	switch len(over) {
	case 0:
		return container.DefaultName(absolute(root), list), nil
	case 1:
		return over[0], nil
	}
	return "", usagef("up", "%d workspaces are over this directory; name one (wsctl ls), or a new one", len(over))
}
