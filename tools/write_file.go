package tools

import (
	"context"
	"errors"
	"fmt"

	"github.com/wsctl/wsctl/workspace"
)

const writeFileText = `Writes a file of the workspace: makes it, with the directories above it, or replaces it. The content is written byte for byte, without any unescaping. The old file or the new one is there, never half of one; the mode of an existing file stays.

mode "create" refuses a file that is there, "append" adds to its end. With if_version (the version that read_file told) the file is only written when nobody has changed it since, else the result is CONFLICT. To change a part of a file use edit_file.`

type writeFileInput struct {
	Path      string `json:"path" jsonschema:"file to write: relative to the workspace's root, or absolute below it"`
	Content   string `json:"content" jsonschema:"the whole new content, or with mode append what to add"`
	Mode      string `json:"mode,omitempty" enum:"overwrite,create,append" jsonschema:"what to do with a file that is there (default overwrite)"`
	IfVersion string `json:"if_version,omitempty" jsonschema:"version that the file must still have"`
}

func (in writeFileInput) subject() subject { return subject{paths: []string{in.Path}} }

type writeFileOutput struct {
	Path    string `json:"path" jsonschema:"the file, as it was asked for"`
	Created bool   `json:"created" jsonschema:"the file was not there before"`
	Written int    `json:"written" jsonschema:"bytes written"`
	Size    int64  `json:"size" jsonschema:"size of the file now, in bytes"`
	Version string `json:"version,omitempty" jsonschema:"changes when the file does"`
	mode    string
}

func writeFile() *Tool {
	return define(Tool{
		Name:        "write_file",
		Title:       "Write a file",
		Description: writeFileText,
		Hints:       Hints{Destructive: true},
	}, runWriteFile)
}

func runWriteFile(ctx context.Context, c *call, in writeFileInput) (*writeFileOutput, error) {
	_, err := c.ws.Stat(ctx, in.Path)
	created := errors.Is(err, workspace.ErrNotFound)
	fi, err := c.ws.WriteFile(ctx, in.Path, []byte(in.Content), workspace.WriteOptions{
		Exclusive: in.Mode == "create", Append: in.Mode == "append", IfVersion: in.IfVersion,
	})
	if err != nil {
		return nil, err
	}
	path, _ := valid([]byte(in.Path))
	return &writeFileOutput{path, created, len(in.Content), fi.Size(), workspace.VersionOf(fi), in.Mode}, nil
}

func (o *writeFileOutput) text() string {
	name := workspace.Printable(o.Path)
	switch {
	case o.Created:
		return fmt.Sprintf("%s: a new file of %s.", name, count(o.Size, "byte"))
	case o.mode == "append":
		return fmt.Sprintf("%s: %s added; it has %s now.", name, count(o.Written, "byte"), count(o.Size, "byte"))
	}
	return fmt.Sprintf("%s: replaced; it has %s now.", name, count(o.Size, "byte"))
}
