//go:build linux

package container

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/go-units"

	"github.com/wsctl/wsctl/internal/enginetest"
)

// testDriver is a driver over a new root, with a keeper.
func testDriver(t *testing.T) *Driver {
	t.Helper()
	cli := enginetest.Client(t)
	e, err := Connect(t.Context(), EngineOptions{Host: cli.DaemonHost(), CertDir: os.Getenv("DOCKER_CERT_PATH")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	dir := enginetest.Dir(t)
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := New(t.Context(), e, root, Options{
		Image: enginetest.BusyBox(t), Keeper: enginetest.Keeper(t), CacheDir: filepath.Join(dir, "cache"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Each setting of the create request is there for a reason: a container that is
// made without it does not pass the look from inside. What only the comparison
// of the request can find is in TestCompareFindsEachField.
func TestPostureFindsEachLoosenedSetting(t *testing.T) {
	d := testDriver(t)
	without := func(list []string, prefix string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return strings.HasPrefix(s, prefix) })
	}
	host := func(f func(*container.HostConfig)) func(*createRequest) {
		return func(r *createRequest) { f(r.HostConfig) }
	}
	extra := t.TempDir()
	if _, err := d.plan(t.Context()); err != nil { // what all containers share is made here
		t.Fatal(err)
	}
	for finding, loosen := range map[string]func(*createRequest){
		"":                    func(*createRequest) {},
		"capabilities CapBnd": host(func(h *container.HostConfig) { h.CapDrop = nil }),
		"no-new-privileges":   host(func(h *container.HostConfig) { h.SecurityOpt = without(h.SecurityOpt, "no-new") }),
		"seccomp": host(func(h *container.HostConfig) {
			h.SecurityOpt = append(without(h.SecurityOpt, "seccomp="), "seccomp=unconfined")
		}),
		"uid":    func(r *createRequest) { r.Config.User = "12345" + r.Config.User[strings.Index(r.Config.User, ":"):] },
		"gid":    func(r *createRequest) { r.Config.User = r.Config.User[:strings.Index(r.Config.User, ":")] + ":54321" },
		"groups": host(func(h *container.HostConfig) { h.GroupAdd = []string{"7"} }),
		"network interfaces": func(r *createRequest) {
			r.Config.NetworkDisabled, r.HostConfig.NetworkMode = false, "bridge"
		},
		"namespace ipc":          host(func(h *container.HostConfig) { h.IpcMode = "host" }),
		"namespace cgroup":       host(func(h *container.HostConfig) { h.CgroupnsMode = "host" }),
		"namespace uts":          func(r *createRequest) { r.HostConfig.UTSMode, r.Config.Hostname = "host", "" },
		"namespace pid":          host(func(h *container.HostConfig) { h.PidMode = "host" }),
		"namespace net":          func(r *createRequest) { r.Config.NetworkDisabled, r.HostConfig.NetworkMode = false, "host" },
		"pid of the keeper":      host(func(h *container.HostConfig) { on := true; h.Init = &on }),
		"memory":                 host(func(h *container.HostConfig) { h.Memory, h.MemorySwap = 1<<30, 1<<30 }),
		"memory with swap":       host(func(h *container.HostConfig) { h.MemorySwap = 0 }),
		"pids":                   host(func(h *container.HostConfig) { h.PidsLimit = nil }),
		"cpus":                   host(func(h *container.HostConfig) { h.NanoCPUs = 0 }),
		"limit core":             host(func(h *container.HostConfig) { h.Ulimits = dropLimit(h.Ulimits, "core") }),
		"limit fsize":            host(func(h *container.HostConfig) { h.Ulimits = dropLimit(h.Ulimits, "fsize") }),
		"limit nofile":           host(func(h *container.HostConfig) { h.Ulimits = dropLimit(h.Ulimits, "nofile") }),
		"mask /workspace/.wsctl": host(func(h *container.HostConfig) { h.MaskedPaths = engineMasks() }),
		"mount /workspace":       host(func(h *container.HostConfig) { h.Mounts[indexOf(h.Mounts, guestRoot)].ReadOnly = true }),
		"mount /wskeeper":        host(func(h *container.HostConfig) { h.Mounts[indexOf(h.Mounts, guestKeeper)].ReadOnly = false }),
		"mount /extra": host(func(h *container.HostConfig) {
			h.Mounts = append(h.Mounts, mount.Mount{Type: mount.TypeBind, Source: extra, Target: "/extra"})
		}),
	} {
		if d.engine.info.Cgroup == "2" && finding == "memory with swap" {
			finding = "swap"
		}
		t.Run(finding, func(t *testing.T) {
			t.Parallel()
			found := lookInside(t, d, loosen)
			names := make([]string, len(found))
			for i, f := range found {
				names[i] = f.Name
			}
			if finding == "" && len(found) > 0 || finding != "" && !slices.Contains(names, finding) {
				t.Errorf("found %v", found)
			}
		})
	}
}

func dropLimit(limits []*units.Ulimit, name string) []*units.Ulimit {
	return slices.DeleteFunc(slices.Clone(limits), func(u *units.Ulimit) bool { return u.Name == name })
}

func indexOf(mounts []mount.Mount, target string) int {
	return slices.IndexFunc(mounts, func(m mount.Mount) bool { return m.Target == target })
}

// lookInside makes a container with a loosened request and returns what the look
// from inside finds wrong.
func lookInside(t *testing.T, d *Driver, loosen func(*createRequest)) []finding {
	t.Helper()
	ctx := t.Context()
	b, p := createdAs(t, d, loosen)
	if err := d.run(ctx, b); err != nil {
		t.Fatal(err)
	}
	seen, err := b.ask(ctx, p.questions())
	if err != nil {
		t.Fatalf("%v; it said %q", err, b.said)
	}
	return wrong(posture(seen, p.expected))
}
