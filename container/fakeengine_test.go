//go:build unix

package container_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	dockertypes "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/system"
	ocispec "github.com/moby/docker-image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/workspace"
)

// fakeEngine answers as an engine does, up to the start of a container. It never
// starts one: an attach that comes is the sign that all checks before it passed.
type fakeEngine struct {
	info     system.Info
	warnings []string
	change   func(*dockertypes.InspectResponse)

	mu       sync.Mutex
	created  *dockertypes.CreateRequest
	name     string
	removed  bool
	attached bool
}

// kernel is this machine's, which makes the fake a local engine.
func kernel(t *testing.T) string {
	t.Helper()
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	return unix.ByteSliceToString(u.Release[:])
}

// goodInfo is of an engine with nothing missing.
func goodInfo(t *testing.T) system.Info {
	t.Helper()
	return system.Info{
		ServerVersion: "20.10.24", OSType: "linux", Architecture: "x86_64", KernelVersion: kernel(t), CgroupVersion: "2",
		MemoryLimit: true, SwapLimit: true, PidsLimit: true, CPUCfsQuota: true, DefaultRuntime: "runc",
		SecurityOptions: []string{"name=seccomp,profile=default", "name=cgroupns"}, DockerRootDir: "/nowhere/docker",
	}
}

func (f *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w.Header().Set("Api-Version", "1.41")
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v1.41"), "/")
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	gone := func() { answer(http.StatusNotFound, map[string]string{"message": "No such container"}) }
	switch {
	case path == "_ping":
	case path == "version":
		answer(http.StatusOK, map[string]string{"Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12"})
	case path == "info":
		answer(http.StatusOK, f.info)
	case path == "containers/json":
		answer(http.StatusOK, []any{})
	case strings.HasPrefix(path, "images/"):
		answer(http.StatusOK, image.InspectResponse{ID: "sha256:" + strings.Repeat("ab", 32), Os: "linux", Architecture: "amd64", Config: &ocispec.DockerOCIImageConfig{}})
	case path == "containers/create":
		f.created, f.name = &dockertypes.CreateRequest{}, r.URL.Query().Get("name")
		if err := json.NewDecoder(r.Body).Decode(f.created); err != nil {
			answer(http.StatusBadRequest, map[string]string{"message": err.Error()})
			return
		}
		answer(http.StatusCreated, dockertypes.CreateResponse{ID: "f00d", Warnings: f.warnings})
	case f.created == nil || f.removed:
		gone()
	case r.Method == http.MethodDelete:
		f.removed = true
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(path, "/json"):
		answer(http.StatusOK, f.inspect())
	default:
		f.attached = true
		answer(http.StatusTeapot, map[string]string{"message": "this engine starts nothing"})
	}
}

func (f *fakeEngine) inspect() dockertypes.InspectResponse {
	config, host := *f.created.Config, *f.created.HostConfig
	config.Labels = maps.Clone(config.Labels)
	host.Runtime = "runc"
	got := dockertypes.InspectResponse{
		ContainerJSONBase: &dockertypes.ContainerJSONBase{ID: "f00d", Name: "/" + f.name, State: &dockertypes.State{Status: "created"}, HostConfig: &host},
		Config:            &config,
	}
	for _, m := range host.Mounts {
		got.Mounts = append(got.Mounts, dockertypes.MountPoint{
			Type: m.Type, Source: m.Source, Destination: m.Target, RW: !m.ReadOnly, Propagation: m.BindOptions.Propagation,
		})
	}
	if f.change != nil {
		f.change(&got)
	}
	return got
}

// tryFake starts a workspace on a fake engine and returns what came of it.
func tryFake(t *testing.T, f *fakeEngine) error {
	t.Helper()
	e, err := container.Connect(t.Context(), container.EngineOptions{Host: serve(t, f)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := container.New(t.Context(), e, root, container.Options{Image: "some:image", CacheDir: filepath.Join(dir, "cache")})
	if err != nil {
		return err
	}
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	err = d.Ready(t.Context())
	if err == nil {
		t.Fatal("a fake engine started a container")
	}
	return err
}

// An engine that makes another container than it was asked
// for gets nothing started, and what it made is removed.
func TestUnfaithfulEngine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		warnings []string
		change   func(*dockertypes.InspectResponse)
		want     string // in the error; "": the checks pass
	}{
		"faithful": {},
		"warns":    {warnings: []string{"Your kernel does not support swap limit capabilities"}, want: "swap limit"},
		"privileged": {
			change: func(r *dockertypes.InspectResponse) { r.HostConfig.Privileged = true }, want: "HostConfig.Privileged",
		},
		"keeps capabilities": {
			change: func(r *dockertypes.InspectResponse) { r.HostConfig.CapDrop = nil }, want: "HostConfig.CapDrop",
		},
		"own seccomp profile": {
			change: func(r *dockertypes.InspectResponse) { r.HostConfig.SecurityOpt = r.HostConfig.SecurityOpt[:1] }, want: "HostConfig.SecurityOpt",
		},
		"no mask": {
			change: func(r *dockertypes.InspectResponse) { r.HostConfig.MaskedPaths = nil }, want: "HostConfig.MaskedPaths",
		},
		"a mount more": {
			change: func(r *dockertypes.InspectResponse) {
				r.Mounts = append(r.Mounts, dockertypes.MountPoint{Type: "bind", Source: "/", Destination: "/host", RW: true})
			}, want: "/host",
		},
		"another label of ours": {
			change: func(r *dockertypes.InspectResponse) { r.Config.Labels["wsctl.more"] = "1" }, want: "Config.Labels",
		},
		"another user": {
			change: func(r *dockertypes.InspectResponse) { r.Config.User = "0" }, want: "Config.User",
		},
		"a network": {
			change: func(r *dockertypes.InspectResponse) { r.HostConfig.NetworkMode = "bridge" }, want: "HostConfig.NetworkMode",
		},
		"no memory limit": {
			change: func(r *dockertypes.InspectResponse) { r.HostConfig.Memory = 0 }, want: "HostConfig.Memory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeEngine{info: goodInfo(t), warnings: c.warnings, change: c.change}
			err := tryFake(t, f)
			f.mu.Lock()
			defer f.mu.Unlock()
			if !f.removed {
				t.Errorf("the container was left behind: %v", err)
			}
			if c.want == "" {
				if !f.attached {
					t.Errorf("a faithful engine is refused: %v", err)
				}
				return
			}
			if f.attached || workspace.CodeOf(err) != workspace.ErrUnavailable || !strings.Contains(err.Error(), c.want) {
				t.Errorf("attached: %v, error: %v", f.attached, err)
			}
		})
	}
}

// What the engine says of itself decides on the user, the
// profile, and whether anything is created at all.
func TestEngineWithoutWhatIsNeeded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*system.Info)
		code   workspace.Code
		want   string
	}{
		"no memory limit": {func(i *system.Info) { i.MemoryLimit = false }, workspace.ErrUnavailable, "memory"},
		"no swap limit":   {func(i *system.Info) { i.SwapLimit = false }, workspace.ErrUnavailable, "swap"},
		"no pids limit":   {func(i *system.Info) { i.PidsLimit = false }, workspace.ErrUnavailable, "pids"},
		"no cpu limit":    {func(i *system.Info) { i.CPUCfsQuota = false }, workspace.ErrUnavailable, "cpu"},
		"no seccomp":      {func(i *system.Info) { i.SecurityOptions = nil }, workspace.ErrUnavailable, "seccomp"},
		"userns-remap":    {func(i *system.Info) { i.SecurityOptions = append(i.SecurityOptions, "name=userns") }, workspace.ErrUnsupported, "userns-remap"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fakeEngine{info: goodInfo(t)}
			c.change(&f.info)
			err := tryFake(t, f)
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.created != nil || workspace.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("created: %v, error: %v", f.created != nil, err)
			}
		})
	}
}

func TestRootlessEngineGetsItsOwnUser(t *testing.T) {
	t.Parallel()
	f := &fakeEngine{info: goodInfo(t)}
	f.info.SecurityOptions = append(f.info.SecurityOptions, "name=rootless")
	err := tryFake(t, f)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.created == nil {
		t.Fatal(err)
	}
	if f.created.User != "0:0" || f.created.HostConfig.UsernsMode != "" {
		t.Errorf("user %q, user namespace %q", f.created.User, f.created.HostConfig.UsernsMode)
	}
	if !slices.ContainsFunc(f.created.HostConfig.SecurityOpt, func(o string) bool { return strings.HasPrefix(o, "seccomp={") }) {
		t.Error("no seccomp profile in the request")
	}
}

// The request is the same on both versions of cgroups; a rootless engine's differs
// in the user, and in the profile for group 0, alone.
func TestRequestByKindOfEngine(t *testing.T) {
	t.Parallel()
	request := func(cgroup string, rootless bool) map[string]any {
		t.Helper()
		f := &fakeEngine{info: goodInfo(t)}
		f.info.CgroupVersion = cgroup
		if rootless {
			f.info.SecurityOptions = append(f.info.SecurityOptions, "name=rootless")
		}
		err := tryFake(t, f)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.created == nil {
			t.Fatal(err)
		}
		// What is of this one root and process.
		f.created.Labels = nil
		for i := range f.created.HostConfig.Mounts {
			f.created.HostConfig.Mounts[i].Source = ""
		}
		text, err := json.Marshal(f.created)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		return fields
	}
	rootful, rootless := request("1", false), request("1", true)
	if !reflect.DeepEqual(rootful, request("2", false)) || !reflect.DeepEqual(rootless, request("2", true)) {
		t.Error("the request depends on the version of cgroups")
	}
	if rootless["User"] != "0:0" {
		t.Errorf("the user of a rootless engine is %v", rootless["User"])
	}
	for _, r := range []map[string]any{rootful, rootless} {
		delete(r, "User")
		host, ok := r["HostConfig"].(map[string]any)
		if !ok || host["SecurityOpt"] == nil || host["UsernsMode"] != "" {
			t.Fatalf("%v", r["HostConfig"])
		}
		delete(host, "SecurityOpt")
	}
	if !reflect.DeepEqual(rootful, rootless) {
		t.Errorf("rootful %v\nrootless %v", rootful, rootless)
	}
}
