//go:build unix

package container

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/strslice"
	"github.com/docker/go-units"

	"github.com/wsctl/wsctl/keeper"
)

const (
	// guestState is where the workspace's own state would show inside.
	guestState = guestRoot + "/.wsctl"
	// guestHostname is the same in every container: the machine's own name
	// is nothing that a command needs to know.
	guestHostname = "wsctl"
	// maxFile bounds the size of one file that a command writes, in bytes.
	maxFile = 8 << 30
	// softFiles and hardFiles bound the open files of a process. An engine
	// without CAP_SYS_RESOURCE, a rootless one above all, cannot go beyond its
	// own limit, which is rarely below this one.
	softFiles, hardFiles = 4096, 16384
)

// createSpec is what one container differs in from another.
type createSpec struct {
	Image    string   // the image's id
	User     string   // numeric uid:gid
	GID      uint32   // the gid of User: decides on set-gid
	Unset    []string // names of the image's environment that must be gone
	Labels   map[string]string
	Mounts   []mount.Mount
	Masks    []string // besides guestState
	Keeper   string   // path of the keeper inside; "" has a shell hold the container
	Detached bool
	Memory   int64
	CPUs     float64
	Pids     int64
	Network  string
	Runtime  string
	Seccomp  SeccompMode
	// ReadOnly makes the image's files and the layer read-only; what programs
	// need to write is then in memory.
	ReadOnly bool
	// TmpMemory is the memory limit that the sizes of what is in memory follow,
	// in bytes: that of the creation.
	TmpMemory int64
}

// createRequest is what the engine is asked for.
type createRequest struct {
	Config     *container.Config
	HostConfig *container.HostConfig
	Networking *network.NetworkingConfig
}

// newCreate is the create request, all of it: what is not here is the engine's
// zero value, and compare sees to it that it stays so. docs/hardening.md has a
// row for each line with its reason and its test.
func newCreate(s createSpec) (createRequest, error) {
	profile, err := seccompProfile(s.GID, s.Seccomp)
	if err != nil {
		return createRequest{}, err
	}
	entrypoint := strslice.StrSlice{s.Keeper, keeper.ModeInit}
	switch {
	case s.Keeper != "" && s.Detached:
		entrypoint = append(entrypoint, keeper.Detached)
	case s.Keeper == "":
		entrypoint = strslice.StrSlice{"sh", "-c", shKeeper}
	}
	withInit := s.Keeper == ""
	pids, patience := s.Pids, 0
	env := slices.Clone(s.Unset) // without '=': the engine drops them
	return createRequest{
		Config: &container.Config{
			Image:      s.Image,
			Hostname:   guestHostname,
			Entrypoint: entrypoint,
			Cmd:        strslice.StrSlice{}, // not the image's
			Env:        env,
			// Both parts, so that the image's group file adds no groups.
			User: s.User,
			// A constant: no directory of the caller's is entered by the
			// runtime (the class of CVE-2024-21626).
			WorkingDir: "/",
			Labels:     s.Labels,
			// The leash: the end of the one attached stdin is PID 1's.
			AttachStdin: true, AttachStdout: true, AttachStderr: true,
			OpenStdin: true, StdinOnce: !s.Detached,
			Tty:             false, // no terminal to push input into
			NetworkDisabled: s.Network == networkNone,
			// PID 1 takes no signal, so an engine that is shut down would wait
			// for it in vain.
			StopTimeout: &patience,
			// An image's check would run commands that nobody asked for.
			Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
		},
		HostConfig: &container.HostConfig{
			CapDrop: strslice.StrSlice{"ALL"},
			SecurityOpt: []string{
				"no-new-privileges:true",
				"seccomp=" + profile,
			},
			NetworkMode:  container.NetworkMode(s.Network),
			IpcMode:      container.IPCModePrivate,
			CgroupnsMode: container.CgroupnsModePrivate, // on v1 the engine's default is the host's
			// With the owner gone nothing of the container stays.
			AutoRemove:    !s.Detached,
			RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
			// The keeper is PID 1 itself; a shell needs one that reaps.
			Init: &withInit,
			// PID 1's output is ours, and every command can write to it.
			LogConfig: container.LogConfig{Type: "none"},
			// The host's processes are worth more to its owner.
			OomScoreAdj: 500,
			ShmSize:     min(64<<20, s.TmpMemory/16), // it counts as memory
			// Nothing of the image or the layer can be changed.
			ReadonlyRootfs: s.ReadOnly,
			Tmpfs:          tmpfs(s),
			Runtime:        s.Runtime,
			Mounts:         s.Mounts,
			// These replace the engine's lists, so they hold them too.
			MaskedPaths:   slices.Concat(engineMasks(), []string{guestState}, s.Masks),
			ReadonlyPaths: engineReadonly(),
			Resources: container.Resources{
				Memory:     s.Memory,
				MemorySwap: s.Memory, // the sum with swap: no swap
				NanoCPUs:   nanoCPUs(s.CPUs),
				PidsLimit:  &pids,
				Ulimits: []*units.Ulimit{
					// 1 and not 0: with a core_pattern that is a pipe, 0
					// still runs the host's program (core(5)).
					{Name: "core", Soft: 1, Hard: 1},
					{Name: "fsize", Soft: maxFile, Hard: maxFile},
					{Name: "nofile", Soft: softFiles, Hard: hardFiles},
				},
			},
		},
		Networking: &network.NetworkingConfig{},
	}, nil
}

// tmpfs are the places in memory beside a read-only root file system, a quarter of
// the memory limit at most together with /dev/shm: a full one says so (ENOSPC) and
// does not have the kernel kill for want of memory. Programs may be run from /tmp
// alone. HOME is a mount of its own.
func tmpfs(s createSpec) map[string]string {
	if !s.ReadOnly {
		return nil
	}
	const options = "rw,%s,nosuid,nodev,size=%d,nr_inodes=%d,mode=1777"
	files := max(s.TmpMemory/(10<<10), 1024)
	return map[string]string{
		guestTmp: fmt.Sprintf(options, "exec", s.TmpMemory/8, files),
		guestRun: fmt.Sprintf(options, "noexec", s.TmpMemory/32, files/8),
	}
}

// nanoCPUs is a number of processors as the engine takes it.
func nanoCPUs(n float64) int64 { return int64(math.Round(n * 1e9)) }

// engineMasks are the paths that engines mask by default, the newest's list: an
// old engine does not know them all. What does not exist is passed over.
func engineMasks() []string {
	return []string{
		"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys",
		"/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list",
		"/proc/timer_stats", "/sys/devices/virtual/powercap", "/sys/firmware",
	}
}

// engineReadonly are the paths that engines make read-only by default.
func engineReadonly() []string {
	return []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
}

// checkNetwork refuses modes that share a network namespace with the machine or
// with another container.
func checkNetwork(name string) error {
	mode := container.NetworkMode(name)
	switch {
	case name == "", mode.IsHost(), mode.IsContainer(), mode.IsDefault(), strings.ContainsAny(name, ":/\x00\n"):
		return fmt.Errorf("network %q cannot be used; write none, bridge, or the name of a network", name)
	}
	return nil
}
