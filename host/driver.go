//go:build unix

package host

import (
	"context"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// Options say how a directory of this machine is a workspace. The zero value is
// good, with an empty environment.
type Options struct {
	// Root says how the files are guarded.
	Root RootOptions
	// Env lies below what the workspace and the command set, entries
	// "NAME=value"; nothing else is passed on of this process's own
	// environment. See InheritedEnv.
	Env []string
	// Keeper is the path of a program that calls keeper.Init first in main:
	// wskeeper, or wsctl itself. On Linux each command then runs below a
	// keeper, which ends everything the command has started. Empty, and on
	// other systems: each command is ended with its process group, and what
	// left the group (setsid(2)) gets away.
	Keeper string
	// Logger is told what no call returns; nil: silent.
	Logger *slog.Logger
}

// Driver is a workspace in a directory of this machine. Files are guarded (see
// Root); commands are not confined: they run as the user, with all that the
// user may read, change and reach, ~/.ssh and the network included. Its
// Descriptor says so with the kind "local". Use package container for
// commands that are not trusted.
//
// It implements workspace.Driver, workspace.Starter and workspace.Realer, and
// is safe for concurrent use.
type Driver struct {
	root    *Root
	env     []string
	log     *slog.Logger
	starter starter
}

// starter starts one command in a held directory: a pool of keepers or, where
// there is no keeper, process groups.
type starter interface {
	// ready finds out whether commands can be started.
	ready(ctx context.Context) error
	// start starts p; ctx bounds the start alone.
	start(ctx context.Context, p *program, s workspace.Streams) (workspace.Running, error)
	// busy reports whether anything runs, what was kept included.
	busy() bool
	// close ends everything and returns when it has ended, or could not be
	// ended in time, which is an error.
	close() error
}

var (
	_ workspace.Driver  = (*Driver)(nil)
	_ workspace.Starter = (*Driver)(nil)
	_ workspace.Realer  = (*Driver)(nil)
	_ workspace.Busier  = (*Driver)(nil)
)

// New opens dir as a workspace. It starts nothing.
func New(dir string, o Options) (*Driver, error) {
	if err := checkEnv(o.Env); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Root.Logger == nil {
		o.Root.Logger = o.Logger
	}
	root, err := OpenRoot(dir, o.Root)
	if err != nil {
		return nil, err
	}
	d := &Driver{root: root, env: slices.Clone(o.Env), log: o.Logger}
	if o.Keeper != "" && runtime.GOOS == "linux" {
		d.starter = newPool(o.Keeper, o.Logger)
	} else {
		d.starter = newGroups()
	}
	return d, nil
}

// Descriptor tells that this is the machine itself. Root is the directory as it
// was named, made absolute.
func (d *Driver) Descriptor() workspace.Descriptor {
	return workspace.Descriptor{Kind: workspace.KindLocal, Root: d.root.Name()}
}

// Real is the root with its links resolved.
func (d *Driver) Real() string { return d.root.Real() }

// Files is the guarded file tree.
func (d *Driver) Files() workspace.Files { return d.root }

// Root is the guarded directory itself.
func (d *Driver) Root() *Root { return d.root }

// EndsEscapees reports whether commands run below a keeper, so that whatever a
// command starts ends with it. Otherwise what leaves the command's process
// group lives on.
func (d *Driver) EndsEscapees() bool {
	_, yes := d.starter.(*pool)
	return yes
}

// Ready checks that the root's name still leads to the directory that is held
// and, the first time, that the keeper works.
func (d *Driver) Ready(ctx context.Context) error {
	if err := d.root.Check(); err != nil {
		return err
	}
	return d.starter.ready(ctx)
}

// Run runs one command to its end.
func (d *Driver) Run(ctx context.Context, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
	return workspace.RunStarted(ctx, d, c, s)
}

// Start starts c. A terminal needs a keeper.
func (d *Driver) Start(ctx context.Context, c workspace.Command, s workspace.Streams) (workspace.Running, error) {
	if c.Dir == "" {
		c.Dir = "."
	}
	// The directory is looked up once and held: that it is swapped for
	// another before the command is there changes nothing.
	dir, err := d.root.OpenDir(ctx, c.Dir)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return d.starter.start(ctx, newProgram(c, d.env, dir), s)
}

// Busy implements workspace.Busier: whether commands run, or what they left with
// BackgroundKeep. There is no way to pause them here: what a process group does
// not hold would go on.
func (d *Driver) Busy(ctx context.Context) (bool, error) {
	// A keeper whose work is over takes a moment to exit.
	for range busyLooks {
		if !d.starter.busy() {
			return false, nil
		}
		select {
		case <-time.After(busyPause):
		case <-ctx.Done():
			return true, ctx.Err()
		}
	}
	return true, nil
}

// How often, and how far apart, it is looked whether something still runs.
const (
	busyLooks = 5
	busyPause = 20 * time.Millisecond
)

// Close ends every command and every process that was kept, and lets the root
// go.
func (d *Driver) Close() error {
	err := d.starter.close()
	if e := d.root.Close(); err == nil {
		err = e
	}
	return err
}
