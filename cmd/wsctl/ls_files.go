//go:build unix

package main

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/search"
	"github.com/wsctl/wsctl/workspace"
)

// lsFilesOptions are the flags of ls that are about files.
type lsFilesOptions struct {
	searchOptions
	long, byTime, all bool
	depth             count
}

func (o *lsFilesOptions) addFlags(cmd *cobra.Command) {
	o.depth.least, o.depth.most = 1, 1<<20
	f := cmd.Flags()
	f.BoolVarP(&o.long, "long", "l", false, "with a PATH: print kind, size and time too")
	f.BoolVarP(&o.byTime, "time", "t", false, "with a PATH: sort by time of modification, the newest first")
	f.BoolVarP(&o.all, "recursive", "R", false, "with a PATH: list all that lies below it")
	f.Var(&o.depth, "depth", "with a PATH: list so many levels (default 1)")
	o.searchOptions.addFlags(cmd, "a")
}

// listFiles lists a directory and what lies below it.
func (a *app) listFiles(ctx context.Context, t *tree, ws *workspace.Workspace, o *lsFilesOptions, path string) error {
	scope, err := o.scope(t, path)
	if err != nil {
		return err
	}
	scope.Depth = int(cmp.Or(o.depth.value, 1))
	if o.all {
		scope.Depth = int(o.depth.value)
	}
	options := search.FindOptions{Scope: scope, Details: o.long || o.tree.json, Offset: int(o.offset.value), Limit: int(o.limit.value)}
	if o.byTime {
		options.Order = search.ByTime
	}
	f, err := search.List(ctx, ws, options)
	if err != nil {
		return err
	}
	switch {
	case o.tree.json:
		return a.ui.object(newFoundText(f))
	case o.long:
		err = a.ui.table([]string{"KIND", "SIZE", "MODIFIED", "PATH"}, longRows(f))
	default:
		err = a.printFound(f, false)
	}
	a.tellSkipped(f.Skipped, f.Incomplete, len(f.Entries) > 0)
	a.tellMore(&o.searchOptions, f.More)
	return err
}

func longRows(f *search.Found) [][]string {
	rows := make([][]string, 0, len(f.Entries))
	for _, e := range f.Entries {
		path := workspace.Printable(e.Path)
		if e.Target != "" {
			path += " -> " + workspace.Printable(e.Target)
		}
		rows = append(rows, []string{string(e.Kind), strconv.FormatInt(e.Size, 10), e.Modified.Format(time.RFC3339), path})
	}
	return rows
}

// aboutFiles reports whether a flag was given that only makes sense with a PATH.
func aboutFiles(cmd *cobra.Command) string {
	for _, name := range strings.Fields("long time recursive depth hidden no-ignore limit offset root driver") {
		if cmd.Flags().Changed(name) {
			return "--" + name
		}
	}
	return ""
}
