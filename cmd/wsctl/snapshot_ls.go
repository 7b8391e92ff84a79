//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// snapshotText is a snapshot in JSON: names that are not UTF-8 told as such.
type snapshotText struct {
	workspace.Snapshot
	Skipped []leftOutText `json:"skipped,omitempty"`
	Changed []pathText    `json:"changed,omitempty"`
}

// leftOutText is a workspace.SkippedEntry in JSON.
type leftOutText struct {
	pathText
	Reason string `json:"reason"`
	Size   int64  `json:"size,omitempty"`
}

func newSkipped(list []workspace.SkippedEntry) (all []leftOutText) {
	for _, e := range list {
		all = append(all, leftOutText{newPathText(e.Path), e.Reason, e.Size})
	}
	return all
}

func newPaths(list []string) []pathText {
	all := []pathText{}
	for _, p := range list {
		all = append(all, newPathText(p))
	}
	return all
}

func newSnapshotText(s workspace.Snapshot) snapshotText {
	t := snapshotText{Snapshot: s, Skipped: newSkipped(s.Skipped)}
	if len(s.Changed) > 0 {
		t.Changed = newPaths(s.Changed)
	}
	return t
}

// snapshotList is what `wsctl snapshot ls --json` prints.
type snapshotList struct {
	Snapshots []snapshotText `json:"snapshots"`
}

func newSnapshotLsCommand(a *app) *cobra.Command {
	var o storeOptions
	cmd := &cobra.Command{
		Use:     "ls [flags]",
		Short:   "List the snapshots, the newest first",
		Long:    "List the snapshots of the root, the newest first.",
		Example: "  wsctl snapshot ls\n  wsctl snapshot ls --json | jq -r '.snapshots[0].id'",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.snapshotVerb(cmd, &o, snapshot.Options{}, func(ctx context.Context, k *kept) error {
				list, err := k.store.List(ctx)
				if err != nil {
					return err
				}
				return a.listSnapshots(list, o.tree.json)
			})
		},
	}
	o.addFlags(cmd)
	return cmd
}

func (a *app) listSnapshots(list []workspace.Snapshot, asJSON bool) error {
	if asJSON {
		all := snapshotList{[]snapshotText{}}
		for _, s := range list {
			all.Snapshots = append(all.Snapshots, newSnapshotText(s))
		}
		return a.ui.object(all)
	}
	now := time.Now()
	rows := make([][]string, 0, len(list))
	for _, s := range list {
		rows = append(rows, []string{s.ID, age(now.Sub(s.Created)), strconv.Itoa(s.Stats.Files), bytesText(s.Stats.Bytes), bytesText(s.Stats.AddedBytes), column(s.Turn), column(s.Label)})
	}
	return a.ui.table([]string{"ID", "AGE", "FILES", "SIZE", "ADDED", "TURN", "LABEL"}, rows)
}

func newSnapshotShowCommand(a *app) *cobra.Command {
	var o storeOptions
	cmd := &cobra.Command{
		Use:     "show [flags] ID [PATH]",
		Short:   "Tell of a snapshot, or print what it holds at a path",
		Long:    "Tell what a snapshot is; with a PATH, print the content of the file that it holds\nthere, or list the directory.",
		Example: "  wsctl snapshot show latest\n  wsctl snapshot show latest src\n  wsctl snapshot show latest go.mod > go.mod.old",
		Args:    takes(1, 2, "a snapshot, and perhaps a path"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.snapshotVerb(cmd, &o, snapshot.Options{}, func(ctx context.Context, k *kept) error {
				id, err := k.find(ctx, args[0])
				if err != nil {
					return err
				}
				if len(args) > 1 {
					return a.showPath(ctx, k, id, args[1], o.tree.json)
				}
				s, err := k.store.Get(ctx, id)
				switch {
				case err != nil:
					return err
				case o.tree.json:
					return a.ui.object(newSnapshotText(s))
				}
				return a.ui.snapshot(s)
			})
		},
		ValidArgsFunction: a.completeSnapshots(&o, 1),
	}
	o.addFlags(cmd)
	return cmd
}

// snapshot prints a line a subject.
func (u *ui) snapshot(s workspace.Snapshot) error {
	var b bytes.Buffer
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-10s "+format+"\n", append([]any{name}, args...)...)
	}
	line("id", "%s", s.ID)
	line("created", "%s", s.Created.UTC().Format(time.RFC3339))
	if s.Label != "" {
		line("label", "%s", workspace.Printable(s.Label))
	}
	if s.Turn != "" {
		line("turn", "%s", workspace.Printable(s.Turn))
	}
	if len(s.Metadata) > 0 {
		line("metadata", "%s", workspace.Printable(string(s.Metadata)))
	}
	line("holds", "%d files, %d directories, %d links, %s", s.Stats.Files, s.Stats.Directories, s.Stats.Links, bytesText(s.Stats.Bytes))
	if len(s.Exclude) > 0 {
		line("without", "%s", workspace.Printable(strings.Join(s.Exclude, " ")))
	}
	for i, e := range s.Skipped {
		name := ""
		if i == 0 {
			name = "skipped"
		}
		line(name, "%s: %s", workspace.Printable(e.Path), e.Reason)
	}
	for i, p := range s.Changed {
		name := ""
		if i == 0 {
			name = "changing"
		}
		line(name, "%s", workspace.Printable(p))
	}
	return u.result(b.Bytes())
}

// snapshotEntry is an entry of a snapshot in JSON.
type snapshotEntry struct {
	pathText
	Kind     string    `json:"kind"`
	Mode     string    `json:"mode"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	Target   string    `json:"target,omitempty"`
}

func (a *app) showPath(ctx context.Context, k *kept, id, given string, asJSON bool) error {
	name, err := k.name(given)
	if err != nil {
		return err
	}
	t, err := k.store.Tree(ctx, id)
	if err != nil {
		return err
	}
	defer t.Close()
	e, err := t.Lookup(ctx, strings.TrimPrefix(strings.TrimSuffix(name, "/"), "./"))
	if err != nil {
		return asGiven(err, name, given)
	}
	switch {
	case e.Mode.IsDir():
		return a.showDir(ctx, t, e, asJSON)
	case e.Mode&fs.ModeSymlink != 0:
		return a.ui.result([]byte(e.Target + "\n"))
	}
	r, err := t.Open(ctx, e)
	if err != nil {
		return err
	}
	defer r.Close()
	return a.printContent(r)
}

// printContent prints what a file holds.
func (a *app) printContent(r io.Reader) error {
	out, done := a.ui.stream(a.ui.out, a.ui.outTTY)
	defer done()
	if _, err := io.Copy(out, r); err != nil {
		if workspace.CodeOf(err) != "" {
			return err
		}
		return workspace.Errorf(workspace.ErrIO, "", "", "standard output: %w", err)
	}
	return nil
}

func (a *app) showDir(ctx context.Context, t *snapshot.Tree, dir snapshot.Entry, asJSON bool) error {
	entries, err := t.ReadDir(ctx, dir)
	if err != nil {
		return err
	}
	if asJSON {
		list := []snapshotEntry{}
		for _, e := range entries {
			list = append(list, snapshotEntry{newPathText(e.Name), kind(e.Mode), octal(e.Mode), e.Size, e.ModTime().UTC(), e.Target})
		}
		return a.ui.object(map[string]any{"entries": list})
	}
	rows := make([][]string, 0, len(entries))
	for _, e := range entries {
		rows = append(rows, []string{e.Mode.String(), strconv.FormatInt(e.Size, 10), e.ModTime().Local().Format(time.DateTime), column(e.Name)})
	}
	return a.ui.table([]string{"MODE", "SIZE", "MODIFIED", "NAME"}, rows)
}
