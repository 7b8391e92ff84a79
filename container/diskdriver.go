//go:build unix

package container

import (
	"context"
	"os"

	"github.com/wsctl/wsctl/workspace"
)

// minDisk is the least limit that makes sense: a command's own small files.
const minDisk = 1 << 20

// diskBase is how much there was at the beginning.
type diskBase struct {
	// Bytes are those of the root and the home, Closed the directories that
	// could not be looked into.
	Bytes  int64 `json:"bytes"`
	Closed int   `json:"closed,omitempty"`
}

// Start implements workspace.Starter. With a limit for the disk, a command that
// goes beyond it is ended, and its error is TOO_LARGE; so is that of every command
// that begins while there is too much.
func (d *Driver) Start(ctx context.Context, c workspace.Command, s workspace.Streams) (workspace.Running, error) {
	d.mu.Lock()
	k := d.disk
	d.mu.Unlock()
	if k == nil {
		return d.startCommand(ctx, c, s)
	}
	if err := k.admit(ctx); err != nil {
		return nil, err
	}
	r, err := d.startCommand(ctx, c, s)
	if err != nil {
		return nil, err
	}
	return k.watch(r, c.Background == workspace.BackgroundKeep), nil
}

// measureBase measures what there is before the container is made, once.
func (d *Driver) measureBase(ctx context.Context, home *homeDir) error {
	if d.opts.Disk == 0 || d.base != nil {
		return nil
	}
	dir, err := home.dir.Open(".")
	if err != nil {
		return workspace.Errorf(workspace.ErrIO, "disk", "", "%w", err)
	}
	defer dir.Close()
	s, err := measure(ctx, []*os.File{d.dir, dir})
	if err != nil {
		return engineError(ctx, "disk", err)
	}
	d.base = &diskBase{Bytes: s.Bytes, Closed: s.Closed}
	return nil
}

// watchDisk begins to watch, once, when the container is there.
func (d *Driver) watchDisk(ctx context.Context, b *box) error {
	if d.opts.Disk == 0 && d.moreDisk == 0 || d.disk != nil {
		return nil
	}
	home, _, err := openDirectory(b.homeSource)
	if err != nil {
		return workspace.Errorf(workspace.ErrIO, "disk", "", "the home of the commands: %w", err)
	}
	var base diskBase
	if d.base != nil {
		base = *d.base
	}
	k := newDisk([]*os.File{d.dir, home}, d.opts.Disk, base.Bytes, base.Closed)
	k.home = home
	k.layer, k.endAll = d.layerSize, d.endAll
	if d.moreDisk > 0 {
		s, err := measure(ctx, k.trees)
		if err != nil {
			_ = home.Close()
			return engineError(ctx, "disk", err)
		}
		now := s.Bytes + max(k.layer(ctx), 0)
		if d.opts.Disk == 0 || now+d.moreDisk < base.Bytes+d.opts.Disk {
			k.limit, k.base, k.closed = d.moreDisk, now, s.Closed
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.disk = k
	return nil
}

// layerSize is how much the container's layer has, as the engine counts, or -1.
func (d *Driver) layerSize(ctx context.Context) int64 {
	b := d.current()
	if b == nil {
		return -1
	}
	bounded, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	got, _, err := d.engine.cli.ContainerInspectWithRaw(bounded, b.id, true)
	if err != nil || got.ContainerJSONBase == nil || got.SizeRw == nil {
		return -1
	}
	return *got.SizeRw
}

// endAll ends everything that runs in the container, whoever has started it; PID 1
// stays. An exec may be beyond the process limit.
func (d *Driver) endAll(ctx context.Context) {
	b := d.current()
	if b == nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	d.log.Warn("everything in the container ended, which has written too much", "container", b.name)
	s, err := b.exec(bounded, []string{b.shell, "-c", "kill -KILL -1"})
	if err != nil {
		d.discard(b, "it had written too much, and what ran in it could not be ended")
		return
	}
	defer s.Close()
	stop := context.AfterFunc(bounded, func() { _ = s.Close() })
	defer stop()
	_ = s.demux(&head{}, &head{})
}
