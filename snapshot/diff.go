//go:build linux

package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/wsctl/wsctl/workspace"
)

const (
	// defaultDiffContext and defaultDiffBytes are what DiffOptions says.
	defaultDiffContext = 3
	defaultDiffBytes   = 1 << 20
	// maxDiffFile is the size over which a file is told as changed and no
	// more, in bytes.
	maxDiffFile = 1 << 20
	// binaryLook is how much of a file is looked at for a NUL, as git does.
	binaryLook = 8000
)

var _ workspace.Snapshotter = (*Snapshots)(nil)

// Diff implements workspace.Snapshotter. What the snapshots left out, or could
// not keep, is not compared. Times alone are no change.
func (s *Snapshots) Diff(ctx context.Context, from, to string, o workspace.DiffOptions) (workspace.Diff, error) {
	d, err := s.diff(ctx, from, to, o)
	return d, asError("diff", "", err)
}

func (s *Snapshots) diff(ctx context.Context, from, to string, o workspace.DiffOptions) (workspace.Diff, error) {
	if o.MaxBytes < 0 {
		return workspace.Diff{}, workspace.Errorf(workspace.ErrInvalidArgument, "", "", "MaxBytes is %d; give a size in bytes, or 0 for %d", o.MaxBytes, defaultDiffBytes)
	}
	paths, err := cleanPaths(o.Paths)
	if err != nil {
		return workspace.Diff{}, err
	}
	in, err := s.store.shared(ctx)
	if err != nil {
		return workspace.Diff{}, err
	}
	defer in.end()
	old, err := s.store.record(ctx, from)
	if err != nil {
		return workspace.Diff{}, err
	}
	d := differ{ctx: ctx, names: o.NamesOnly, context: o.Context, room: o.MaxBytes, planner: newPlanner(ctx, in, &old, paths)}
	switch {
	case d.context == 0:
		d.context = defaultDiffContext
	case d.context < 0:
		d.context = 0
	}
	if d.room == 0 {
		d.room = defaultDiffBytes
	}
	var after view
	if to == "" {
		rules, err := newRules(old.MaxFileBytes, old.Exclude...)
		if err != nil {
			return workspace.Diff{}, err
		}
		now, err := s.take(ctx, in, rules, false)
		if err != nil {
			return workspace.Diff{}, err
		}
		after = nodeView{s: s, n: now.top}
	} else {
		rec, err := s.store.record(ctx, to)
		if err != nil {
			return workspace.Diff{}, err
		}
		for _, skipped := range rec.Skipped {
			d.planner.skipped[skipped.Path] = skipped.Reason
		}
		after = keptView{in: in, e: rec.top}
	}
	if err := d.directory(".", keptView{in: in, e: old.top}, after); err != nil {
		return workspace.Diff{}, err
	}
	return d.result, nil
}

// view is one side of a comparison: an entry, what is below it, and what is in it.
type view interface {
	entry() Entry
	children() ([]view, error)
	open(ctx context.Context, path string) (io.ReadCloser, error)
}

// keptView is an entry of a snapshot.
type keptView struct {
	in *session
	e  Entry
}

func (v keptView) entry() Entry { return v.e }

func (v keptView) children() ([]view, error) {
	entries, err := v.in.listing(v.e.Sum)
	list := make([]view, len(entries))
	for i := range entries {
		list[i] = keptView{v.in, entries[i]}
	}
	return list, err
}

func (v keptView) open(context.Context, string) (io.ReadCloser, error) {
	return v.in.content(v.e.Sum)
}

// nodeView is an entry of the tree as it is now.
type nodeView struct {
	s *Snapshots
	n *node
}

func (v nodeView) entry() Entry { return v.n.entry() }

func (v nodeView) children() ([]view, error) {
	var list []view
	for i := range v.n.children {
		if c := &v.n.children[i]; c.kept() {
			list = append(list, nodeView{v.s, c})
		}
	}
	return list, nil
}

func (v nodeView) open(ctx context.Context, path string) (io.ReadCloser, error) {
	return v.s.root.Open(ctx, path)
}

// differ compares two trees.
type differ struct {
	ctx     context.Context //nolint:containedctx // the life of one comparison
	planner *planner        // knows the paths that are asked for, and what was skipped
	names   bool
	context int
	room    int64 // for patches, in bytes
	result  workspace.Diff
}

// directory compares two directories, either of which may be nil, name by name.
func (d *differ) directory(name string, old, now view) error {
	if err := d.ctx.Err(); err != nil {
		return err
	}
	if old != nil && now != nil && old.entry().Sum == now.entry().Sum {
		return nil
	}
	before, err := below(old)
	if err != nil {
		return asError("", name, err)
	}
	after, err := below(now)
	if err != nil {
		return asError("", name, err)
	}
	for len(before) > 0 || len(after) > 0 {
		var b, a view
		switch {
		case len(after) == 0 || len(before) > 0 && before[0].entry().Name < after[0].entry().Name:
			b, before = before[0], before[1:]
		case len(before) == 0 || after[0].entry().Name < before[0].entry().Name:
			a, after = after[0], after[1:]
		default:
			b, before, a, after = before[0], before[1:], after[0], after[1:]
		}
		if err := d.pair(name, b, a); err != nil {
			return err
		}
	}
	return nil
}

func below(v view) ([]view, error) {
	if v == nil || !v.entry().Mode.IsDir() {
		return nil, nil
	}
	return v.children()
}

// pair compares what has one name on both sides, or is on one side alone.
func (d *differ) pair(dir string, old, now view) error {
	c := workspace.Change{}
	var oldEntry, newEntry Entry
	if old != nil {
		oldEntry = old.entry()
		c.Path = join(dir, oldEntry.Name)
		c.OldMode, c.OldSize = oldEntry.Mode, oldEntry.Size
	}
	if now != nil {
		newEntry = now.entry()
		c.Path = join(dir, newEntry.Name)
		c.NewMode, c.NewSize = newEntry.Mode, newEntry.Size
	}
	reach := d.planner.reach(c.Path)
	if _, skipped := d.planner.skipped[c.Path]; skipped || reach == outside {
		return nil
	}
	switch {
	case old == nil:
		c.Kind = workspace.Added
	case now == nil:
		c.Kind = workspace.Deleted
	case oldEntry.Mode.Type() != newEntry.Mode.Type():
		c.Kind = workspace.TypeChanged
	case !newEntry.Mode.IsDir() && (oldEntry.Sum != newEntry.Sum || oldEntry.Target != newEntry.Target):
		c.Kind = workspace.Modified
	case oldEntry.Mode.Perm() != newEntry.Mode.Perm():
		c.Kind = workspace.ModeChanged
	}
	if c.Kind != "" && reach == inside {
		if c.Kind != workspace.ModeChanged && !d.names {
			if err := d.patch(&c, old, now); err != nil {
				return err
			}
		}
		d.result.Changes = append(d.result.Changes, c)
	}
	if oldEntry.Mode.IsDir() || newEntry.Mode.IsDir() {
		return d.directory(c.Path, old, now)
	}
	return nil
}

// patch fills in the unified diff of what is a file or a link on either side.
func (d *differ) patch(c *workspace.Change, old, now view) error {
	before, whole, err := d.content(c.Path, old)
	if err != nil {
		return err
	}
	after, wholeToo, err := d.content(c.Path, now)
	if err != nil {
		return err
	}
	c.Binary = isBinary(before) || isBinary(after)
	switch {
	case c.Binary, bytes.Equal(before, after) && whole && wholeToo:
		return nil
	case !whole, !wholeToo:
		d.result.Truncated = true
		return nil
	}
	text, err := unified(c.Path, old != nil, now != nil, string(before), string(after), d.context)
	if err != nil {
		return err
	}
	if int64(len(text)) > d.room {
		d.result.Truncated = true
		return nil
	}
	d.room -= int64(len(text))
	c.Patch = text
	return nil
}

// unified is the unified diff of two texts, with labels as git gives them.
func unified(path string, wasThere, isThere bool, before, after string, context int) (string, error) {
	oldLabel, newLabel := "/dev/null", "/dev/null"
	if wasThere {
		oldLabel = label("a/" + path)
	}
	if isThere {
		newLabel = label("b/" + path)
	}
	return udiff.ToUnified(oldLabel, newLabel, before, udiff.Lines(before, after), context)
}

// label quotes a path that would break the line that it stands in.
func label(path string) string {
	if quoted := strconv.Quote(path); quoted != `"`+path+`"` {
		return quoted
	}
	return path
}

// content is what a side holds: a file's bytes, a link's text, nothing of a
// directory. whole is false for a file that is too large to compare.
func (d *differ) content(path string, v view) (b []byte, whole bool, err error) {
	if v == nil {
		return nil, true, nil
	}
	e := v.entry()
	switch {
	case e.Mode.IsDir():
		return nil, true, nil
	case e.Mode&fs.ModeSymlink != 0:
		return []byte(e.Target), true, nil
	}
	r, err := v.open(d.ctx, path)
	if err != nil {
		switch workspace.CodeOf(err) {
		case workspace.ErrNotFound, workspace.ErrDenied, workspace.ErrNotFile, workspace.ErrOutside:
			// It went, or changed, after it was looked at.
			return nil, false, nil
		}
		return nil, false, asError("", path, err)
	}
	defer r.Close()
	var buf bytes.Buffer
	n, err := io.Copy(&buf, io.LimitReader(r, maxDiffFile+1))
	if err != nil {
		return nil, false, asError("", path, err)
	}
	return buf.Bytes(), n <= maxDiffFile, nil
}

func isBinary(b []byte) bool {
	return bytes.IndexByte(b[:min(len(b), binaryLook)], 0) >= 0
}

// Summary is a line for people about what a Diff holds.
func Summary(d workspace.Diff) string {
	if len(d.Changes) == 0 {
		return "no changes"
	}
	n := map[workspace.ChangeKind]int{}
	for _, c := range d.Changes {
		n[c.Kind]++
	}
	var parts []string
	for _, k := range []workspace.ChangeKind{workspace.Added, workspace.Modified, workspace.Deleted, workspace.TypeChanged, workspace.ModeChanged} {
		if n[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[k], map[workspace.ChangeKind]string{
				workspace.Added: "added", workspace.Modified: "changed", workspace.Deleted: "deleted", workspace.TypeChanged: "of another kind", workspace.ModeChanged: "with another mode",
			}[k]))
		}
	}
	return strings.Join(parts, ", ")
}
