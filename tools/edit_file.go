package tools

import (
	"bytes"
	"context"
	"fmt"

	"github.com/wsctl/wsctl/workspace"
)

const editFileText = `Replaces exact text in a file of the workspace, and returns the unified diff.

Give old_string and new_string; or edits, a list of them that is applied in order, all or none; or patch, a unified diff of this one file. old_string must be exactly what is in the file, white space included, and without the line numbers of read_file. It must be there once: add lines around it until it is, or set replace_all. new_string is written as it is; nothing is unescaped.

A line break in old_string also matches CRLF, and then CRLF is written back. The byte order mark, the mode and every other byte stay as they are, also those that are not UTF-8. When nothing matches, the error says what is different and where. With if_version (the version that read_file told) a file that somebody has changed since is CONFLICT.`

type editFileInput struct {
	Path       string      `json:"path" jsonschema:"file to edit: relative to the workspace's root, or absolute below it"`
	OldString  *string     `json:"old_string,omitempty" jsonschema:"text that is in the file"`
	NewString  *string     `json:"new_string,omitempty" jsonschema:"text to put in its place; empty to delete it"`
	ReplaceAll bool        `json:"replace_all,omitempty" jsonschema:"replace it wherever it is (default: it must be there once)"`
	Edits      []editInput `json:"edits,omitempty" min:"1" max:"1000" jsonschema:"several edits, applied in order, all or none"`
	Patch      string      `json:"patch,omitempty" jsonschema:"a unified diff of this file, instead of strings"`
	IfVersion  string      `json:"if_version,omitempty" jsonschema:"version that the file must still have"`
}

type editInput struct {
	OldString  string `json:"old_string" jsonschema:"text that is in the file, as the edits before have left it"`
	NewString  string `json:"new_string" jsonschema:"text to put in its place; empty to delete it"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace it wherever it is"`
}

func (in editFileInput) subject() subject { return subject{paths: []string{in.Path}} }

type editFileOutput struct {
	Path         string `json:"path" jsonschema:"the file, as it was asked for"`
	Replacements int    `json:"replacements" jsonschema:"number of places that were changed"`
	Diff         string `json:"diff" jsonschema:"unified diff of the change; bytes that are not UTF-8 are U+FFFD"`
	HunksLeftOut int    `json:"hunks_left_out,omitempty" jsonschema:"changes that diff does not show because there are too many"`
	Size         int64  `json:"size" jsonschema:"size of the file now, in bytes"`
	Version      string `json:"version,omitempty" jsonschema:"changes when the file does"`
}

func editFile() *Tool {
	return define(Tool{
		Name:        "edit_file",
		Title:       "Edit a file",
		Description: editFileText,
		Hints:       Hints{Destructive: true},
	}, runEditFile)
}

func runEditFile(ctx context.Context, c *call, in editFileInput) (*editFileOutput, error) {
	edits, err := in.edits()
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "edit_file", in.Path, "%w", err)
	}
	fi, err := c.ws.Stat(ctx, in.Path)
	if err != nil {
		return nil, err
	}
	// The old content, the new one, and one in between.
	release, err := c.hold(ctx, 3*fi.Size())
	if err != nil {
		return nil, err
	}
	defer release()

	var before, after []byte
	var changed spans
	replacements := 0
	fi, err = c.ws.Edit(ctx, in.Path, workspace.EditOptions{IfVersion: in.IfVersion}, func(old []byte) ([]byte, error) {
		before, after = old, old
		for _, e := range edits {
			next, replaced, err := e.apply(after)
			if err != nil {
				return nil, workspace.Errorf(workspace.ErrInvalidArgument, "edit_file", in.Path, "%w", err)
			}
			after = next
			changed = changed.compose(replaced)
			replacements += len(replaced)
		}
		if bytes.Equal(before, after) {
			return nil, workspace.Errorf(workspace.ErrInvalidArgument, "edit_file", in.Path, "the edits leave the file as it is; nothing is written")
		}
		return after, nil
	})
	if err != nil {
		return nil, err
	}
	out := &editFileOutput{Replacements: replacements, Size: fi.Size(), Version: workspace.VersionOf(fi)}
	out.Path, _ = valid([]byte(in.Path))
	out.Diff, out.HunksLeftOut = unifiedDiff(in.Path, before, after, changed)
	return out, nil
}

// edits are what the input asks for, in order.
func (in editFileInput) edits() ([]edit, error) {
	single := in.OldString != nil || in.NewString != nil
	forms := 0
	for _, given := range []bool{single, in.Edits != nil, in.Patch != ""} {
		if given {
			forms++
		}
	}
	switch {
	case forms == 0:
		return nil, fmt.Errorf("old_string: missing; give old_string and new_string, or edits, or patch")
	case forms > 1:
		return nil, fmt.Errorf("give one of old_string with new_string, edits, and patch")
	case single && in.OldString == nil:
		return nil, fmt.Errorf("old_string: missing; it is required with new_string")
	case single && in.NewString == nil:
		return nil, fmt.Errorf("new_string: missing; it is required with old_string, and empty to delete")
	case in.ReplaceAll && !single:
		return nil, fmt.Errorf("replace_all: goes with old_string; in edits each has its own")
	case in.Patch != "":
		return patchEdits(in.Patch)
	}
	list := in.Edits
	if single {
		list = []editInput{{*in.OldString, *in.NewString, in.ReplaceAll}}
	}
	var edits []edit
	for i, e := range list {
		field := "old_string"
		if !single {
			field = fmt.Sprintf("edits[%d].old_string", i)
		}
		switch {
		case e.OldString == "":
			return nil, fmt.Errorf("%s: must not be empty; to make a file or replace all of it use write_file", field)
		case e.OldString == e.NewString:
			return nil, fmt.Errorf("%s: is the same as new_string, so there is nothing to do", field)
		}
		edits = append(edits, edit{field: field, old: []byte(e.OldString), new: []byte(e.NewString), all: e.ReplaceAll})
	}
	return edits, nil
}

func (o *editFileOutput) text() string {
	said := fmt.Sprintf("%s: edited in %s.\n%s", workspace.Printable(o.Path), count(o.Replacements, "place"), o.Diff)
	if o.HunksLeftOut > 0 {
		said += fmt.Sprintf("[%s not shown]\n", count(o.HunksLeftOut, "more change"))
	}
	return said
}
