package host

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sweepPatience is how long OpenRoot waits for the sweep, which goes on by
// itself: most trees are done by then, and opening stays cheap for the others.
const sweepPatience = 20 * time.Millisecond

// maxLeftovers bounds each list of Leftovers.
const maxLeftovers = 1000

// sweeper deals with leftovers once, in a goroutine that ends with Close.
type sweeper struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	found Leftovers
}

func (s *sweeper) stop() {
	if s.cancel != nil {
		s.cancel()
		<-s.done
	}
}

func (s *sweeper) add(list *[]string, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(*list) < maxLeftovers {
		*list = append(*list, path)
	}
}

// startSweep starts the sweep and waits a moment for it.
func (r *Root) startSweep() {
	if r.opts.LeftoverAge < 0 {
		return
	}
	ctx, cancel := context.WithCancel(context.Background()) // its life is the Root's, not a call's
	r.sweep.cancel = cancel
	r.sweep.done = make(chan struct{})
	go func() {
		defer close(r.sweep.done)
		r.sweepState(ctx)
		r.sweepTree(ctx)
	}()
	patience := time.NewTimer(sweepPatience)
	defer patience.Stop()
	select {
	case <-r.sweep.done:
	case <-patience.C:
	}
}

// Leftovers waits until the tree was looked through and tells what was found.
func (r *Root) Leftovers(ctx context.Context) (Leftovers, error) {
	const op = "status"
	if err := r.begin(ctx, op, "."); err != nil {
		return Leftovers{}, err
	}
	defer r.calls.leave()
	if r.sweep.done != nil {
		select {
		case <-r.sweep.done:
		case <-ctx.Done():
			return Leftovers{}, asError(op, ".", ctx.Err())
		}
	}
	r.sweep.mu.Lock()
	defer r.sweep.mu.Unlock()
	f := r.sweep.found
	return Leftovers{
		append([]string(nil), f.Removed...), append([]string(nil), f.Finished...),
		append([]string(nil), f.Recovered...), append([]string(nil), f.Quarantined...),
	}, nil
}

// sweepState looks through the pending directory, if there is one.
func (r *Root) sweepState(ctx context.Context) {
	if _, known := r.stateID(); !known {
		return
	}
	state, err := r.openState()
	if err != nil {
		r.log.Warn("the workspace's state is not looked through", "root", r.name, "error", err)
		return
	}
	defer closeFD(state)
	pending, err := openAt(state, PendingName, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	defer closeFD(pending)
	fd, err := openList(pending)
	if err != nil {
		return
	}
	defer closeFD(fd)
	err = readEntries(fd, make([]byte, direntBuffer), func(e dirent) error {
		r.sweepPending(ctx, pending, string(e.name))
		return ctx.Err()
	})
	if err != nil && ctx.Err() == nil {
		r.log.Warn("the workspace's state is not looked through", "root", r.name, "error", err)
	}
}

func (r *Root) sweepPending(ctx context.Context, pending int, name string) {
	kind, at, ok := parsePending(name)
	path := func(name string) string { return StateName + "/" + PendingName + "/" + name }
	old := ok && time.Since(at) > r.opts.LeftoverAge
	found := &r.sweep.found
	switch {
	case kind == kindQuarantine:
		r.sweep.add(&found.Quarantined, path(name))
	case kind == kindRecovered:
		r.sweep.add(&found.Recovered, path(name))
	case kind == kindDelete && old:
		fd, err := openAt(pending, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err == nil {
			defer closeFD(fd)
			err = r.deleteTree(ctx, pending, name, fd)
		}
		if err != nil {
			if ctx.Err() == nil {
				r.log.Warn("a directory whose deletion had begun cannot be deleted", "root", r.name, "path", path(name), "error", err)
			}
			return
		}
		r.log.Info("finished a deletion that had begun", "root", r.name, "path", path(name))
		r.sweep.add(&found.Finished, path(name))
	case kind == kindMoved && old:
		kept := pendingName(kindRecovered)
		if err, _ := r.renameAt(pending, name, pending, kept, unix.RENAME_NOREPLACE); err != nil {
			r.log.Warn("an entry left on its way cannot be recovered", "root", r.name, "path", path(name), "error", err)
			return
		}
		r.log.Warn("recovered an entry that was left on its way", "root", r.name, "path", path(kept))
		r.sweep.add(&found.Recovered, path(kept))
	}
}

// sweepDepth bounds how deep the tree is looked through, with a descriptor for
// each level.
const sweepDepth = 128

// sweepTree looks for temporary files in the tree.
func (r *Root) sweepTree(ctx context.Context) {
	fd, err := openList(r.fd)
	if err != nil {
		return
	}
	defer closeFD(fd)
	s := treeSweep{ctx: ctx, r: r}
	if err := s.sweep(fd, "", 0); err != nil && ctx.Err() == nil {
		r.log.Warn("the tree is not looked through for temporary files", "root", r.name, "error", err)
	}
}

type treeSweep struct {
	ctx  context.Context //nolint:containedctx // the life of one sweep
	r    *Root
	bufs [][]byte
}

func (s *treeSweep) sweep(fd int, path string, depth int) error {
	if depth == len(s.bufs) {
		s.bufs = append(s.bufs, make([]byte, direntBuffer))
	}
	return readEntries(fd, s.bufs[depth], func(e dirent) error {
		switch {
		case e.typ == unix.DT_DIR:
			if depth == 0 && reserved(string(e.name)) || depth == sweepDepth {
				return nil
			}
			if err := s.ctx.Err(); err != nil {
				return err
			}
			return s.enter(fd, path, string(e.name), depth)
		case isTemp(e.name) || !s.r.hooks.on(guardTemp):
			s.file(fd, path, string(e.name))
		}
		return nil
	})
}

// enter goes into a directory of the same file system; one that cannot be read
// is passed over.
func (s *treeSweep) enter(fd int, path, name string, depth int) error {
	child, err := openAt(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil
	}
	defer closeFD(child)
	var st unix.Stat_t
	if unix.Fstat(child, &st) != nil || uint64(st.Dev) != s.r.id.dev {
		return nil
	}
	return s.sweep(child, path+name+"/", depth+1)
}

// file removes an old temporary file. The change time counts too: a file that
// was displaced by a write has its own old times, and it alone is new.
func (s *treeSweep) file(fd int, path, name string) {
	var st unix.Stat_t
	if statEntry(fd, name, &st) != nil || !isType(&st, unix.S_IFREG) || st.Nlink != 1 {
		return
	}
	limit := time.Now().Add(-s.r.opts.LeftoverAge)
	if time.Unix(st.Mtim.Unix()).After(limit) || time.Unix(st.Ctim.Unix()).After(limit) {
		return
	}
	if err := unix.Unlinkat(fd, name, 0); err != nil {
		s.r.log.Warn("a temporary file of a crashed write cannot be removed", "root", s.r.name, "path", path+name, "error", err)
		return
	}
	s.r.log.Info("removed a temporary file of a crashed write", "root", s.r.name, "path", path+name)
	s.r.sweep.add(&s.r.sweep.found.Removed, path+name)
}
