//go:build linux

package snapshot

import (
	"context"
	"errors"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// cloner makes files of a fork share their content with the files of the tree
// that still are as they were when that content was saved. It is good for one
// goroutine.
type cloner struct {
	root  *host.Root
	index *index
	off   bool // the file systems cannot do that
}

// cloneDir is one directory of the tree.
type cloneDir struct {
	c     *cloner
	held  *host.Dir
	known indexDir
}

// dir finds the directory of the tree; nil where nothing can be shared.
func (c *cloner) dir(ctx context.Context, name string) *cloneDir {
	if c == nil || c.off || c.index.dirs[name] == nil {
		return nil
	}
	held, err := c.root.HoldDir(ctx, name)
	if err != nil {
		return nil
	}
	return &cloneDir{c, held, c.index.dir(name)}
}

func (d *cloneDir) close() {
	if d != nil {
		d.held.Close()
	}
}

// put makes name in held as want says, and reports whether it did: when not,
// nothing was made. It is asked in the order of names.
func (d *cloneDir) put(ctx context.Context, held *host.Dir, want Entry, o host.PutOptions) bool {
	if d == nil || d.c.off {
		return false
	}
	now, err := d.held.Find(want.Name)
	if err != nil {
		return false
	}
	sum, same := d.known.find(&now)
	if !same || sum != want.Sum {
		return false
	}
	from, err := d.held.Open(ctx, want.Name)
	if err != nil {
		return false
	}
	defer from.Close()
	err = held.PutClone(ctx, want.Name, from, now, o)
	d.c.off = errors.Is(err, workspace.ErrUnsupported)
	return err == nil
}
