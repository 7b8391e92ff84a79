package reaper

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"golang.org/x/sync/errgroup"

	"github.com/wsctl/wsctl/workspace"
)

// Container is a container that carries our labels.
type Container struct {
	// ID is the engine's own; Name has no slash.
	ID, Name string
	// Image is the name that it was made from.
	Image string
	// State is the engine's word: created, running, paused, restarting,
	// removing, exited, dead.
	State string
	// Created is when the engine made it.
	Created time.Time
	// Labels are all of the container's, ours or not: hostile text.
	Labels map[string]string
	// Tag is zero when the labels make no sense.
	Tag Tag
	// Verdict and Reason are Decide's.
	Verdict Verdict
	Reason  string
	// Removed reports that Reap has removed it.
	Removed bool
}

// List returns every container that carries our labels, in whatever state,
// oldest first, with a verdict about each. It changes nothing. The error is
// UNAVAILABLE when the engine does not answer, ABORTED when ctx ends, IO
// otherwise.
func List(ctx context.Context, e Engine) ([]Container, error) {
	const op = "list containers"
	self, err := Self()
	if err != nil {
		return nil, err
	}
	found, err := e.ContainerList(ctx, container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("label", labelID)),
	})
	if err != nil {
		return nil, engineError(ctx, op, "the engine does not list its containers", err)
	}
	images := map[string]Facts{}
	list := make([]Container, 0, len(found))
	for _, s := range found {
		f, seen := images[s.ImageID]
		if !seen {
			img, err := e.ImageInspect(ctx, s.ImageID)
			switch {
			case errdefs.IsNotFound(err):
				f.ImageGone = true
			case err != nil:
				return nil, engineError(ctx, op, "the engine does not tell about an image", err)
			case img.Config != nil:
				f.ImageLabels = img.Config.Labels
			}
			images[s.ImageID] = f
		}
		f.Names, f.Labels = s.Names, s.Labels
		c := Container{ID: s.ID, Name: name(s.Names), Image: s.Image, State: s.State, Created: time.Unix(s.Created, 0), Labels: s.Labels}
		c.Tag, c.Verdict, c.Reason = Decide(time.Now(), self, process, f)
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b Container) int { return a.Created.Compare(b.Created) })
	return list, nil
}

// name picks the container's own name: links to it from other containers are
// listed too, and have a second slash.
func name(names []string) string {
	for _, n := range names {
		if len(n) > 1 && n[0] == '/' && !slices.Contains([]byte(n[1:]), '/') {
			return n[1:]
		}
	}
	return ""
}

// Options say how to reap. The zero value reaps silently.
type Options struct {
	// DryRun removes nothing.
	DryRun bool
	// RemoveTime bounds each removal; 0: 20 s. What the engine has been told to
	// remove, it may remove later.
	RemoveTime time.Duration
	// Logger gets a line for each container removed or not ours; nil: silent.
	Logger *slog.Logger
}

const (
	// parallel bounds the removals at a time: an engine takes about a quarter
	// of a second for one, mostly waiting.
	parallel = 4
	// removeTime bounds one removal unless the caller says so. Once a removal
	// has begun, the end of the caller's context does not leave it half done.
	removeTime = 20 * time.Second
	// retryTime is the pause before another look at a container that the
	// engine does not remove just now.
	retryTime = 50 * time.Millisecond
)

// Reap removes the orphans among the containers that List returns, whatever
// state they are in, and returns that list. A container that is already gone,
// or being removed by somebody else, counts as removed. It goes on after a
// failure; the error is then as List's, about the first one.
func Reap(ctx context.Context, e Engine, o Options) ([]Container, error) {
	logger := o.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	list, err := List(ctx, e)
	if err != nil {
		return nil, err
	}
	var (
		work  errgroup.Group
		mu    sync.Mutex
		first error
	)
	work.SetLimit(parallel)
	for i := range list {
		c := &list[i]
		if c.Verdict == Foreign || c.Verdict == Unknown {
			logger.Info("container left alone", "container", c.Name, "id", c.ID, "reason", c.Reason)
		}
		if c.Verdict != Orphan || o.DryRun {
			continue
		}
		work.Go(func() error {
			err := remove(ctx, e, c.ID, cmp.Or(o.RemoveTime, removeTime))
			if err == nil {
				c.Removed = true
				logger.Info("container removed", "container", c.Name, "id", c.ID, "state", c.State, "root", workspace.Printable(c.Tag.Root), "reason", c.Reason)
				return nil
			}
			logger.Warn("container not removed", "container", c.Name, "id", c.ID, "error", err)
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = err
			}
			return nil
		})
	}
	_ = work.Wait() // the first error is kept apart, so that the others go on
	return list, first
}

// remove removes one container by the engine's id, which is never given to
// another one, and returns when it is gone, whoever has removed it.
func remove(ctx context.Context, e Engine, id string, limit time.Duration) error {
	const op = "remove container"
	if ctx.Err() != nil {
		return workspace.Errorf(workspace.ErrAborted, op, "", "%w", ctx.Err())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	var conflict error // what the engine said last, while there was time
	for {
		// Volumes without a name were made for this container alone.
		err := e.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil || errdefs.IsNotFound(err):
			return nil
		case ctx.Err() != nil && conflict != nil:
			return workspace.Errorf(workspace.ErrIO, op, "", "the engine has not removed it in %v: %w", limit, conflict)
		case ctx.Err() != nil:
			// The time is the reaper's own, so nobody has aborted it.
			return workspace.Errorf(workspace.ErrUnavailable, op, "", "the engine has not removed it in %v; look at its log, or restart it", limit)
		case !errdefs.IsConflict(err):
			return engineError(ctx, op, "the engine does not remove it", err)
		}
		conflict = err
		// The engine says "conflict" of a removal that is under way, when it
		// may still show the container as running, as well as of a state in
		// which it removes nothing.
		if c, look := e.ContainerInspect(ctx, id); look == nil && c.State != nil && c.State.Paused {
			// Some engines do not kill what is frozen. Should this fail,
			// the next removal says what is wrong.
			_ = e.ContainerUnpause(ctx, id)
		}
		select {
		case <-time.After(retryTime):
		case <-ctx.Done():
		}
	}
}
