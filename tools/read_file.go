package tools

import (
	"context"
	"fmt"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

const readFileText = `Reads a file of the workspace.

Text comes with line numbers ("12<tab>text"; the number and the tab are not part of the file), from line offset on, at most limit lines and as many bytes as fit in one result. The first line of the result says what is shown, how much remains, and the offset to go on with.

A line that does not fit is cut, and the result gives the byte_offset where it goes on. With byte_offset (the first byte is 0) and byte_limit the file is read by bytes, fast at any place of a file of any size; bytes that are not text are shown in hexadecimal. So every byte of every file can be read.

PNG, JPEG, GIF and WebP images are shown as images. Other binary files are named, not shown; read them by byte_offset. Long results of other tools, in .wsctl/tool-results, are read with this tool.`

type readFileInput struct {
	Path       string `json:"path" jsonschema:"file to read: relative to the workspace's root, or absolute below it"`
	Offset     int64  `json:"offset,omitempty" min:"1" max:"1000000000000" jsonschema:"first line to read; the first of the file is 1 (default 1)"`
	Limit      int64  `json:"limit,omitempty" min:"1" max:"100000" jsonschema:"number of lines (default 2000)"`
	ByteOffset *int64 `json:"byte_offset,omitempty" min:"0" max:"9000000000000000000" jsonschema:"read by bytes, from this one on; the first of the file is 0"`
	ByteLimit  int64  `json:"byte_limit,omitempty" min:"1" max:"1000000" jsonschema:"number of bytes (default and most: what fits in one result)"`
}

func (in readFileInput) subject() subject { return subject{paths: []string{in.Path}} }

type readFileOutput struct {
	Path    string `json:"path" jsonschema:"the file, as it was asked for"`
	Kind    string `json:"kind" enum:"text,bytes,image,binary,empty" jsonschema:"what the file, or the part of it that was read, is"`
	Size    int64  `json:"size" jsonschema:"size of the file in bytes"`
	Version string `json:"version,omitempty" jsonschema:"changes when the file does; edit_file and write_file take it as if_version"`
	MIME    string `json:"mime,omitempty" jsonschema:"media type of an image or a binary file"`

	Content  string `json:"content,omitempty" jsonschema:"the text, without line numbers, as it is in the file; bytes that are not UTF-8 are U+FFFD"`
	Base64   string `json:"base64,omitempty" jsonschema:"the exact bytes that were read, where content does not have them"`
	Replaced int    `json:"replaced,omitempty" jsonschema:"number of bytes that are not UTF-8"`
	BOM      bool   `json:"bom,omitempty" jsonschema:"the file begins with a UTF-8 byte order mark, which content leaves out"`
	Endings  string `json:"line_endings,omitempty" enum:"lf,crlf,mixed" jsonschema:"line endings in content"`

	FirstLine      int64  `json:"first_line,omitempty" jsonschema:"number of the first line shown"`
	LastLine       int64  `json:"last_line,omitempty" jsonschema:"number of the last line shown"`
	TotalLines     *int64 `json:"total_lines,omitempty" jsonschema:"lines in the file; not there for a file so large that they were not counted"`
	FirstByte      int64  `json:"first_byte" jsonschema:"where in the file content begins"`
	EndByte        int64  `json:"end_byte" jsonschema:"where in the file content ends"`
	RemainingBytes int64  `json:"remaining_bytes" jsonschema:"bytes after what is shown"`
	NextOffset     *int64 `json:"next_offset,omitempty" jsonschema:"offset that goes on by lines; not there at the end of the file"`
	NextByteOffset *int64 `json:"next_byte_offset,omitempty" jsonschema:"byte_offset that goes on, where a line was cut or bytes were read"`

	shown   string // content as it is shown
	picture *Blob
}

func readFile() *Tool {
	return define(Tool{
		Name:        "read_file",
		Title:       "Read a file",
		Description: readFileText,
		Hints:       Hints{ReadOnly: true, Idempotent: true},
	}, runReadFile)
}

func runReadFile(ctx context.Context, c *call, in readFileInput) (*readFileOutput, error) {
	byLines, byBytes := in.Offset != 0 || in.Limit != 0, in.ByteOffset != nil || in.ByteLimit != 0
	if byLines && byBytes {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "read_file", in.Path, "offset and limit read by lines, byte_offset and byte_limit by bytes; give one kind")
	}
	f, err := openReadable(ctx, c, in.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if byBytes {
		err = f.readBytes(in)
	} else {
		err = f.readLines(in)
	}
	if err != nil {
		return nil, asRead(ctx, in.Path, err)
	}
	return &f.out, nil
}

// asRead gives a failure of a read the path; the file itself knows none.
func asRead(ctx context.Context, path string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if workspace.CodeOf(err) != "" {
		return err
	}
	return &workspace.Error{Code: workspace.ErrIO, Op: "read_file", Path: path, Err: err}
}

func (o *readFileOutput) images() []Blob {
	if o.picture == nil {
		return nil
	}
	return []Blob{*o.picture}
}

func (o *readFileOutput) text() string {
	name := workspace.Printable(o.Path)
	switch o.Kind {
	case "empty":
		return name + ": the file is empty (0 bytes)."
	case "image":
		return fmt.Sprintf("%s: an image (%s, %s).", name, o.MIME, count(o.Size, "byte"))
	case "binary":
		return fmt.Sprintf("%s: a binary file (%s, %s), not shown. To see its bytes, give byte_offset.", name, o.MIME, count(o.Size, "byte"))
	}
	var b strings.Builder
	if o.Kind == "bytes" {
		fmt.Fprintf(&b, "%s: bytes %d to %d of %d", name, o.FirstByte, o.EndByte, o.Size)
	} else {
		fmt.Fprintf(&b, "%s: lines %d to %d", name, o.FirstLine, o.LastLine)
		if o.TotalLines != nil {
			fmt.Fprintf(&b, " of %d", *o.TotalLines)
		}
	}
	b.WriteString(o.remains())
	for _, note := range o.notes() {
		b.WriteString("; " + note)
	}
	b.WriteString(".\n" + o.shown)
	return b.String()
}

// remains tells what is after what is shown, and how to get it.
func (o *readFileOutput) remains() string {
	switch {
	case o.RemainingBytes <= 0:
		return ", to the end"
	case o.NextByteOffset != nil && o.Kind == "text":
		return fmt.Sprintf(", the last one cut; %s remaining: go on with byte_offset %d", count(o.RemainingBytes, "byte"), *o.NextByteOffset)
	case o.NextByteOffset != nil:
		return fmt.Sprintf("; %s remaining: go on with byte_offset %d", count(o.RemainingBytes, "byte"), *o.NextByteOffset)
	case o.TotalLines != nil:
		return fmt.Sprintf("; %s remaining: go on with offset %d", count(*o.TotalLines-o.LastLine, "line"), *o.NextOffset)
	}
	return fmt.Sprintf("; %s remaining: go on with offset %d", count(o.RemainingBytes, "byte"), *o.NextOffset)
}

func (o *readFileOutput) notes() []string {
	var notes []string
	if o.BOM {
		notes = append(notes, "begins with a UTF-8 byte order mark")
	}
	switch o.Endings {
	case "crlf":
		notes = append(notes, "lines end with CRLF")
	case "mixed":
		notes = append(notes, "lines end with LF and CRLF, mixed")
	}
	if said := saidReplaced(o.Replaced); said != "" {
		notes = append(notes, said)
	}
	return notes
}
