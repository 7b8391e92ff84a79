package tools

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/wsctl/wsctl/search"
	"github.com/wsctl/wsctl/workspace"
)

const grepText = `Finds lines in the files of the workspace that match a regular expression (RE2 syntax), or with literal a text as it is; a pattern may begin with a dash.

Each file with a match is named on a line of its own, followed by its matching lines ("12:text") and their context ("13-text"), numbered as by read_file. With mode "files" only the files are named, with "count" how many lines match in each. files narrows the search to names that match a glob, such as "*.go". With multiline a match may go over lines ("\n" is a line break).

` + saidHidden + `

A binary file with a match is named, without lines. Long lines are cut around the match. A long result comes in pages: go on with the next offset. A path that is not there is an error, never "no match".`

const (
	defaultMatches = 100
	grepLine       = 500
)

type grepInput struct {
	Pattern        string `json:"pattern" jsonschema:"regular expression to look for, or text with literal"`
	Path           string `json:"path,omitempty" jsonschema:"file or directory to search (default: the root)"`
	Files          string `json:"files,omitempty" jsonschema:"only files whose name, or path below path when it has a slash, matches this glob"`
	Literal        bool   `json:"literal,omitempty" jsonschema:"the pattern is text, not an expression"`
	IgnoreCase     bool   `json:"ignore_case,omitempty" jsonschema:"match letters in either case"`
	Word           bool   `json:"word,omitempty" jsonschema:"match whole words only"`
	Multiline      bool   `json:"multiline,omitempty" jsonschema:"let a match go over several lines"`
	Mode           string `json:"mode,omitempty" enum:"lines,files,count" jsonschema:"what to report (default lines)"`
	Before         int    `json:"before,omitempty" min:"0" max:"100" jsonschema:"lines of context before each match"`
	After          int    `json:"after,omitempty" min:"0" max:"100" jsonschema:"lines of context after each match"`
	Context        int    `json:"context,omitempty" min:"0" max:"100" jsonschema:"lines of context on both sides"`
	PerFile        int    `json:"per_file,omitempty" min:"1" max:"100000" jsonschema:"most matching lines of one file (default: all)"`
	Hidden         bool   `json:"hidden,omitempty" jsonschema:"take in hidden entries"`
	IncludeIgnored bool   `json:"include_ignored,omitempty" jsonschema:"take in what .gitignore ignores"`
	Offset         int    `json:"offset,omitempty" min:"0" max:"1000000000" jsonschema:"matching lines, or files, to leave out at the front (default 0)"`
	Limit          int    `json:"limit,omitempty" min:"1" max:"5000" jsonschema:"number of matching lines, or of files in the other modes (default 100)"`
}

func (in grepInput) subject() subject { return subject{trees: []string{cmp.Or(in.Path, ".")}} }

type grepOutput struct {
	Files      []grepFile     `json:"files" jsonschema:"the files with a match"`
	Matches    int            `json:"matches" jsonschema:"matching lines in files; a binary file counts as one"`
	Searched   int            `json:"searched" jsonschema:"number of files that were searched, up to the end of the page"`
	NextOffset *int           `json:"next_offset,omitempty" jsonschema:"offset that goes on; not there when this is the last page"`
	Incomplete bool           `json:"incomplete,omitempty" jsonschema:"the tree has more entries than one search looks at; give a path"`
	Skipped    *skippedOutput `json:"skipped,omitempty" jsonschema:"what was not searched"`
	in         grepInput
}

type grepFile struct {
	nameOutput
	Count    int              `json:"count" jsonschema:"matching lines that were found in it; in mode files 1"`
	Binary   bool             `json:"binary,omitempty" jsonschema:"it is binary; its lines are not shown"`
	More     bool             `json:"more,omitempty" jsonschema:"it has more matches"`
	Encoding string           `json:"encoding,omitempty" jsonschema:"what it was decoded from, when that is not UTF-8"`
	Lines    []grepLineOutput `json:"lines,omitempty" jsonschema:"matching lines and their context"`
}

type grepLineOutput struct {
	Line   int    `json:"line" jsonschema:"number of the line, from 1"`
	Match  bool   `json:"match" jsonschema:"it matches; else it is context"`
	Text   string `json:"text" jsonschema:"the line without its end; bytes that are not UTF-8 are U+FFFD"`
	Base64 string `json:"base64,omitempty" jsonschema:"the exact bytes of text, where they are not UTF-8"`
	Column int    `json:"column,omitempty" jsonschema:"where in the line the first match begins, in bytes from 1"`
	Start  int    `json:"start,omitempty" jsonschema:"of a line that was cut: where in it text begins, in bytes from 0"`
	Length int    `json:"length,omitempty" jsonschema:"of a line that was cut: its whole length in bytes"`
}

func grepFiles() *Tool {
	return define(Tool{
		Name:        "grep",
		Title:       "Search in files",
		Description: grepText,
		Hints:       Hints{ReadOnly: true, Idempotent: true},
	}, runGrep)
}

func runGrep(ctx context.Context, c *call, in grepInput) (*grepOutput, error) {
	m, err := search.Grep(ctx, c.ws, in.Pattern, search.GrepOptions{
		Scope: search.Scope{Path: in.Path, Hidden: in.Hidden, NoIgnore: in.IncludeIgnored},
		Files: in.Files, Literal: in.Literal, IgnoreCase: in.IgnoreCase, Word: in.Word, MultiLine: in.Multiline,
		Mode: search.Mode(in.Mode), Before: max(in.Before, in.Context), After: max(in.After, in.Context),
		PerFile: in.PerFile, Offset: in.Offset, Limit: cmp.Or(in.Limit, defaultMatches), MaxLine: grepLine,
	})
	if err != nil {
		return nil, err
	}
	out := &grepOutput{
		Files: make([]grepFile, 0, len(m.Files)), Matches: m.Count, Searched: m.Searched, Incomplete: m.Incomplete,
		Skipped: newSkippedOutput(m.Skipped), in: in,
	}
	for _, f := range m.Files {
		out.Files = append(out.Files, newGrepFile(f))
	}
	if m.More {
		next := in.Offset + cmp.Or(in.Limit, defaultMatches)
		out.NextOffset = &next
	}
	return out, nil
}

func newGrepFile(f search.FileMatches) grepFile {
	out := grepFile{nameOutput: newNameOutput(f.Path), Count: f.Count, Binary: f.Binary, More: f.More, Encoding: f.Encoding}
	for _, l := range f.Lines {
		o := grepLineOutput{Line: l.Number, Match: l.Match, Column: l.Column}
		o.Text, o.Base64 = exactly(l.Text)
		if len(l.Text) < l.Length {
			o.Start, o.Length = l.Start, l.Length
		}
		out.Lines = append(out.Lines, o)
	}
	return out
}

func (o *grepOutput) text() string {
	var b strings.Builder
	b.WriteString(o.head() + "\n")
	for _, f := range o.Files {
		name := workspace.Printable(f.Path)
		switch {
		case f.Binary:
			fmt.Fprintf(&b, "%s: binary file matches\n", name)
		case o.in.Mode == "files":
			b.WriteString(name + "\n")
		case o.in.Mode == "count":
			fmt.Fprintf(&b, "%s: %s\n", name, count(f.Count, "matching line")+said(f.More, " and more"))
		default:
			fmt.Fprintf(&b, "\n%s%s\n", name, said(f.More, " (it has more matches)"))
			f.write(&b)
		}
	}
	return b.String()
}

func (o *grepOutput) head() string {
	var text string
	files := count(o.Searched, "file")
	switch {
	case len(o.Files) == 0 && o.in.Offset > 0:
		text = fmt.Sprintf("No more matches behind offset %d, in %s searched.", o.in.Offset, files)
	case len(o.Files) == 0:
		text = fmt.Sprintf("No match in %s searched.", files)
	case o.in.Mode == "files":
		text = fmt.Sprintf("%s %s searched.", count(len(o.Files), "file")+" with a match, of", files)
	default:
		text = fmt.Sprintf("%s in %s, of %s searched.", count(o.Matches, "matching line"), count(len(o.Files), "file"), files)
	}
	if o.NextOffset != nil {
		text += fmt.Sprintf(" There are more: go on with offset %d.", *o.NextOffset)
	}
	for _, more := range []string{o.Skipped.said(), said(o.Incomplete, saidIncomplete)} {
		if more != "" {
			text += "\n" + more
		}
	}
	return text
}

// write writes the lines of a file, "--" where some are left out between.
func (f *grepFile) write(b *strings.Builder) {
	context := false
	for _, l := range f.Lines {
		context = context || !l.Match
	}
	for i, l := range f.Lines {
		if context && i > 0 && l.Line > f.Lines[i-1].Line+1 {
			b.WriteString("--\n")
		}
		sep := "-"
		if l.Match {
			sep = ":"
		}
		text := l.Text
		if l.Length > 0 {
			text = said(l.Start > 0, "…") + text + "…"
			text += fmt.Sprintf(" [from column %d of a line of %d bytes]", l.Start+1, l.Length)
		}
		fmt.Fprintf(b, "%d%s%s\n", l.Line, sep, text)
	}
}
