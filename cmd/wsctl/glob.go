//go:build unix

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/search"
	"github.com/wsctl/wsctl/workspace"
)

const globLong = `Find files by their path below a directory, by default the root. "*" is any run of
characters of one name, "?" one character, "[a-z]" and "[!a-z]" a class, "{a,b}"
either, and "**" any number of directories. A name with such characters is found
as it is spelled, or with "\" before them.

Hidden entries are found by a dot in the pattern, or with --hidden; what
.gitignore ignores with --no-ignore, or when the pattern names it. Links are not
followed. Status 1 says that nothing was found, 2 that the search failed.`

const globExample = `  wsctl glob '**/*_test.go'
  wsctl glob '.github/**/*.yml'
  wsctl glob --null '**/*.{png,jpg}' assets | xargs -0 ls -l
  wsctl glob --time --limit 10 '**'`

// globOptions are the flags of glob.
type globOptions struct {
	searchOptions
	kind   choice
	byTime bool
	null   bool
}

func newGlobCommand(a *app) *cobra.Command {
	var o globOptions
	cmd := &cobra.Command{
		Use:     "glob [flags] PATTERN [PATH]",
		Short:   "Find files by name",
		Long:    globLong,
		Example: globExample,
		Args:    takes(1, 2, "a pattern and at most one path"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "."
			if len(args) > 1 {
				path = args[1]
			}
			return a.searching(cmd, &o.searchOptions, func(ctx context.Context, t *tree, ws *workspace.Workspace) error {
				return failedSearch(a.glob(ctx, t, ws, &o, args[0], path))
			})
		},
	}
	o.kind = choice{value: string(search.Files), words: []string{string(search.Files), string(search.Directories), string(search.Anything)}}
	addChoice(cmd, &o.kind, "type", "what to find")
	f := cmd.Flags()
	f.BoolVarP(&o.byTime, "time", "t", false, "sort by time of modification, the newest first")
	f.BoolVarP(&o.null, "null", "0", false, "end each path with a NUL byte, and quote none")
	o.addFlags(cmd, "")
	return cmd
}

func (a *app) glob(ctx context.Context, t *tree, ws *workspace.Workspace, o *globOptions, pattern, path string) error {
	scope, err := o.scope(t, path)
	if err != nil {
		return err
	}
	options := search.FindOptions{Scope: scope, Select: search.Select(o.kind.value), Offset: int(o.offset.value), Limit: int(o.limit.value)}
	if o.byTime {
		options.Order = search.ByTime
	}
	f, err := search.Glob(ctx, ws, pattern, options)
	if err != nil {
		return err
	}
	if o.tree.json {
		err = a.ui.object(newFoundText(f))
	} else {
		err = a.printFound(f, o.null)
		a.tellSkipped(f.Skipped, f.Incomplete, f.Total > 0)
		a.tellMore(&o.searchOptions, f.More)
	}
	if err == nil && f.Total == 0 {
		err = exitStatus(exitNothing)
	}
	return err
}

// printFound prints a path a line.
func (a *app) printFound(f *search.Found, null bool) error {
	p := a.ui.painter()
	end := "\n"
	if null {
		p.tty, p.colours, end = false, false, "\x00"
	}
	for _, e := range f.Entries {
		p.putName(colourOf(e.Kind), e.Path)
		p.WriteString(end)
	}
	return a.ui.result(p.Bytes())
}

func colourOf(k search.Kind) string {
	switch k {
	case search.Directory:
		return colourDir
	case search.Link:
		return colourLink
	}
	return ""
}
