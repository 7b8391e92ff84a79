//go:build unix

package container

import (
	"cmp"
	"context"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/reaper"
	"github.com/wsctl/wsctl/workspace"
)

// plan is all that is decided before a container is created.
type plan struct {
	tag      reaper.Tag
	spec     createSpec
	image    imageInfo
	userName string
	expected expectation
	home     *homeDir // nil where the container is there already
	state    fileID   // of .wsctl, over which the mask goes
	shells   []string // where sh may be inside, in the order of the look-up
}

// plan decides what container there will be. It resolves the image, which may
// pull it, opens the home and makes the state directory, over which the mask
// goes: the runtime passes silently over a mask whose place is missing.
func (d *Driver) plan(ctx context.Context) (*plan, error) {
	const op = "start"
	owner, err := reaper.Self()
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrIO, op, "", "find out what process this is: %w", err)
	}
	if err := d.enforceable(); err != nil {
		return nil, err
	}
	image, tools, err := d.resolveImage(ctx)
	if err != nil {
		return nil, err
	}
	home, err := d.openHome()
	if err != nil {
		return nil, err
	}
	staged, err := d.stageKeeper(ctx)
	if err != nil {
		return nil, err
	}
	// Elsewhere numbers of devices and inodes are not those of this machine.
	seen := staged != "" && d.engine.local() && d.opts.Runtime == ""
	mounts, err := planMounts(ctx, mountRequest{
		Root: d.facts, Home: home, Toolchain: tools.Mounts, Sources: tools.Sources, User: d.opts.Mounts, Keeper: staged, Door: d.opts.Door,
		Policy: d.policy, Unseen: !seen,
	})
	if err != nil {
		return nil, err
	}
	d.warn(mounts.Warnings)
	made, err := d.planProtect(ctx, &mounts)
	d.placeholders = append(d.placeholders, made...)
	if err != nil {
		return nil, err
	}
	if err := image.checkVolumes(mounts.Targets()); err != nil {
		return nil, err
	}
	if d.opts.ReadOnlyRootfs && len(image.volumes) > 0 {
		return nil, imageError(workspace.ErrUnavailable, image.Name, "the image declares a volume at %s, which could be written and does not go with a read-only root file system; rebuild it without, or use another", workspace.Printable(image.volumes[0]))
	}
	var state fileID
	if state.dev, state.ino, err = d.root.StateIdentity(); err != nil {
		return nil, err
	}
	id, err := d.root.ID()
	if err != nil {
		return nil, err
	}
	p := &plan{
		image: image, userName: tools.UserName, home: home, state: state,
		tag: reaper.Tag{
			ID: cmp.Or(d.opts.Name, reaper.NewID()), Root: d.facts.Name, Workspace: id, Version: d.opts.Version,
			Detached: d.opts.Name != "", Owner: owner,
		},
	}
	if d.opts.TTL > 0 {
		// In whole seconds, and not before its time.
		p.tag.Expires = time.Now().Add(d.opts.TTL + time.Second - 1).Truncate(time.Second)
	}
	p.spec = createSpec{
		Image: image.ID, User: d.user.String(), GID: d.user.GID, Unset: image.Unset, Labels: p.tag.Labels(),
		Mounts: mounts.Mounts, Masks: mounts.Masks, Detached: p.tag.Detached,
		Memory: d.opts.Memory, CPUs: d.opts.CPUs, Pids: d.opts.Pids, Network: d.opts.Network, Runtime: d.opts.Runtime,
		Seccomp: d.opts.Seccomp, ReadOnly: d.opts.ReadOnlyRootfs, TmpMemory: d.opts.Memory,
	}
	if staged != "" {
		p.spec.Keeper = guestKeeper
	}
	p.expected = d.expectation(p.spec, image.volumes)
	if seen {
		p.expected.Sources = mounts.Sources
	} else if len(d.opts.Protect) > 0 {
		return nil, protectError(workspace.ErrUnsupported, d.opts.Protect[0], "without a keeper, or with another runtime, what is mounted over it cannot be checked")
	}
	if err := d.measureBase(ctx, home); err != nil {
		return nil, err
	}
	if p.tag.Detached {
		if p.spec.Labels[labelNote], err = d.note(p).label(); err != nil {
			return nil, err
		}
	}
	p.findShells(d)
	return p, nil
}

// inTime is why a start has failed: that the container's time to live was over before
// it was up, so that whoever reaps has removed it, says more than what came of that.
func (p *plan) inTime(ctx context.Context, err error) error {
	if p.tag.Expires.IsZero() || ctx.Err() != nil || time.Now().Before(p.tag.Expires) {
		return err
	}
	return workspace.Errorf(workspace.ErrUnavailable, "start", p.tag.ID, "its time to live was over before it was up; give it a longer one, or none (%w)", err)
}

// sourceOf is what is mounted at target, "" for nothing.
func (p *plan) sourceOf(target string) string {
	for _, m := range p.spec.Mounts {
		if m.Target == target {
			return m.Source
		}
	}
	return ""
}

// findShells lists where sh may be inside.
func (p *plan) findShells(d *Driver) {
	for _, dir := range append(pathOf(d.env(p, "")), "/bin", "/usr/bin") {
		if at := path.Join(dir, "sh"); path.IsAbs(dir) && !slices.Contains(p.shells, at) && len(p.shells) < maxShells {
			p.shells = append(p.shells, at)
		}
	}
}

// maxShells bounds the places where sh is looked for.
const maxShells = 24

// enforceable refuses an engine that says it cannot set a limit.
func (d *Driver) enforceable() error {
	i := d.engine.info
	var missing []string
	for name, can := range map[string]bool{"memory": i.MemoryLimit, "swap": i.SwapLimit, "pids": i.PidsLimit, "cpu": i.CPULimit, "seccomp": i.Seccomp} {
		if !can {
			missing = append(missing, name)
		}
	}
	if r := d.opts.Runtime; r != "" && i.Runtimes != nil && !slices.Contains(i.Runtimes, r) {
		return workspace.Errorf(workspace.ErrUnavailable, "start", "", "the engine has no runtime %s, only %s; install it and name it in the engine's configuration, or leave --runtime out", workspace.Printable(r), strings.Join(i.Runtimes, ", "))
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	return workspace.Errorf(workspace.ErrUnavailable, "start", "", "the engine cannot confine a container as it must (%s); a rootless engine needs cgroup v2 with these controllers delegated, an old kernel swapaccount=1", strings.Join(missing, ", "))
}

// resolveImage finds the image, once; a container that is made anew gets the
// same one.
func (d *Driver) resolveImage(ctx context.Context) (imageInfo, toolchain, error) {
	if d.opts.Image == "" {
		tools, err := useToolchain(ctx, d.engine.cli, toolchainRequest{
			User: d.user, HostPath: d.opts.HostPath, Dirs: d.opts.Toolchain, CacheDir: d.opts.CacheDir, Root: d.facts, Policy: d.policy,
			LocalEngine: d.engine.local(),
		})
		if err == nil {
			d.setImage(tools.Image)
		}
		return tools.Image, tools, err
	}
	d.mu.Lock()
	known := d.image
	d.mu.Unlock()
	if known != nil {
		return *known, toolchain{}, nil
	}
	info, err := useImage(ctx, d.engine.cli, imageRequest{Ref: d.opts.Image, Pull: d.opts.Pull, Progress: d.opts.Progress})
	if err == nil {
		d.setImage(info)
	}
	return info, toolchain{}, err
}

func (d *Driver) setImage(info imageInfo) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.image = &info
}

// openHome opens the home once for the driver's life.
func (d *Driver) openHome() (*homeDir, error) {
	if d.home != nil {
		return d.home, nil
	}
	home, err := openHome(homeRequest{
		CacheDir: d.opts.CacheDir, Root: d.facts, User: d.user, Rootless: d.engine.info.Rootless,
		Fresh: d.opts.FreshHome, Detached: d.opts.Name != "",
	})
	if err != nil {
		return nil, err
	}
	d.warn(home.Warnings)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.home = home
	return home, nil
}

// stageKeeper puts the keeper where it can be mounted from; "" where none can:
// it is a program for this machine, and a mount needs its file there.
func (d *Driver) stageKeeper(ctx context.Context) (string, error) {
	if d.opts.Keeper == "" || !d.engine.local() {
		return "", nil
	}
	return stageKeeper(ctx, d.opts.CacheDir, d.opts.Keeper)
}

func (d *Driver) warn(texts []string) {
	for _, w := range texts {
		d.log.Warn(w)
	}
}

// expectation is what the container that spec asks for must look like inside.
func (d *Driver) expectation(s createSpec, volumes []string) expectation {
	e := expectation{
		User: s.User, Cgroup: d.engine.info.Cgroup, Memory: s.Memory, CPUs: s.CPUs, Pids: s.Pids,
		Offline: s.Network == networkNone, Targets: map[string]bool{}, Masks: append([]string{guestState}, s.Masks...),
		Volumes: volumes, Keeper: s.Keeper != "", ReadOnly: s.ReadOnly,
	}
	for target := range tmpfs(s) {
		e.Tmpfs = append(e.Tmpfs, target)
	}
	for _, m := range s.Mounts {
		e.Targets[m.Target] = !m.ReadOnly
	}
	if e.Keeper && d.engine.local() {
		e.Namespaces = ownNamespaces()
	}
	return e
}

// ownNamespaces are this process's: the machine's, or those of the container it
// is itself in. Neither may be a container's of ours.
func ownNamespaces() map[string]string {
	if runtime.GOOS != "linux" {
		return nil
	}
	own := map[string]string{}
	buf := make([]byte, 64)
	for _, name := range namespaceNames() {
		if n, err := unix.Readlink("/proc/self/ns/"+name, buf); err == nil {
			own[name] = string(buf[:n])
		}
	}
	return own
}

// env is the base environment of a command.
func (d *Driver) env(p *plan, tmp string) []string {
	return commandEnv(envRequest{
		Image: p.image, User: d.user, UserName: p.userName, Offline: d.opts.Network == networkNone, TmpDir: tmp,
	})
}

// pathOf are the directories of PATH in an environment.
func pathOf(env []string) []string {
	for _, e := range env {
		if value, ok := strings.CutPrefix(e, "PATH="); ok {
			return strings.Split(value, ":")
		}
	}
	return nil
}

// questions are all that PID 1 is asked in one go.
func (p *plan) questions() []keeper.Item {
	items := postureItems(p.expected)
	items = append(items,
		keeper.Item{Ask: keeper.AskStat, Path: guestRoot},
		keeper.Item{Ask: keeper.AskAccess, Path: guestHome},
		keeper.Item{Ask: keeper.AskAccess, Path: guestTmp},
	)
	for _, sh := range p.shells {
		items = append(items, keeper.Item{Ask: keeper.AskStat, Path: sh})
	}
	return items
}

// findShell is the first sh that is there.
func (p *plan) findShell(seen report) (string, error) {
	for _, sh := range p.shells {
		if f, err := seen.file(sh); err == nil && f.executable {
			return sh, nil
		}
	}
	return "", noShellError(p.image.Name)
}

// finishEnv sees to a home and a place for temporary files that commands can
// write and completes their environment.
func (d *Driver) finishEnv(b *box, p *plan, seen report) error {
	const op = "start"
	if a := seen[keeper.Item{Ask: keeper.AskAccess, Path: guestHome}]; a.Errno != 0 {
		return workspace.Errorf(workspace.ErrUnavailable, op, "", "commands cannot write to their home (%w); another user's cache directory, or a root squashed by the file system? choose another with --user or a fresh home", a.Errno)
	}
	tmp := ""
	if a := seen[keeper.Item{Ask: keeper.AskAccess, Path: guestTmp}]; a.Errno != 0 {
		if p.home != nil { // else whoever made the container has made it
			if err := p.home.makeTmp(); err != nil {
				return err
			}
		}
		tmp = guestHomeTmp
	}
	b.env = d.env(p, tmp)
	b.oomFile = oomFile(d.engine.info.Cgroup)
	return nil
}
