//go:build linux

package snapshot

import (
	"path"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/wsctl/wsctl/workspace"
)

// rules say what a snapshot leaves out. A restore goes by those of the snapshot,
// whatever they are today.
type rules struct {
	exclude []string // as they were given, sorted, none twice
	max     int64    // size over which files are skipped; 0: none
	globs   []glob
}

// glob is one exclude, taken apart.
type glob struct {
	pattern string
	// deep matches the last part of a path at any depth.
	deep bool
	// dirs matches directories alone.
	dirs  bool
	given string
}

func newRules(maxBytes int64, excludes ...string) (*rules, error) {
	r := &rules{max: max(maxBytes, 0), exclude: slices.Clone(excludes)}
	slices.Sort(r.exclude)
	r.exclude = slices.Compact(r.exclude)
	for _, given := range r.exclude {
		g := glob{given: given, pattern: given}
		g.pattern, g.dirs = strings.CutSuffix(g.pattern, "/")
		g.deep = !strings.Contains(g.pattern, "/")
		g.pattern = strings.TrimPrefix(strings.TrimPrefix(g.pattern, "./"), "/")
		if g.pattern == "" || !doublestar.ValidatePattern(g.pattern) {
			return nil, workspace.Errorf(workspace.ErrInvalidArgument, "", "", "the exclude %q is no glob; write a backslash before what is meant as it is", given)
		}
		r.globs = append(r.globs, g)
	}
	return r, nil
}

// excluded is the glob that leaves name out, a path below the root.
func (r *rules) excluded(name string, dir bool) (string, bool) {
	for i := range r.globs {
		g := &r.globs[i]
		if g.dirs && !dir {
			continue
		}
		against := name
		if g.deep {
			against = path.Base(name)
		}
		if doublestar.MatchUnvalidated(g.pattern, against) {
			return g.given, true
		}
	}
	return "", false
}
