package search

import (
	"context"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/wsctl/wsctl/workspace"
)

// walk goes through a tree with several workers and tells what they find in one
// order.
type walk[R any] struct {
	scope Scope
	// names are those that are wanted; nil: all.
	names *Pattern
	// directories are visited too, not their content alone.
	directories bool
	// irregular entries (links, FIFOs) are visited too.
	irregular bool
	// batch is how many entries of a directory are visited in one go.
	batch int
	// visit appends what it finds in entries of the directory d to found. It
	// is called by several goroutines, each with a scratch of its own.
	visit func(ctx context.Context, v *visit, entries []workspace.DirName, found []R) []R
	// weigh tells how many bytes a result takes up.
	weigh func(R) int

	start workspace.HeldDir
	queue *queue[R]
}

// place is a directory on the way.
type place struct {
	rel    string // below the start; "." is the start
	path   string // below the root
	depth  int
	rules  *rules
	states states
}

// visit is what a visitor is given.
type visit struct {
	dir  workspace.HeldDir
	path string // of dir, below the root
	*scratch
	skips *Skipped
}

// scratch belongs to one worker for the time of a walk.
type scratch struct {
	buf []byte
}

// readBuffer is the size of the buffer that small files are read into.
const readBuffer = 1 << 20

// outcome is what a walk did besides telling.
type outcome struct {
	skipped Skipped
	// incomplete: there are more entries than the scope allows.
	incomplete bool
}

// run walks below start, whose path is at, and calls tell with all that is
// found, in order, in the caller's goroutine. tell returns false to end it.
func (w *walk[R]) run(ctx context.Context, ws *workspace.Workspace, at string, tell func(R) bool) (out outcome, err error) {
	err = ws.WithDir(ctx, at, func(ctx context.Context, start workspace.HeldDir) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		first := &place{rel: ".", path: tidy(at), states: w.names.begin()}
		if !w.scope.NoIgnore {
			if first.rules, err = rulesAbove(ctx, ws, first.path); err != nil {
				return err
			}
		}
		w.start = start
		w.queue = newQueue(&task[R]{at: first})
		stop := context.AfterFunc(ctx, w.queue.stop)
		defer stop()
		var wg sync.WaitGroup
		for range min(runtime.GOMAXPROCS(0), 8) {
			wg.Go(func() { w.work(ctx) })
		}
		out = w.tell(tell)
		err := ctx.Err()
		cancel()
		wg.Wait()
		return err
	})
	return out, err
}

// tell tells what the workers find until there is no more or nobody wants it.
func (w *walk[R]) tell(tell func(R) bool) (out outcome) {
	defer w.queue.stop()
	seen := 0
	for t := w.queue.tell(); t != nil; t = w.queue.tell() {
		out.skipped.Add(&t.skips)
		for _, r := range t.found {
			if !tell(r) {
				return out
			}
		}
		if seen += t.seen; seen > w.scope.MaxEntries {
			out.incomplete = true
			return out
		}
	}
	return out
}

func (w *walk[R]) work(ctx context.Context) {
	s := &scratch{}
	for t := w.queue.take(); t != nil; t = w.queue.take() {
		first, last := w.do(ctx, t, s)
		w.queue.finish(t, first, last)
	}
}

// do works on a task and returns what follows from it.
func (w *walk[R]) do(ctx context.Context, t *task[R], s *scratch) (first, last *task[R]) {
	d, err := w.start.Dir(ctx, t.at.rel)
	if err != nil {
		w.failed(t, err)
		return nil, nil
	}
	defer d.Close()
	if t.entries != nil {
		w.visited(ctx, t, d, s)
		return nil, nil
	}
	names, err := d.Names(ctx, ".")
	if err != nil {
		w.failed(t, err)
		return nil, nil
	}
	t.seen = len(names)
	t.weight += 128 * len(names)
	if !w.scope.NoIgnore {
		t.at.rules = t.at.rules.enter(ctx, d, t.at.path, names)
	}
	next, count := w.split(t.at, names, &t.skips)
	inline := count <= inlineEntries && !w.queue.full()
	for i, n := range next {
		if n.entries != nil && inline {
			w.visited(ctx, n, d, s)
			n.state = done
		}
		if i > 0 {
			last.next = n
		} else {
			first = n
		}
		last = n
	}
	return first, last
}

// inlineEntries is up to how many entries a directory is visited by the worker
// that lists it.
const inlineEntries = 64

// visited visits the entries of a task.
func (w *walk[R]) visited(ctx context.Context, t *task[R], d workspace.HeldDir, s *scratch) {
	t.found = w.visit(ctx, &visit{dir: d, path: t.at.path, scratch: s, skips: &t.skips}, t.entries, nil)
	t.entries = nil
	t.weight = 128
	for _, r := range t.found {
		t.weight += w.weigh(r)
	}
}

// failed counts a directory that could not be listed.
func (w *walk[R]) failed(t *task[R], err error) {
	if workspace.CodeOf(err) == workspace.ErrNotDirectory {
		// It was swapped for something else since it was listed.
		t.skips.Links++
		return
	}
	t.skips.fail(t.at.path, err)
}

// split makes tasks of what a directory holds, in the order of their paths, and
// counts the entries to be visited.
func (w *walk[R]) split(at *place, names []workspace.DirName, skips *Skipped) (next []*task[R], count int) {
	slices.SortFunc(names, byPath)
	var batch *task[R]
	for _, e := range names {
		verdict, states := w.judge(at, e, skips)
		if verdict.visit {
			if batch == nil || len(batch.entries) == w.batch {
				batch = &task[R]{at: at, weight: 128, key: joined(at.path, e.Name)}
				next = append(next, batch)
			}
			batch.entries = append(batch.entries, e)
			count++
		}
		if verdict.enter {
			rel := joined(at.rel, e.Name)
			below := &place{rel: rel, path: joined(at.path, e.Name), depth: at.depth + 1, rules: at.rules, states: states}
			next = append(next, &task[R]{at: below, weight: 128, key: below.path + "/"})
			batch = nil
		}
	}
	return next, count
}

// byPath sorts entries of one directory as the paths of all that is below them
// sort: a directory by its name and a slash.
func byPath(a, b workspace.DirName) int {
	if a.Type.IsDir() == b.Type.IsDir() && !a.Type.IsDir() {
		return strings.Compare(a.Name, b.Name)
	}
	n := min(len(a.Name), len(b.Name))
	if c := strings.Compare(a.Name[:n], b.Name[:n]); c != 0 {
		return c
	}
	return int(byteAfter(a, n)) - int(byteAfter(b, n))
}

func byteAfter(e workspace.DirName, n int) byte {
	switch {
	case n < len(e.Name):
		return e.Name[n]
	case e.Type.IsDir():
		return '/'
	}
	return 0
}

// verdict is what becomes of an entry.
type verdict struct{ visit, enter bool }

// judge decides about an entry and counts it when it is skipped.
func (w *walk[R]) judge(at *place, e workspace.DirName, skips *Skipped) (verdict, states) {
	hidden := e.Name[0] == '.'
	// The directory of git is open to who names it, or turns the rules off.
	git := e.Name == ".git" && !w.scope.NoIgnore
	step := w.names.step(at.states, e.Name, w.scope.Hidden && !git)
	can := w.could(at, e, step)
	if !can.visit && !can.enter {
		if hidden && !git && !w.scope.Hidden {
			if can := w.could(at, e, w.names.step(at.states, e.Name, true)); can.visit || can.enter {
				skips.Hidden++
			}
		}
		return verdict{}, nil
	}
	if at.rules != nil && !step.named && at.rules.ignore(at.path, e.Name, e.Type.IsDir()) {
		skips.Ignored++
		return verdict{}, nil
	}
	switch kind := e.Type; {
	case kind == fs.ModeSymlink:
		if can.enter || !w.irregular {
			skips.Links++
		}
		can.visit, can.enter = can.visit && w.irregular, false
	case kind != 0 && kind != fs.ModeDir:
		if !w.irregular {
			skips.Special++
		}
		can.visit = can.visit && w.irregular
	}
	return can, step.states
}

// could is what the pattern and the depth allow. A link might lead to a
// directory.
func (w *walk[R]) could(at *place, e workspace.DirName, s step) verdict {
	leads := e.Type.IsDir() || e.Type == fs.ModeSymlink
	deep := w.scope.Depth > 0 && at.depth+1 >= w.scope.Depth
	v := verdict{visit: s.matched, enter: leads && s.goesOn && !deep}
	if e.Type.IsDir() {
		v.visit = v.visit && w.directories
	}
	return v
}
