//go:build unix

package container

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/wsctl/wsctl/reaper"
)

// faithful is what an engine that does what it is asked says of a container.
func faithful(t *testing.T, want createRequest) container.InspectResponse {
	t.Helper()
	c, h := clone(t, *want.Config), clone(t, *want.HostConfig)
	if h.Runtime == "" {
		h.Runtime = "runc"
	}
	h.LogConfig.Config = map[string]string{}
	c.Env = append([]string{"PATH=/bin"}, c.Env...)
	c.Labels["maintainer"] = "somebody"
	got := container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{ID: "0123", State: &container.State{Status: "created"}, HostConfig: &h},
		Config:            &c,
	}
	for _, m := range want.HostConfig.Mounts {
		got.Mounts = append(got.Mounts, container.MountPoint{
			Type: m.Type, Source: m.Source, Destination: m.Target, RW: !m.ReadOnly, Propagation: m.BindOptions.Propagation,
		})
	}
	return got
}

func TestCompareTakesAFaithfulContainer(t *testing.T) {
	t.Parallel()
	for name, spec := range variants() {
		want, err := newCreate(spec)
		if err != nil {
			t.Fatal(err)
		}
		got := faithful(t, want)
		got.Mounts = append(got.Mounts, container.MountPoint{Type: mount.TypeVolume, Name: "f00", Destination: "/data", RW: true})
		if diffs := compare(want, got); len(diffs) > 0 {
			t.Errorf("%s: %v", name, diffs)
		}
	}
}

// other is a value of v's type that differs from v and is not empty.
func other(v reflect.Value) (reflect.Value, bool) {
	out := reflect.New(v.Type()).Elem()
	switch v.Kind() {
	case reflect.Bool:
		out.SetBool(!v.Bool())
	case reflect.String:
		out.SetString("evil" + v.String())
	case reflect.Int, reflect.Int64:
		out.SetInt(v.Int() + 7)
	case reflect.Uint, reflect.Uint16, reflect.Uint64:
		out.SetUint(v.Uint() + 7)
	case reflect.Float64:
		out.SetFloat(v.Float() + 7)
	case reflect.Pointer:
		inner := reflect.New(v.Type().Elem())
		from := inner.Elem()
		if !v.IsNil() {
			from = v.Elem()
		}
		changed, ok := other(from)
		if !ok {
			return out, false
		}
		inner.Elem().Set(changed)
		out.Set(inner)
	case reflect.Slice, reflect.Array:
		var one reflect.Value
		if one = reflect.New(v.Type().Elem()).Elem(); v.Len() > 0 {
			one = v.Index(0)
		}
		changed, ok := other(one)
		if !ok {
			return out, false
		}
		if v.Kind() == reflect.Array {
			out.Set(v)
			out.Index(0).Set(changed)
			return out, true
		}
		out.Set(reflect.Append(reflect.AppendSlice(out, v), changed))
	case reflect.Map:
		out.Set(reflect.MakeMap(v.Type()))
		key, _ := other(reflect.New(v.Type().Key()).Elem())
		value, ok := other(reflect.New(v.Type().Elem()).Elem())
		if !ok {
			value = reflect.New(v.Type().Elem()).Elem()
		}
		for _, k := range v.MapKeys() {
			out.SetMapIndex(k, v.MapIndex(k))
		}
		out.SetMapIndex(key, value)
	case reflect.Struct:
		out.Set(v)
		for i := range v.NumField() {
			if changed, ok := other(v.Field(i)); ok && out.Field(i).CanSet() {
				out.Field(i).Set(changed)
				return out, true
			}
		}
		return out, false
	default:
		return out, false
	}
	return out, true
}

// Whatever single field an engine, or an image, makes
// another is found, also those that the request leaves empty.
func TestCompareFindsEachField(t *testing.T) {
	t.Parallel()
	want, err := newCreate(sampleSpec(guestKeeper))
	if err != nil {
		t.Fatal(err)
	}
	// What an image may add, and what means nothing on Linux.
	harmless := []string{
		"Config.Env", "Config.Labels", "Config.ExposedPorts", "Config.Volumes", "Config.StopSignal", "Config.OnBuild", "Config.Shell",
		"HostConfig.Runtime",
	}
	checked := 0
	var check func(path string, target func(*container.InspectResponse) reflect.Value)
	check = func(path string, target func(*container.InspectResponse) reflect.Value) {
		sample := faithful(t, want)
		typ := target(&sample).Type()
		for i := range typ.NumField() {
			name := typ.Field(i).Name
			if typ.Field(i).Anonymous {
				check(path, func(r *container.InspectResponse) reflect.Value { return target(r).Field(i) })
				continue
			}
			got := faithful(t, want)
			field := target(&got).Field(i)
			changed, ok := other(field)
			if !ok {
				t.Errorf("%s.%s: this test cannot change it", path, name)
				continue
			}
			field.Set(changed)
			found := len(compare(want, got)) > 0
			if found == slices.Contains(harmless, path+"."+name) {
				t.Errorf("%s.%s changed to %v: found %v", path, name, changed, found)
			}
			checked++
		}
	}
	check("Config", func(r *container.InspectResponse) reflect.Value { return reflect.ValueOf(r.Config).Elem() })
	check("HostConfig", func(r *container.InspectResponse) reflect.Value { return reflect.ValueOf(r.HostConfig).Elem() })
	if checked < 80 {
		t.Errorf("only %d fields", checked)
	}
}

func TestCompareFindsWhatIsHiddenInAllowedFields(t *testing.T) {
	t.Parallel()
	spec := sampleSpec(guestKeeper)
	want, err := newCreate(spec)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*container.InspectResponse){
		"a variable that must be gone": func(r *container.InspectResponse) { r.Config.Env = []string{"LD_PRELOAD", "LD_PRELOAD=/evil.so"} },
		"a variable not taken away":    func(r *container.InspectResponse) { r.Config.Env = []string{"PATH=/bin"} },
		"a label of ours more":         func(r *container.InspectResponse) { r.Config.Labels[reaper.Prefix+"evil"] = "1" },
		"a label of ours changed": func(r *container.InspectResponse) {
			for k := range r.Config.Labels {
				if strings.HasPrefix(k, reaper.Prefix) {
					r.Config.Labels[k] += "x"
					return
				}
			}
		},
		"a label missing":       func(r *container.InspectResponse) { delete(r.Config.Labels, reaper.Prefix+"id") },
		"no config":             func(r *container.InspectResponse) { r.Config = nil },
		"apparmor off":          func(r *container.InspectResponse) { r.AppArmorProfile = "unconfined" },
		"a limit dropped":       func(r *container.InspectResponse) { r.HostConfig.Memory = 0 },
		"no limit on processes": func(r *container.InspectResponse) { r.HostConfig.PidsLimit = nil },
		"no seccomp":            func(r *container.InspectResponse) { r.HostConfig.SecurityOpt = r.HostConfig.SecurityOpt[:1] },
		"mask dropped":          func(r *container.InspectResponse) { r.HostConfig.MaskedPaths = engineMasks() },
		"a mount more": func(r *container.InspectResponse) {
			r.Mounts = append(r.Mounts, container.MountPoint{Type: mount.TypeBind, Source: "/", Destination: "/host"})
		},
		"a volume in the root": func(r *container.InspectResponse) {
			r.Mounts = append(r.Mounts, container.MountPoint{Type: mount.TypeVolume, Destination: guestRoot + "/data"})
		},
		"a mount missing":         func(r *container.InspectResponse) { r.Mounts = r.Mounts[1:] },
		"a mount twice":           func(r *container.InspectResponse) { r.Mounts = append(r.Mounts, r.Mounts[0]) },
		"another source":          func(r *container.InspectResponse) { r.Mounts[0].Source = "/etc" },
		"keeper writable":         func(r *container.InspectResponse) { r.Mounts[2].RW = true },
		"root shared":             func(r *container.InspectResponse) { r.Mounts[0].Propagation = mount.PropagationRShared },
		"a volume for a bind":     func(r *container.InspectResponse) { r.Mounts[0].Type = mount.TypeVolume },
		"nothing but the outside": func(r *container.InspectResponse) { r.ContainerJSONBase = nil },
	} {
		got := faithful(t, want)
		change(&got)
		if len(compare(want, got)) == 0 {
			t.Errorf("%s: not found", name)
		}
	}
}
