//go:build unix

package container

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/wsctl/wsctl/reaper"
)

// compare tells in what the container that the engine made differs from the one
// it was asked for; nothing when it does not. Every field that the engine's API
// has is looked at, asked for or not, so what an image or the engine's
// configuration adds shows.
func compare(want createRequest, got container.InspectResponse) []string {
	if got.ContainerJSONBase == nil || got.Config == nil || got.HostConfig == nil {
		return []string{"the engine tells nothing about it"}
	}
	var diffs []string
	diffs = append(diffs, compareFields("Config", fieldsOf(*want.Config), fieldsOf(*got.Config), allowedConfig(want.Config, got.Config))...)
	diffs = append(diffs, compareFields("HostConfig", fieldsOf(*want.HostConfig), fieldsOf(*got.HostConfig), allowedHost(want.HostConfig))...)
	diffs = append(diffs, compareMounts(want.HostConfig.Mounts, got.Mounts)...)
	if strings.Contains(got.AppArmorProfile, "unconfined") {
		diffs = append(diffs, "AppArmorProfile is "+got.AppArmorProfile)
	}
	return diffs
}

// fieldsOf is a struct as its JSON object, with what is empty left out at every
// depth: the engine turns absent lists into empty ones and back.
func fieldsOf(v any) map[string]any {
	// Structs of the engine's API always encode.
	data, _ := json.Marshal(v)
	fields := map[string]any{}
	_ = json.Unmarshal(data, &fields)
	prune(fields)
	return fields
}

// prune takes out of a decoded JSON value what says nothing, and tells whether
// nothing is left.
func prune(v any) (empty bool) {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case float64:
		return v == 0
	case string:
		return v == ""
	case []any:
		empty = true
		for _, e := range v {
			empty = prune(e) && empty
		}
		return empty
	case map[string]any:
		maps.DeleteFunc(v, func(_ string, e any) bool { return prune(e) })
		return len(v) == 0
	}
	return false
}

// compareFields names the fields in which got differs and which allowed does not
// explain.
func compareFields(where string, want, got map[string]any, allowed map[string]func(got any) bool) []string {
	var diffs []string
	names := slices.Sorted(maps.Keys(want))
	for name := range maps.Keys(got) {
		if _, ok := want[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if reflect.DeepEqual(want[name], got[name]) {
			continue
		}
		if ok, known := allowed[name]; known && ok(got[name]) {
			continue
		}
		diffs = append(diffs, fmt.Sprintf("%s.%s is %s, asked for %s", where, name, short(got[name]), short(want[name])))
	}
	return diffs
}

// short is a value as text that fits into a message.
func short(v any) string {
	if v == nil {
		return "not set"
	}
	text, _ := json.Marshal(v)
	if len(text) > 120 {
		return string(text[:120]) + "…"
	}
	return string(text)
}

// allowedConfig are the differences in Config that are no weakness: what an
// image may add.
func allowedConfig(want, got *container.Config) map[string]func(any) bool {
	return map[string]func(any) bool{
		// The image's variables stand in front of ours. What must not be
		// there is in want without a value, and the engine keeps it so.
		"Env": func(any) bool {
			for _, name := range want.Env {
				if !slices.Contains(got.Env, name) {
					return false
				}
			}
			return !slices.ContainsFunc(got.Env, func(e string) bool {
				name, _, set := strings.Cut(e, "=")
				return set && slices.Contains(want.Env, name)
			})
		},
		"Labels": func(any) bool {
			for key, value := range got.Labels {
				if asked, ok := want.Labels[key]; ok && asked != value || !ok && strings.HasPrefix(key, reaper.Prefix) {
					return false
				}
			}
			for key := range want.Labels {
				if _, ok := got.Labels[key]; !ok {
					return false
				}
			}
			return true
		},
		"ExposedPorts": func(any) bool { return true }, // nothing is published
		"Volumes":      func(any) bool { return true }, // compareMounts judges them
		"StopSignal":   func(any) bool { return true }, // PID 1 is never stopped by one
		"OnBuild":      func(any) bool { return true }, // nothing is built
		"Shell":        func(any) bool { return true }, // nothing is built
	}
}

// allowedHost are the differences in HostConfig that are no weakness: what the
// engine fills in.
func allowedHost(want *container.HostConfig) map[string]func(any) bool {
	return map[string]func(any) bool{
		"Runtime": func(got any) bool { return want.Runtime == "" && got != "" },
	}
}

// compareMounts compares the mounts the engine will make with those asked for.
// Beyond these only anonymous volumes of the image pass, outside the root.
func compareMounts(want []mount.Mount, got []container.MountPoint) []string {
	var diffs []string
	seen := map[string]bool{}
	for _, g := range got {
		i := slices.IndexFunc(want, func(w mount.Mount) bool { return w.Target == g.Destination })
		switch {
		case seen[g.Destination]:
			diffs = append(diffs, "two mounts at "+g.Destination)
		case i < 0 && g.Type == mount.TypeVolume && !below(g.Destination, guestRoot):
		case i < 0:
			diffs = append(diffs, fmt.Sprintf("a mount of %s at %s that was not asked for", g.Source, g.Destination))
		case g.Type != want[i].Type || g.Type == mount.TypeBind && g.Source != want[i].Source || g.RW == want[i].ReadOnly:
			diffs = append(diffs, fmt.Sprintf("the mount at %s is %s of %s (writable: %v)", g.Destination, g.Type, g.Source, g.RW))
		case want[i].BindOptions != nil && g.Propagation != want[i].BindOptions.Propagation:
			diffs = append(diffs, fmt.Sprintf("the mount at %s has propagation %s", g.Destination, g.Propagation))
		}
		seen[g.Destination] = true
	}
	for _, w := range want {
		if !seen[w.Target] {
			diffs = append(diffs, "no mount at "+w.Target)
		}
	}
	return diffs
}

// below tells whether an absolute path is dir or in it.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}
