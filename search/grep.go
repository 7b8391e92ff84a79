package search

import (
	"cmp"
	"context"
	"slices"

	"github.com/wsctl/wsctl/workspace"
)

// Mode says what Grep reports.
type Mode string

const (
	// Lines reports the matching lines.
	Lines Mode = "lines"
	// Names reports which files have a match, and stops at the first.
	Names Mode = "files"
	// Counts reports how many lines match in each file.
	Counts Mode = "count"
)

// GrepOptions say where Grep looks, how, and what it reports. The zero value
// reports every line that matches, in all files.
type GrepOptions struct {
	Scope
	// Files takes in only files whose path below Scope.Path matches this
	// glob; one without a slash is matched with the name in any directory.
	// It does not bind a file that is given as the path.
	Files string
	// Literal takes the pattern as text and not as a regular expression.
	Literal bool
	// IgnoreCase takes letters in either case, beyond ASCII too.
	IgnoreCase bool
	// Word takes a match only where no word character stands at its ends.
	Word bool
	// MultiLine lets a match go over several lines: "\n" is a line break,
	// "^" and "$" are the ends of each line, and "." is any character of
	// one line, or "(?s)." any at all.
	MultiLine bool
	// Mode is what is reported; empty: Lines.
	Mode Mode
	// Before and After are the numbers of lines of context.
	Before, After int
	// PerFile is the largest number of matching lines of one file; 0: all.
	PerFile int
	// Offset leaves out that many results at the front, for paging; Limit
	// is the largest number of results, 0: all. A result is a matching line,
	// or a file in the other modes. A binary file is one, too.
	Offset, Limit int
	// MaxLine is how many bytes of a line are returned; 0: DefaultMaxLine.
	MaxLine int
	// MaxFileBytes bounds the files that are searched; 0:
	// DefaultMaxSearched.
	MaxFileBytes int64
	// Each, when set, is called with the matches of one file after another,
	// as they are found, and Matches.Files stays empty.
	Each func(FileMatches)
}

const (
	// DefaultMaxLine is how much of a line Grep returns, in bytes.
	DefaultMaxLine = 2000
	// DefaultMaxSearched is the size of the largest file that Grep searches.
	DefaultMaxSearched = 1 << 30
	// maxHeld bounds what is held of one file: a line, all of it when
	// matches go over lines, or when it is not UTF-8.
	maxHeld = 64 << 20
	// maxContext is the largest number of lines of context.
	maxContext = 1000
)

func (o *GrepOptions) check() error {
	const op = "grep"
	o.Mode = cmp.Or(o.Mode, Lines)
	o.MaxLine = cmp.Or(o.MaxLine, DefaultMaxLine)
	o.MaxFileBytes = cmp.Or(o.MaxFileBytes, DefaultMaxSearched)
	switch {
	case !slices.Contains([]Mode{Lines, Names, Counts}, o.Mode):
		return workspace.Errorf(workspace.ErrInvalidArgument, op, o.Path, "mode %q: choose lines, files or count", string(o.Mode))
	case min(o.Before, o.After, o.PerFile, o.Offset, o.Limit) < 0:
		return workspace.Errorf(workspace.ErrInvalidArgument, op, o.Path, "a number is negative; give positive ones, or 0")
	case max(o.Before, o.After) > maxContext:
		return workspace.Errorf(workspace.ErrInvalidArgument, op, o.Path, "at most %d lines of context; read the file for more", maxContext)
	case o.MaxLine < 16 || o.MaxFileBytes < 0:
		return workspace.Errorf(workspace.ErrInvalidArgument, op, o.Path, "a line is returned with 16 bytes at least, and the largest size of a file is not negative")
	}
	if o.Mode != Lines {
		o.Before, o.After = 0, 0
	}
	return o.Scope.check(op)
}

// FileMatches are the matches in one file.
type FileMatches struct {
	// Path is relative to the root. It holds any bytes but NUL.
	Path string
	// Lines are the matching lines and their context, in order; only in the
	// mode Lines, and never of a binary file.
	Lines []Line
	// Count is the number of matching lines, or those up to a limit; of a
	// binary file, and in the mode Names, 1.
	Count int
	// Binary: the file has a NUL byte among its first 8,000, and a match.
	Binary bool
	// More: PerFile was reached, and there are more.
	More bool
	// Encoding is what the file was decoded from, "utf-16le" or "utf-16be",
	// when it says so in its first two bytes; empty: it was taken as it is.
	Encoding string
}

// Line is one line of a file. As everywhere, a line ends before "\n" or "\r\n",
// and the last needs none.
type Line struct {
	// Number counts from 1.
	Number int
	// Match tells a matching line from one of its context.
	Match bool
	// Column is where the first match begins, in bytes, from 1; 0 for context
	// and where a match began on an earlier line.
	Column int
	// Text is the line without its end, bytes as they are in the file. It is
	// cut to MaxLine at characters.
	Text string
	// Start is where in the line Text begins, in bytes, and Length the
	// length of the line: a line was cut when Text is shorter.
	Start, Length int
	// Spans are the matches in Text, the first 32.
	Spans []Span
}

// Span is a part of a Line's Text, in bytes.
type Span struct{ Begin, End int }

// Matches is what Grep found.
type Matches struct {
	Files []FileMatches
	// Count is the number of matching lines in Files, and binary files.
	Count int
	// Searched is the number of files that were searched.
	Searched int
	// More: Limit was reached, and there are more. What was Skipped is then
	// only what came before.
	More bool
	// Incomplete: the tree has more entries than Scope.MaxEntries, and the
	// rest was not looked at.
	Incomplete bool
	Skipped    Skipped
}

// Grep finds the lines that match a regular expression (the syntax is RE2's,
// re2-wiki Syntax) in the files below Scope.Path, or in the one that is given as
// the path. Files are searched as the bytes they are: a byte that is not UTF-8
// is one character that only "." and classes match. One that begins with the
// byte order mark of UTF-16 is decoded, that of UTF-8 is no part of the first
// line.
func Grep(ctx context.Context, ws *workspace.Workspace, pattern string, o GrepOptions) (*Matches, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	e, err := compileExpression(pattern, &o)
	if err != nil {
		return nil, err
	}
	var names *Pattern
	if o.Files != "" {
		if names, err = CompilePattern(anywhere(o.Files)); err != nil {
			return nil, err
		}
	}
	at, err := ws.Rel(o.Path)
	if err != nil {
		return nil, named(err, "grep", o.Path)
	}
	w := walk[FileMatches]{
		scope: o.Scope, names: names, batch: inlineEntries,
		weigh: func(f FileMatches) int { return 128 + len(f.Path) + len(f.Lines)*(160+o.MaxLine/4) },
		visit: func(ctx context.Context, v *visit, entries []workspace.DirName, found []FileMatches) []FileMatches {
			s := newSearcher(ctx, e, &o, v.scratch)
			for _, entry := range entries {
				v.skips.searched++
				f, err := s.entry(v.dir, v.path, entry)
				switch {
				case err != nil:
					v.skips.searched--
					v.skips.fail(joined(v.path, entry.Name), err)
				case f != nil:
					found = append(found, *f)
				}
			}
			return found
		},
	}
	page := pager{o: &o, out: Matches{Files: []FileMatches{}}}
	done, err := w.run(ctx, ws, at, page.add)
	if workspace.CodeOf(err) == workspace.ErrNotDirectory {
		return grepFile(ctx, ws, at, e, &o)
	}
	if err != nil {
		return nil, named(err, "grep", o.Path)
	}
	out := page.out
	out.Skipped, out.Incomplete, out.Searched = done.skipped, done.incomplete, done.skipped.searched
	return &out, nil
}

// anywhere lets a glob without a slash match in any directory.
func anywhere(glob string) string {
	for i := range len(glob) {
		if glob[i] == '/' {
			return glob
		}
	}
	return "**/" + glob
}

// grepFile searches the one file that was given as the path.
func grepFile(ctx context.Context, ws *workspace.Workspace, at string, e *expression, o *GrepOptions) (*Matches, error) {
	f, err := ws.Open(ctx, o.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := newSearcher(ctx, e, o, &scratch{})
	found, err := s.file(f, tidy(at))
	if err != nil {
		return nil, named(err, "grep", o.Path)
	}
	page := pager{o: o, out: Matches{Files: []FileMatches{}, Searched: 1}}
	if found != nil {
		page.add(*found)
	}
	return &page.out, ctx.Err()
}

// pager takes the results of one page.
type pager struct {
	o    *GrepOptions
	seen int // results so far, those before the page too
	out  Matches
}

// add takes the matches of a file; false when the page is full.
func (p *pager) add(f FileMatches) bool {
	n := f.Count
	if p.o.Mode != Lines || f.Binary {
		n = 1
	}
	first := max(p.o.Offset-p.seen, 0)
	last := n
	if p.o.Limit > 0 {
		last = min(n, p.o.Offset+p.o.Limit-p.seen)
	}
	p.seen += n
	if last < n {
		p.out.More = true
	}
	if first < last {
		if first > 0 || last < n {
			f.Lines = someMatches(f.Lines, first, last, p.o.After)
			f.Count = last - first
			f.More = f.More || last < n
		}
		p.out.Count += f.Count
		if p.o.Each != nil {
			p.o.Each(f)
		} else {
			p.out.Files = append(p.out.Files, f)
		}
	}
	return !p.out.More
}

// someMatches are the matching lines from the first on and before the last, with
// the context behind each.
func someMatches(lines []Line, first, last, after int) []Line {
	var places []int
	for i, line := range lines {
		if line.Match {
			places = append(places, i)
		}
	}
	begin, end := 0, len(lines)
	if first > 0 {
		begin = places[first]
	}
	if last < len(places) {
		end = places[last-1] + 1
		for n := 0; n < after && end < places[last] && lines[end].Number == lines[end-1].Number+1; n++ {
			end++
		}
	}
	return lines[begin:end]
}
