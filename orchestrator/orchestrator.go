//go:build unix

package orchestrator

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// Config says how an orchestrator works.
type Config struct {
	// Dir is its own directory, for the database, the audit log and the roots
	// that it makes; made 0700 when it is missing.
	Dir string
	// Backends are the ways to have workspaces, by the name of the driver. The
	// function is told what the names of this orchestrator's containers begin
	// with.
	Backends func(prefix string) map[string]Backend
	// Directories are those of this machine below which a workspace may be
	// over a directory that is there already; empty: none may.
	Directories []string
	// Templates is a directory of directories that a workspace can begin as a
	// copy of; empty: there are none.
	Templates string
	// RootUID and RootGID own the roots that root makes; 0: 65534. Others
	// make roots of their own.
	RootUID, RootGID int
	// Limits are for workspaces that name none; Budget is for all together.
	Limits Limits
	Budget Budget
	// Pool is how many workspaces wait, ready, for a Create without an image,
	// network, limits or source.
	Pool int
	// Jobs bound the jobs of each workspace.
	Jobs JobLimits
	// Snapshots returns what keeps states of a workspace that is being opened,
	// by its files, and a function that is called when it has been closed; nil:
	// there are none. dir is where those of a root of the orchestrator's own
	// are, which go with the workspace, and empty for a directory that was
	// there before. A workspace can begin with a snapshot when the Snapshotter
	// has the method Fork of snapshot.Snapshots.
	Snapshots func(w Workspace, files workspace.Files, dir string) (workspace.Snapshotter, func(), error)
	// MaxUpload bounds one upload and MaxUnpacked what a tar holds, in bytes;
	// 0: DefaultMaxUpload, DefaultMaxUnpacked.
	MaxUpload, MaxUnpacked int64
	// Options are for every workspace; Snapshots and Observer are set here.
	Options workspace.Options
	// Sweep is how often it is looked whose time is up; 0: 2 s.
	Sweep time.Duration
	// Redact blanks out secrets in the audit log; nil: Redact.
	Redact func(string) string
	// Logger is told what no call returns; nil: silent.
	Logger *slog.Logger
}

// Orchestrator looks after workspaces. Its methods may be called by many
// goroutines at once.
type Orchestrator struct {
	cfg      Config
	log      *slog.Logger
	store    *store
	audit    *Audit
	events   *events
	metrics  *metrics
	budget   *budget
	backends map[string]Backend
	roots    *host.Root // the directory of the roots that are made here
	jobs     *jobs

	life context.Context //nolint:containedctx // until Close
	end  context.CancelFunc
	work sync.WaitGroup // what goes on beside calls

	refill chan struct{} // wakes the one who fills the pool

	mu      sync.Mutex
	entries map[string]*entry // by id
	names   map[string]string // name → id
	closing bool
}

// rootsName and auditName are what Dir holds beside the database.
const (
	rootsName = "roots"
	auditName = "audit.jsonl"
)

// Open opens the orchestrator of a directory: it takes over what runs, finishes
// what an earlier one left half done, and removes what belongs to no workspace.
// BUSY when another process has the directory.
func Open(ctx context.Context, cfg Config) (*Orchestrator, error) {
	const op = "open"
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Sweep == 0 {
		cfg.Sweep = 2 * time.Second
	}
	if cfg.RootUID == 0 {
		cfg.RootUID, cfg.RootGID = 65534, 65534
	}
	if cfg.MaxUpload == 0 {
		cfg.MaxUpload = DefaultMaxUpload
	}
	if cfg.MaxUnpacked == 0 {
		cfg.MaxUnpacked = DefaultMaxUnpacked
	}
	if !filepath.IsAbs(cfg.Dir) {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, op, cfg.Dir, "the directory of the server must be an absolute path")
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, workspace.Errorf(workspace.ErrIO, op, cfg.Dir, "%w", err)
	}
	o := &Orchestrator{
		cfg: cfg, log: cfg.Logger, events: newEvents(), budget: newBudget(cfg.Budget),
		refill: make(chan struct{}, 1), entries: map[string]*entry{}, names: map[string]string{},
		jobs: &jobs{limits: cfg.Jobs.withDefaults(), all: map[string]*job{}},
	}
	o.metrics = newMetrics(o)
	o.life, o.end = context.WithCancel(context.Background())
	if err := o.open(ctx); err != nil {
		o.end()
		o.work.Wait()
		o.release()
		return nil, err
	}
	o.goWork(o.sweep)
	o.goWork(o.fillPool)
	o.wakePool()
	return o, nil
}

func (o *Orchestrator) open(ctx context.Context) (err error) {
	if o.store, err = openStore(ctx, o.cfg.Dir); err != nil {
		return err
	}
	if o.audit, err = OpenAudit(filepath.Join(o.cfg.Dir, auditName), o.cfg.Redact); err != nil {
		return err
	}
	if err := o.clearUploads(); err != nil {
		return err
	}
	roots := filepath.Join(o.cfg.Dir, rootsName)
	// Others have to be able to enter a root, by its name alone.
	if err := os.Mkdir(roots, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
		return workspace.Errorf(workspace.ErrIO, "open", roots, "%w", err)
	}
	if o.roots, err = host.OpenRoot(roots, host.RootOptions{Logger: o.log}); err != nil {
		return err
	}
	if err := o.openJobs(); err != nil {
		return err
	}
	instance, err := o.store.meta(ctx, "instance", strings.ToLower(rand.Text())[:8])
	if err != nil {
		return storeError(err)
	}
	o.backends = o.cfg.Backends("s" + instance + "-")
	return o.recover(ctx)
}

// goWork runs f until the orchestrator closes.
func (o *Orchestrator) goWork(f func(context.Context)) {
	o.work.Add(1)
	go func() {
		defer o.work.Done()
		f(o.life)
	}()
}

// Close lets everything go: calls under way end, the containers and their
// processes go on, for the next orchestrator of the directory. It may be called
// more than once.
func (o *Orchestrator) Close() error {
	o.mu.Lock()
	if o.closing {
		o.mu.Unlock()
		o.work.Wait()
		return nil
	}
	o.closing = true
	all := o.sorted()
	o.mu.Unlock()
	o.end()
	o.work.Wait()
	for _, e := range all {
		e.life.Lock()
		e.letGo()
		e.life.Unlock()
	}
	o.saveUse(context.Background())
	return o.release()
}

// Drain refuses new work and returns when what is under way has ended, or when
// ctx has. Close follows it.
func (o *Orchestrator) Drain(ctx context.Context) error {
	o.mu.Lock()
	o.closing = true
	all := o.sorted()
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.closing = false
		o.mu.Unlock()
	}()
	for _, e := range all {
		for e.busy() {
			select {
			case <-ctx.Done():
				return workspace.Errorf(workspace.ErrAborted, "drain", "", "there is work under way still: %w", ctx.Err())
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

func (o *Orchestrator) release() error {
	var err error
	if o.roots != nil {
		err = o.roots.Close()
	}
	if o.audit != nil {
		err = errors.Join(err, o.audit.Close())
	}
	if o.store != nil {
		err = errors.Join(err, o.store.close())
	}
	return err
}

// sorted returns all entries, the oldest first. o.mu is held.
func (o *Orchestrator) sorted() []*entry {
	all := make([]*entry, 0, len(o.entries))
	for _, e := range o.entries {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b *entry) int {
		return strings.Compare(a.w.ID, b.w.ID)
	})
	return all
}

func (o *Orchestrator) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.names)
}

// List returns the workspaces, by their names.
func (o *Orchestrator) List() []Workspace {
	o.mu.Lock()
	all := o.sorted()
	o.mu.Unlock()
	list := []Workspace{}
	for _, e := range all {
		if w := e.record(); w.State != Pooled && w.State != Creating && w.State != Removing {
			list = append(list, w)
		}
	}
	slices.SortFunc(list, func(a, b Workspace) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Get returns the workspace with that id or name. NOT_FOUND when there is none.
func (o *Orchestrator) Get(ref string) (Workspace, error) {
	e, err := o.find(ref)
	if err != nil {
		return Workspace{}, err
	}
	return e.record(), nil
}

// find returns the entry of an id or a name that callers know of.
func (o *Orchestrator) find(ref string) (*entry, error) {
	o.mu.Lock()
	e := o.entries[ref]
	if id, ok := o.names[ref]; e == nil && ok {
		e = o.entries[id]
	}
	o.mu.Unlock()
	if e == nil {
		return nil, noWorkspace(ref)
	}
	switch e.record().State {
	case Pooled, Creating, Removing:
		return nil, noWorkspace(ref)
	}
	return e, nil
}
