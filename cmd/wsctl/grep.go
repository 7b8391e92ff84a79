//go:build unix

package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/search"
	"github.com/wsctl/wsctl/workspace"
)

const grepLong = `Find lines that match a regular expression (RE2 syntax), in files and in all that
lies below directories, by default the root. Each is printed as PATH:LINE:TEXT,
context as PATH-LINE-TEXT. A pattern that begins with a dash stands behind "--".

Hidden files are searched with --hidden, what .gitignore ignores with
--no-ignore, and either when PATH names it. Links are not followed, except a PATH
that is one. Of a binary file it is only said that it matches.

The status is that of grep(1): 0 when a line matches, 1 when none does, 2 when
the search failed.`

const grepExample = `  wsctl grep 'func .*Context' src
  wsctl grep -i -g '*.go' deadline
  wsctl grep -F -- '->' main.c
  wsctl grep -l -w Deprecated
  wsctl grep --json -C 2 panic | jq -r '.files[].path'`

// grepOptions are the flags of grep.
type grepOptions struct {
	searchOptions
	search.GrepOptions
	names, counts                   bool
	before, after, context, perFile count
	null                            bool
}

func newGrepCommand(a *app) *cobra.Command {
	var o grepOptions
	o.before.most, o.after.most, o.context.most = 1000, 1000, 1000
	o.perFile.least, o.perFile.most = 1, 1<<31
	cmd := &cobra.Command{
		Use:     "grep [flags] [--] PATTERN [PATH…]",
		Short:   "Find lines in files",
		Long:    grepLong,
		Example: grepExample,
		Args:    takes(1, -1, "a pattern"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.names && o.counts {
				return usagef(verbOf(cmd), "--files and --count do not go together; use one")
			}
			if len(args) > 2 && (o.limit.value > 0 || o.offset.value > 0) {
				return usagef(verbOf(cmd), "--limit and --offset are for one path, and there are %d", len(args)-1)
			}
			return a.searching(cmd, &o.searchOptions, func(ctx context.Context, t *tree, ws *workspace.Workspace) error {
				return failedSearch(a.grep(ctx, t, ws, &o, args[0], args[1:]))
			})
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&o.IgnoreCase, "ignore-case", "i", false, "match letters in either case")
	f.BoolVarP(&o.Literal, "literal", "F", false, "take the pattern as text")
	f.BoolVarP(&o.Word, "word", "w", false, "match whole words only")
	f.BoolVarP(&o.MultiLine, "multiline", "U", false, "let a match go over several lines")
	f.StringVarP(&o.Files, "glob", "g", "", "search only files that match this `GLOB`")
	f.BoolVarP(&o.names, "files", "l", false, "print only the paths of files with a match")
	f.BoolVarP(&o.counts, "count", "c", false, "print only how many lines match in each file")
	f.VarP(&o.before, "before", "B", "print so many lines before each match (default 0)")
	f.VarP(&o.after, "after", "A", "print so many lines after each match (default 0)")
	f.VarP(&o.context, "context", "C", "print so many lines on both sides (default 0)")
	f.VarP(&o.perFile, "max-count", "m", "print at most so many matching lines of a file (default: all)")
	f.BoolVarP(&o.null, "null", "0", false, "put a NUL byte behind each path, and quote none")
	o.addFlags(cmd, "")
	o.tree.addHardLinks(cmd)
	return cmd
}

// grepText is what grep prints with --json.
type grepText struct {
	Files      []grepFile  `json:"files"`
	Matches    int         `json:"matches"`
	Searched   int         `json:"searched"`
	More       bool        `json:"more"`
	Incomplete bool        `json:"incomplete,omitempty"`
	Skipped    skippedText `json:"skipped"`
}

type grepFile struct {
	pathText
	Count    int        `json:"count"`
	Binary   bool       `json:"binary,omitempty"`
	More     bool       `json:"more,omitempty"`
	Encoding string     `json:"encoding,omitempty"`
	Lines    []grepLine `json:"lines,omitempty"`
}

type grepLine struct {
	Line   int    `json:"line"`
	Match  bool   `json:"match"`
	Column int    `json:"column,omitempty"`
	Text   string `json:"text"`
	Exact  string `json:"textBase64,omitempty"`
	// Start and Length tell of a line that was cut where text begins and how
	// long the line is.
	Start  int `json:"start,omitempty"`
	Length int `json:"length,omitempty"`
}

func newGrepFile(f search.FileMatches) grepFile {
	out := grepFile{pathText: newPathText(f.Path), Count: f.Count, Binary: f.Binary, More: f.More, Encoding: f.Encoding}
	for _, l := range f.Lines {
		line := grepLine{Line: l.Number, Match: l.Match, Column: l.Column}
		line.Text, line.Exact = text([]byte(l.Text))
		if len(l.Text) < l.Length {
			line.Start, line.Length = l.Start, l.Length
		}
		out.Lines = append(out.Lines, line)
	}
	return out
}

// wholeLine is more than any line that is found has.
const wholeLine = 1 << 27

// options turns the flags into what the search takes.
func (o *grepOptions) options() search.GrepOptions {
	s := o.GrepOptions
	s.Before, s.After = int(max(o.before.value, o.context.value)), int(max(o.after.value, o.context.value))
	s.PerFile = int(o.perFile.value)
	switch {
	case o.names:
		s.Mode = search.Names
	case o.counts:
		s.Mode = search.Counts
	}
	return s
}

func (a *app) grep(ctx context.Context, t *tree, ws *workspace.Workspace, o *grepOptions, pattern string, paths []string) error {
	if len(paths) == 0 {
		paths = []string{"."}
	}
	all := grepText{Files: []grepFile{}}
	var skipped search.Skipped
	for _, path := range paths {
		options := o.options()
		var err error
		if options.Scope, err = o.scope(t, path); err != nil {
			return err
		}
		if !a.ui.outTTY && !o.tree.json {
			options.MaxLine = wholeLine
		}
		options.Offset, options.Limit = int(o.offset.value), int(o.limit.value)
		var failed error
		options.Each = func(f search.FileMatches) {
			first := all.Matches == 0
			all.Matches += f.Count
			switch {
			case o.tree.json:
				all.Files = append(all.Files, newGrepFile(f))
			case failed == nil:
				failed = a.printMatches(f, o, &options, first)
			}
		}
		m, err := search.Grep(ctx, ws, pattern, options)
		if err != nil {
			return asGiven(err, options.Path, path)
		}
		if failed != nil {
			return failed
		}
		all.Searched += m.Searched
		all.More = all.More || m.More
		all.Incomplete = all.Incomplete || m.Incomplete
		skipped.Add(&m.Skipped)
	}
	if o.tree.json {
		all.Skipped = newSkippedText(skipped)
		if err := a.ui.object(all); err != nil {
			return err
		}
	} else {
		a.tellSkipped(skipped, all.Incomplete, all.Matches > 0)
		a.tellMore(&o.searchOptions, all.More)
	}
	if all.Matches == 0 {
		return exitStatus(exitNothing)
	}
	return nil
}

// printMatches prints what was found in one file. first: nothing was printed
// before.
func (a *app) printMatches(f search.FileMatches, o *grepOptions, s *search.GrepOptions, first bool) error {
	p := a.ui.painter()
	if o.null {
		p.tty, p.colours = false, false
	}
	path := func(sep string) {
		p.putName(colourPath, f.Path)
		if o.null {
			sep = "\x00"
		}
		p.WriteString(sep)
	}
	switch {
	case o.names && o.null:
		path("")
	case o.names:
		path("\n")
	case f.Binary:
		path(": ")
		p.WriteString("binary file matches\n")
	case o.counts:
		path(":")
		p.WriteString(strconv.Itoa(f.Count) + "\n")
	}
	context := s.Before > 0 || s.After > 0
	for i, l := range f.Lines {
		if context && (i > 0 && l.Number > f.Lines[i-1].Number+1 || i == 0 && !first) {
			p.WriteString("--\n")
		}
		sep := "-"
		if l.Match {
			sep = ":"
		}
		path(sep)
		p.put(colourLine, strconv.Itoa(l.Number))
		p.WriteString(sep)
		p.putLine(l)
		p.WriteString("\n")
	}
	return a.ui.result(p.Bytes())
}

// putLine adds the text of a line, its matches in colour, and "…" where it was
// cut.
func (p *painter) putLine(l search.Line) {
	if l.Start > 0 {
		p.WriteString("…")
	}
	at := 0
	for _, s := range l.Spans {
		p.put("", l.Text[at:s.Begin])
		p.put(colourMatch, l.Text[s.Begin:s.End])
		at = s.End
	}
	p.put("", l.Text[at:])
	if l.Start+len(l.Text) < l.Length {
		p.WriteString("…")
	}
}
