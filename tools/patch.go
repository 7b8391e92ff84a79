package tools

import (
	"fmt"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// patchEdits are the hunks of a unified diff of one file, as edits.
func patchEdits(patch string) ([]edit, error) {
	if strings.HasPrefix(strings.TrimLeft(patch, "\n"), "@@") {
		// The file is known; its names may be left out.
		patch = "--- a/file\n+++ b/file\n" + strings.TrimLeft(patch, "\n")
	}
	if !strings.HasSuffix(patch, "\n") {
		patch += "\n"
	}
	files, _, err := gitdiff.Parse(strings.NewReader(patch))
	switch {
	case err != nil:
		return nil, fmt.Errorf("patch: is no unified diff: %w; check the counts in its @@ lines", err)
	case len(files) == 0:
		return nil, fmt.Errorf("patch: holds no unified diff; it begins with ---, +++ and @@ lines")
	case len(files) > 1:
		return nil, fmt.Errorf("patch: is of %d files; give one call for each", len(files))
	}
	f := files[0]
	switch {
	case f.IsNew || f.IsDelete || f.IsRename || f.IsCopy:
		return nil, fmt.Errorf("patch: makes, deletes or renames a file; use write_file, or a command")
	case f.IsBinary:
		return nil, fmt.Errorf("patch: is binary; use write_file or a command")
	case len(f.TextFragments) == 0:
		return nil, fmt.Errorf("patch: changes no line")
	}
	var edits []edit
	moved := int64(0)
	for i, hunk := range f.TextFragments {
		e := edit{field: fmt.Sprintf("patch, hunk %d", i+1), line: int(hunk.OldPosition + moved)}
		for _, l := range hunk.Lines {
			if l.Old() {
				e.old = append(e.old, l.Line...)
				e.atEnd = e.atEnd || l.NoEOL()
			}
			if l.New() {
				e.new = append(e.new, l.Line...)
			}
		}
		if len(e.old) == 0 {
			// "-3,0" means after line 3.
			e.line++
		}
		moved += hunk.NewLines - hunk.OldLines
		edits = append(edits, e)
	}
	return edits, nil
}
