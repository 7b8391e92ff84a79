//go:build unix

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

const upLong = `Make a workspace that stays: a sandbox over a directory that belongs to no process,
for "wsctl exec" and "wsctl shell", of several at once. What its commands install
and leave running (with --background keep) is there for the next one. It goes with
"wsctl down", or after --ttl at the next start of any sandbox or "wsctl reap".

With --remote it is a server's ("wsctl serve"): its directory is new and goes with it,
or with --root one of the server's machine, if the server allows it. A new one begins
empty, or with a template, a snapshot, a tar or a git bundle. The tar may come from
anybody: nothing of it leaves the directory. The bundle is cloned inside the sandbox.

NAME is unique on the engine; without one it is that of the directory, or that of
the workspace which is over it already. A workspace that is there with the same
options is left as it is, and made ready. The name is printed.`

const upExample = `  wsctl up
  wsctl up app --root ~/src/app --network bridge --memory 4g
  wsctl up ci-42 --image golang:1.26 --ttl 8h
  wsctl up --remote https://build.example:7777 --token-file token --idle-ttl 20m
  git bundle create - --all | wsctl up --remote https://build.example:7777 --bundle - app
  wsctl exec app -- make test`

// upOptions are the flags of up.
type upOptions struct {
	where    whereOptions
	place    placeOptions
	ttl      duration
	idle     duration
	labels   labels
	template string
	snapshot string
	tar      string
	bundle   string
	json     bool
	quiet    bool
}

// maxTTL bounds --ttl; nobody means more.
const maxTTL = 10 * 365 * 24 * time.Hour

func newUpCommand(a *app) *cobra.Command {
	o := upOptions{ttl: duration{most: maxTTL}, idle: duration{most: maxTTL}, labels: labels{}}
	cmd := &cobra.Command{
		Use:     "up [NAME] [flags]",
		Short:   "Make a workspace that stays",
		Long:    upLong,
		Example: upExample,
		Args:    takes(0, 1, "one name, or none for that of the directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.ui.setQuiet(o.quiet)
			want := wantedWorkspace{upOptions: &o, given: cmd.Flags().Changed}
			if len(args) > 0 {
				if want.name = args[0]; want.name == "" {
					return usagef("up", "the name is empty; give one, or none at all")
				}
			}
			if err := o.place.check(cmd); err != nil {
				return err
			}
			if o.ttl.value%time.Second != 0 || o.idle.value%time.Second != 0 {
				return usagef("up", "a time to live is in whole seconds")
			}
			return a.up(cmd.Context(), &o, want)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	o.place.addRootFlag(cmd)
	o.place.addContainerFlags(cmd)
	f.Var(&o.ttl, "ttl", "reap the workspace this long after it was made, in seconds or as 90m, 8h; 0: never (default 0)")
	f.Var(&o.idle, "idle-ttl", "on a server: stop the workspace when nothing was done in it for so long; the next command starts it (default: never)")
	f.Var(o.labels, "label", "on a server: a label of the workspace (repeatable)")
	f.Var(&named{&o.template, "NAME"}, "template", "on a server: begin as a copy of this directory of its templates")
	f.Var(&named{&o.snapshot, "NAME[:ID]"}, "snapshot", "on a server: begin with this snapshot of another workspace of it, the latest without an id")
	f.Var(&named{&o.tar, "FILE"}, "tar", "on a server: begin with what this tar holds, as it is or in gzip or zstd; - is standard input")
	_ = cmd.MarkFlagFilename("tar", "tar", "tgz", "gz", "zst")
	f.Var(&named{&o.bundle, "FILE"}, "bundle", "on a server: begin as a clone of this git bundle; - is standard input")
	_ = cmd.MarkFlagFilename("bundle", "bundle")
	o.where.addFlags(cmd)
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

func (a *app) up(ctx context.Context, o *upOptions, want wantedWorkspace) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	return a.withFleet(ctx, &o.where, func(f fleet) error {
		w, made, err := f.Up(ctx, want)
		if err != nil {
			return stopped(ctx, err)
		}
		if !made {
			a.ui.talk("workspace " + w.Name + " is there already, with these options")
		}
		if o.json {
			return a.ui.object(madeWorkspace{w, made})
		}
		return a.ui.result([]byte(w.Name + "\n"))
	})
}
