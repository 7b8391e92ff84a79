//go:build unix

package container

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/docker/docker/api/types/mount"

	"github.com/wsctl/wsctl/workspace"
)

// Where things are inside.
const (
	// guestRoot is the root.
	guestRoot = "/workspace"
	// guestHome is HOME.
	guestHome = "/home/user"
	// guestKeeper is the keeper's binary. Its base name makes it one.
	guestKeeper = "/wskeeper"
	// guestDoor is where keepers of jobs get their files, in a directory that
	// nobody inside can write to.
	guestDoor = "/wsjobs"
	// guestTmp is TMPDIR, and guestHomeTmp where an image has none that can
	// be written.
	guestTmp     = "/tmp"
	guestHomeTmp = guestHome + "/.tmp"
	// guestRun is in memory where the image is read-only.
	guestRun = "/run"
)

// mountRequest is all that is to be mounted into one container.
type mountRequest struct {
	Root      rootFacts
	Home      *homeDir
	Toolchain []mount.Mount
	// Sources are the identities of the caller's own directories in it.
	Sources map[string]fileID
	User    []Mount
	// Keeper is the staged binary on the host; "" for none.
	Keeper string
	// Door is Options.Door.
	Door   string
	Policy placePolicy
	// Unseen: what the engine has mounted cannot be compared with what was
	// checked here.
	Unseen bool
}

// mountPlan is what the engine is asked to mount.
type mountPlan struct {
	Mounts []mount.Mount
	// Masks are more names under which the workspace's state would show:
	// below a read-only mount that holds the root.
	Masks []string
	// Sources are what was found at the sources, by target: the engine looks
	// the names up again.
	Sources map[string]fileID
	// Warnings say what a mount does not do, for the caller's eyes.
	Warnings []string
}

// Targets are the mount points.
func (p mountPlan) Targets() []string {
	targets := make([]string, len(p.Mounts))
	for i, m := range p.Mounts {
		targets[i] = m.Target
	}
	return targets
}

// planMounts checks the mounts the caller asked for and lists all of them. In the
// home it makes the mount points for what goes below it, as the engine would make
// them root's.
//
// Errors: NOT_FOUND for a missing source; DENIED for one that commands must not
// get; INVALID_ARGUMENT for a target that is taken or cannot be.
func planMounts(ctx context.Context, r mountRequest) (mountPlan, error) {
	root := bind(r.Root.Real, guestRoot, true)
	home := bind(r.Home.Path, guestHome, true)
	plan := mountPlan{Mounts: append([]mount.Mount{root, home}, r.Toolchain...), Sources: map[string]fileID{guestHome: {r.Home.Dev, r.Home.Ino}}}
	maps.Copy(plan.Sources, r.Sources)
	if r.Keeper != "" {
		plan.Mounts = append(plan.Mounts, bind(r.Keeper, guestKeeper, false))
	}
	if r.Door != "" {
		id, err := identify(r.Door)
		if err != nil {
			return mountPlan{}, sourceError(r.Door, err)
		}
		plan.Mounts = append(plan.Mounts, bind(r.Door, guestDoor, false))
		plan.Sources[guestDoor] = id
	}
	for _, m := range r.User {
		if err := m.checkTarget(plan.Targets()); err != nil {
			return mountPlan{}, err
		}
		checked, found, err := m.checkSource(ctx, r.Root, r.Policy)
		if err != nil {
			return mountPlan{}, err
		}
		if r.Unseen {
			if err := refuseUnseen(checked.Source, r.Root.Real); err != nil {
				return mountPlan{}, err
			}
		}
		if below(checked.Target, guestHome) {
			if err := r.Home.makeTarget(strings.TrimPrefix(checked.Target, guestHome+"/"), found.dir); err != nil {
				return mountPlan{}, err
			}
		}
		inner, err := mountsBelow(checked.Source)
		if err != nil {
			return mountPlan{}, mountError(workspace.ErrIO, m.Source, "%w", err)
		}
		if len(inner) > 0 {
			plan.Warnings = append(plan.Warnings, "the file system mounted at "+workspace.Printable(inner[0])+" is not passed on with "+workspace.Printable(m.Source)+"; mount it by itself")
		}
		plan.Mounts = append(plan.Mounts, bind(checked.Source, checked.Target, checked.Writable))
		plan.Sources[checked.Target] = found.id
	}
	for _, m := range plan.Mounts {
		if alias := stateAlias(m, r.Root); alias != "" {
			plan.Masks = append(plan.Masks, alias)
		}
	}
	return plan, nil
}

// stateAlias is the name under which a mount that holds the root shows the
// workspace's state, or "". Only read-only mounts hold it: there nobody can rename
// a parent of the name and carry the mask away.
func stateAlias(m mount.Mount, root rootFacts) string {
	source, err := identify(m.Source)
	if m.Target == guestRoot || !below(root.Real, m.Source) || err != nil || source.dev != root.Dev {
		return ""
	}
	return path.Join(m.Target, strings.TrimPrefix(root.Real, m.Source), ".wsctl")
}

// bind is a mount as the engine takes it: structured, since in a Binds string a
// colon divides; private, so that no mount travels; not recursive, since a
// read-only bind leaves what is mounted below it writable (before API 1.44).
func bind(source, target string, writable bool) mount.Mount {
	return mount.Mount{
		Type: mount.TypeBind, Source: source, Target: target, ReadOnly: !writable,
		BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: true},
	}
}

// guestKernel are places inside whose content is the kernel's; guestEngine are
// those into which the engine mounts files of its own.
var (
	guestKernel = []string{"/proc", "/sys", "/dev"}
	guestEngine = []string{"/etc", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}
)

// checkTarget refuses a target that hides, or is hidden by, what must be there.
// taken are the targets so far.
func (m Mount) checkTarget(taken []string) error {
	switch {
	case !path.IsAbs(m.Target) || path.Clean(m.Target) != m.Target || strings.ContainsRune(m.Target, 0) || !utf8.ValidString(m.Target):
		return mountError(workspace.ErrInvalidArgument, m.Target, "the target must be an absolute path inside, in UTF-8 and without . and ..")
	case m.Target == "/":
		return mountError(workspace.ErrInvalidArgument, m.Target, "nothing can be mounted over the whole file tree inside")
	case below(m.Target, guestRoot):
		return mountError(workspace.ErrInvalidArgument, m.Target, "the target lies in the workspace: the engine would make the mount point in the root; choose one outside %s", guestRoot)
	}
	inKernel := slices.ContainsFunc(guestKernel, func(dir string) bool { return below(m.Target, dir) })
	if inKernel || slices.Contains(guestEngine, m.Target) {
		return mountError(workspace.ErrInvalidArgument, m.Target, "the target is the system's own; choose another")
	}
	for _, t := range taken {
		if m.Target == t {
			return mountError(workspace.ErrInvalidArgument, m.Target, "something is mounted there already; choose another target")
		}
		if below(t, m.Target) {
			return mountError(workspace.ErrInvalidArgument, m.Target, "the target would hide %s; choose another", t)
		}
	}
	return nil
}

// sourceFacts is what checkSource has found at a source.
type sourceFacts struct {
	id  fileID
	dir bool
}

// checkSource resolves the source and refuses what commands must not get.
func (m Mount) checkSource(ctx context.Context, root rootFacts, p placePolicy) (checked Mount, found sourceFacts, err error) {
	if !filepath.IsAbs(m.Source) || strings.ContainsRune(m.Source, 0) {
		return m, found, mountError(workspace.ErrInvalidArgument, m.Source, "the source must be an absolute path")
	}
	real, err := followed(m.Source, root.Real)
	if errors.Is(err, errPlanted) {
		return m, found, mountError(workspace.ErrDenied, m.Source, "%w", err)
	}
	if err != nil {
		return m, found, sourceError(m.Source, err)
	}
	if !utf8.ValidString(real) {
		return m, found, mountError(workspace.ErrInvalidArgument, m.Source, "the source %q is not UTF-8, and the engine's API cannot carry other names; rename it", real)
	}
	info, err := os.Lstat(real)
	if err != nil {
		return m, found, sourceError(m.Source, err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return m, found, sourceError(m.Source, errors.ErrUnsupported)
	}
	id := fileID{uint64(st.Dev), uint64(st.Ino)}
	found = sourceFacts{id: id, dir: info.IsDir()}
	m.Source = real
	switch {
	case info.Mode()&fs.ModeSocket != 0:
		return m, found, mountError(workspace.ErrDenied, real, "a socket is a way out of the sandbox; only files and directories can be mounted")
	case !info.IsDir() && !info.Mode().IsRegular():
		return m, found, mountError(workspace.ErrDenied, real, "only regular files and directories can be mounted")
	}
	if err := p.refuseSource(real, id); err != nil {
		return m, found, mountError(workspace.ErrDenied, real, "%w", err)
	}
	if err := refuseState(real, root); err != nil {
		return m, found, mountError(workspace.ErrDenied, real, "%w", err)
	}
	if m.Writable && passes(root.Real, id) {
		return m, found, mountError(workspace.ErrDenied, real, "it holds the root, whose state must not be writable by a second name; mount it read-only, or something smaller")
	}
	if info.IsDir() {
		if err := p.searchSource(ctx, real, id); err != nil {
			return m, found, err
		}
	}
	return m, found, nil
}

// refuseSource is refusePlace for what is mounted beside the root: directories of
// the operating system may be, read-only or not, but for those that hold more
// than programs.
func (p placePolicy) refuseSource(real string, id fileID) error {
	if slices.Contains([]string{"/etc", "/run", "/var", "/var/lib", "/var/run", "/home", "/proc", "/sys", "/dev", "/boot"}, real) {
		return errors.New("this directory holds more of this machine than a command should see; mount what is needed of it")
	}
	for _, kernel := range []string{"/proc", "/sys", "/dev"} {
		if below(real, kernel) && !below(real, "/dev/shm") {
			return errors.New("this is a view into the kernel; only ordinary files and directories can be mounted")
		}
	}
	if slices.Contains(systemDirectories, real) {
		return nil
	}
	return p.refusePlace(real, id)
}

// refuseState refuses the workspace's own state as a source.
func refuseState(real string, root rootFacts) error {
	name := filepath.Join(root.Real, ".wsctl")
	state, err := identify(name)
	if below(real, name) || err == nil && passes(real, state) {
		return errors.New("this is the workspace's own state, which commands neither see nor change")
	}
	return nil
}

// searchSource looks for engine sockets in a source.
func (p placePolicy) searchSource(ctx context.Context, real string, id fileID) error {
	d, _, err := openDirectory(real)
	if errors.Is(err, fs.ErrPermission) {
		return nil // the engine can read it, the commands cannot
	}
	if err != nil {
		return sourceError(real, err)
	}
	defer d.Close()
	if err := p.refuseSockets(ctx, d, id); err != nil {
		if ctx.Err() != nil {
			return mountError(workspace.ErrAborted, real, "%w", ctx.Err())
		}
		return mountError(workspace.ErrDenied, real, "%w", err)
	}
	return nil
}

// sourceError tells why a source cannot be mounted.
func sourceError(source string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return mountError(workspace.ErrNotFound, source, "there is no such file or directory on this machine")
	case errors.Is(err, fs.ErrPermission):
		return mountError(workspace.ErrDenied, source, "%w", err)
	}
	return mountError(workspace.ErrIO, source, "%w", err)
}
