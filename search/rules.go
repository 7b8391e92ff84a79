package search

import (
	"context"
	"slices"
	"strings"

	"github.com/wsctl/wsctl/workspace"
)

// Names that the rules are kept under.
const (
	gitDir      = ".git"
	ignoreFile  = ".gitignore"
	excludeFile = "info/exclude"
)

// maxRules is how many bytes of a file of rules are read.
const maxRules = 1 << 20

// rules are what one directory adds to those above it. Those of the deepest
// directory come first, and of one file the last rule that matches. They are
// never changed once made. A nil *rules ignores nothing.
type rules struct {
	above *rules
	list  []rule // the last is the strongest
	// skip is how much of a path leads to the directory, with its slash.
	skip int
	// paths: some rule here or above is about a path.
	paths bool
}

// rulesAbove reads the rules of all directories above the one with this path,
// from the root on. None of them is followed when it is a link.
func rulesAbove(ctx context.Context, ws *workspace.Workspace, path string) (*rules, error) {
	if path == "." || slices.Contains(strings.Split(path, "/"), "..") {
		return nil, nil
	}
	var r *rules
	err := ws.WithDir(ctx, ".", func(ctx context.Context, root workspace.HeldDir) error {
		for at := "."; ; {
			d, err := root.Dir(ctx, at)
			if err != nil {
				return ctx.Err() // a link: what lies behind it is another place
			}
			names, err := d.Names(ctx, ".")
			if err == nil {
				r = r.enter(ctx, d, at, names)
			}
			d.Close()
			rest := path
			if at != "." {
				rest = path[len(at)+1:]
			}
			part, _, more := strings.Cut(rest, "/")
			if !more {
				return ctx.Err()
			}
			at = joined(at, part)
		}
	})
	return r, err
}

// enter adds the rules of a directory d with this path that holds names. A
// repository begins anew: what is above it says nothing about it.
func (r *rules) enter(ctx context.Context, d workspace.HeldDir, path string, names []workspace.DirName) *rules {
	var list []rule
	if git, ok := entryNamed(names, gitDir); ok {
		r = nil
		if git.Type.IsDir() {
			list = readRules(ctx, d, gitDir+"/"+excludeFile)
		}
	}
	if e, ok := entryNamed(names, ignoreFile); ok && e.Type == 0 {
		list = append(list, readRules(ctx, d, ignoreFile)...)
	}
	if len(list) == 0 {
		return r
	}
	own := &rules{above: r, list: list, skip: len(path) + 1}
	if path == "." {
		own.skip = 0
	}
	own.paths = (r != nil && r.paths) || slices.ContainsFunc(list, func(r rule) bool { return r.anchored })
	return own
}

// entryNamed finds a name in a sorted list.
func entryNamed(names []workspace.DirName, name string) (workspace.DirName, bool) {
	i, ok := slices.BinarySearchFunc(names, name, func(e workspace.DirName, name string) int { return strings.Compare(e.Name, name) })
	if !ok {
		return workspace.DirName{}, false
	}
	return names[i], true
}

// readRules reads a file of rules. What is no regular file has none.
func readRules(ctx context.Context, d workspace.HeldDir, name string) []rule {
	f, err := d.Open(ctx, name)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := readAll(ctx, f, maxRules)
	if err != nil {
		return nil
	}
	return parseRules(string(text))
}

// ignore reports whether an entry of the directory dir is ignored. All above it
// is not.
func (r *rules) ignore(dir, name string, directory bool) bool {
	path := name
	if r.paths {
		path = joined(dir, name)
	}
	for ; r != nil; r = r.above {
		rel := name
		if r.paths {
			rel = path[r.skip:]
		}
		for _, rule := range slices.Backward(r.list) {
			if rule.match(rel, name, directory) {
				return !rule.negated
			}
		}
	}
	return false
}
