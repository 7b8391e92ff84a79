//go:build unix

package container

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/mount"

	"github.com/wsctl/wsctl/reaper"
)

// sampleSpec is a container as it is by default.
func sampleSpec(keeper string) createSpec {
	bind := func(source, target string, readOnly bool) mount.Mount {
		return mount.Mount{
			Type: mount.TypeBind, Source: source, Target: target, ReadOnly: readOnly,
			BindOptions: &mount.BindOptions{Propagation: mount.PropagationRPrivate, NonRecursive: true},
		}
	}
	s := createSpec{
		Image: "sha256:0123", User: "1000:1000", GID: 1000, Unset: []string{"LD_PRELOAD"},
		Labels: reaper.Tag{
			ID: "0a1b2c", Root: "/home/u/project", Workspace: "w1", Version: "v1.0.0",
			Owner: reaper.Owner{Host: "h", Machine: "m", Boot: "b", PIDNamespace: "4026531836", PID: 4711, Started: "99"},
		}.Labels(),
		Mounts: []mount.Mount{
			bind("/home/u/project", guestRoot, false),
			bind("/home/u/.cache/wsctl/homes/1", guestHome, false),
		},
		Memory: DefaultMemory, CPUs: DefaultCPUs, Pids: DefaultPids, Network: DefaultNetwork,
		Keeper: keeper, TmpMemory: DefaultMemory,
	}
	if keeper != "" {
		s.Mounts = append(s.Mounts, bind("/home/u/.cache/wsctl/keeper", keeper, true))
	}
	return s
}

// variants are the requests that the golden files hold.
func variants() map[string]createSpec {
	keeper := sampleSpec(guestKeeper)
	rootless := sampleSpec(guestKeeper)
	rootless.User, rootless.GID = "0:0", 0
	detached := sampleSpec(guestKeeper)
	detached.Detached = true
	readOnly := sampleSpec(guestKeeper)
	readOnly.ReadOnly, readOnly.Seccomp = true, SeccompStrict
	network := sampleSpec(guestKeeper)
	network.Network, network.Runtime = "bridge", "runsc"
	return map[string]createSpec{
		"rootful-keeper": keeper, "rootful-shell": sampleSpec(""), "rootless-keeper": rootless,
		"detached-keeper": detached, "read-only-strict": readOnly, "network-runtime": network,
	}
}

// Any field that is new or different shows in review. The request is the same on
// both versions of cgroups: the limits are the engine's to write, and the posture
// reads them back from either.
func TestCreateGolden(t *testing.T) {
	for name, spec := range variants() {
		t.Run(name, func(t *testing.T) {
			req, err := newCreate(spec)
			if err != nil {
				t.Fatal(err)
			}
			// The profile has golden files of its own.
			for i, o := range req.HostConfig.SecurityOpt {
				if text, ok := strings.CutPrefix(o, "seccomp="); ok {
					want, err := seccompProfile(spec.GID, spec.Seccomp)
					if err != nil || text != want {
						t.Errorf("not the seccomp profile for group %d", spec.GID)
					}
					req.HostConfig.SecurityOpt[i] = strings.TrimSpace(fmt.Sprintf("seccomp=(the profile for group %d) %s", spec.GID, spec.Seccomp))
				}
			}
			golden(t, "create."+name+".golden.json", map[string]any{
				"Config": req.Config, "HostConfig": req.HostConfig, "NetworkingConfig": req.Networking,
			})
		})
	}
}

func TestCheckNetwork(t *testing.T) {
	for name, fine := range map[string]bool{
		"none": true, "bridge": true, "my-net_1.x": true,
		"": false, "host": false, "default": false, "container:abc": false, "a/b": false, "a:b": false, "a\nb": false,
	} {
		if err := checkNetwork(name); (err == nil) != fine {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// clone is a deep copy by way of JSON, as the engine's is.
func clone[T any](t *testing.T, v T) T {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out T
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}
