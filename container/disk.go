//go:build unix

package container

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/go-units"
	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

const (
	// diskTick is the time between two looks at the free space, which cost
	// microseconds, while something may write.
	diskTick = 100 * time.Millisecond
	// diskEvery is the time between two measurements when the free space
	// says nothing, at least; diskRest how many times longer than the last
	// one it took is waited at least, so that measuring takes a twentieth of
	// a processor, and less.
	diskEvery = 2 * time.Second
	diskRest  = 20
	// diskMargin is the part of a file system, at most diskMarginBytes, that
	// is left to the machine.
	diskMargin      = 50
	diskMarginBytes = 1 << 30
)

// disk watches how much the commands of a workspace write: to the root, to their
// home and, as the engine tells it, to the container's layer. When that has grown
// by more than the limit, whatever runs is ended, and nothing new is started until
// there is less. It is a watcher and no quota: it looks after the fact, so a fast
// writer goes beyond the limit by what it writes in a few tenths of a second. Files
// that were unlinked while they are open are in no tree; they are seen only when
// the file system itself is nearly full.
type disk struct {
	trees []*os.File
	home  *os.File // of the trees, this watch's own
	// layer is how much the container's layer has, -1 when it cannot be told.
	layer func(context.Context) int64
	// endAll ends whatever runs in the container.
	endAll func(context.Context)
	limit  int64
	// base is the size at the beginning, closed how many directories could
	// not be looked into then.
	base   int64
	closed int

	// measuring is held by a measurement, and until what follows from it is done:
	// who is admitted by the next one is not ended for what this one has found.
	measuring sync.Mutex

	life context.Context //nolint:containedctx // until close
	halt context.CancelFunc
	loop sync.WaitGroup // what looks as long as something may write

	mu      sync.Mutex
	running map[*watched]struct{}
	kept    bool
	looping bool
	stopped bool
	over    error // why nothing is started; nil: all is well
	last    diskState
}

// diskState is what a measurement found.
type diskState struct {
	size int64
	used int64 // of the file systems, at the beginning of it
	at   time.Time
	took time.Duration
}

// newDisk begins to watch. base is measured before the first command.
func newDisk(trees []*os.File, limit, base int64, closed int) *disk {
	life, halt := context.WithCancel(context.Background())
	return &disk{
		life: life, halt: halt,
		trees: trees, limit: limit, base: base, closed: closed, running: map[*watched]struct{}{},
		layer: func(context.Context) int64 { return -1 }, endAll: func(context.Context) {},
	}
}

// measure is the size of the trees together.
func measure(ctx context.Context, trees []*os.File) (treeSize, error) {
	var sum treeSize
	for _, t := range trees {
		s, err := measureTree(ctx, t)
		if err != nil {
			return sum, err
		}
		sum.Bytes += s.Bytes
		sum.Closed += s.Closed
		sum.Files += s.Files
	}
	return sum, nil
}

// space is what is used of the file systems of the trees, each once, and whether
// one of them is nearly full.
func (k *disk) space() (used int64, full bool) {
	seen := map[unix.Fsid]bool{}
	for _, t := range k.trees {
		var st unix.Statfs_t
		if unix.Fstatfs(int(t.Fd()), &st) != nil || seen[st.Fsid] {
			continue
		}
		seen[st.Fsid] = true
		block := int64(st.Bsize)
		used += (int64(st.Blocks) - int64(st.Bfree)) * block
		margin := min(int64(st.Blocks)*block/diskMargin, diskMarginBytes)
		full = full || int64(st.Bavail)*block < margin
	}
	return used, full
}

// due tells whether it is time to measure: when the file systems have filled by
// what was left, by whomever, or after a while.
func (k *disk) due() bool {
	used, full := k.space()
	k.mu.Lock()
	defer k.mu.Unlock()
	since := time.Since(k.last.at)
	switch {
	case k.last.at.IsZero(), full && k.over == nil:
		return true
	case since < k.last.took*diskRest/4:
		return false
	case used-k.last.used >= k.base+k.limit-k.last.size:
		return true
	}
	return since > max(diskEvery, k.last.took*diskRest)
}

// look measures and says whether there is too much: k.over. measuring is held.
func (k *disk) look(ctx context.Context) error {
	begun := time.Now()
	used, full := k.space()
	s, err := measure(ctx, k.trees)
	if err != nil {
		return workspace.Errorf(workspace.ErrIO, "disk", "", "measure what the commands have written: %w", err)
	}
	if layer := k.layer(ctx); layer > 0 {
		s.Bytes += layer
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last = diskState{size: s.Bytes, used: used, at: time.Now(), took: time.Since(begun)}
	grown := s.Bytes - k.base
	const op = "disk"
	switch {
	case grown > k.limit:
		k.over = workspace.Errorf(workspace.ErrTooLarge, op, "", "the workspace has grown by %s, and its limit is %s: what ran was ended, and nothing is started until there is less; remove files (wsctl file rm)", units.BytesSize(float64(grown)), units.BytesSize(float64(k.limit)))
	case s.Closed > k.closed:
		k.over = workspace.Errorf(workspace.ErrTooLarge, op, "", "%d directories cannot be looked into, because of their mode or depth, so how much is in them cannot be told: what ran was ended, and nothing is started until they are open or gone (wsctl file chmod, wsctl file rm -r)", s.Closed-k.closed)
	case full && grown > 0:
		k.over = workspace.Errorf(workspace.ErrTooLarge, op, "", "the file system of the workspace is nearly full: what ran was ended, and nothing is started until there is space; remove files")
	default:
		k.over = nil
	}
	return k.over
}

// admit refuses a command while there is too much.
func (k *disk) admit(ctx context.Context) error {
	k.mu.Lock()
	over := k.over
	k.mu.Unlock()
	if over == nil && !k.due() {
		return nil
	}
	k.measuring.Lock()
	defer k.measuring.Unlock()
	return k.look(ctx)
}

// watched is a command that is ended when it has written too much.
type watched struct {
	workspace.Running
	disk *disk
	over atomic.Pointer[error] // why it was ended
}

// watch has r ended when there is too much. kept: what it leaves runs on.
func (k *disk) watch(r workspace.Running, kept bool) workspace.Running {
	w := &watched{Running: r, disk: k}
	k.mu.Lock()
	k.running[w] = struct{}{}
	k.kept = k.kept || kept
	if !k.looping && !k.stopped {
		k.looping = true
		k.loop.Go(k.goOnLooking)
	}
	k.mu.Unlock()
	go func() {
		_, _ = r.Wait()
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.running, w)
	}()
	return w
}

// Wait implements workspace.Running.
func (w *watched) Wait() (workspace.Exit, error) {
	exit, err := w.Running.Wait()
	if why := w.over.Load(); why != nil && (err != nil || exit.Stopped) {
		return exit, *why
	}
	return exit, err
}

// goOnLooking looks as long as something may write.
func (k *disk) goOnLooking() {
	t := time.NewTicker(diskTick)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-k.life.Done():
			return
		}
		k.mu.Lock()
		if k.stopped || len(k.running) == 0 && !k.kept {
			k.looping = false
			k.mu.Unlock()
			return
		}
		over := k.over
		k.mu.Unlock()
		if over != nil || k.due() {
			k.enforce(k.life)
		}
	}
}

// enforce looks, and ends what runs when there is too much.
func (k *disk) enforce(ctx context.Context) {
	k.measuring.Lock()
	defer k.measuring.Unlock()
	k.mu.Lock()
	before, over := k.last.size, k.over
	k.mu.Unlock()
	// An error of the measurement is no reason to end anything; the root
	// is gone, say, which others tell.
	why := k.look(ctx)
	if workspace.CodeOf(why) == workspace.ErrTooLarge {
		k.end(ctx, why, over != nil && k.grew(before))
	}
}

// grew tells whether there is more than before.
func (k *disk) grew(before int64) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.last.size > before
}

// end ends the commands that run. When there is more all the same, it was something
// that an earlier command has left, or another process runs, and all is ended.
func (k *disk) end(ctx context.Context, why error, all bool) {
	k.mu.Lock()
	var running []*watched
	for w := range k.running {
		running = append(running, w)
	}
	k.mu.Unlock()
	var ending sync.WaitGroup
	ended := all
	for _, w := range running {
		if w.over.CompareAndSwap(nil, &why) {
			ended = true
			ending.Go(func() { _ = w.Stop(0) })
		}
	}
	ending.Wait()
	if all {
		k.endAll(ctx)
	}
	if ended {
		// What they wrote until they were dead is no sign that something writes
		// still.
		_ = k.look(ctx)
	}
}

// close ends the watch, and returns when nothing reads the trees any more.
func (k *disk) close() {
	k.mu.Lock()
	k.stopped = true
	k.mu.Unlock()
	k.halt()
	k.loop.Wait()
	_ = k.home.Close()
}
