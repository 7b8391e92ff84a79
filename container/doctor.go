//go:build unix

package container

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// Examine looks at the engine, at this machine, and at a probe container over
// dir, which the caller makes for this and removes afterwards: it proves the
// posture field by field, from inside, and names what remains open. A container
// that cannot be had is a failed check. The container is gone when it returns.
func Examine(ctx context.Context, e *Engine, dir string, o Options) Report {
	r := Report{Engine: e.Info()}
	r.engine(e.info, e.local())
	r.runtime(ctx, e)
	r.machine()
	r.probe(ctx, e, dir, o)
	r.Checks = append(r.Checks, trulyOpen()...)
	return r
}

// engine judges what the engine says of itself.
func (r *Report) engine(i EngineInfo, local bool) {
	r.add(CheckOK, "engine", fmt.Sprintf("Docker Engine %s, API %s, at %s, %s", i.Version, i.API, i.Host, i.System), "")
	r.addIf(local, CheckWarn, "engine's machine", "Linux "+i.Kernel+" "+i.Arch,
		"the engine is not on this machine, or runs in a virtual one: no keeper is mounted, the root must have the same path there")
	r.add(CheckOK, "cgroup", "version "+i.Cgroup, "")
	for _, limit := range []struct {
		name string
		can  bool
	}{{"memory", i.MemoryLimit}, {"swap", i.SwapLimit}, {"pids", i.PidsLimit}, {"cpu", i.CPULimit}} {
		r.addIf(limit.can, CheckFail, "limit of "+limit.name, yesNo(limit.can, "the engine can set it", "the engine cannot set it"),
			"a rootless engine needs cgroup v2 with this controller delegated, an old kernel swapaccount=1")
	}
	r.addIf(i.Seccomp, CheckFail, "seccomp", yesNo(i.Seccomp, "the engine filters system calls", "the engine filters no system calls"),
		"use an engine and a kernel with seccomp")
	switch {
	case i.AppArmor:
		r.add(CheckOK, "security module", "AppArmor, the engine's own profile", "")
	case i.SELinux:
		r.add(CheckWarn, "security module", "SELinux", "the root is never relabelled; commands see it only where the policy lets containers")
	default:
		r.add(CheckWarn, "security module", "none", "AppArmor or SELinux is a second wall behind seccomp; turn one on in the kernel and the engine")
	}
	r.addIf(i.Rootless, CheckWarn, "rootless", yesNo(i.Rootless, "the engine is rootless", "the engine runs as root"),
		"on a server, a rootless engine keeps root of the machine out of reach and ends shared per-user quotas")
	r.addIf(!i.UserNS, CheckFail, "user namespace remapping", yesNo(i.UserNS, "on", "off"),
		"files of the root belong to nobody in such containers; use an engine without userns-remap, or a rootless one")
	for _, w := range i.Warnings {
		r.add(CheckWarn, "engine's warning", w, "")
	}
}

// runtime judges the program that makes the containers. An engine takes a while
// to find its version out, so Connect does not ask.
func (r *Report) runtime(ctx context.Context, e *Engine) {
	const name = "runc"
	v, err := e.cli.ServerVersion(ctx)
	if err != nil {
		r.add(CheckFail, name, engineError(ctx, "doctor", err).Error(), "")
		return
	}
	for _, c := range v.Components {
		if c.Name == name {
			r.addIf(!olderRunC(c.Version), CheckWarn, name, c.Version,
				"versions before 1.2.8 and 1.3.3 lack fixes for masked paths, before 1.1.12 for a leaked descriptor; distributions backport them: see yours")
			return
		}
	}
	r.add(CheckWarn, name, "the engine does not tell its version", "see that it is at least 1.2.8 or 1.3.3")
}

func yesNo(v bool, yes, no string) string {
	if v {
		return yes
	}
	return no
}

// olderRunC tells whether a version of runc is known to lack a fix for the
// attacks on mask and start (CVE-2024-21626; CVE-2025-31133, -52565, -52881).
func olderRunC(version string) bool {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); n < 3 || major != 1 {
		return false
	}
	switch minor {
	case 0, 1:
		return true
	case 2:
		return patch < 8
	case 3:
		return patch < 3
	}
	return false
}

// machine judges what this process's own kernel gives to the file guard.
func (r *Report) machine() {
	works, detail := tryOpenat2()
	r.addIf(works, CheckWarn, "openat2", detail, "files are guarded by a slower walk, component by component")
}

// probe starts a container over dir and proves what it is.
func (r *Report) probe(ctx context.Context, e *Engine, dir string, o Options) {
	o.FreshHome, o.Name, o.TTL = true, "", 0
	d, err := New(ctx, e, dir, o)
	if err != nil {
		r.add(CheckFail, "probe container", err.Error(), "")
		return
	}
	begun := time.Now()
	err = d.Ready(ctx)
	if err == nil {
		r.add(CheckOK, "probe container", fmt.Sprintf("ready after %d ms, as %s, image %s", time.Since(begun).Milliseconds(), d.user, d.Descriptor().Ref), "")
		r.inside(ctx, d)
	} else {
		r.add(CheckFail, "probe container", err.Error(), "")
	}
	err = d.Close()
	r.addIf(err == nil, CheckFail, "removal", fmt.Sprintf("container gone: %v", err == nil), fmt.Sprint(err))
}

// inside asks the container once more and judges each answer.
func (r *Report) inside(ctx context.Context, d *Driver) {
	b := d.current()
	if b == nil {
		r.add(CheckFail, "posture", "the container was given up", "")
		return
	}
	seen, err := b.ask(ctx, postureItems(b.expected))
	if err != nil {
		r.add(CheckFail, "posture", err.Error(), "")
		return
	}
	for _, f := range posture(seen, b.expected) {
		r.addIf(f.ok(), CheckFail, "inside: "+f.Name, f.Got, "must be "+f.Want)
	}
	r.try(ctx, d, "inside: "+host.StateName, `set -- .wsctl/* .wsctl/.[!.]*; [ "$*" = '.wsctl/* .wsctl/.[!.]*' ] && ! (: > .wsctl/x)`,
		CheckFail, "empty and cannot be written", "commands can see or change the workspace's state")
	r.try(ctx, d, "inside: set-uid files", `command -v chmod >/dev/null || exit 99; : > probe && ! chmod u+s probe`,
		CheckFail, "cannot be made", "commands can make files that run with the rights of their owner")
	r.optIns(ctx, d)
	if b.keeper == "" {
		r.add(CheckWarn, "keeper", "none: a shell of the image keeps the container",
			"put wskeeper beside wsctl: commands answer faster, what they leave behind is ended for certain, and their siblings cannot look into each other's input")
		return
	}
	r.try(ctx, d, "keeper", `! (: < /proc/1/environ) && ! (: < /proc/1/mem)`,
		CheckFail, "its memory, environment and descriptors are closed to commands", "commands can read the keeper's memory; is the file system of the cache mounted without execute rights only (mode 0111)?")
}

// optIns tries what was asked for beyond the defaults.
func (r *Report) optIns(ctx context.Context, d *Driver) {
	if d.opts.ReadOnlyRootfs {
		r.try(ctx, d, "inside: read-only root", `! (: > /probe) && ! (: > /etc/probe) && : > /tmp/probe && : > /run/probe && : > "$HOME/probe"`,
			CheckFail, "only the root, HOME, /tmp and /run can be written", "commands can change the image's files, or have nowhere to write")
	}
	if d.opts.Seccomp == SeccompStrict {
		r.try(ctx, d, "inside: strict seccomp", `command -v chattr >/dev/null || exit 99; : > probe && ! chattr +d probe`,
			CheckFail, "attributes of files cannot be set", "the strict profile is not in force")
	}
	for _, name := range d.opts.Protect {
		quoted := "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
		r.try(ctx, d, "inside: protected "+name, `! (: > `+quoted+`/probe) && ! mv `+quoted+` `+quoted+`.moved && ! rmdir `+quoted,
			CheckFail, "cannot be changed, moved or removed", "commands can change a protected directory")
	}
}

// untried is the status of a line that the image lacks a program for.
const untried = 99

// try runs a shell line in the container; status 0 is good.
func (r *Report) try(ctx context.Context, d *Driver, name, line string, otherwise CheckStatus, good, advice string) {
	var said bytes.Buffer
	exit, err := d.Run(ctx, workspace.Command{Shell: "exec 2>/dev/null\n" + line, Dir: ".", Background: workspace.BackgroundKill},
		workspace.Streams{Stdout: &said, Stderr: &said})
	switch {
	case err != nil:
		r.add(CheckFail, name, err.Error(), "")
	case exit.Code == 0:
		r.add(CheckOK, name, good, "")
	case exit.Code == untried:
		r.add(CheckWarn, name, "not tried: the image has no program for it", "")
	default:
		r.add(otherwise, name, strings.TrimSpace(fmt.Sprintf("status %d %s", exit.Code, said.String())), advice)
	}
}

// trulyOpen are the things that no setting of ours closes.
func trulyOpen() []Check {
	var checks []Check
	for _, o := range [][2]string{
		{"kernel", "the kernel and its page cache are shared with the machine: a hole in the kernel is a hole in the sandbox"},
		{"siblings", "commands of one workspace that run at the same time are one user and can disturb each other"},
		{"per-user quotas", "what the kernel counts per user (inotify instances, keys, pending signals) is shared with the same user's processes on the machine"},
		{"disk", "commands can fill the disk that the root is on, one file of at most 8 GiB after another; a limit (--disk) is watched, and a fast writer goes beyond it by what it writes in some tenths of a second"},
		{"hard links", "a file in the root that is also named outside is readable, unless the policy for hard links says otherwise"},
		{"wrong entry", "a command that swaps names can make us change another entry of the root than the one meant; never one outside"},
		{"machine's users", "processes of the same user on the machine, and everybody who may use the engine, can do what they like with the workspace"},
		{"handoff", "what commands leave in the root (hooks, editor settings, build files) runs with your rights when you run it"},
		{"network", "data sent to a host that a network lets through is out"},
		{"images", "an image can lie about the results of its own programs"},
		{"covert channels", "timing and load tell things between containers and the machine"},
	} {
		checks = append(checks, Check{Name: "open: " + o[0], Status: CheckOpen, Detail: o[1]})
	}
	return checks
}
