//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

const snapshotDiffLong = `Print what changed from one snapshot to another, or to the directory as it is now:
added, changed and deleted files with a unified diff of text, binary files and
modes by name. Times alone are no change. It prints nothing when nothing changed.`

// changeText is a workspace.Change in JSON.
type changeText struct {
	pathText
	Kind    workspace.ChangeKind `json:"kind"`
	OldMode string               `json:"oldMode,omitempty"`
	NewMode string               `json:"newMode,omitempty"`
	OldSize int64                `json:"oldSize,omitempty"`
	NewSize int64                `json:"newSize,omitempty"`
	Binary  bool                 `json:"binary,omitempty"`
	Patch   string               `json:"patch,omitempty"`
}

// diffText is what `wsctl snapshot diff --json` prints.
type diffText struct {
	Changes   []changeText `json:"changes"`
	Truncated bool         `json:"truncated,omitempty"`
}

func newDiffText(d workspace.Diff) diffText {
	t := diffText{Changes: []changeText{}, Truncated: d.Truncated}
	for _, c := range d.Changes {
		one := changeText{pathText: newPathText(c.Path), Kind: c.Kind, OldSize: c.OldSize, NewSize: c.NewSize, Binary: c.Binary}
		if c.OldMode != 0 {
			one.OldMode = c.OldMode.String()
		}
		if c.NewMode != 0 {
			one.NewMode = c.NewMode.String()
		}
		one.Patch, _ = text([]byte(c.Patch))
		t.Changes = append(t.Changes, one)
	}
	return t
}

func newSnapshotDiffCommand(a *app) *cobra.Command {
	var o struct {
		storeOptions
		names, stat bool
		context     count
		paths       list
	}
	o.context = count{least: 0, most: 1 << 20}
	o.paths.name = "PATH"
	cmd := &cobra.Command{
		Use:     "diff [flags] FROM [TO]",
		Short:   "Print what changed since a snapshot, or between two",
		Long:    snapshotDiffLong,
		Example: "  wsctl snapshot diff latest\n  wsctl snapshot diff --names latest\n  wsctl snapshot diff latest --path src | git apply -R",
		Args:    takes(1, 2, "a snapshot, and perhaps another"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.snapshotVerb(cmd, &o.storeOptions, snapshot.Options{}, func(ctx context.Context, k *kept) error {
				ids := []string{"", ""}
				for i, ref := range args {
					id, err := k.find(ctx, ref)
					if err != nil {
						return err
					}
					ids[i] = id
				}
				paths, err := k.names(o.paths.values)
				if err != nil {
					return err
				}
				options := workspace.DiffOptions{Paths: paths, NamesOnly: o.names || o.stat, Context: int(o.context.value), MaxBytes: maxSize}
				if cmd.Flags().Changed("context") && o.context.value == 0 {
					options.Context = -1
				}
				d, err := k.snaps.Diff(ctx, ids[0], ids[1], options)
				switch {
				case err != nil:
					return err
				case o.tree.json:
					return a.ui.object(newDiffText(d))
				case o.stat:
					return a.ui.result([]byte(snapshot.Summary(d) + "\n"))
				}
				return a.ui.diff(d, o.names)
			})
		},
		ValidArgsFunction: a.completeSnapshots(&o.storeOptions, 2),
	}
	f := cmd.Flags()
	f.BoolVar(&o.names, "names", false, "print a letter and a name for each: A added, M changed, D deleted, T another kind, X mode")
	f.BoolVar(&o.stat, "stat", false, "print how many there are of each, on one line")
	f.VarP(&o.context, "context", "U", "lines around a change (default 3)")
	f.Var(&o.paths, "path", "only this file or directory (repeatable)")
	o.addFlags(cmd)
	return cmd
}

// names are paths as the user spells them, relative to the root.
func (t *tree) names(paths []string) ([]string, error) {
	var names []string
	for _, p := range paths {
		name, err := t.name(p)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

var changeLetters = map[workspace.ChangeKind]string{
	workspace.Added: "A", workspace.Modified: "M", workspace.Deleted: "D", workspace.TypeChanged: "T", workspace.ModeChanged: "X",
}

// diff prints changes: as text to a terminal, colours if it has them, byte for
// byte elsewhere.
func (u *ui) diff(d workspace.Diff, names bool) error {
	var b bytes.Buffer
	for _, c := range d.Changes {
		switch {
		case names:
			fmt.Fprintf(&b, "%s %s\n", changeLetters[c.Kind], workspace.Printable(c.Path))
		case c.Patch != "":
			b.WriteString(c.Patch)
			if !strings.HasSuffix(c.Patch, "\n") {
				b.WriteByte('\n')
			}
		case c.Binary:
			fmt.Fprintf(&b, "Binary file %s: %s\n", c.Kind, workspace.Printable(c.Path))
		case c.Kind == workspace.ModeChanged:
			fmt.Fprintf(&b, "mode %v to %v: %s\n", c.OldMode.Perm(), c.NewMode.Perm(), workspace.Printable(c.Path))
		default:
			fmt.Fprintf(&b, "%s: %s\n", c.Kind, workspace.Printable(c.Path))
		}
	}
	if d.Truncated {
		u.warn("some files are too large to be compared line by line")
	}
	text := b.Bytes()
	if u.outTTY && u.fancy {
		text = paintDiff(text)
	}
	w, done := u.stream(u.out, u.outTTY && !u.fancy)
	defer done()
	if _, err := w.Write(text); err != nil {
		return workspace.Errorf(workspace.ErrIO, "", "", "standard output: %w", err)
	}
	return nil
}

// paintDiff colours the lines of a diff, each escaped first.
func paintDiff(text []byte) []byte {
	const (
		red, green, cyan, bold, off = "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[1m", "\x1b[m"
	)
	var b bytes.Buffer
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		colour := ""
		switch {
		case bytes.HasPrefix(line, []byte("--- ")), bytes.HasPrefix(line, []byte("+++ ")):
			colour = bold
		case bytes.HasPrefix(line, []byte("+")):
			colour = green
		case bytes.HasPrefix(line, []byte("-")):
			colour = red
		case bytes.HasPrefix(line, []byte("@@")):
			colour = cyan
		}
		if colour == "" {
			fmt.Fprintf(&b, "%s\n", escapeLine(string(line)))
			continue
		}
		fmt.Fprintf(&b, "%s%s%s\n", colour, escapeLine(string(line)), off)
	}
	return b.Bytes()
}
