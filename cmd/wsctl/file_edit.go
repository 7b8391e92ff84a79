//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

const fileEditLong = `Replace text in a file, whole or not at all, as "write" does it. The text must be
there exactly, white space included, and once; --all replaces it wherever it is.
Nothing is a pattern and nothing is unescaped. A line break also matches CRLF, and
CRLF is then written back; every other byte stays as it is.

The texts are those of --old and --new, or what --old-from and --new-from hold: a
file of this machine, or - for standard input. Nothing is printed; with --dry-run
the unified diff of what would be changed, and nothing is; with --json what the
file is then, and the diff.`

// editOptions are the flags of file edit.
type editOptions struct {
	tree               treeOptions
	old, new           string
	oldFrom, newFrom   string
	all, dryRun, force bool
	ifVersion          string
}

// edited is what `wsctl file edit --json` prints.
type edited struct {
	pathFacts
	Replacements int    `json:"replacements"`
	Diff         string `json:"diff"`
	HunksLeftOut int    `json:"hunksLeftOut,omitempty"`
	DryRun       bool   `json:"dryRun,omitempty"`
}

func newFileEditCommand(a *app) *cobra.Command {
	var o editOptions
	cmd := &cobra.Command{
		Use:   "edit [flags] PATH",
		Short: "Replace text in a file",
		Long:  fileEditLong,
		Example: "  wsctl file edit --old 'go 1.25' --new 'go 1.26' go.mod\n" +
			"  wsctl file edit --all --dry-run --old colour --new color notes.txt\n" +
			"  git show :part.go | wsctl file edit --old-from part.old --new-from - main.go",
		Args:              takes(1, 1, "one path"),
		ValidArgsFunction: a.completePath(&o.tree),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(cmd); err != nil {
				return err
			}
			return a.changing(cmd, &o.tree, func(ctx context.Context, t *tree) error {
				return a.edit(ctx, t, &o, args[0])
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.old, "old", "", "the `TEXT` to replace")
	f.StringVar(&o.new, "new", "", "the `TEXT` that takes its place; empty to delete it")
	f.StringVar(&o.oldFrom, "old-from", "", "the text to replace is in this `FILE` of this machine; -: standard input")
	f.StringVar(&o.newFrom, "new-from", "", "the text that takes its place is in this `FILE` of this machine; -: standard input")
	_ = cmd.MarkFlagFilename("old-from")
	_ = cmd.MarkFlagFilename("new-from")
	f.BoolVar(&o.all, "all", false, "replace the text wherever it is")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the unified diff, and change nothing")
	f.BoolVar(&o.force, "force", false, "change a file that may not be written")
	f.StringVar(&o.ifVersion, "if-version", "", "fail with CONFLICT unless the file has this `VERSION`")
	o.tree.addFlags(cmd)
	o.tree.addHardLinks(cmd)
	return cmd
}

// check refuses flags that make no sense.
func (o *editOptions) check(cmd *cobra.Command) error {
	f := cmd.Flags()
	for _, name := range []string{"old", "new"} {
		switch text, file := f.Changed(name), f.Changed(name+"-from"); {
		case text && file:
			return usagef(verbOf(cmd), "--%s and --%s-from give the same text; use one", name, name)
		case !text && !file:
			return usagef(verbOf(cmd), "give --%s, or --%s-from", name, name)
		}
	}
	switch {
	case o.oldFrom == "-" && o.newFrom == "-":
		return usagef(verbOf(cmd), "standard input can be one of the two texts; give a file for the other")
	case f.Changed("old") && o.old == "":
		return usagef(verbOf(cmd), "--old is empty; give text that is in the file, or use wsctl file write")
	}
	return nil
}

// errDryRun keeps an edit from being written.
var errDryRun = errors.New("dry run")

func (a *app) edit(ctx context.Context, t *tree, o *editOptions, path string) error {
	old, err := a.editText(ctx, "--old-from", o.old, o.oldFrom)
	if err != nil {
		return failedOperation(err, nil)
	}
	replacement, err := a.editText(ctx, "--new-from", o.new, o.newFrom)
	if err != nil {
		return failedOperation(err, nil)
	}
	if len(old) == 0 {
		return failedOperation(workspace.Errorf(workspace.ErrInvalidArgument, "edit", path, "--old-from is empty; give text that is in the file"), nil)
	}
	var fi fs.FileInfo
	var done tools.Replacement
	err = t.do(path, func(name string) (err error) {
		options := workspace.EditOptions{Force: o.force, IfVersion: o.ifVersion, MaxBytes: workspace.DefaultMaxFileBytes}
		fi, err = t.Edit(ctx, name, options, func(content []byte) ([]byte, error) {
			if done, err = tools.Replace(name, "the old text", content, old, replacement, o.all); err != nil {
				return nil, err
			}
			if o.dryRun {
				return nil, errDryRun
			}
			return done.Text, nil
		})
		if err == errDryRun { //nolint:errorlint // an error of the change is returned as it is
			fi, err = t.Stat(ctx, name)
		}
		return err
	})
	switch {
	case err != nil:
		return failedOperation(err, nil)
	case o.tree.json:
		return a.ui.object(edited{pathFacts{newPathText(path), newFacts(fi)}, done.Count, done.Diff, done.HunksLeftOut, o.dryRun})
	case o.dryRun:
		out, flush := a.ui.stream(a.ui.out, a.ui.outTTY)
		defer flush()
		_, err := io.WriteString(out, done.Diff)
		return err
	}
	return nil
}

// editText is one of the two texts of an edit: as given, or what is in a file.
func (a *app) editText(ctx context.Context, flag, text, from string) ([]byte, error) {
	in, name := a.ui.in, "standard input"
	switch from {
	case "":
		return []byte(text), nil
	case "-":
	default:
		file, err := os.Open(from)
		if err != nil {
			return nil, sourceError(flag, err)
		}
		defer file.Close()
		in, name = file, flag
	}
	source, err := newSource(ctx, in, name)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(source, workspace.DefaultMaxFileBytes+1))
	if err == nil && len(b) > workspace.DefaultMaxFileBytes {
		err = workspace.Errorf(workspace.ErrTooLarge, "", "", "%s has more than %d bytes", name, workspace.DefaultMaxFileBytes)
	}
	return b, err
}
