//go:build linux

package snapshot

import (
	"context"
	"io/fs"
	"runtime"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// node is an entry of the tree as it is now.
type node struct {
	at host.Entry
	// sum is that of a file's content or of a directory's listing.
	sum Sum
	// text is a link's, or why an entry is skipped.
	text    string
	skip    skip
	trusted bool // the file is known to hold sum as long as it looks as at
	// foreign: a directory in or below which something is skipped.
	foreign  bool
	children []node
}

// skip says why an entry is not in the snapshot.
type skip byte

const (
	notSkipped skip = iota
	skipAlways      // .wsctl, .git, node_modules
	skipGlob
	skipSpecial
	skipLarge
	skipUnreadable // for this process
	skipOther      // another file system
	skipGone       // removed while we looked
)

func (n *node) kept() bool { return n.skip == notSkipped }

func (n *node) leave(why skip, reason string) { n.skip, n.text = why, reason }

// entry is what a listing says of the node.
func (n *node) entry() Entry {
	e := Entry{Name: n.at.Name, Modified: n.at.Modified, Sum: n.sum}
	switch {
	case n.at.Mode.IsDir():
		e.Mode = fs.ModeDir | n.at.Mode.Perm()
	case n.at.Mode.IsRegular():
		e.Mode, e.Size = n.at.Mode.Perm(), n.at.Size
	default:
		e.Mode, e.Target = fs.ModeSymlink, n.text
	}
	return e
}

// scan looks at a whole tree.
type scan struct {
	root  *host.Root
	rules *rules
	old   *index
	has   func(Sum) bool // whether the store has a content
	dev   uint64

	mu   sync.Mutex
	read []unread
}

// unread are files of one directory whose content must be read.
type unread struct {
	dir   string
	files []*node
}

// workers is how many goroutines look and read at once.
func workers() int { return min(max(runtime.GOMAXPROCS(0), 2), 8) }

// run looks at everything; it reads no file.
func (s *scan) run(ctx context.Context) (*node, error) {
	top := &node{}
	s.dev, _ = s.root.Identity()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers())
	g.Go(func() error { return s.dir(ctx, g, ".", top) })
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if !top.kept() {
		return nil, workspace.Errorf(workspace.ErrDenied, "", ".", "the root cannot be read: %s", top.text)
	}
	return top, nil
}

// dir looks at one directory and at what is below it.
func (s *scan) dir(ctx context.Context, g *errgroup.Group, name string, n *node) error {
	d, err := s.root.HoldDir(ctx, name)
	if err != nil {
		return n.refused(err)
	}
	entries, err := d.Entries(ctx)
	if err != nil {
		d.Close()
		return n.refused(err)
	}
	self := d.Self()
	self.Name = n.at.Name
	n.at = self
	n.children = make([]node, len(entries))
	files := unread{dir: name}
	known := s.old.dir(name)
	for i := range entries {
		c := &n.children[i]
		c.at = entries[i]
		if err := s.entry(d, join(name, c.at.Name), c, &known, &files); err != nil {
			d.Close()
			return err
		}
	}
	d.Close()
	if len(files.files) > 0 {
		s.mu.Lock()
		s.read = append(s.read, files)
		s.mu.Unlock()
	}
	for i := range n.children {
		c := &n.children[i]
		if !c.kept() || !c.at.Mode.IsDir() {
			continue
		}
		below := join(name, c.at.Name)
		if !g.TryGo(func() error { return s.dir(ctx, g, below, c) }) {
			if err := s.dir(ctx, g, below, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry judges one entry: what is kept of it, and whether it must be read.
func (s *scan) entry(d *host.Dir, name string, n *node, known *indexDir, files *unread) error {
	mode := n.at.Mode
	if alwaysLeftOut(n.at.Name) {
		n.leave(skipAlways, "always left out")
		return nil
	}
	if given, ok := s.rules.excluded(name, mode.IsDir()); ok {
		n.leave(skipGlob, "left out by "+given)
		return nil
	}
	switch {
	case mode&fs.ModeIrregular != 0:
		n.leave(skipUnreadable, "unreadable")
	case n.at.Dev != s.dev:
		n.leave(skipOther, "another file system")
	case mode&fs.ModeSymlink != 0:
		text, err := d.ReadLink(n.at)
		if err != nil {
			return n.refused(err)
		}
		n.text = text
	case mode.IsDir():
	case !mode.IsRegular():
		n.leave(skipSpecial, "special file")
	case s.rules.max > 0 && n.at.Size > s.rules.max:
		n.leave(skipLarge, "too large")
	default:
		if sum, same := known.find(&n.at); same && s.has(sum) {
			n.sum, n.trusted = sum, true
			return nil
		}
		files.files = append(files.files, n)
	}
	return nil
}

// refused sorts an error about one entry: it is skipped, or everything ends.
func (n *node) refused(err error) error {
	switch workspace.CodeOf(err) {
	case workspace.ErrDenied:
		n.leave(skipUnreadable, "unreadable")
	case workspace.ErrNotFound, workspace.ErrNotDirectory, workspace.ErrConflict:
		n.leave(skipGone, "it changed while the snapshot was taken")
	case workspace.ErrUnsupported:
		n.leave(skipOther, "another file system")
	case workspace.ErrInvalidPath:
		n.leave(skipUnreadable, "its path is too long")
	case workspace.ErrNotFile:
		n.leave(skipSpecial, "special file")
	default:
		return err
	}
	return nil
}
