//go:build unix

package container_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dockertypes "github.com/docker/docker/api/types/container"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/reaper"
	"github.com/wsctl/wsctl/workspace"
)

// named are the options of a detached workspace whose name no other test has.
func named(t testing.TB) container.Options {
	t.Helper()
	o := options(t)
	o.Name = "test-" + reaper.NewID()
	return o
}

// up makes a detached workspace and lets it go.
func up(t testing.TB, e *container.Engine, root string, o container.Options) container.Detached {
	t.Helper()
	d, err := container.New(t.Context(), e, root, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	ready(t, d)
	w, err := container.FindDetached(t.Context(), e, o.Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := w.Remove(ctx, e, o.CacheDir); err != nil {
			t.Error(err)
		}
	})
	return w
}

// adopt is a workspace over a detached one, for this test beside others.
func adopt(t testing.TB, e *container.Engine, ref string) *workspace.Workspace {
	t.Helper()
	d, err := container.Adopt(t.Context(), e, ref, container.AdoptOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// A detached workspace outlives its maker, is found by its name and by the
// beginning of its id, is used by several at once, and goes when it is removed.
func TestDetachedWorkspace(t *testing.T) {
	t.Parallel()
	for name, keeper := range map[string]bool{"keeper": true, "shell": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, root, o := connect(t), newRoot(t), named(t)
			if !keeper {
				o.Keeper = ""
			}
			w := up(t, e, root, o)
			if w.Root != root || w.State != "running" || w.Choices.Image != o.Image {
				t.Errorf("it tells %+v", w)
			}
			if got, err := container.FindDetached(t.Context(), e, w.ID[:20]); err != nil || got.Name != o.Name {
				t.Errorf("by its id: %+v, %v", got, err)
			}
			var all sync.WaitGroup
			for i := range 4 {
				one := adopt(t, e, o.Name)
				for range 3 {
					all.Go(func() {
						line := "echo " + string(rune('a'+i)) + "; cat"
						out, err := one.Exec(t.Context(), workspace.Command{Shell: line, Stdin: strings.NewReader(string(rune('A' + i))), Timeout: time.Minute})
						if err != nil || string(out.Stdout) != string(rune('a'+i))+"\n"+string(rune('A'+i)) {
							t.Errorf("%d: %+v, %v", i, out, err)
						}
					})
				}
			}
			all.Wait()
			if err := w.Remove(t.Context(), e, o.CacheDir); err != nil {
				t.Error(err)
			}
			none(t, root)
			if entries, err := os.ReadDir(root); err != nil || len(entries) != 1 || entries[0].Name() != ".wsctl" {
				t.Errorf("left in the root: %v, %v", entries, err)
			}
			if err := w.Remove(t.Context(), e, o.CacheDir); err != nil {
				t.Errorf("once more: %v", err)
			}
			if _, err := container.Adopt(t.Context(), e, o.Name, container.AdoptOptions{}); !errors.Is(err, workspace.ErrNotFound) {
				t.Errorf("adopted after its removal: %v", err)
			}
		})
	}
}

// Whoever comes later with the same name, root and options gets the one that is
// there; many at once make one.
func TestDetachedIsMadeOnce(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), newRoot(t), named(t)
	var all sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for range 4 {
		all.Go(func() {
			d, err := container.New(t.Context(), e, root, o)
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			if err := d.Ready(t.Context()); err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if !d.Adopted() {
				made++
			}
		})
	}
	all.Wait()
	if made != 1 {
		t.Errorf("%d say that they have made it", made)
	}
	only(t, root)
	other := newRoot(t)
	for name, c := range map[string]struct {
		root string
		with func(*container.Options)
		says string
	}{
		"another root": {other, func(*container.Options) {}, root},
		"more memory":  {root, func(o *container.Options) { o.Memory = 1 << 30 }, "memory"},
		"a network":    {root, func(o *container.Options) { o.Network = "bridge" }, "network"},
		"a mount":      {root, func(o *container.Options) { o.Mounts = []container.Mount{{Source: other, Target: "/x"}} }, "mounts"},
	} {
		with := o
		c.with(&with)
		d := open(t, e, c.root, with)
		if err := d.Ready(t.Context()); !errors.Is(err, workspace.ErrExists) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	only(t, root)
	none(t, other)
}

// A detached container that has ended is verified and started again, what is in its
// layer is there, and the next result says so, once.
func TestDetachedIsStartedAgain(t *testing.T) {
	t.Parallel()
	e, root, cli, o := connect(t), newRoot(t), enginetest.Client(t), named(t)
	w := up(t, e, root, o)
	before := adopt(t, e, o.Name)
	exec(t, before, "echo installed > /tmp/layer")
	kill := func() {
		t.Helper()
		if err := cli.ContainerKill(t.Context(), w.ID, "KILL"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the container has ended", 10*time.Second, func() bool { return only(t, root).State == "exited" })
	}
	for name, one := range map[string]func() *workspace.Workspace{
		"who was there": func() *workspace.Workspace { return before },
		"who comes":     func() *workspace.Workspace { return adopt(t, e, o.Name) },
	} {
		kill()
		ws := one()
		out := exec(t, ws, "cat /tmp/layer")
		if string(out.Stdout) != "installed\n" || !strings.Contains(out.Recreated, "137") && !strings.Contains(out.Recreated, "ended") {
			t.Errorf("%s: %q %q, recreated: %q", name, out.Stdout, out.Stderr, out.Recreated)
		}
		if out := exec(t, ws, "true"); out.Recreated != "" {
			t.Errorf("%s: told twice: %s", name, out.Recreated)
		}
		if again := only(t, root); again.ID != w.ID {
			t.Errorf("%s: another container", name)
		}
	}
	// A maker that died before the start is no different.
	dead := o
	dead.Name += "-2"
	second := up(t, e, root, dead)
	kill2, err := cli.ContainerInspect(t.Context(), second.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Remove(t.Context(), e, o.CacheDir); err != nil {
		t.Fatal(err)
	}
	if _, err := cli.ContainerCreate(t.Context(), kill2.Config, kill2.HostConfig, nil, nil, reaper.Name(dead.Name)); err != nil {
		t.Fatal(err)
	}
	if out := exec(t, adopt(t, e, dead.Name), "echo ran"); string(out.Stdout) != "ran\n" || out.Recreated != "" {
		t.Errorf("created and never started: %q, %q", out.Stdout, out.Recreated)
	}
	left, err := container.FindDetached(t.Context(), e, dead.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := left.Remove(t.Context(), e, o.CacheDir); err != nil {
		t.Error(err)
	}
}

// One that was removed is told as that, and is not made anew behind anybody's back.
func TestDetachedRemovedFromOutside(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), newRoot(t), named(t)
	w := up(t, e, root, o)
	ws := adopt(t, e, o.Name)
	exec(t, ws, "true")
	if err := w.Remove(t.Context(), e, o.CacheDir); err != nil {
		t.Fatal(err)
	}
	_, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"true"}})
	if !errors.Is(err, workspace.ErrUnavailable) || !strings.Contains(err.Error(), "wsctl up") {
		t.Errorf("a command after it: %v", err)
	}
	none(t, root)
}

// A container that is not what would be made today is refused, and so is one that
// only its image's labels make look like ours.
func TestDetachedThatIsNotOursIsNotUsed(t *testing.T) {
	t.Parallel()
	e, root, cli, o := connect(t), newRoot(t), enginetest.Client(t), named(t)
	w := up(t, e, root, o)
	good, err := cli.ContainerInspect(t.Context(), w.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Remove(t.Context(), e, o.CacheDir); err != nil {
		t.Fatal(err)
	}
	try := func(t *testing.T, change func(*dockertypes.Config, *dockertypes.HostConfig), says string) {
		t.Helper()
		c, h := *good.Config, *good.HostConfig
		change(&c, &h)
		made, err := cli.ContainerCreate(t.Context(), &c, &h, nil, nil, reaper.Name(o.Name))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := cli.ContainerRemove(t.Context(), made.ID, dockertypes.RemoveOptions{Force: true}); err != nil {
				t.Error(err)
			}
		}()
		d, err := container.Adopt(t.Context(), e, o.Name, container.AdoptOptions{})
		if err == nil {
			err = d.Ready(t.Context())
			d.Close()
		}
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("got %v", err)
		}
	}
	for name, c := range map[string]struct {
		change func(*dockertypes.Config, *dockertypes.HostConfig)
		says   string
	}{
		"as it was":    {func(*dockertypes.Config, *dockertypes.HostConfig) {}, ""},
		"a capability": {func(_ *dockertypes.Config, h *dockertypes.HostConfig) { h.CapAdd = []string{"SYS_ADMIN"} }, "CapAdd"},
		"no filter": {func(_ *dockertypes.Config, h *dockertypes.HostConfig) {
			h.SecurityOpt = []string{"no-new-privileges:true"}
		}, "SecurityOpt"},
		"no mask":  {func(_ *dockertypes.Config, h *dockertypes.HostConfig) { h.MaskedPaths = h.MaskedPaths[:1] }, "MaskedPaths"},
		"no limit": {func(_ *dockertypes.Config, h *dockertypes.HostConfig) { h.PidsLimit = nil }, "limit"},
		"swap":     {func(_ *dockertypes.Config, h *dockertypes.HostConfig) { h.MemorySwap = -1 }, "MemorySwap"},
		"a bind":   {func(_ *dockertypes.Config, h *dockertypes.HostConfig) { h.Binds = []string{"/etc:/extra"} }, "Binds"},
		"host's network": {func(c *dockertypes.Config, h *dockertypes.HostConfig) {
			c.NetworkDisabled, h.NetworkMode = false, "host"
		}, "network"},
		"a writable mount": {func(_ *dockertypes.Config, h *dockertypes.HostConfig) {
			h.Mounts = slices.Clone(h.Mounts)
			for i := range h.Mounts {
				h.Mounts[i].ReadOnly = false
			}
		}, "can be written"},
		"a recursive mount": {func(_ *dockertypes.Config, h *dockertypes.HostConfig) {
			h.Mounts = slices.Clone(h.Mounts)
			o := *h.Mounts[0].BindOptions
			o.NonRecursive = false
			h.Mounts[0].BindOptions = &o
		}, "not one of wsctl's"},
		"another root": {func(_ *dockertypes.Config, h *dockertypes.HostConfig) {
			h.Mounts = slices.Clone(h.Mounts)
			h.Mounts[0].Source = filepath.Dir(root)
		}, "mask"},
		"a keeper of another version": {func(c *dockertypes.Config, _ *dockertypes.HostConfig) {
			c.Labels = clone(c.Labels)
			c.Labels["wsctl.note"] = strings.Replace(c.Labels["wsctl.note"], `"protocol":`, `"protocol":9`, 1)
		}, "another version"},
		"no note": {func(c *dockertypes.Config, _ *dockertypes.HostConfig) {
			c.Labels = clone(c.Labels)
			delete(c.Labels, "wsctl.note")
		}, "wsctl.note"},
	} {
		t.Run(name, func(t *testing.T) { try(t, c.change, c.says) })
	}
	t.Run("an image's labels", func(t *testing.T) {
		var changes []string
		for key, value := range good.Config.Labels {
			if strings.HasPrefix(key, "wsctl.") && key != "wsctl.note" {
				changes = append(changes, "LABEL "+key+"="+`"`+value+`"`)
			}
		}
		slices.Sort(changes)
		image := enginetest.Changed(t, changes...)
		try(t, func(c *dockertypes.Config, _ *dockertypes.HostConfig) { c.Image = image }, "labels")
	})
	none(t, root)
}

func clone(m map[string]string) map[string]string {
	c := map[string]string{}
	for k, v := range m {
		c[k] = v
	}
	return c
}

// What a detached container shows is what it showed when it was made: a root that
// is another directory by now, or gone, is told.
func TestDetachedRootMoved(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), newRoot(t), named(t)
	w := up(t, e, root, o)
	if err := os.Rename(root, root+".old"); err != nil {
		t.Fatal(err)
	}
	if _, err := container.Adopt(t.Context(), e, o.Name, container.AdoptOptions{}); !errors.Is(err, workspace.ErrNotFound) {
		t.Errorf("with its root gone: %v", err)
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := container.Adopt(t.Context(), e, o.Name, container.AdoptOptions{}); !errors.Is(err, workspace.ErrConflict) {
		t.Errorf("with another directory of that name: %v", err)
	}
	if err := w.Remove(t.Context(), e, o.CacheDir); err != nil {
		t.Error(err)
	}
}

// A state directory that was replaced has lost its mask: nothing runs before the
// container has it again.
func TestDetachedStateIsMaskedAgain(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), newRoot(t), named(t)
	up(t, e, root, o)
	if err := os.Rename(filepath.Join(root, ".wsctl"), filepath.Join(root, "moved")); err != nil {
		t.Fatal(err)
	}
	out := exec(t, adopt(t, e, o.Name), "ls -A .wsctl; echo x > .wsctl/x")
	if out.ExitCode == 0 || len(out.Stdout) != 0 || out.Recreated == "" {
		t.Errorf("%q %q %d, recreated: %q", out.Stdout, out.Stderr, out.ExitCode, out.Recreated)
	}
}

// What a command keeps stays when whoever asked for it goes; what it does not keep
// goes with it.
func TestDetachedKeepsWhatIsKept(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), newRoot(t), named(t)
	up(t, e, root, o)
	first := adopt(t, e, o.Name)
	for line, b := range map[string]workspace.Background{
		"(while :; do echo kept; echo kept >&2; sleep 0.01; done) & sleep 311 &": workspace.BackgroundKeep,
		"setsid sleep 322 &": workspace.BackgroundKill,
	} {
		if _, err := first.Exec(t.Context(), workspace.Command{Shell: line, Background: b, Timeout: time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	next := adopt(t, e, o.Name)
	list := func() string {
		return string(exec(t, next, `for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline; echo; done 2>/dev/null`).Stdout)
	}
	time.Sleep(300 * time.Millisecond) // an end of it would have come by now
	if got := list(); !strings.Contains(got, "sleep 311") || !strings.Contains(got, "echo kept") || strings.Contains(got, "sleep 322") {
		t.Errorf("running: %s", got)
	}
	// The serving keepers of who has gone are gone, but for the one that keeps.
	eventually(t, "two serving keepers", 10*time.Second, func() bool { return strings.Count(list(), "wskeeper serve") == 2 })
}

func TestDetachedPauseAndLimits(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), newRoot(t), named(t)
	w := up(t, e, root, o)
	ws := adopt(t, e, o.Name)
	for range 2 {
		if err := w.Pause(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	_, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"true"}, Timeout: 5 * time.Second})
	if !errors.Is(err, workspace.ErrBusy) || !strings.Contains(err.Error(), "wsctl resume "+o.Name) {
		t.Errorf("paused: %v", err)
	}
	for range 2 {
		if err := w.Resume(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Update(t.Context(), e, container.Limits{Memory: 1}); !errors.Is(err, workspace.ErrInvalidArgument) {
		t.Errorf("a byte of memory: %v", err)
	}
	if err := w.Update(t.Context(), e, container.Limits{Memory: 256 << 20, CPUs: 0.5, Pids: 99}); err != nil {
		t.Fatal(err)
	}
	out := exec(t, adopt(t, e, o.Name), "cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null")
	if strings.TrimSpace(string(out.Stdout)) != "99" {
		t.Errorf("the limit is %q", out.Stdout)
	}
}

// A workspace whose time is over is reaped, a fresh home goes with its container,
// and a living one is nobody's to remove.
func TestDetachedEnds(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), newRoot(t), named(t)
	o.FreshHome = true
	w := up(t, e, root, o)
	homes, err := filepath.Glob(filepath.Join(o.CacheDir, "home", "fresh-*"))
	if err != nil || len(homes) != 1 {
		t.Errorf("fresh homes: %v, %v", homes, err)
	}
	exec(t, adopt(t, e, o.Name), "echo x > ~/x")
	short := named(t)
	// Time enough for it to be made before others reap it.
	short.TTL, short.FreshHome, short.CacheDir = 12*time.Second, true, o.CacheDir
	up(t, e, root, short)
	eventually(t, "the one whose time is over is reaped", 40*time.Second, func() bool {
		if _, err := container.Reap(t.Context(), e, o.CacheDir, reaper.Options{}); err != nil {
			t.Fatal(err)
		}
		return len(enginetest.Below(t, root)) == 1
	})
	if left := only(t, root); left.ID != w.ID {
		t.Error("the wrong one is left")
	}
	if left, _ := filepath.Glob(filepath.Join(o.CacheDir, "home", "fresh-*")); !slices.Equal(left, homes) {
		t.Errorf("fresh homes after the reaping: %v, of the living one %v", left, homes)
	}
	if err := w.Remove(t.Context(), e, o.CacheDir); err != nil {
		t.Error(err)
	}
	if homes, _ := filepath.Glob(filepath.Join(o.CacheDir, "home", "fresh-*")); len(homes) != 0 {
		t.Errorf("left of the fresh home: %v", homes)
	}
}

// A workspace whose time is over before it is up, and which others reap therefore, is
// told as that.
func TestDetachedEndsBeforeItIsUp(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), newRoot(t), named(t)
	o.TTL = time.Second
	slow := between(t, func(pass http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			pass.ServeHTTP(w, r)
			if strings.HasSuffix(r.URL.Path, "/containers/create") {
				for len(enginetest.Below(t, root)) > 0 {
					if _, err := container.Reap(context.Background(), e, o.CacheDir, reaper.Options{}); err != nil {
						t.Error(err)
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	})
	d, err := container.New(t.Context(), slow, root, o)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Ready(t.Context()); !errors.Is(err, workspace.ErrUnavailable) || !strings.Contains(err.Error(), "time to live") {
		t.Errorf("got %v", err)
	}
	none(t, root)
}

// Names come from directories, and are told apart.
func TestDefaultName(t *testing.T) {
	for root, want := range map[string]string{
		"/home/u/My App": "my-app", "/srv/..x": "x", "/": "workspace", "/a/\xff\x00": "workspace", "/a/é": "workspace",
		"/a/" + strings.Repeat("x", 100): strings.Repeat("x", 40), "/a/taken": "taken-3",
	} {
		got := container.DefaultName(root, []container.Detached{{Name: "taken"}, {Name: "taken-2"}})
		if got != want || !container.ValidName(got) {
			t.Errorf("%q: %q, want %q", root, got, want)
		}
	}
	for _, bad := range []string{"", "-a", "A", "a b", "a/b", "é", strings.Repeat("x", 49), "a\n"} {
		if container.ValidName(bad) {
			t.Errorf("%q is no name", bad)
		}
	}
}

// An engine whose removal of a container has met a late event of it goes on listing
// it, without its names. It is gone all the same.
func TestShadowOfARemovedContainerIsNone(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), newRoot(t), named(t)
	d := up(t, e, root, o)
	shadowed := between(t, func(pass http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/containers/json") && strings.Contains(r.URL.RawQuery, d.ID) {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `[{"Id":"`+d.ID+`","Names":[],"State":"removing"}]`)
				return
			}
			pass.ServeHTTP(w, r)
		})
	})
	begun := time.Now()
	if err := d.Remove(t.Context(), shadowed, o.CacheDir); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
}
