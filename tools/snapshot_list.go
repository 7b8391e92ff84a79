package tools

import (
	"context"
	"fmt"
	"strings"
)

const snapshotListText = `Lists the kept states of the workspace's files, the newest first.`

type snapshotListInput struct {
	Limit int `json:"limit,omitempty" min:"1" max:"1000" jsonschema:"the most to list (default 20)"`
}

type snapshotListOutput struct {
	Snapshots []snapshotFacts `json:"snapshots" jsonschema:"the newest first"`
	Total     int             `json:"total" jsonschema:"how many there are"`
}

func snapshotList() *Tool {
	return define(Tool{
		Name:        "snapshot_list",
		Title:       "List kept states",
		Description: snapshotListText,
		Hints:       Hints{ReadOnly: true, Idempotent: true},
	}, runSnapshotList)
}

func runSnapshotList(ctx context.Context, c *call, in snapshotListInput) (*snapshotListOutput, error) {
	store, err := c.ws.Snapshots()
	if err != nil {
		return nil, err
	}
	all, err := store.List(ctx)
	if err != nil {
		return nil, err
	}
	limit := 20
	if in.Limit > 0 {
		limit = in.Limit
	}
	o := &snapshotListOutput{Snapshots: []snapshotFacts{}, Total: len(all)}
	for _, s := range all[:min(limit, len(all))] {
		o.Snapshots = append(o.Snapshots, newSnapshotFacts(s))
	}
	return o, nil
}

func (o *snapshotListOutput) text() string {
	if o.Total == 0 {
		return "No state was kept; snapshot_checkpoint keeps one."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %s:", len(o.Snapshots), count(o.Total, "kept state"))
	for _, s := range o.Snapshots {
		b.WriteString("\n" + s.String())
	}
	return b.String()
}
