//go:build linux

package snapshot

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// DefaultMaxFileBytes is the size over which files are skipped, in bytes.
const DefaultMaxFileBytes = 256 << 20

// NoMaxFileBytes keeps files of any size.
const NoMaxFileBytes = -1

// maxMetadata bounds what a caller keeps with a snapshot, in bytes.
const maxMetadata = 16 << 20

// Options are what holds for all snapshots of a workspace. The zero value is
// good.
type Options struct {
	// Exclude are globs that every snapshot leaves out; see
	// workspace.SaveOptions.
	Exclude []string
	// MaxFileBytes skips larger files; 0: DefaultMaxFileBytes; NoMaxFileBytes:
	// none is too large.
	MaxFileBytes int64
	// Retention is applied after each save; the zero value keeps all.
	Retention Retention
	// Logger is told what no call returns; nil: silent.
	Logger *slog.Logger
}

// Snapshots are those of one root in one store. Its methods may be called by
// many goroutines at once.
type Snapshots struct {
	root  *host.Root
	store *Store
	opts  Options
	log   *slog.Logger
}

// New returns the snapshots of root in store; both stay the caller's to close.
func New(root *host.Root, store *Store, o Options) (*Snapshots, error) {
	if _, err := newRules(0, o.Exclude...); err != nil {
		return nil, asError("open snapshots", "", err)
	}
	if o.MaxFileBytes < NoMaxFileBytes {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "open snapshots", "", "MaxFileBytes is %d; give a size in bytes, or NoMaxFileBytes", o.MaxFileBytes)
	}
	if o.MaxFileBytes == 0 {
		o.MaxFileBytes = DefaultMaxFileBytes
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Snapshots{root: root, store: store, opts: o, log: o.Logger}, nil
}

// Store is where the snapshots are.
func (s *Snapshots) Store() *Store { return s.store }

// List implements workspace.Snapshotter.
func (s *Snapshots) List(ctx context.Context) ([]workspace.Snapshot, error) { return s.store.List(ctx) }

// Get implements workspace.Snapshotter.
func (s *Snapshots) Get(ctx context.Context, id string) (workspace.Snapshot, error) {
	return s.store.Get(ctx, id)
}

// Delete implements workspace.Snapshotter.
func (s *Snapshots) Delete(ctx context.Context, ids ...string) error {
	return s.store.Delete(ctx, ids...)
}

// Save implements workspace.Snapshotter. What it costs is a look at every entry,
// the reading of what changed, and a few flushes to the disk at its end.
func (s *Snapshots) Save(ctx context.Context, o workspace.SaveOptions) (workspace.Snapshot, error) {
	snap, err := s.save(ctx, o)
	if err != nil {
		return workspace.Snapshot{}, asError("save snapshot", "", err)
	}
	if s.opts.Retention != (Retention{}) {
		if _, err := s.store.prune(ctx, s.opts.Retention, pruning{lazy: true, spare: snap.ID}); err != nil {
			// The snapshot is there; what is too much goes next time.
			s.log.Warn("old snapshots could not be removed", "store", s.store.name, "error", err)
		}
	}
	if err := s.store.merge(ctx); err != nil {
		s.log.Warn("small packs could not be put together", "store", s.store.name, "error", err)
	}
	return snap, nil
}

func (s *Snapshots) save(ctx context.Context, o workspace.SaveOptions) (workspace.Snapshot, error) {
	if len(o.Metadata) > maxMetadata || len(o.Metadata) > 0 && !json.Valid(o.Metadata) {
		return workspace.Snapshot{}, workspace.Errorf(workspace.ErrInvalidArgument, "", "", "the metadata is no JSON, or more than %d bytes of it", maxMetadata)
	}
	limit := o.MaxFileBytes
	if limit == 0 {
		limit = s.opts.MaxFileBytes
	}
	rules, err := newRules(limit, slices.Concat(s.opts.Exclude, o.Exclude)...)
	if err != nil {
		return workspace.Snapshot{}, err
	}
	in, err := s.store.shared(ctx)
	if err != nil {
		return workspace.Snapshot{}, err
	}
	defer in.end()
	t, err := s.take(ctx, in, rules, true)
	if err != nil {
		return workspace.Snapshot{}, err
	}
	defer t.discard()
	return t.keep(ctx, workspace.Snapshot{Label: o.Label, Turn: o.Turn, Metadata: o.Metadata})
}

// taken is the tree as it is now, on its way to be a snapshot.
type taken struct {
	s     *Snapshots
	rules *rules
	begun time.Time
	top   *node
	read  *reader
	sink  *packer // nil: nothing is kept
}

// take looks at the tree and reads what changed in it; with keep the contents
// go to the store.
func (s *Snapshots) take(ctx context.Context, in *session, r *rules, keep bool) (_ *taken, err error) {
	t := &taken{s: s, rules: r, begun: time.Now()}
	if keep {
		t.sink = in.newPacker()
	}
	defer func() {
		if err != nil {
			t.discard()
		}
	}()
	look := scan{root: s.root, rules: r, old: s.store.readIndex(), has: in.has}
	if t.top, err = look.run(ctx); err != nil {
		return nil, err
	}
	t.read = &reader{root: s.root, rules: r, sink: t.sink, trust: s.root.SeesMappedWrites()}
	if err = t.read.run(ctx, look.read); err != nil {
		return nil, err
	}
	var b buffers
	return t, t.list(t.top, &b)
}

// list makes the listings of a directory and of those below it.
func (t *taken) list(n *node, b *buffers) error {
	for i := range n.children {
		c := &n.children[i]
		if c.kept() && c.at.Mode.IsDir() {
			if err := t.list(c, b); err != nil {
				return err
			}
		}
		n.foreign = n.foreign || c.foreign || !c.kept() && c.skip != skipGone
	}
	b.content = b.content[:0]
	for i := range n.children {
		if c := &n.children[i]; c.kept() {
			e := c.entry()
			b.content = appendEntry(b.content, &e)
		}
	}
	if t.sink == nil {
		n.sum = sumOf(b.content)
		return nil
	}
	var err error
	n.sum, b.stored, err = t.sink.add(b.content, b.stored, flagListing)
	return err
}

func (t *taken) discard() {
	if t.sink != nil {
		t.sink.discard()
	}
}

// keep makes a snapshot of it, durably.
func (t *taken) keep(ctx context.Context, snap workspace.Snapshot) (workspace.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return snap, err
	}
	now := time.Now().UTC()
	snap.ID, snap.Created = newID(now), now
	snap.WorkspaceID = t.s.store.header.WorkspaceID
	snap.Exclude = append([]string{}, t.rules.exclude...)
	snap.MaxFileBytes = t.rules.max
	t.count(t.top, ".", &snap)
	slices.Sort(t.read.changed)
	snap.Changed = t.read.changed
	snap.Stats.Read, snap.Stats.Added, snap.Stats.AddedBytes = t.read.read, t.sink.count, t.sink.bytes
	if err := t.sink.finish(); err != nil {
		return snap, err
	}
	snap.Stats.Duration = time.Since(t.begun)
	r := record{Snapshot: snap, top: t.top.entry()}
	if err := t.s.store.writeRecord(&r); err != nil {
		return snap, err
	}
	if err := t.s.store.writeIndex(t.top); err != nil {
		t.s.log.Warn("the next snapshot will read every file", "store", t.s.store.name, "error", err)
	}
	return snap, nil
}

// count fills in what is told of the entries.
func (t *taken) count(n *node, name string, snap *workspace.Snapshot) {
	st := &snap.Stats
	for i := range n.children {
		c := &n.children[i]
		path := join(name, c.at.Name)
		switch {
		case c.skip == skipAlways, c.skip == skipGlob, c.skip == skipGone:
		case !c.kept():
			entry := workspace.SkippedEntry{Path: path, Reason: c.text}
			if c.at.Mode.IsRegular() {
				entry.Size = c.at.Size
			}
			snap.Skipped = append(snap.Skipped, entry)
		case c.at.Mode.IsDir():
			st.Directories++
			t.count(c, path, snap)
		case c.at.Mode.IsRegular():
			st.Files++
			st.Bytes += c.at.Size
		default:
			st.Links++
		}
	}
}
