//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/workspace"
)

// serverFleet are the workspaces of a server, as far as the token reaches.
type serverFleet struct {
	app    *app
	server *connection
}

func (f *serverFleet) List(ctx context.Context) ([]workspaceText, error) {
	list, err := f.server.List(ctx)
	all := make([]workspaceText, 0, len(list))
	for _, w := range list {
		all = append(all, servedText(w))
	}
	return all, err
}

func (f *serverFleet) Own(ctx context.Context) ([]workspaceText, error) { return f.List(ctx) }

func (f *serverFleet) Find(ctx context.Context, ref string) (workspaceText, error) {
	w, err := f.server.Find(ctx, ref)
	if err != nil {
		return workspaceText{}, err
	}
	return servedText(w), nil
}

// engineOnly are the flags of up that only the engine of this machine has: a server
// decides such things for all its workspaces.
var engineOnly = []string{"pull", "toolchain", "user", "mount", "runtime", "fresh-home", "disk", "read-only-rootfs", "seccomp", "protect"}

// spec is what the flags ask a server for.
func (want wantedWorkspace) spec() (orchestrator.Spec, error) {
	for _, flag := range engineOnly {
		if want.given(flag) {
			return orchestrator.Spec{}, usagef("up", "--%s is decided by the server, for all its workspaces; leave it out", flag)
		}
	}
	s := orchestrator.Spec{
		Name: want.name, Image: want.place.image, TTL: want.ttl.value, IdleTTL: want.idle.value,
		Limits: orchestrator.Limits{Memory: want.place.memory.value, CPUs: want.place.cpus.value, Pids: want.place.pids.value},
		Source: orchestrator.Source{Template: want.template},
		Labels: want.labels,
	}
	if want.given("network") {
		s.Network = want.place.network
	}
	if want.given("root") {
		// It is a directory of the server's machine, which may be this one.
		s.Source.Directory = absolute(want.place.root)
	}
	return s, nil
}

// addSource adds what the root is to hold at first, and uploads it where it is a
// file of this machine.
func (f *serverFleet) addSource(ctx context.Context, want wantedWorkspace, s *orchestrator.Source) error {
	if want.snapshot != "" {
		ref, id, _ := strings.Cut(want.snapshot, ":")
		from, err := f.server.Find(ctx, ref)
		if err != nil {
			return err
		}
		s.Workspace, s.Snapshot = from.ID, cmp.Or(id, "latest")
	}
	for _, upload := range []struct {
		file string
		id   *string
	}{{want.tar, &s.Tar}, {want.bundle, &s.Bundle}} {
		if upload.file == "" {
			continue
		}
		id, err := f.upload(ctx, upload.file)
		if err != nil {
			return err
		}
		*upload.id = id
	}
	return nil
}

// upload sends a file, "-" for standard input, and returns its id.
func (f *serverFleet) upload(ctx context.Context, name string) (string, error) {
	from := f.app.ui.in
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", workspace.Errorf(workspace.ErrNotFound, "up", name, "%w", err)
		}
		defer file.Close()
		from = file
	}
	u, err := f.server.Upload(ctx, from)
	return u.ID, err
}

func (f *serverFleet) Up(ctx context.Context, want wantedWorkspace) (workspaceText, bool, error) {
	s, err := want.spec()
	if err == nil {
		err = f.addSource(ctx, want, &s.Source)
	}
	if err != nil {
		return workspaceText{}, false, err
	}
	w, err := f.server.Create(ctx, s)
	if err == nil {
		return servedText(w), true, nil
	}
	if !errors.Is(err, workspace.ErrExists) || s.Name == "" {
		return workspaceText{}, false, err
	}
	there, findErr := f.server.Find(ctx, s.Name)
	if findErr != nil || !sameSpec(s, there.Spec) {
		return workspaceText{}, false, err
	}
	ws, err := f.Open(ctx, there.ID, nil, 0)
	if err != nil {
		return workspaceText{}, false, err
	}
	defer ws.Close()
	return servedText(there), false, ws.Ready(ctx)
}

// sameSpec tells whether a workspace is what is wanted. What is not named is the
// server's to choose.
func sameSpec(want, there orchestrator.Spec) bool {
	l, have := want.Limits, there.Limits
	return want.Image == there.Image && want.Source == there.Source &&
		(want.Network == "" || want.Network == there.Network) &&
		(l.Memory == 0 || l.Memory == have.Memory) && (l.CPUs == 0 || l.CPUs == have.CPUs) && (l.Pids == 0 || l.Pids == have.Pids)
}

func (f *serverFleet) Open(ctx context.Context, ref string, base []string, disk int64) (*workspace.Workspace, error) {
	if disk > 0 {
		return nil, usagef("exec", "--disk is watched on the engine of this machine alone; leave it out")
	}
	w, err := f.server.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	d, err := f.server.Open(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	return f.app.newWorkspace(d, base, nil)
}

// onOne does something to the workspace that ref names.
func (f *serverFleet) onOne(ctx context.Context, ref string, do func(context.Context, string) error) error {
	w, err := f.server.Find(ctx, ref)
	if err != nil {
		return err
	}
	return do(ctx, w.ID)
}

func (f *serverFleet) Pause(ctx context.Context, ref string) error {
	return f.onOne(ctx, ref, f.server.Pause)
}

func (f *serverFleet) Resume(ctx context.Context, ref string) error {
	return f.onOne(ctx, ref, f.server.Resume)
}

func (f *serverFleet) Remove(ctx context.Context, ref string) error {
	return f.onOne(ctx, ref, f.server.Remove)
}

func (f *serverFleet) Close() error {
	f.server.Close()
	return nil
}

// servedText tells of a server's workspace.
func servedText(w orchestrator.Workspace) workspaceText {
	t := workspaceText{
		Name: w.Name, ID: w.ID, State: string(w.State), Root: w.Root, Created: w.Created.UTC(),
		Options: container.Choices{
			Image: w.Image, Network: w.Network, Memory: w.Limits.Memory, CPUs: w.Limits.CPUs, Pids: w.Limits.Pids, TTL: w.TTL,
		},
		Served: &servedFacts{Driver: w.Driver, Owner: w.Owner, Labels: w.Labels, Used: w.Used.UTC(), IdleTTLSeconds: int64(w.IdleTTL / time.Second)},
	}
	if w.TTL > 0 {
		at := w.Created.Add(w.TTL).UTC()
		t.Expires = &at
	}
	return t
}

// sortedLabels are labels as they are printed.
func sortedLabels(labels map[string]string) []string {
	all := make([]string, 0, len(labels))
	for k, v := range labels {
		all = append(all, k+"="+v)
	}
	slices.Sort(all)
	return all
}
