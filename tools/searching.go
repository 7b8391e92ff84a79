package tools

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/wsctl/wsctl/search"
	"github.com/wsctl/wsctl/workspace"
)

// What list_files, glob and grep say alike.

// saidHidden is the rule of hidden and ignored entries, for descriptions.
const saidHidden = `Hidden entries (a name that begins with a dot) are left out unless hidden is true, and what .gitignore ignores unless include_ignored is true; the result says how many were skipped and why. A path, or a part of a pattern, that names such an entry reaches it all the same. Links are not followed, except a path that is one and stays inside the workspace.`

// skippedOutput tells what was not looked at.
type skippedOutput struct {
	Hidden     int             `json:"hidden,omitempty" jsonschema:"hidden entries; hidden true takes them in"`
	Ignored    int             `json:"ignored,omitempty" jsonschema:"entries that .gitignore ignores; include_ignored true takes them in"`
	Links      int             `json:"links,omitempty" jsonschema:"symbolic links, not followed"`
	Special    int             `json:"special,omitempty" jsonschema:"FIFOs, sockets and devices"`
	TooLarge   int             `json:"too_large,omitempty" jsonschema:"files that are too large to be searched"`
	Unreadable int             `json:"unreadable,omitempty" jsonschema:"entries that could not be read"`
	Problems   []problemOutput `json:"problems,omitempty" jsonschema:"the first few that were too large or unreadable"`
}

type problemOutput struct {
	nameOutput
	Code string `json:"code" jsonschema:"why"`
}

// nameOutput is a path of the tree, which may hold any bytes.
type nameOutput struct {
	Path       string `json:"path" jsonschema:"relative to the workspace's root; bytes that are not UTF-8 are U+FFFD"`
	PathBase64 string `json:"path_base64,omitempty" jsonschema:"the exact bytes of path, where they are not UTF-8"`
}

func newNameOutput(path string) nameOutput {
	text, exact := exactly(path)
	return nameOutput{text, exact}
}

// exactly is s as UTF-8 and, where that is not the same, its bytes in base64.
func exactly(s string) (text, exact string) {
	text, replaced := valid([]byte(s))
	if replaced > 0 {
		exact = base64.StdEncoding.EncodeToString([]byte(s))
	}
	return text, exact
}

func newSkippedOutput(s search.Skipped) *skippedOutput {
	if s.Total() == 0 {
		return nil
	}
	out := &skippedOutput{Hidden: s.Hidden, Ignored: s.Ignored, Links: s.Links, Special: s.Special, TooLarge: s.TooLarge, Unreadable: s.Unreadable}
	for _, p := range s.Problems {
		out.Problems = append(out.Problems, problemOutput{newNameOutput(p.Path), string(p.Code)})
	}
	return out
}

// said is what a text says of it; empty: nothing was skipped.
func (s *skippedOutput) said() string {
	if s == nil {
		return ""
	}
	var parts []string
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(s.Ignored, "ignored by .gitignore (include_ignored takes them in)")
	add(s.Hidden, "hidden (hidden takes them in)")
	if s.Links > 0 {
		parts = append(parts, count(s.Links, "link")+" not followed")
	}
	add(s.Special, "FIFOs, sockets or devices")
	add(s.TooLarge, "too large")
	add(s.Unreadable, "unreadable")
	text := "Skipped: " + strings.Join(parts, ", ") + "."
	for i, p := range s.Problems {
		sep := ", "
		if i == 0 {
			sep = " Among them "
		}
		text += fmt.Sprintf("%s%s (%s)", sep, workspace.Printable(p.Path), p.Code)
	}
	return text
}

// saidIncomplete is what a text says of a search that ended early.
const saidIncomplete = "The tree has more entries than one search looks at, and the rest was not: give a path."

// entryOutput is one entry of the tree.
type entryOutput struct {
	nameOutput
	Kind     string     `json:"kind" enum:"file,directory,link,special" jsonschema:"what it is"`
	Size     *int64     `json:"size,omitempty" jsonschema:"size of a file in bytes"`
	Modified *time.Time `json:"modified,omitempty" jsonschema:"when its content last changed"`
	Target   string     `json:"target,omitempty" jsonschema:"where a link points"`
}

// foundOutput is a page of entries.
type foundOutput struct {
	Entries    []entryOutput  `json:"entries" jsonschema:"the entries of this page"`
	Total      int            `json:"total" jsonschema:"number of entries on all pages"`
	NextOffset *int           `json:"next_offset,omitempty" jsonschema:"offset that goes on; not there when this is the last page"`
	Incomplete bool           `json:"incomplete,omitempty" jsonschema:"the tree has more entries than one search looks at; give a path"`
	Skipped    *skippedOutput `json:"skipped,omitempty" jsonschema:"what was not looked at"`
}

func newFoundOutput(f *search.Found, offset int, details bool) foundOutput {
	out := foundOutput{Entries: make([]entryOutput, 0, len(f.Entries)), Total: f.Total, Incomplete: f.Incomplete, Skipped: newSkippedOutput(f.Skipped)}
	for _, e := range f.Entries {
		o := entryOutput{nameOutput: newNameOutput(e.Path), Kind: string(e.Kind)}
		if details && !e.Modified.IsZero() {
			modified := e.Modified.UTC()
			o.Modified = &modified
			if e.Kind == search.File {
				o.Size = &e.Size
			}
		}
		o.Target, _ = valid([]byte(e.Target))
		out.Entries = append(out.Entries, o)
	}
	if f.More {
		next := offset + len(f.Entries)
		out.NextOffset = &next
	}
	return out
}

// head is the first lines of the text: how many there are, and what was skipped.
func (f *foundOutput) head(what string, offset int) string {
	text := count(f.Total, what)
	switch n := len(f.Entries); {
	case n == 0 && f.Total > 0:
		text += fmt.Sprintf("; offset %d is behind the last", offset)
	case n < f.Total:
		text += fmt.Sprintf("; shown are %d to %d", offset+1, offset+n)
	}
	if f.NextOffset != nil {
		text += fmt.Sprintf("; go on with offset %d", *f.NextOffset)
	}
	text += "."
	for _, more := range []string{f.Skipped.said(), said(f.Incomplete, saidIncomplete)} {
		if more != "" {
			text += "\n" + more
		}
	}
	return text
}

func said(yes bool, text string) string {
	if yes {
		return text
	}
	return ""
}

// line is an entry in a text, under the name given.
func (e *entryOutput) line(name string) string {
	text := workspace.Printable(name)
	switch search.Kind(e.Kind) {
	case search.Directory:
		text += "/"
	case search.Link:
		text += " ->"
		if e.Target != "" {
			text += " " + workspace.Printable(e.Target)
		}
	case search.Special:
		text += " (no file)"
	}
	if e.Size != nil {
		text += fmt.Sprintf("\t%d", *e.Size)
	}
	if e.Modified != nil {
		text += "\t" + e.Modified.Format(time.RFC3339)
	}
	return text
}
