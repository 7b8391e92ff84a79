//go:build linux

package snapshot

import (
	"path"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

// cleanPaths spells paths as listings do.
func cleanPaths(given []string) ([]string, error) {
	var paths []string
	for _, g := range given {
		name := path.Clean(g)
		switch {
		case g == "", strings.IndexByte(name, 0) >= 0:
			return nil, workspace.Errorf(workspace.ErrInvalidPath, "", g, "name a file or directory below the root")
		case path.IsAbs(name), name == "..", strings.HasPrefix(name, "../"):
			return nil, workspace.Errorf(workspace.ErrOutside, "", g, "the path leaves the root")
		}
		if name == "." {
			return nil, nil
		}
		paths = append(paths, name)
	}
	return paths, nil
}

// reach says how a path lies to those that are asked for.
type reach int

const (
	outside reach = iota
	above         // some of them lie below it
	inside
)

func (p *planner) reach(name string) reach {
	if len(p.paths) == 0 {
		return inside
	}
	r := outside
	for i, want := range p.paths {
		switch {
		case name == want:
			p.found[i] = true
			return inside
		case strings.HasPrefix(name, want) && name[len(want)] == '/':
			return inside
		case name == "." || strings.HasPrefix(want, name) && want[len(name)] == '/':
			r = above
		}
	}
	return r
}
