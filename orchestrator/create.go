//go:build unix

package orchestrator

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"strings"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// Create makes a workspace and returns when it is there: on disk, and, unless
// the spec says Lazy, ready for commands. When it fails nothing of it is left.
//
// Errors: INVALID_ARGUMENT; EXISTS for a name that is taken; TOO_MANY when
// there is no room; NOT_FOUND for a source that is not there; OUTSIDE_ROOT for
// a directory that may not be used; UNAVAILABLE without an engine.
func (o *Orchestrator) Create(ctx context.Context, s Spec) (Workspace, error) {
	began := time.Now()
	w, err := o.plan(ctx, s)
	if err != nil {
		return Workspace{}, o.logged(ctx, "create", w, err)
	}
	if claimed, ok, err := o.claim(ctx, w); ok || err != nil {
		if err == nil {
			o.metrics.took(phaseClaim, began)
		}
		return claimed, o.logged(ctx, "create", claimed, err)
	}
	e, err := o.add(ctx, w)
	if err != nil {
		return Workspace{}, o.logged(ctx, "create", w, err)
	}
	e.life.Lock()
	defer e.life.Unlock()
	if err := o.build(ctx, e); err != nil {
		// The caller's end must not stop the undoing.
		if undo := o.discard(context.WithoutCancel(ctx), e); undo != nil {
			o.log.Error("a workspace that could not be made could not be removed either; the next start removes it", "workspace", w.ID, "err", undo)
		}
		return Workspace{}, o.logged(ctx, "create", w, err)
	}
	w = e.record()
	o.metrics.took(phaseCreate, began)
	o.emit("created", w, "")
	return w, o.logged(ctx, "create", w, nil)
}

// plan turns a spec into the workspace that is to be made.
func (o *Orchestrator) plan(ctx context.Context, s Spec) (Workspace, error) {
	const op = "create"
	if s.Driver == "" {
		s.Driver = DriverContainer
	}
	if err := s.check(op); err != nil {
		return Workspace{Spec: s}, err
	}
	if _, ok := o.backends[s.Driver]; !ok {
		return Workspace{Spec: s}, workspace.Errorf(workspace.ErrUnsupported, op, s.Name, "this server has no workspaces of the kind %s", s.Driver)
	}
	if s.Driver == DriverContainer {
		s.Limits = s.Limits.or(o.cfg.Limits)
	}
	now := time.Now()
	who, _ := caller(ctx)
	w := Workspace{ID: strings.ToLower(rand.Text())[:idLength], Spec: s, State: Creating, Owner: who, Created: now, Used: now}
	if w.Name == "" {
		w.Name = w.ID
	}
	w.Root = filepath.Join(o.roots.Real(), w.ID)
	if s.Source.Directory != "" {
		dir, err := o.allowed(s.Source.Directory)
		if err != nil {
			return w, err
		}
		w.Root, w.Source.Directory = dir, dir
	}
	if s.Source.Workspace != "" {
		// A name may be another's tomorrow.
		from, err := o.Get(s.Source.Workspace)
		if err != nil {
			return w, err
		}
		w.Source.Workspace = from.ID
	}
	return w, o.budget.possible(w.Limits)
}

// or fills in what is not given.
func (l Limits) or(d Limits) Limits {
	if l.Memory == 0 {
		l.Memory = d.Memory
	}
	if l.CPUs == 0 {
		l.CPUs = d.CPUs
	}
	if l.Pids == 0 {
		l.Pids = d.Pids
	}
	return l
}

// allowed returns the real path of a directory that a workspace may be over.
func (o *Orchestrator) allowed(dir string) (string, error) {
	const op = "create"
	if !filepath.IsAbs(dir) {
		return "", workspace.Errorf(workspace.ErrInvalidArgument, op, dir, "the directory must be an absolute path of the server's machine")
	}
	outside := workspace.Errorf(workspace.ErrOutside, op, dir, "the server may not use this directory; it was started with --allow-root for others, or for none")
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		// Whether it is there is nobody's business when it is not allowed.
		if !o.below(filepath.Clean(dir)) {
			return "", outside
		}
		return "", workspace.Errorf(workspace.ErrNotFound, op, dir, "%w", err)
	}
	if !o.below(real) {
		return "", outside
	}
	return real, nil
}

func (o *Orchestrator) below(dir string) bool {
	for _, allowed := range o.cfg.Directories {
		if real, err := filepath.EvalSymlinks(allowed); err == nil && (dir == real || strings.HasPrefix(dir, strings.TrimSuffix(real, "/")+"/")) {
			return true
		}
	}
	return false
}

// add takes the name and writes down what is about to be made.
func (o *Orchestrator) add(ctx context.Context, w Workspace) (*entry, error) {
	o.mu.Lock()
	if o.closing {
		o.mu.Unlock()
		return nil, workspace.Errorf(workspace.ErrUnavailable, "create", w.Name, "the server is going down; try again when it is up")
	}
	if limit := o.cfg.Budget.Workspaces; limit > 0 && w.State != Pooled && len(o.names) >= limit {
		o.mu.Unlock()
		return nil, workspace.Errorf(workspace.ErrTooMany, "create", w.Name, "there are %d workspaces, which is all this server has room for; remove one", limit)
	}
	if _, taken := o.names[w.Name]; taken {
		o.mu.Unlock()
		return nil, nameTaken(w.Name)
	}
	if o.entries[w.Name] != nil {
		// It would hide the one with that id.
		o.mu.Unlock()
		return nil, nameTaken(w.Name)
	}
	e := &entry{o: o, w: w}
	o.entries[w.ID], o.names[w.Name] = e, w.ID
	o.mu.Unlock()
	if err := o.store.insert(ctx, w); err != nil {
		o.forget(e)
		return nil, err
	}
	return e, nil
}

// forget takes an entry out of what is known.
func (o *Orchestrator) forget(e *entry) {
	w := e.record()
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.entries, w.ID)
	if o.names[w.Name] == w.ID {
		delete(o.names, w.Name)
	}
}

// build makes the root and, unless that is left for later, what commands need,
// and writes down that the workspace is there. e.life is held.
func (o *Orchestrator) build(ctx context.Context, e *entry) error {
	w := e.record()
	if w.managed() {
		if err := o.makeRoot(ctx, w); err != nil {
			return err
		}
	}
	ws, done, err := e.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	if !w.Lazy || w.Source.Bundle != "" {
		if err := o.start(ctx, e, ws); err != nil {
			return err
		}
	}
	if w.Source.Bundle != "" {
		if err := o.cloneBundle(ctx, ws, w.Source.Bundle); err != nil {
			return err
		}
	}
	return o.setState(ctx, e, Ready)
}

// start makes commands possible.
func (o *Orchestrator) start(ctx context.Context, e *entry, ws *workspace.Workspace) error {
	if err := e.admit(ctx); err != nil {
		return err
	}
	began := time.Now()
	err := ws.Ready(ctx)
	o.metrics.took(phaseStart, began)
	return err
}

// setState writes a state down and then takes it on.
func (o *Orchestrator) setState(ctx context.Context, e *entry, s State) error {
	w := e.record()
	w.State = s
	if err := o.store.update(ctx, w); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.w.State = s
	return nil
}

// logged writes a step of a workspace's life into the audit log and returns err,
// or why it could not be written down.
func (o *Orchestrator) logged(ctx context.Context, op string, w Workspace, err error) error {
	who, token := caller(ctx)
	e := Entry{Who: who, Token: token, Workspace: w.ID, Op: op, Path: w.Name}
	if err != nil {
		e.Error = err.Error()
	}
	if auditErr := o.audit.Append(e); auditErr != nil && err == nil {
		return auditErr
	}
	return err
}
