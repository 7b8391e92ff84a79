package tools

import (
	"cmp"
	"context"
	"strings"

	"github.com/wsctl/wsctl/search"
)

const globText = `Finds files of the workspace by their path.

"*" is any run of characters in one name, "?" one character, "[a-z]" and "[!a-z]" one of a set, "{a,b}" either of both, and "**" any number of directories: "**/*.go" finds Go files at any depth, "*.go" only directly below path. A name with such characters in it ("app/[id]/page.tsx") is found as it is spelled; "\" before one takes its meaning away. A hidden name is matched only by a part that begins with a dot (".github/**"), or with hidden.

` + saidHidden + `

Paths are sorted by name, or with sort "time" by when they were last modified, the newest first. A long result comes in pages: go on with the next offset. A directory that the pattern begins with, or a path, that is not there is an error.`

const defaultGlobbed = 500

type globInput struct {
	Pattern        string `json:"pattern" jsonschema:"glob that the path, relative to path, must match; or absolute below the workspace's root"`
	Path           string `json:"path,omitempty" jsonschema:"directory to search (default: the root)"`
	Kind           string `json:"kind,omitempty" enum:"file,directory,any" jsonschema:"what to find; file is all but directories (default file)"`
	Hidden         bool   `json:"hidden,omitempty" jsonschema:"take in hidden entries"`
	IncludeIgnored bool   `json:"include_ignored,omitempty" jsonschema:"take in what .gitignore ignores"`
	Sort           string `json:"sort,omitempty" enum:"name,time" jsonschema:"order (default name)"`
	Offset         int    `json:"offset,omitempty" min:"0" max:"1000000000" jsonschema:"entries to leave out at the front (default 0)"`
	Limit          int    `json:"limit,omitempty" min:"1" max:"5000" jsonschema:"number of entries (default 500)"`
}

func (in globInput) subject() subject { return subject{trees: []string{cmp.Or(in.Path, ".")}} }

type globOutput struct {
	foundOutput
	in globInput
}

func globFiles() *Tool {
	return define(Tool{
		Name:        "glob",
		Title:       "Find files by name",
		Description: globText,
		Hints:       Hints{ReadOnly: true, Idempotent: true},
	}, runGlob)
}

func runGlob(ctx context.Context, c *call, in globInput) (*globOutput, error) {
	f, err := search.Glob(ctx, c.ws, in.Pattern, search.FindOptions{
		Scope:  search.Scope{Path: in.Path, Hidden: in.Hidden, NoIgnore: in.IncludeIgnored},
		Select: search.Select(in.Kind), Order: search.Order(in.Sort), Offset: in.Offset, Limit: min(cmp.Or(in.Limit, defaultGlobbed), maxListed),
	})
	if err != nil {
		return nil, err
	}
	return &globOutput{newFoundOutput(f, in.Offset, in.Sort == "time"), in}, nil
}

func (o *globOutput) text() string {
	var b strings.Builder
	b.WriteString(o.head("path", o.in.Offset) + "\n")
	for _, e := range o.Entries {
		// A path as it is, to be used in the next call.
		e.Size = nil
		b.WriteString(e.line(e.Path) + "\n")
	}
	return b.String()
}
