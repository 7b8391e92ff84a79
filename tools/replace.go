package tools

import (
	"github.com/wsctl/wsctl/workspace"
)

// Replacement is what Replace has made of a text.
type Replacement struct {
	Text  []byte
	Count int // of the places that were changed
	// Diff is the unified diff; bytes that are not UTF-8 are U+FFFD in it.
	Diff string
	// HunksLeftOut counts the changes that Diff does not show, since there
	// are too many.
	HunksLeftOut int
}

// Replace puts new in the place of old in a text, by the rules of edit_file: old
// must be there once unless all is set, a line break in it also matches CRLF,
// and nothing is unescaped. path is for the diff and for errors, which are
// INVALID_ARGUMENT; field is what an error calls old.
func Replace(path, field string, text, old, new []byte, all bool) (Replacement, error) {
	e := edit{field: field, old: old, new: new, all: all}
	after, replaced, err := e.apply(text)
	if err != nil {
		return Replacement{}, workspace.Errorf(workspace.ErrInvalidArgument, "edit", path, "%w", err)
	}
	var changed spans
	changed = changed.compose(replaced)
	r := Replacement{Text: after, Count: len(replaced)}
	r.Diff, r.HunksLeftOut = unifiedDiff(path, text, after, changed)
	return r, nil
}
