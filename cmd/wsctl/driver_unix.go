//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/reaper"
	"github.com/wsctl/wsctl/workspace"
)

func (a *app) hostDriver(place *placeOptions, env *envOptions) (workspace.Driver, error) {
	return host.New(place.root, host.Options{
		Root:   host.RootOptions{Logger: a.ui.logger()},
		Env:    env.hostBase(a.env),
		Keeper: ownKeeper(),
		Logger: a.ui.logger(),
	})
}

func (a *app) containerDriver(ctx context.Context, place *placeOptions) (workspace.Driver, error) {
	e, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	o, err := a.containerOptions(e, place)
	if err != nil {
		return nil, cmp.Or(err, e.Close())
	}
	return a.newContainer(ctx, e, place, o)
}

// newContainer is the driver over e, which is closed when there is none.
func (a *app) newContainer(ctx context.Context, e *container.Engine, place *placeOptions, o container.Options) (*connected, error) {
	pull := a.ui.newPullProgress(place.image)
	o.Progress = pull.event
	d, err := container.New(ctx, e, place.root, o)
	if err != nil {
		return nil, cmp.Or(err, e.Close())
	}
	return &connected{Driver: d, engine: e, pull: pull}, nil
}

// adopt opens the detached workspace that ref names; base is its environment.
func (a *app) adopt(ctx context.Context, ref string, base []string, disk int64) (*workspace.Workspace, error) {
	e, err := a.dial(ctx)
	if err != nil {
		return nil, err
	}
	d, err := a.adoptDriver(ctx, e, ref, disk)
	if err != nil {
		return nil, cmp.Or(err, e.Close())
	}
	return a.newWorkspace(&connected{Driver: d, engine: e, pull: a.ui.newPullProgress("")}, base, nil)
}

// adoptDriver takes ref for a name first: that costs the engine one question.
func (a *app) adoptDriver(ctx context.Context, e *container.Engine, ref string, disk int64) (*container.Driver, error) {
	o := container.AdoptOptions{Disk: disk, Logger: a.ui.logger(), Root: host.RootOptions{Logger: a.ui.logger()}}
	if container.ValidName(ref) {
		d, err := container.Adopt(ctx, e, ref, o)
		if !errors.Is(err, workspace.ErrNotFound) {
			return d, err
		}
	}
	w, err := container.FindDetached(ctx, e, ref)
	if err != nil {
		return nil, err
	}
	return container.Adopt(ctx, e, w.ID, o)
}

// containerOptions are what the flags say of a container on e.
func (a *app) containerOptions(e *container.Engine, place *placeOptions) (container.Options, error) {
	mounts, err := place.mountList()
	if err != nil {
		return container.Options{}, err
	}
	cache := a.env.cacheDir()
	if cache == "" {
		return container.Options{}, workspace.Errorf(workspace.ErrInvalidArgument, "cache", "", "neither HOME nor XDG_CACHE_HOME is an absolute path; set one, below which wsctl keeps homes and programs of sandboxes")
	}
	keeperFile, reason := guestKeeper(e, place.image)
	if reason != "" {
		a.ui.warn("%s", reason)
	}
	return container.Options{
		Image:     place.image,
		Pull:      container.PullPolicy(place.pull.value),
		Toolchain: place.toolchain.values,
		HostPath:  a.env.get("PATH"),
		Memory:    place.memory.value,
		CPUs:      place.cpus.value,
		Pids:      place.pids.value,
		Network:   place.network,
		User:      place.user,
		Mounts:    mounts,
		Runtime:   place.runtime,
		FreshHome: place.freshHome,

		ReadOnlyRootfs: place.readOnly,
		Seccomp:        container.SeccompMode(place.seccomp.value),
		Protect:        place.protect.values,

		CacheDir: cache,
		Home:     a.env.get("HOME"),
		Keeper:   keeperFile,
		Disk:     place.disk.value,
		Version:  thisBuild().Version,
		Logger:   a.ui.logger(),
		Root:     host.RootOptions{Logger: a.ui.logger()},
	}, nil
}

// connected is a container driver that owns its connection to the engine.
type connected struct {
	*container.Driver
	engine *container.Engine
	pull   *pullProgress
}

// Ready implements workspace.Driver; what shows a pull is gone when it returns.
func (c *connected) Ready(ctx context.Context) error {
	defer c.pull.done()
	return c.Driver.Ready(ctx)
}

// Close implements workspace.Driver.
func (c *connected) Close() error {
	// Both are called: the arguments come before the choice.
	return cmp.Or(c.Driver.Close(), c.engine.Close())
}

// reapOn reaps what is on the engine.
func (a *app) reapOn(ctx context.Context, e *container.Engine, o reaper.Options) ([]reaper.Container, error) {
	return container.Reap(ctx, e, a.env.cacheDir(), o)
}

// guestKeeper is the keeper for a container of that image, "" for the programs
// of this machine; without one reason says why.
func guestKeeper(e *container.Engine, image string) (file, reason string) {
	self, err := os.Executable()
	if err != nil {
		return "", "no keeper: the path of wsctl is not known: " + err.Error()
	}
	return container.FindKeeper(self, container.KeeperTarget{Arch: e.Info().Arch, HostLibraries: image == ""})
}

// ownKeeper is the keeper for commands on this machine: the small one beside
// wsctl where there is one, else wsctl itself. Empty when neither can be named.
func ownKeeper() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	small := filepath.Join(filepath.Dir(self), keeper.Name)
	if fi, err := os.Stat(small); err == nil && fi.Mode().IsRegular() {
		return small
	}
	return self
}
