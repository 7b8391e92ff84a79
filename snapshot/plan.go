//go:build linux

package snapshot

import (
	"context"
	"io/fs"
	"slices"
	"strings"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// dirPlan is what is to be done in one directory.
type dirPlan struct {
	path string
	// doomed: it is emptied, and then its parent removes it.
	doomed bool
	// below are directories in which something is to be done.
	below []*dirPlan
	// remove are entries to delete, trash such whose content no snapshot
	// keeps; both are done first.
	remove, trash []host.Entry
	// make, put, link and set are done then, in this order.
	make []Entry
	put  []replacement
	link []Entry
	set  []replacement
	// self is what the directory is in the end; nil: as it is.
	self *Entry
}

func (d *dirPlan) empty() bool {
	return len(d.below)+len(d.remove)+len(d.trash)+len(d.make)+len(d.put)+len(d.link)+len(d.set) == 0 && d.self == nil
}

// replacement is an entry and what it takes the place of.
type replacement struct {
	want Entry
	old  host.Entry
}

// planner compares the tree as it is with a snapshot.
type planner struct {
	ctx     context.Context //nolint:containedctx // the life of one plan
	in      *session
	skipped map[string]string // paths that the snapshot could not keep, with the reason
	paths   []string          // to restore; empty: all
	found   []bool            // which of them are in the tree or the snapshot

	restored, deleted []string
	kept              []workspace.SkippedEntry
	contents          map[Sum]string // that will be needed, with a path of each
	changes           int
}

func newPlanner(ctx context.Context, in *session, target *record, paths []string) *planner {
	p := &planner{ctx: ctx, in: in, skipped: map[string]string{}, paths: paths, found: make([]bool, len(paths)), contents: map[Sum]string{}}
	for _, s := range target.Skipped {
		p.skipped[s.Path] = s.Reason
	}
	return p
}

// plan is what makes of the tree below now the one below want.
func (p *planner) plan(now *node, want Entry) (*dirPlan, error) {
	d, err := p.directory(".", now, want)
	if err != nil {
		return nil, err
	}
	for i, found := range p.found {
		if !found {
			return nil, workspace.Errorf(workspace.ErrNotFound, "", p.paths[i], "neither the snapshot nor the workspace has it")
		}
	}
	slices.Sort(p.restored)
	slices.Sort(p.deleted)
	slices.SortFunc(p.kept, func(a, b workspace.SkippedEntry) int { return strings.Compare(a.Path, b.Path) })
	return d, nil
}

// directory plans one directory. now is nil when it has to be made.
func (p *planner) directory(name string, now *node, want Entry) (*dirPlan, error) {
	if err := p.ctx.Err(); err != nil {
		return nil, err
	}
	reach := p.reach(name)
	d := &dirPlan{path: name}
	if now != nil && now.sum == want.Sum && reach == inside {
		p.self(d, now, want)
		return d, nil
	}
	entries, err := p.in.listing(want.Sum)
	if err != nil {
		return nil, asError("", name, err)
	}
	var have []node
	if now != nil {
		have = now.children
	}
	for len(entries) > 0 || len(have) > 0 {
		var w *Entry
		var n *node
		switch {
		case len(have) == 0 || len(entries) > 0 && entries[0].Name < have[0].at.Name:
			w, entries = &entries[0], entries[1:]
		case len(entries) == 0 || have[0].at.Name < entries[0].Name:
			n, have = &have[0], have[1:]
		default:
			w, entries, n, have = &entries[0], entries[1:], &have[0], have[1:]
		}
		if n != nil && n.skip == skipGone {
			n = nil
		}
		if err := p.entry(d, n, w); err != nil {
			return nil, err
		}
	}
	if reach == inside || now == nil {
		p.self(d, now, want)
	}
	return d, nil
}

// self plans what the directory itself becomes.
func (p *planner) self(d *dirPlan, now *node, want Entry) {
	mode := now == nil || now.at.Mode.Perm() != want.Mode.Perm()
	if mode || now.at.Modified != want.Modified || !d.empty() {
		d.self = &want
	}
	if now != nil && d.self != nil {
		p.changes++
		if mode {
			p.restored = append(p.restored, d.path)
		}
	}
}

// entry plans one name: n is what has it, want what the snapshot has under it;
// either may be nil.
func (p *planner) entry(d *dirPlan, n *node, want *Entry) error {
	if n == nil && want == nil {
		return nil
	}
	name := ""
	if want != nil {
		name = join(d.path, want.Name)
	} else {
		name = join(d.path, n.at.Name)
	}
	reach := p.reach(name)
	switch {
	case reach == outside:
		return nil
	case want == nil && reach == above:
		// Nothing that is asked for lies in the snapshot; what lies in the
		// tree goes.
		if n.kept() && n.at.Mode.IsDir() {
			return p.emptied(d, name, n)
		}
		return nil
	case want == nil:
		_, err := p.gone(d, name, n)
		return err
	case n == nil:
		return p.made(d, name, *want)
	}
	return p.both(d, name, n, *want)
}

func (p *planner) keep(name string, n *node, why string) {
	if n.skip == skipAlways {
		return
	}
	e := workspace.SkippedEntry{Path: name, Reason: why}
	if n.at.Mode.IsRegular() {
		e.Size = n.at.Size
	}
	p.kept = append(p.kept, e)
}

// gone plans that an entry which the snapshot does not have is removed, with
// what is in it. It answers false when something has to stay.
func (p *planner) gone(d *dirPlan, name string, n *node) (bool, error) {
	if n.skip == skipGone {
		return true, nil
	}
	if why, ok := p.skipped[name]; ok {
		p.keep(name, n, "the snapshot could not keep it: "+why)
		return false, nil
	}
	if !n.kept() {
		p.keep(name, n, n.text)
		return false, nil
	}
	if n.at.Mode.IsDir() {
		sub := &dirPlan{path: name, doomed: true}
		all := true
		for i := range n.children {
			ok, err := p.gone(sub, join(name, n.children[i].at.Name), &n.children[i])
			if err != nil {
				return false, err
			}
			all = all && ok
		}
		sub.doomed = all
		if !sub.empty() {
			d.below = append(d.below, sub)
		}
		if !all {
			return false, p.ctx.Err()
		}
	}
	d.remove = append(d.remove, n.at)
	p.deleted = append(p.deleted, name)
	p.changes++
	return true, p.ctx.Err()
}

// emptied plans that of a directory which the snapshot does not have those
// entries go that are asked for.
func (p *planner) emptied(d *dirPlan, name string, n *node) error {
	sub := &dirPlan{path: name}
	for i := range n.children {
		if err := p.entry(sub, &n.children[i], nil); err != nil {
			return err
		}
	}
	if !sub.empty() {
		d.below = append(d.below, sub)
	}
	return nil
}

// made plans an entry where there is none.
func (p *planner) made(d *dirPlan, name string, want Entry) error {
	p.restored = append(p.restored, name)
	p.changes++
	switch {
	case want.Mode.IsDir():
		d.make = append(d.make, want)
		sub, err := p.directory(name, nil, want)
		if err != nil {
			return err
		}
		d.below = append(d.below, sub)
	case want.Mode&fs.ModeSymlink != 0:
		d.link = append(d.link, want)
	default:
		p.need(name, want)
		d.put = append(d.put, replacement{want: want})
	}
	return nil
}

func (p *planner) need(name string, want Entry) {
	if _, ok := p.contents[want.Sum]; !ok {
		p.contents[want.Sum] = name
	}
}

// both plans an entry where there is one already.
func (p *planner) both(d *dirPlan, name string, n *node, want Entry) error {
	switch n.skip {
	case notSkipped:
	case skipSpecial:
		d.remove = append(d.remove, n.at)
		return p.made(d, name, want)
	case skipLarge, skipUnreadable:
		if n.at.Mode.IsRegular() && !want.Mode.IsDir() {
			// No snapshot has what it holds.
			d.trash = append(d.trash, n.at)
			return p.made(d, name, want)
		}
		fallthrough
	default:
		p.keep(name, n, n.text)
		return nil
	}
	if n.at.Mode.Type() != want.Mode.Type() {
		return p.otherKind(d, name, n, want)
	}
	switch {
	case want.Mode.IsDir():
		sub, err := p.directory(name, n, want)
		if err != nil {
			return err
		}
		if !sub.empty() {
			d.below = append(d.below, sub)
		}
	case want.Mode&fs.ModeSymlink != 0:
		switch {
		case n.text != want.Target:
			d.remove = append(d.remove, n.at)
			return p.made(d, name, want)
		case n.at.Modified != want.Modified:
			p.restored = append(p.restored, name)
			p.changes++
			d.set = append(d.set, replacement{want, n.at})
		}
	case n.sum != want.Sum || n.at.Links > 1 && !sameFile(n, want):
		p.restored = append(p.restored, name)
		p.changes++
		p.need(name, want)
		d.put = append(d.put, replacement{want, n.at})
	case !sameFile(n, want):
		p.restored = append(p.restored, name)
		p.changes++
		d.set = append(d.set, replacement{want, n.at})
	}
	return nil
}

func sameFile(n *node, want Entry) bool {
	return n.at.Mode.Perm() == want.Mode.Perm() && n.at.Modified == want.Modified
}

// otherKind plans that a directory becomes a file, or the like.
func (p *planner) otherKind(d *dirPlan, name string, n *node, want Entry) error {
	if n.at.Mode.IsDir() {
		if n.foreign || p.reach(name) != inside {
			p.keep(name, n, "a directory is there with entries that the snapshot leaves out")
			return nil
		}
		if _, err := p.gone(d, name, n); err != nil {
			return err
		}
		// The name itself is not deleted, it is restored.
		p.deleted = slices.DeleteFunc(p.deleted, func(s string) bool { return s == name })
		return p.made(d, name, want)
	}
	d.remove = append(d.remove, n.at)
	return p.made(d, name, want)
}

// check reads every content that the plan needs: CORRUPT, with the path, when
// one is damaged.
func (p *planner) check() error {
	for sum, name := range p.contents {
		if err := p.in.check(p.ctx, sum); err != nil {
			return asError("", name, err)
		}
	}
	return nil
}
