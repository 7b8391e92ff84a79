//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/search"
	"github.com/wsctl/wsctl/workspace"
)

// searchOptions are the flags of the verbs that look for something.
type searchOptions struct {
	tree             treeOptions
	hidden, noIgnore bool
	offset, limit    count
}

func (o *searchOptions) addFlags(cmd *cobra.Command, hiddenShort string) {
	o.limit.least, o.limit.most = 1, 1<<31
	o.offset.most = 1 << 31
	f := cmd.Flags()
	f.BoolVarP(&o.hidden, "hidden", hiddenShort, false, "take in entries whose name begins with a dot")
	f.BoolVar(&o.noIgnore, "no-ignore", false, "take in what .gitignore ignores")
	f.Var(&o.limit, "limit", "print at most so many results (default: all)")
	f.Var(&o.offset, "offset", "leave out so many results at the front (default 0)")
	o.tree.addFlags(cmd)
}

// scope is where the flags say to look, below a path as the user spells it.
func (o *searchOptions) scope(t *tree, path string) (search.Scope, error) {
	name, err := t.name(path)
	return search.Scope{Path: name, Hidden: o.hidden, NoIgnore: o.noIgnore}, err
}

// searching runs a verb that looks for something in the files of a root, without
// an engine.
func (a *app) searching(cmd *cobra.Command, o *searchOptions, verb func(context.Context, *tree, *workspace.Workspace) error) error {
	return a.reading(cmd, &o.tree, func(ctx context.Context, t *tree) error {
		ws, err := workspace.New(&filesOnly{t}, workspace.Options{Logger: a.ui.logger()})
		if err != nil {
			return err
		}
		defer ws.Close()
		return verb(ctx, t, ws)
	})
}

// filesOnly is a driver of a tree in which nothing runs. The tree stays open.
type filesOnly struct{ tree *tree }

var _ workspace.Driver = (*filesOnly)(nil)

func (d *filesOnly) Descriptor() workspace.Descriptor {
	return workspace.Descriptor{Kind: workspace.KindLocal, Root: d.tree.spellings[0]}
}
func (d *filesOnly) Files() workspace.Files      { return d.tree.Root }
func (d *filesOnly) Ready(context.Context) error { return errFilesOnly() }
func (d *filesOnly) Close() error                { return nil }

func (d *filesOnly) Run(context.Context, workspace.Command, workspace.Streams) (workspace.Exit, error) {
	return workspace.Exit{}, errFilesOnly()
}

func errFilesOnly() error {
	return workspace.Errorf(workspace.ErrUnsupported, "run", "", "nothing runs here; use wsctl run")
}

// skippedText is what was not looked at, in JSON.
type skippedText struct {
	Hidden     int           `json:"hidden"`
	Ignored    int           `json:"ignored"`
	Links      int           `json:"links"`
	Special    int           `json:"special"`
	TooLarge   int           `json:"tooLarge"`
	Unreadable int           `json:"unreadable"`
	Problems   []problemText `json:"problems,omitempty"`
}

type problemText struct {
	pathText
	Code workspace.Code `json:"code"`
}

func newSkippedText(s search.Skipped) skippedText {
	t := skippedText{Hidden: s.Hidden, Ignored: s.Ignored, Links: s.Links, Special: s.Special, TooLarge: s.TooLarge, Unreadable: s.Unreadable}
	for _, p := range s.Problems {
		t.Problems = append(t.Problems, problemText{newPathText(p.Path), p.Code})
	}
	return t
}

// tellSkipped tells what was not looked at: all of it when nothing was found,
// and else what the user did not leave out on purpose.
func (a *app) tellSkipped(s search.Skipped, incomplete, found bool) {
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	if !found {
		add(s.Ignored, "ignored (--no-ignore)")
		add(s.Hidden, "hidden (--hidden)")
		add(s.Links, "links")
		add(s.Special, "FIFOs, sockets or devices")
	}
	add(s.TooLarge, "too large")
	add(s.Unreadable, "unreadable")
	if len(parts) > 0 {
		a.ui.talk("skipped: " + strings.Join(parts, ", "))
	}
	for _, p := range s.Problems {
		a.ui.talk(fmt.Sprintf("skipped %s: %s", workspace.Printable(p.Path), p.Code))
	}
	if incomplete {
		a.ui.talk("the tree has more entries than one search looks at; give a path")
	}
}

// tellMore tells how to go on with the next page.
func (a *app) tellMore(o *searchOptions, more bool) {
	if more {
		a.ui.talk(fmt.Sprintf("there is more; go on with --offset %d", o.offset.value+o.limit.value))
	}
}

// foundText is what glob and ls print with --json.
type foundText struct {
	Entries    []foundEntry `json:"entries"`
	Total      int          `json:"total"`
	More       bool         `json:"more"`
	Incomplete bool         `json:"incomplete,omitempty"`
	Skipped    skippedText  `json:"skipped"`
}

type foundEntry struct {
	pathText
	Kind     search.Kind `json:"kind"`
	Size     *int64      `json:"size,omitempty"`
	Modified *time.Time  `json:"modified,omitempty"`
	Target   *string     `json:"target,omitempty"`
	Exact    string      `json:"targetBase64,omitempty"`
}

func newFoundText(f *search.Found) foundText {
	t := foundText{Entries: []foundEntry{}, Total: f.Total, More: f.More, Incomplete: f.Incomplete, Skipped: newSkippedText(f.Skipped)}
	for _, e := range f.Entries {
		o := foundEntry{pathText: newPathText(e.Path), Kind: e.Kind}
		if !e.Modified.IsZero() {
			modified := e.Modified.UTC()
			o.Modified = &modified
		}
		if e.Kind == search.File && e.Mode != 0 {
			o.Size = &e.Size
		}
		if e.Target != "" {
			target, exact := text([]byte(e.Target))
			o.Target, o.Exact = &target, exact
		}
		t.Entries = append(t.Entries, o)
	}
	return t
}

// Colours of a terminal (ECMA-48, SGR).
const (
	colourPath  = "35"
	colourLine  = "32"
	colourMatch = "1;31"
	colourDir   = "1;34"
	colourLink  = "36"
)

// painter makes text for where results go: byte for byte into a pipe or a file,
// and for a terminal so that it cannot drive it, with colours where they are
// wanted.
type painter struct {
	bytes.Buffer
	tty, colours bool
}

func (u *ui) painter() *painter { return &painter{tty: u.outTTY, colours: u.outTTY && u.fancy} }

// put adds text in a colour; "" is none.
func (p *painter) put(colour, text string) {
	paint := p.colours && colour != "" && text != ""
	if paint {
		p.WriteString("\x1b[" + colour + "m")
	}
	if p.tty {
		w := plainWriter{to: &p.Buffer}
		// Writing to memory does not fail.
		_, _ = w.Write([]byte(text))
		w.flush()
	} else {
		p.WriteString(text)
	}
	if paint {
		p.WriteString("\x1b[0m")
	}
}

// putName adds the name of an entry, on one line of a terminal.
func (p *painter) putName(colour, name string) {
	if p.tty {
		name = workspace.Printable(name)
	}
	p.put(colour, name)
}
