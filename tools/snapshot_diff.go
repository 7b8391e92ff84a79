package tools

import (
	"context"
	"fmt"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

const snapshotDiffText = `Tells what has changed in the workspace's files since a kept state, or from one kept state to another: which files, and the unified diff of their text.`

type snapshotDiffInput struct {
	From      string   `json:"from,omitempty" jsonschema:"id of the older state, or latest (default latest)"`
	To        string   `json:"to,omitempty" jsonschema:"id of the newer state (default: the files as they are now)"`
	Paths     []string `json:"paths,omitempty" jsonschema:"compare only these files and directories, relative to the root (default: all)"`
	NamesOnly bool     `json:"names_only,omitempty" jsonschema:"leave out the text of changes"`
}

func (in snapshotDiffInput) subject() subject { return subject{trees: orRoot(in.Paths)} }

// orRoot is the paths that a tool over many works on; none: the root.
func orRoot(paths []string) []string {
	if len(paths) == 0 {
		return []string{"."}
	}
	return paths
}

type snapshotDiffOutput struct {
	From      string           `json:"from" jsonschema:"the older state"`
	To        string           `json:"to,omitempty" jsonschema:"the newer state; not there for the files as they are now"`
	Changes   []snapshotChange `json:"changes" jsonschema:"what differs, by path"`
	Truncated bool             `json:"truncated,omitempty" jsonschema:"the text of some changes is left out because there is too much"`
}

type snapshotChange struct {
	Path    string `json:"path" jsonschema:"the entry"`
	Kind    string `json:"kind" enum:"added,deleted,modified,type,mode" jsonschema:"how it differs; type: a file became a directory or a link, or the like; mode: permissions alone"`
	OldSize int64  `json:"old_size,omitempty" jsonschema:"bytes before"`
	NewSize int64  `json:"new_size,omitempty" jsonschema:"bytes after"`
	Binary  bool   `json:"binary,omitempty" jsonschema:"it is no text, so there is no diff of it"`
	Patch   string `json:"patch,omitempty" jsonschema:"unified diff"`
}

func snapshotDiff() *Tool {
	return define(Tool{
		Name:        "snapshot_diff",
		Title:       "Compare with a kept state",
		Description: snapshotDiffText,
		Hints:       Hints{ReadOnly: true, Idempotent: true},
	}, runSnapshotDiff)
}

func runSnapshotDiff(ctx context.Context, c *call, in snapshotDiffInput) (*snapshotDiffOutput, error) {
	o := &snapshotDiffOutput{From: in.From, To: in.To, Changes: []snapshotChange{}}
	if o.From == "" {
		o.From = "latest"
	}
	diff, err := c.ws.Diff(ctx, o.From, o.To, workspace.DiffOptions{
		Paths: in.Paths, NamesOnly: in.NamesOnly, MaxBytes: int64(c.set.opts.Limits.MaxResultLength),
	})
	if err != nil {
		return nil, err
	}
	o.Truncated = diff.Truncated
	for _, d := range diff.Changes {
		path, _ := valid([]byte(d.Path))
		patch, _ := valid([]byte(d.Patch))
		o.Changes = append(o.Changes, snapshotChange{path, string(d.Kind), d.OldSize, d.NewSize, d.Binary, patch})
	}
	return o, nil
}

func (o *snapshotDiffOutput) text() string {
	to := "the files as they are now"
	if o.To != "" {
		to = o.To
	}
	var b strings.Builder
	fmt.Fprintf(&b, "From %s to %s: %s", o.From, to, count(len(o.Changes), "change"))
	if o.Truncated {
		b.WriteString(" (the text of some is left out because there is too much: give paths)")
	}
	b.WriteString(".")
	for _, d := range o.Changes {
		fmt.Fprintf(&b, "\n%s %s", d.Kind, workspace.Printable(d.Path))
		if d.Binary {
			b.WriteString(" (no text)")
		}
	}
	for _, d := range o.Changes {
		if d.Patch != "" {
			b.WriteString("\n" + strings.TrimSuffix(d.Patch, "\n"))
		}
	}
	return b.String()
}
