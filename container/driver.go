//go:build unix

package container

import (
	"context"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// Options say what container a workspace gets. The zero value is the host's own
// toolchain, hardened, offline.
type Options struct {
	// Image is the image's reference; empty: the host's own toolchain, for
	// which the engine must be on this machine.
	Image string
	// Pull says when Image is pulled; empty: when it is missing.
	Pull PullPolicy
	// Progress is told of a pull as it goes on.
	Progress func(PullEvent)
	// Toolchain are directories of the host that the toolchain image shows
	// read-only, besides those it always has.
	Toolchain []string
	// HostPath is the host's PATH, for the toolchain image.
	HostPath string
	// Memory is in bytes, and there is no swap; 0: DefaultMemory.
	Memory int64
	// CPUs is how many processors' time it gets; 0: DefaultCPUs.
	CPUs float64
	// Pids is how many processes and threads there may be; 0: DefaultPids.
	Pids int64
	// Network is none, bridge or the name of a network; empty: none.
	Network string
	// User is "uid:gid"; empty: the caller, for root the owner of the root.
	User string
	// Mounts are other directories of the host.
	Mounts []Mount
	// Runtime is the engine's name of another runtime; empty: its default.
	Runtime string
	// ReadOnlyRootfs makes the image's files and the container's layer
	// read-only, with /tmp and /run in memory; the root and HOME stay
	// writable.
	ReadOnlyRootfs bool
	// Seccomp says which system calls commands may make; empty: default.
	Seccomp SeccompMode
	// Protect are directories of the root, by name below it, that commands
	// can read and not change, nor move or remove what is above them. What is
	// missing is made, and removed by Close when it is empty then. The
	// workspace's own file operations still change them.
	Protect []string
	// FreshHome gives commands a home that is removed with the container,
	// rather than the one that belongs to the root.
	FreshHome bool
	// CacheDir is the absolute path of the caller's cache directory, for
	// homes and the keeper's staged binary.
	CacheDir string
	// Home is the caller's home directory, which is refused as a root; may
	// be empty.
	Home string
	// Keeper is the path of a static keeper binary; empty: none, and a shell
	// of the image keeps the container. It is only used where the engine is
	// on this machine.
	Keeper string
	// Door is a directory of the caller's own, absolute and with no link in it,
	// that is mounted read-only where keepers of jobs look for their files:
	// StartJob makes a socket in it. A container has it from when it was made;
	// empty: no jobs.
	Door string
	// Name makes the container a detached one, which outlives the driver and
	// this process and which others find by this name (ValidName). Where there
	// is one of that name over the same root with the same options already, it
	// is adopted. Empty: the container is the driver's own and goes with it.
	Name string
	// TTL is how long after it was made a detached container may be reaped,
	// in whole seconds; 0: never.
	TTL time.Duration
	// Version is that of the calling program, for people who look at
	// containers.
	Version string
	// Disk is by how much root, home and the container's layer may grow
	// together, in bytes, before what runs is ended (TOO_LARGE); 0: without
	// a limit. It is watched, not enforced: see docs/hardening.md.
	Disk int64
	// Root says how the root is guarded. Guest and NoMounts are set here.
	Root host.RootOptions
	// Logger is told what no call returns; nil: silent.
	Logger *slog.Logger
}

// minMemory is the least that an engine takes, in bytes.
const minMemory = 6 << 20

// minPids leaves room for PID 1, a serving keeper and a command.
const minPids = 32

// withDefaults returns o with its zeros filled in, or INVALID_ARGUMENT.
func (o Options) withDefaults() (Options, error) {
	const op = "container"
	if o.Memory == 0 {
		o.Memory = DefaultMemory
	}
	if o.CPUs == 0 {
		o.CPUs = DefaultCPUs
	}
	if o.Pids == 0 {
		o.Pids = DefaultPids
	}
	if o.Network == "" {
		o.Network = DefaultNetwork
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Memory < minMemory:
		return o, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "%d bytes of memory are too few; give at least 6 MiB", o.Memory)
	case math.IsNaN(o.CPUs) || o.CPUs < 0.01 || o.CPUs > 1e6:
		return o, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "%v CPUs make no sense; give a number of at least 0.01", o.CPUs)
	case o.Pids < minPids || o.Pids > 1<<22:
		return o, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "a limit of %d processes makes no sense; give at least %d", o.Pids, minPids)
	}
	switch {
	case o.Disk != 0 && o.Disk < minDisk:
		return o, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "%d bytes of disk are too few; give at least 1 MiB", o.Disk)
	case o.Name != "" && !ValidName(o.Name):
		return o, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "%s cannot be the name of a workspace; use up to 48 lower-case letters, digits and, not first, any of -_.", workspace.Printable(o.Name))
	case o.TTL < 0 || o.TTL%time.Second != 0:
		return o, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "a time to live of %v makes no sense; give whole seconds", o.TTL)
	case o.TTL != 0 && o.Name == "":
		return o, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "only a detached workspace has a time to live; give it a name")
	}
	if !filepath.IsAbs(o.CacheDir) {
		return o, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "CacheDir is %q; give the absolute path of a directory for homes and the keeper's binary, such as wsctl in the user's cache directory", o.CacheDir)
	}
	var err error
	if o.Protect, err = checkProtect(o.Protect); err != nil {
		return o, err
	}
	if o.Seccomp, err = ParseSeccompMode(string(o.Seccomp)); err != nil {
		return o, err
	}
	if err := checkNetwork(o.Network); err != nil {
		return o, workspace.Errorf(workspace.ErrInvalidArgument, op, "", "%w", err)
	}
	return o, nil
}

// Driver is a workspace whose commands run in a container. It implements
// workspace.Driver and workspace.Starter.
type Driver struct {
	engine *Engine
	root   *host.Root
	dir    *os.File // the root's directory, held
	facts  rootFacts
	policy placePolicy
	user   commandUser
	opts   Options
	log    *slog.Logger
	// found: the options are those that were found at the container, so they
	// need not be compared with it.
	found bool
	// first is what Adopt has read, for the first start.
	first *foundContainer
	// base is what Options.Disk counts from; moreDisk is a limit that counts
	// from the first command of this driver.
	base     *diskBase
	moreDisk int64
	// placeholders are directories that were made to be protected.
	placeholders []string

	starting chan struct{} // holds a token while Ready is at work

	mu    sync.Mutex
	image *imageInfo // once it is known
	home  *homeDir   // opened by the first start
	box   *box       // nil: none, or given up
	// id is the engine's of the detached container, once it is known. It was
	// adopted when another driver, of whatever process, has made it.
	id      string
	adopted bool
	// because is why the next container will not be the first.
	because string
	closed  bool
	disk    *disk // nil: no limit, or not ready yet
	// removals are containers on their way out.
	removals sync.WaitGroup

	closing  sync.Once
	closeErr error
}

// New opens dir as a workspace whose commands run in a container of e. It makes
// nothing there and starts nothing; ctx bounds the look at the directory. The
// engine must outlive the driver.
func New(ctx context.Context, e *Engine, dir string, o Options) (*Driver, error) {
	const op = "open"
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	socket, _ := strings.CutPrefix(e.info.Host, "unix://")
	policy := placePolicy{
		Homes:      homesOf(uint32(os.Geteuid())),
		CacheDir:   o.CacheDir,
		EngineRoot: e.info.DataRoot,
	}
	if socket != e.info.Host {
		policy.EngineSocket = socket
	}
	if o.Home != "" {
		policy.Homes = append(policy.Homes, o.Home)
	}
	facts, err := checkRoot(ctx, dir, policy)
	if err != nil {
		return nil, err
	}
	user, err := chooseUser(userInput{
		UID: os.Geteuid(), GID: os.Getegid(), RootUID: facts.UID, RootGID: facts.GID,
		Flag: o.User, Rootless: e.info.Rootless, Remapped: e.info.UserNS,
	})
	if err != nil {
		return nil, err
	}
	root, held, err := openRoot(ctx, dir, o)
	if err != nil {
		return nil, err
	}
	if dev, ino := root.Identity(); dev != facts.Dev || ino != facts.Ino {
		_, _ = held.Close(), root.Close()
		return nil, workspace.Errorf(workspace.ErrConflict, op, dir, "the name led to another directory a moment ago; try again when nobody moves it")
	}
	d := &Driver{engine: e, root: root, dir: held, facts: facts, policy: policy, user: user, opts: o, log: o.Logger, starting: make(chan struct{}, 1)}
	for _, w := range append(facts.Warnings, user.Warning) {
		if w != "" {
			d.log.Warn(w)
		}
	}
	return d, nil
}

// openRoot opens the guarded root and its directory.
func openRoot(ctx context.Context, dir string, o Options) (*host.Root, *os.File, error) {
	guarded := o.Root
	guarded.Guest, guarded.NoMounts = guestRoot, true
	if guarded.Logger == nil {
		guarded.Logger = o.Logger
	}
	root, err := host.OpenRoot(dir, guarded)
	if err != nil {
		return nil, nil, err
	}
	held, err := root.OpenDir(ctx, ".")
	if err != nil {
		_ = root.Close()
		return nil, nil, err
	}
	return root, held, nil
}

// Descriptor implements workspace.Driver. Ref is the image's digest once the
// container has been started, before that what Options.Image says.
func (d *Driver) Descriptor() workspace.Descriptor {
	d.mu.Lock()
	defer d.mu.Unlock()
	ref := d.opts.Image
	if d.image != nil {
		ref = d.image.Ref
	}
	return workspace.Descriptor{Kind: workspace.KindContainer, Ref: ref, Root: guestRoot}
}

// Files implements workspace.Driver: the tree on the host, which needs no engine.
func (d *Driver) Files() workspace.Files { return d.root }

// current is the verified container of the last Ready, nil when it was given up.
func (d *Driver) current() *box {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.box
}

// discard gives a container up: the next Ready makes another, whose first Exit
// says why. It returns at once; Close waits for the removal.
func (d *Driver) discard(b *box, why string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.box != b {
		return
	}
	d.box = nil
	d.because = why
	d.log.Warn("container given up", "container", b.name, "reason", why)
	d.removals.Add(1)
	go func() {
		defer d.removals.Done()
		if err := b.end(context.Background()); err != nil {
			d.log.Warn("container not removed", "container", b.name, "error", err)
		}
	}()
}

// Close implements workspace.Driver. It removes the container and looks that it is
// gone; from a detached one it detaches, and Remove removes it. It may be called again, and returns the
// same.
func (d *Driver) Close() error {
	d.closing.Do(func() { d.closeErr = d.close() })
	return d.closeErr
}

func (d *Driver) close() error {
	d.mu.Lock()
	b := d.box
	d.box, d.closed = nil, true
	home, watch := d.home, d.disk
	d.mu.Unlock()
	if watch != nil {
		watch.close()
	}
	var err error
	switch {
	case b != nil && d.opts.Name != "":
		b.detach()
	case b != nil:
		err = b.end(context.Background())
	}
	d.removals.Wait()
	if d.opts.Name == "" {
		d.removePlaceholders(context.Background())
	}
	if home != nil {
		if closeErr := home.Close(); err == nil {
			err = closeErr
		}
	}
	_ = d.dir.Close()
	if closeErr := d.root.Close(); err == nil {
		err = closeErr
	}
	return err
}
