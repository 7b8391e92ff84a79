//go:build linux

package snapshot

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

const (
	// tick is more than the step in which a kernel counts the times of
	// files: a change within it may leave them as they were.
	tick = 12 * time.Millisecond
	// coarse is that step on file systems that keep whole seconds.
	coarse = 2 * time.Second
	// readings is how often a file is read that changes meanwhile.
	readings = 4
	// readChunk is how many files of a directory one goroutine reads.
	readChunk = 64
)

// reader reads the contents that a scan could not do without.
type reader struct {
	root  *host.Root
	rules *rules
	// sink takes the contents; nil: they are only hashed.
	sink *packer
	// trust: the times of files tell of every change of them.
	trust bool

	mu      sync.Mutex
	changed []string
	read    int
}

// run reads all files. Those that were changed a moment ago come last, when that
// moment is over: what they look like after can then be trusted.
func (r *reader) run(ctx context.Context, all []unread) error {
	var first, last []unread
	recent := time.Now().Add(-tick).UnixNano()
	for _, u := range all {
		for files := range slices.Chunk(u.files, readChunk) {
			if slices.ContainsFunc(files, func(n *node) bool { return lastChange(&n.at) > recent }) {
				last = append(last, unread{u.dir, files})
			} else {
				first = append(first, unread{u.dir, files})
			}
		}
	}
	if err := r.readAll(ctx, first); err != nil || len(last) == 0 {
		return err
	}
	latest := int64(0)
	for _, u := range last {
		for _, n := range u.files {
			latest = max(latest, lastChange(&n.at))
		}
	}
	// A time that is still to come does not get nearer by waiting.
	if wait := time.Until(time.Unix(0, latest).Add(tick + time.Millisecond)); wait > 0 && wait < 2*tick {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return r.readAll(ctx, last)
}

func lastChange(e *host.Entry) int64 { return max(e.Modified, e.Changed) }

func (r *reader) readAll(ctx context.Context, groups []unread) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(workers())
	for _, u := range groups {
		g.Go(func() error { return r.dir(ctx, u) })
	}
	return g.Wait()
}

// buffers are reused by one goroutine.
type buffers struct{ content, stored []byte }

func (r *reader) dir(ctx context.Context, u unread) error {
	d, err := r.root.HoldDir(ctx, u.dir)
	if err != nil {
		for _, n := range u.files {
			if err := n.refused(err); err != nil {
				return err
			}
		}
		return nil
	}
	defer d.Close()
	var b buffers
	for _, n := range u.files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.file(ctx, d, join(u.dir, n.at.Name), n, &b); err != nil {
			return err
		}
	}
	return nil
}

// file reads one file until it did not change meanwhile.
func (r *reader) file(ctx context.Context, d *host.Dir, name string, n *node, b *buffers) error {
	c, err := d.Open(ctx, n.at.Name)
	if err != nil {
		return n.refused(err)
	}
	defer c.Close()
	for try := 1; ; try++ {
		if try > 1 {
			if err := c.Rewind(); err != nil {
				return err
			}
		}
		if err := c.Settle(); err != nil {
			return asError("save", name, err)
		}
		begun := time.Now()
		before, err := c.Stat()
		if err != nil {
			return err
		}
		if r.rules.max > 0 && before.Size > r.rules.max {
			n.at.Size = before.Size
			n.leave(skipLarge, "too large")
			return nil
		}
		var after host.Entry
		same := func(size int64) bool {
			after, err = c.Stat()
			// The link count and the mode are no content.
			return err == nil && size == before.Size && after.Size == before.Size && after.Modified == before.Modified && after.Changed == before.Changed
		}
		last := try == readings
		steady := false
		sum, size, readErr := r.content(ctx, c, before.Size, b, func(size int64) bool {
			steady = same(size)
			return steady || last
		})
		var unreadable errRead
		switch {
		case errors.As(readErr, &unreadable):
			// The disk or the network does not give the content.
			n.leave(skipUnreadable, "unreadable: "+workspace.Printable(unreadable.Error()))
			return nil
		case readErr != nil:
			return asError("save", name, readErr)
		case err != nil:
			return asError("save", name, err)
		}
		if !steady && !last {
			continue
		}
		before.Name = n.at.Name
		n.at, n.sum = before, sum
		n.at.Size = size
		n.trusted = steady && r.trust && settled(&before, begun)
		r.note(name, steady)
		return nil
	}
}

func (r *reader) note(name string, steady bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read++
	if !steady {
		r.changed = append(r.changed, path.Clean(name))
	}
}

// settled reports whether every change of the file after begun shows in its
// times: those it had are older than a step of the clock.
func settled(e *host.Entry, begun time.Time) bool {
	step := tick
	if e.Modified%int64(time.Second) == 0 && e.Changed%int64(time.Second) == 0 {
		step = coarse
	}
	return lastChange(e) <= begun.Add(-step).UnixNano()
}

// errRead marks an error that came from reading the file, not from the store.
type errRead struct{ error }

func (e errRead) Unwrap() error { return e.error }

// fileReader marks the errors of a file.
type fileReader struct{ c *host.Content }

func (f fileReader) Read(b []byte) (int, error) {
	n, err := f.c.Read(b)
	if err != nil && err != io.EOF {
		err = errRead{err}
	}
	return n, err
}

// content reads one content to its end and, when accept agrees, gives it to the
// sink. size is a guess.
func (r *reader) content(ctx context.Context, c *host.Content, size int64, b *buffers, accept func(int64) bool) (Sum, int64, error) {
	if size > wholeObject {
		if r.sink == nil {
			return r.hash(ctx, c, accept)
		}
		return r.sink.stream(ctx, fileReader{c}, accept)
	}
	if int64(cap(b.content)) < size+1 {
		b.content = make([]byte, max(2*size, 64<<10))
	}
	got := 0
	for buf := b.content[:cap(b.content)]; ; {
		n, err := c.Read(buf[got:])
		got += n
		if err == io.EOF {
			break
		}
		if err != nil {
			return Sum{}, 0, errRead{err}
		}
		if got == len(buf) {
			// It has grown. What follows is read like a large file.
			if err := c.Rewind(); err != nil {
				return Sum{}, 0, err
			}
			return r.content(ctx, c, wholeObject+1, b, accept)
		}
	}
	content := b.content[:got]
	if !accept(int64(got)) {
		return Sum{}, int64(got), nil
	}
	if r.sink == nil {
		return sumOf(content), int64(got), nil
	}
	sum, stored, err := r.sink.add(content, b.stored, 0)
	b.stored = stored
	return sum, int64(got), err
}

// hash is content without a sink.
func (r *reader) hash(ctx context.Context, c *host.Content, accept func(int64) bool) (Sum, int64, error) {
	h := sha256.New()
	n, err := io.Copy(&counter{ctx: ctx, w: h}, fileReader{c})
	if err != nil {
		return Sum{}, n, err
	}
	accept(n)
	return Sum(h.Sum(nil)), n, nil
}
