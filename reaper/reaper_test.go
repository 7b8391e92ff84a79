package reaper_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/wsctl/wsctl/reaper"
	"github.com/wsctl/wsctl/workspace"
)

// engine is an engine in memory that can go wrong. It knows containers by id
// alone: who asks it by name gets nothing.
type engine struct {
	mu     sync.Mutex
	all    []container.Summary
	images map[string]map[string]string
	down   error
	// refuse, when set, is asked before a removal and can answer in its place.
	refuse  func(c *container.Summary) error
	removed []string
	list    int
}

func (e *engine) ContainerList(_ context.Context, o container.ListOptions) ([]container.Summary, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list++
	if e.down != nil {
		return nil, e.down
	}
	var found []container.Summary
	for _, c := range e.all {
		for key := range c.Labels {
			if (o.All || c.State == container.StateRunning) && o.Filters.ExactMatch("label", key) {
				found = append(found, c)
			}
		}
	}
	return found, nil
}

func (e *engine) find(id string) (*container.Summary, error) {
	for i := range e.all {
		if e.all[i].ID == id {
			return &e.all[i], nil
		}
	}
	return nil, fmt.Errorf("no such container %s: %w", id, errdefs.ErrNotFound)
}

func (e *engine) ContainerInspect(_ context.Context, id string) (container.InspectResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(id)
	if err != nil {
		return container.InspectResponse{}, err
	}
	return container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{
		ID: id, State: &container.State{Status: c.State, Paused: c.State == container.StatePaused},
	}}, nil
}

func (e *engine) ContainerUnpause(_ context.Context, id string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, err := e.find(id)
	if err == nil {
		c.State = container.StateRunning
	}
	return err
}

func (e *engine) ContainerRemove(ctx context.Context, id string, o container.RemoveOptions) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c, err := e.find(id)
	if err != nil {
		return err
	}
	if e.refuse != nil {
		if err := e.refuse(c); err != nil {
			return err
		}
	}
	if !o.Force && c.State == container.StateRunning {
		return fmt.Errorf("container %s is running: %w", id, errdefs.ErrConflict)
	}
	e.removed = append(e.removed, id)
	e.all = slices.DeleteFunc(e.all, func(c container.Summary) bool { return c.ID == id })
	return nil
}

func (e *engine) ImageInspect(_ context.Context, id string, _ ...client.ImageInspectOption) (image.InspectResponse, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	labels, ok := e.images[id]
	if !ok {
		return image.InspectResponse{}, fmt.Errorf("no such image %s: %w", id, errdefs.ErrNotFound)
	}
	var r image.InspectResponse
	r.Config = &dockerspec.DockerOCIImageConfig{ImageConfig: ocispec.ImageConfig{Labels: labels}}
	return r, nil
}

// add puts a container of t into the engine and returns its id, which tells
// nothing of its name.
func (e *engine) add(t reaper.Tag, state string) string {
	id := fmt.Sprintf("%064d", len(e.all)+1)
	e.all = append(e.all, container.Summary{
		ID: id, Names: []string{"/" + reaper.Name(t.ID)}, Image: "img", ImageID: "sha256:1", State: state,
		Created: 1_700_000_000 - int64(len(e.all)), Labels: t.Labels(),
	})
	if e.images == nil {
		e.images = map[string]map[string]string{"sha256:1": {"maintainer": "me"}}
	}
	return id
}

// mine is a tag of a container of this process, its root as given.
func mine(t *testing.T, root string) reaper.Tag {
	t.Helper()
	o, err := reaper.Self()
	if err != nil {
		t.Fatal(err)
	}
	return reaper.Tag{ID: reaper.NewID(), Root: root, Version: "test", Owner: o}
}

// orphaned is one of an owner that is gone.
func orphaned(t *testing.T, root string) reaper.Tag {
	t.Helper()
	its := mine(t, root)
	// The machine's first tick: this PID was another process's then.
	its.Owner.Started = "0"
	return its
}

func TestReapRemovesOrphansInEveryState(t *testing.T) {
	t.Parallel()
	e := &engine{}
	keep := e.add(mine(t, "/proj"), container.StateRunning)
	var want []string
	for _, state := range []string{"created", "running", "paused", "restarting", "exited", "dead"} {
		want = append(want, e.add(orphaned(t, "/proj-2"), state))
	}
	dry, err := reaper.Reap(t.Context(), e, reaper.Options{DryRun: true})
	if err != nil || len(e.removed) > 0 || len(dry) != 7 {
		t.Fatalf("a dry run: %v, %d listed, removed %v", err, len(dry), e.removed)
	}
	for _, c := range dry {
		if c.Removed || (c.Verdict == reaper.Orphan) == (c.ID == keep) {
			t.Errorf("a dry run tells %+v", c)
		}
	}
	if !slices.IsSortedFunc(dry, func(a, b reaper.Container) int { return a.Created.Compare(b.Created) }) {
		t.Error("not oldest first")
	}
	list, err := reaper.Reap(t.Context(), e, reaper.Options{})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(e.removed)
	if !slices.Equal(e.removed, want) {
		t.Errorf("removed %v, want %v", e.removed, want)
	}
	for _, c := range list {
		if c.Removed == (c.ID == keep) || c.Name != reaper.Name(c.Tag.ID) || c.Image != "img" {
			t.Errorf("%+v", c)
		}
	}
	left, err := reaper.List(t.Context(), e)
	if err != nil || len(left) != 1 || left[0].ID != keep || left[0].Verdict != reaper.Alive {
		t.Errorf("left: %+v, %v", left, err)
	}
}

// TestReapByID: between the look and the removal the container is gone and
// another one has its name.
func TestReapByID(t *testing.T) {
	t.Parallel()
	e := &engine{}
	its := orphaned(t, "/proj")
	old := e.add(its, container.StateRunning)
	e.refuse = func(c *container.Summary) error {
		if c.ID != old {
			t.Errorf("asked to remove %s", c.ID)
		}
		c.ID = strings.Repeat("f", 64)
		return fmt.Errorf("no such container: %w", errdefs.ErrNotFound)
	}
	list, err := reaper.Reap(t.Context(), e, reaper.Options{})
	if err != nil || len(list) != 1 || !list[0].Removed {
		t.Fatalf("%+v, %v", list, err)
	}
	if len(e.all) != 1 || len(e.removed) != 0 {
		t.Errorf("the new container is gone")
	}
}

func TestReapLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	e := &engine{}
	partial, newer, named, gone := orphaned(t, "/a"), orphaned(t, "/b"), orphaned(t, "/c"), orphaned(t, "/d")
	e.add(partial, "running")
	e.all[0].Labels = map[string]string{"wsctl.id": partial.ID}
	e.add(newer, "running")
	e.all[1].Labels["wsctl.labels"] = "2"
	e.add(named, "running")
	e.all[2].Names = []string{"/database"}
	e.add(gone, "exited")
	e.all[3].ImageID = "sha256:gone"
	e.add(orphaned(t, "/e"), "running")
	e.all[4].ImageID = "sha256:ours"
	e.images["sha256:ours"] = e.all[4].Labels
	var said bytes.Buffer
	list, err := reaper.Reap(t.Context(), e, reaper.Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if len(e.removed) > 0 || len(list) != 5 {
		t.Errorf("removed %v of %d", e.removed, len(list))
	}
	for _, c := range list {
		if c.Verdict != reaper.Foreign && c.Verdict != reaper.Unknown || c.Reason == "" {
			t.Errorf("%+v", c)
		}
		if n := strings.Count(said.String(), c.ID); n != 1 {
			t.Errorf("%s is mentioned %d times in\n%s", c.ID, n, said.String())
		}
	}
}

func TestReapWhatOthersRemove(t *testing.T) {
	t.Parallel()
	conflict := fmt.Errorf("removal of container is already in progress: %w", errdefs.ErrConflict)
	for _, c := range []struct {
		name   string
		refuse func(e *engine) func(*container.Summary) error
		code   workspace.Code
	}{
		{"in progress for a while", func(*engine) func(*container.Summary) error {
			n := 0
			return func(*container.Summary) error {
				if n++; n < 20 {
					return conflict
				}
				return errdefs.ErrNotFound
			}
		}, ""},
		{"in progress and gone at the next look", func(e *engine) func(*container.Summary) error {
			return func(*container.Summary) error { e.all = nil; return conflict }
		}, ""},
		{"an engine that does not kill what is paused", func(*engine) func(*container.Summary) error {
			return func(c *container.Summary) error {
				if c.State == container.StatePaused {
					return conflict
				}
				return nil
			}
		}, ""},
		{"an engine that removes nothing", func(*engine) func(*container.Summary) error {
			return func(*container.Summary) error { return conflict }
		}, workspace.ErrIO},
		{"an engine that fails", func(*engine) func(*container.Summary) error {
			return func(*container.Summary) error { return fmt.Errorf("device busy: %w", errdefs.ErrInternal) }
		}, workspace.ErrIO},
		{"an engine that goes away", func(*engine) func(*container.Summary) error {
			return func(*container.Summary) error { return &net.OpError{Op: "read", Err: errors.New("reset")} }
		}, workspace.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := &engine{}
				e.add(orphaned(t, "/proj"), container.StatePaused)
				e.refuse = c.refuse(e)
				began := time.Now()
				list, err := reaper.Reap(t.Context(), e, reaper.Options{})
				if workspace.CodeOf(err) != c.code {
					t.Errorf("error %v, want %q", err, c.code)
				}
				if len(list) != 1 || list[0].Removed == (err != nil) {
					t.Errorf("%+v", list)
				}
				if took := time.Since(began); took > 21*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestReapGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	e := &engine{}
	stuck := e.add(orphaned(t, "/proj"), container.StateDead)
	for range 9 {
		e.add(orphaned(t, "/proj"), container.StateExited)
	}
	e.refuse = func(c *container.Summary) error {
		if c.ID == stuck {
			return errdefs.ErrInternal
		}
		return nil
	}
	_, err := reaper.Reap(t.Context(), e, reaper.Options{})
	if workspace.CodeOf(err) != workspace.ErrIO || len(e.removed) != 9 {
		t.Errorf("%v, removed %d", err, len(e.removed))
	}
}

// TestReapInTime: a container that the engine does not remove holds up the caller
// for as long as it allows.
func TestReapInTime(t *testing.T) {
	t.Parallel()
	e := &engine{}
	e.add(orphaned(t, "/proj"), container.StatePaused)
	e.refuse = func(*container.Summary) error { return errdefs.ErrConflict }
	start := time.Now()
	list, err := reaper.Reap(t.Context(), e, reaper.Options{RemoveTime: 100 * time.Millisecond})
	if workspace.CodeOf(err) != workspace.ErrIO || len(list) != 1 || list[0].Removed {
		t.Errorf("%v, %+v", err, list)
	}
	if d := time.Since(start); d < 100*time.Millisecond || d > 10*time.Second {
		t.Errorf("after %v", d)
	}
}

// TestReapCancelled: the end of the context stops the reaper between two
// removals, and never in the middle of one.
func TestReapCancelled(t *testing.T) {
	t.Parallel()
	e := &engine{}
	for range 40 {
		e.add(orphaned(t, "/proj"), container.StateExited)
	}
	ctx, cancel := context.WithCancel(t.Context())
	e.refuse = func(*container.Summary) error { cancel(); return nil }
	list, err := reaper.Reap(ctx, e, reaper.Options{})
	if workspace.CodeOf(err) != workspace.ErrAborted || !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	removed := 0
	for _, c := range list {
		if c.Removed {
			removed++
		}
	}
	if removed == 0 || removed != len(e.removed) || removed+len(e.all) != 40 {
		t.Errorf("%d told, %d removed, %d left", removed, len(e.removed), len(e.all))
	}
	if _, err := reaper.Reap(ctx, e, reaper.Options{}); workspace.CodeOf(err) != workspace.ErrAborted {
		t.Errorf("with a context that has ended: %v", err)
	}
}

func TestListErrors(t *testing.T) {
	t.Parallel()
	nobody, err := client.NewClientWithOpts(client.WithHost("unix://"+t.TempDir()+"/none.sock"), client.WithVersion("1.41"))
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	for _, c := range []struct {
		name   string
		engine reaper.Engine
		code   workspace.Code
	}{
		{"no engine", nobody, workspace.ErrUnavailable},
		{"an engine that fails", &engine{down: errdefs.ErrInternal}, workspace.ErrIO},
		{"an engine that is not ready", &engine{down: errdefs.ErrUnavailable}, workspace.ErrUnavailable},
	} {
		began := time.Now()
		if list, err := reaper.List(t.Context(), c.engine); workspace.CodeOf(err) != c.code || list != nil {
			t.Errorf("%s: %v, want %s", c.name, err, c.code)
		}
		if time.Since(began) > 5*time.Second {
			t.Errorf("%s: after %v", c.name, time.Since(began))
		}
	}
}
