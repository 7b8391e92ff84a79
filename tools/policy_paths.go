package tools

import (
	"context"
	"io/fs"
	"path"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/wsctl/wsctl/workspace"
)

// policyPlace is a path that a call is about, relative to the root.
type policyPlace struct {
	// names are the path as it is spelled and as its links lead.
	names []string
	// tree: the call may reach any file below it.
	tree bool
}

// places are the paths of a call, where a rule asks for them.
func (p *Policy) places(ctx context.Context, c *call, about subject) ([]policyPlace, error) {
	needed := false
	for _, r := range p.Rules {
		needed = needed || len(r.Paths) > 0
	}
	if !needed {
		return nil, nil
	}
	var all []policyPlace
	add := func(spelled string, tree bool) error {
		name := belowRoot(c.ws, spelled)
		leads, err := followed(ctx, c.ws, name)
		all = append(all, policyPlace{[]string{path.Clean("/" + name)[1:], leads}, tree})
		return err
	}
	for _, spelled := range about.paths {
		if err := add(spelled, false); err != nil {
			return nil, err
		}
	}
	for _, spelled := range about.trees {
		if err := add(spelled, true); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// belowRoot is a path relative to the root: an absolute one below it without
// the root's name.
func belowRoot(ws *workspace.Workspace, spelled string) string {
	roots := []string{ws.Root()}
	if r, ok := ws.Driver().(workspace.Realer); ok {
		roots = append(roots, r.Real())
	}
	for _, root := range roots {
		if rest, ok := strings.CutPrefix(spelled, strings.TrimRight(root, "/")); ok && (rest == "" || rest[0] == '/') {
			return strings.TrimLeft(rest, "/")
		}
	}
	return spelled
}

// maxLinks is how many links a path may have, as in Linux.
const maxLinks = 40

// followed is where a path leads when its links are followed, as far as there
// is something. The workspace follows them again, and safely, when the call
// runs; between the two a command may change a link.
func followed(ctx context.Context, ws *workspace.Workspace, name string) (string, error) {
	pending := strings.Split(name, "/")
	var at []string
	for links := 0; len(pending) > 0; {
		part := pending[0]
		pending = pending[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if len(at) > 0 {
				at = at[:len(at)-1]
			}
			continue
		}
		here := strings.Join(append(at[:len(at):len(at)], part), "/")
		fi, err := ws.Lstat(ctx, here)
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err != nil || fi.Mode()&fs.ModeSymlink == 0 {
			// What is not there has no links, and what cannot be seen
			// fails in the call as well.
			at = append(at[:len(at):len(at)], part)
			continue
		}
		target, err := ws.ReadLink(ctx, here)
		if links++; err != nil || links > maxLinks {
			at = append(at[:len(at):len(at)], part)
			continue
		}
		if strings.HasPrefix(target, "/") {
			at, target = nil, belowRoot(ws, target)
		}
		pending = append(strings.Split(target, "/"), pending...)
	}
	return strings.Join(at, "/"), nil
}

// matchPaths returns what the rule's paths come to for a call, and why; no
// reason: they do not match. A command is not allowed by a path.
func (r Rule) matchPaths(places []policyPlace, command bool) (Action, string) {
	matched := 0
	for _, p := range places {
		if r.Action == Allow {
			if !command && r.allows(p) {
				matched++
			}
			continue
		}
		for _, name := range p.names {
			if glob := r.covers(name); glob != "" {
				return r.Action, "paths that match " + glob
			}
			if p.tree {
				if glob := r.reaches(name); glob != "" {
					return Ask, "paths that match " + glob + ", and such may lie below this directory"
				}
			}
		}
	}
	if r.Action == Allow && matched > 0 && matched == len(places) {
		return Allow, "these paths"
	}
	return "", ""
}

// anyDepth is a glob that also says what depth it is for.
func anyDepth(glob string) string {
	if !strings.Contains(glob, "/") {
		return "**/" + glob
	}
	return glob
}

// allows reports whether every name of a place matches one of the globs, and of
// a tree all that can lie in it.
func (r Rule) allows(p policyPlace) bool {
	for _, name := range p.names {
		found := false
		for _, glob := range r.Paths {
			glob = anyDepth(glob)
			in := doublestar.MatchUnvalidated(glob, name)
			if p.tree {
				// Names that no glob has in it on purpose.
				in = doublestar.MatchUnvalidated(glob, path.Join(name, "\x01")) && doublestar.MatchUnvalidated(glob, path.Join(name, "\x01/\x01"))
			}
			found = found || in
		}
		if !found {
			return false
		}
	}
	return true
}

// covers returns the glob that matches a name or a directory above it.
func (r Rule) covers(name string) string {
	for _, glob := range r.Paths {
		for at := name; at != "" && at != "."; at = path.Dir(at) {
			if doublestar.MatchUnvalidated(anyDepth(glob), at) {
				return glob
			}
		}
	}
	return ""
}

// reaches returns the glob that may match something below a directory.
func (r Rule) reaches(tree string) string {
	for _, glob := range r.Paths {
		base, _ := doublestar.SplitPattern(anyDepth(glob))
		if base == "." || tree == "" || base == tree || strings.HasPrefix(base, tree+"/") || strings.HasPrefix(tree, base+"/") {
			return glob
		}
	}
	return ""
}
