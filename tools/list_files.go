package tools

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/wsctl/wsctl/search"
	"github.com/wsctl/wsctl/workspace"
)

const listFilesText = `Lists a directory of the workspace, by default the root, and with depth also what lies below: as paths, or as a tree. Directories end in "/", links show where they point.

` + saidHidden + `

Entries are sorted by path, or with sort "time" by when they were last modified, the newest first. A long list comes in pages: go on with the next offset. A path that is not there is an error.`

const (
	defaultListed = 500
	maxListed     = 5000
)

type listFilesInput struct {
	Path           string `json:"path,omitempty" jsonschema:"directory to list: relative to the workspace's root, or absolute below it (default: the root)"`
	Depth          int    `json:"depth,omitempty" min:"1" max:"1000" jsonschema:"how many levels to list; 1 is the directory itself (default 1)"`
	Format         string `json:"format,omitempty" enum:"flat,tree" jsonschema:"flat lists paths, tree indents names below their directory (default flat)"`
	Details        bool   `json:"details,omitempty" jsonschema:"also tell size and time of last modification"`
	Hidden         bool   `json:"hidden,omitempty" jsonschema:"take in hidden entries"`
	IncludeIgnored bool   `json:"include_ignored,omitempty" jsonschema:"take in what .gitignore ignores"`
	Sort           string `json:"sort,omitempty" enum:"name,time" jsonschema:"order (default name)"`
	Offset         int    `json:"offset,omitempty" min:"0" max:"1000000000" jsonschema:"entries to leave out at the front (default 0)"`
	Limit          int    `json:"limit,omitempty" min:"1" max:"5000" jsonschema:"number of entries (default 500)"`
}

func (in listFilesInput) subject() subject { return subject{trees: []string{cmp.Or(in.Path, ".")}} }

type listFilesOutput struct {
	foundOutput
	in listFilesInput
}

func listFiles() *Tool {
	return define(Tool{
		Name:        "list_files",
		Title:       "List files",
		Description: listFilesText,
		Hints:       Hints{ReadOnly: true, Idempotent: true},
	}, runListFiles)
}

func runListFiles(ctx context.Context, c *call, in listFilesInput) (*listFilesOutput, error) {
	if in.Format == "tree" && in.Sort == "time" {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "list_files", in.Path, "a tree is sorted by name; use format flat to sort by time")
	}
	f, err := search.List(ctx, c.ws, search.FindOptions{
		Scope: search.Scope{Path: in.Path, Hidden: in.Hidden, NoIgnore: in.IncludeIgnored, Depth: cmp.Or(in.Depth, 1)},
		// Where a link points is always told.
		Details: true, Order: search.Order(in.Sort), Offset: in.Offset, Limit: min(cmp.Or(in.Limit, defaultListed), maxListed),
	})
	if err != nil {
		return nil, err
	}
	return &listFilesOutput{newFoundOutput(f, in.Offset, in.Details), in}, nil
}

func (o *listFilesOutput) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", workspace.Printable(cmp.Or(o.in.Path, ".")), o.head("entry", o.in.Offset))
	if o.in.Format == "tree" {
		o.tree(&b)
		return b.String()
	}
	for _, e := range o.Entries {
		b.WriteString(e.line(e.Path) + "\n")
	}
	return b.String()
}

// tree indents each name below its directory. Directories that are on an earlier
// page are named again.
func (o *listFilesOutput) tree(b *strings.Builder) {
	var above []string // the directories that were written, the outermost first
	for _, e := range o.Entries {
		dir, name := path.Split(e.Path)
		parts := strings.Split(strings.TrimSuffix(dir, "/"), "/")
		if dir == "" {
			parts = nil
		}
		same := 0
		for same < len(parts) && same < len(above) && parts[same] == above[same] {
			same++
		}
		for i := same; i < len(parts); i++ {
			fmt.Fprintf(b, "%s%s/\n", strings.Repeat("  ", i), workspace.Printable(parts[i]))
		}
		above = parts
		fmt.Fprintf(b, "%s%s\n", strings.Repeat("  ", len(parts)), e.line(name))
		if e.Kind == string(search.Directory) {
			above = append(above[:len(above):len(above)], name)
		}
	}
}
