//go:build linux

package orchestrator_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/workspace"
)

// containerConfig is a server of small containers. prefix is set once it has
// been opened.
func containerConfig(t *testing.T, change ...func(*orchestrator.Config)) (c orchestrator.Config, prefix *string) {
	t.Helper()
	cli := enginetest.Client(t)
	e, err := container.Connect(t.Context(), container.EngineOptions{Host: cli.DaemonHost(), CertDir: os.Getenv("DOCKER_CERT_PATH")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	dir := enginetest.Dir(t)
	prefix = new(string)
	c = orchestrator.Config{
		Dir: filepath.Join(dir, "server"),
		Backends: func(p string) map[string]orchestrator.Backend {
			*prefix = p
			return map[string]orchestrator.Backend{orchestrator.DriverContainer: orchestrator.ContainerBackend{
				Engine: e, Prefix: p,
				Options: container.Options{Image: enginetest.BusyBox(t), CacheDir: filepath.Join(dir, "cache"), Keeper: enginetest.Keeper(t), Version: "test"},
			}}
		},
		Limits: orchestrator.Limits{Memory: 64 << 20, CPUs: 1, Pids: 64},
		Sweep:  50 * time.Millisecond,
	}
	for _, f := range change {
		f(&c)
	}
	t.Cleanup(func() {
		// Whatever the test did, no container of it stays.
		o, err := orchestrator.Open(t.Context(), c)
		if errors.Is(err, workspace.ErrBusy) {
			t.Error("the test has not closed its server")
		}
		if err != nil {
			return
		}
		for _, w := range o.List() {
			_ = o.Remove(t.Context(), w.ID)
		}
		_ = o.Close()
		removeAll(t, e, *prefix)
	})
	return c, prefix
}

// containers lists those on the engine that have the prefix.
func containers(t *testing.T, e *container.Engine, prefix string) []container.Detached {
	t.Helper()
	all, err := container.ListDetached(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	var list []container.Detached
	for _, d := range all {
		if strings.HasPrefix(d.Name, prefix) {
			list = append(list, d)
		}
	}
	return list
}

func removeAll(t *testing.T, e *container.Engine, prefix string) {
	t.Helper()
	all, err := container.ListDetached(t.Context(), e)
	if err != nil {
		t.Error(err)
	}
	for _, d := range all {
		if prefix != "" && strings.HasPrefix(d.Name, prefix) {
			if err := d.Remove(t.Context(), e, ""); err != nil {
				t.Error(err)
			}
		}
	}
}

func engineOf(t *testing.T) *container.Engine {
	t.Helper()
	e, err := container.Connect(t.Context(), container.EngineOptions{Host: enginetest.Client(t).DaemonHost(), CertDir: os.Getenv("DOCKER_CERT_PATH")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// A workspace's container outlives the server, with what runs in it, and the
// next one takes it over; removing removes container and root.
func TestContainerOutlivesServer(t *testing.T) {
	c, prefix := containerConfig(t)
	e := engineOf(t)
	o := open(t, c)
	w := create(t, o, orchestrator.Spec{Name: "kept"})
	run(t, o, "kept", "echo in the layer > /tmp/layer; id -u > uid")
	first := containers(t, e, *prefix)
	if len(first) != 1 || first[0].State != "running" {
		t.Fatalf("got %+v", first)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	o = open(t, c)
	if out := run(t, o, "kept", "cat /tmp/layer"); string(out.Stdout) != "in the layer\n" || out.Recreated != "" {
		t.Errorf("got %q, recreated: %s", out.Stdout, out.Recreated)
	}
	if again := containers(t, e, *prefix); len(again) != 1 || again[0].ID != first[0].ID {
		t.Errorf("got %+v, had %+v", again, first)
	}
	if os.Geteuid() == 0 {
		if out := run(t, o, "kept", "cat uid"); string(out.Stdout) != "65534\n" {
			t.Errorf("commands run as %q", out.Stdout)
		}
	}
	if err := o.Remove(t.Context(), "kept"); err != nil {
		t.Fatal(err)
	}
	if left := containers(t, e, *prefix); len(left) != 0 {
		t.Errorf("left: %+v", left)
	}
	if _, err := os.Stat(w.Root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the root: %v", err)
	}
}

// Pausing stops processes and answers BUSY; stopping removes the container and
// leaves the root; limits change while it runs.
func TestContainerStates(t *testing.T) {
	c, prefix := containerConfig(t)
	e := engineOf(t)
	o := open(t, c)
	create(t, o, orchestrator.Spec{Name: "w"})
	run(t, o, "w", "echo kept > f")
	if err := o.Pause(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	ws, done, err := o.Open(t.Context(), "w")
	if err != nil {
		t.Fatal(err)
	}
	_, err = ws.Exec(t.Context(), workspace.Command{Shell: "true"})
	wantCode(t, "a command in a paused workspace", err, workspace.ErrBusy)
	if b, err := ws.ReadFile(t.Context(), "f", 0); err != nil || string(b) != "kept\n" {
		t.Errorf("files while it is paused: %q, %v", b, err)
	}
	done()
	if err := o.Resume(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	run(t, o, "w", "true")
	got, err := o.Update(t.Context(), "w", orchestrator.Change{Limits: &orchestrator.Limits{Memory: 96 << 20}})
	if err != nil || got.Limits != (orchestrator.Limits{Memory: 96 << 20, CPUs: 1, Pids: 64}) {
		t.Errorf("got %+v, %v", got.Limits, err)
	}
	if out := run(t, o, "w", "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>/dev/null; cat f"); string(out.Stdout) != "100663296\nkept\n" {
		t.Errorf("got %q %q", out.Stdout, out.Recreated)
	}
	if err := o.Stop(t.Context(), "w"); err != nil {
		t.Fatal(err)
	}
	if left := containers(t, e, *prefix); len(left) != 0 {
		t.Errorf("stopped, and there is %+v", left)
	}
	if out := run(t, o, "w", "cat f"); string(out.Stdout) != "kept\n" {
		t.Errorf("after a start: %q", out.Stdout)
	}
}

// pooled waits until so many wait in the pool.
func pooled(t *testing.T, o *orchestrator.Orchestrator, n int) {
	t.Helper()
	want := fmt.Sprintf("\nwsctl_pooled %d\n", n)
	deadline := time.Now().Add(30 * time.Second)
	for {
		r := httptest.NewRecorder()
		o.Metrics().ServeHTTP(r, httptest.NewRequest("GET", "/metrics", nil))
		if strings.Contains(r.Body.String(), want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the pool has not %d", n)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// The pool hands out what is ready, each once, verified, and fills itself again.
func TestPool(t *testing.T) {
	c, prefix := containerConfig(t, func(c *orchestrator.Config) { c.Pool = 1 })
	e := engineOf(t)
	o := open(t, c)
	await := func(n int) []container.Detached {
		t.Helper()
		deadline := time.Now().Add(30 * time.Second)
		for {
			list := containers(t, e, *prefix)
			if len(list) == n && list[n-1].State == "running" {
				return list
			}
			if time.Now().After(deadline) {
				t.Fatalf("got %+v, want %d", list, n)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	ready := await(1)
	if list := o.List(); len(list) != 0 {
		t.Errorf("the pool is listed: %+v", list)
	}
	pooled(t, o, 1)
	w := create(t, o, orchestrator.Spec{Name: "claimed", Labels: map[string]string{"a": "b"}})
	if !strings.HasSuffix(ready[0].Name, w.ID) || w.Labels["a"] != "b" {
		t.Errorf("got %+v, the pool had %s", w, ready[0].Name)
	}
	if out := run(t, o, "claimed", "ls -A; echo $HOME"); !strings.HasPrefix(string(out.Stdout), ".wsctl\n") && !strings.HasPrefix(string(out.Stdout), "/") {
		t.Errorf("the root is not empty: %q", out.Stdout)
	}
	await(2)
	pooled(t, o, 1)
	// One that was tampered with, or has died, is not handed out.
	for _, d := range containers(t, e, *prefix) {
		if !strings.HasSuffix(d.Name, w.ID) {
			if err := d.Remove(t.Context(), e, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	create(t, o, orchestrator.Spec{Name: "other"})
	if out := run(t, o, "other", "echo ok"); string(out.Stdout) != "ok\n" {
		t.Errorf("got %q", out.Stdout)
	}
	_, err := o.Create(t.Context(), orchestrator.Spec{Name: "other"})
	wantCode(t, "a taken name", err, workspace.ErrExists)
	// A server that is to have none ready gives up what waits.
	pooled(t, o, 1)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	c.Pool = 0
	o = open(t, c)
	pooled(t, o, 0)
	await(2)
}

// What a server that was killed left half done is gone with the next start: a
// container without a workspace, and a workspace without an acknowledgement.
func TestContainerLeaks(t *testing.T) {
	c, prefix := containerConfig(t)
	e := engineOf(t)
	o := open(t, c)
	w := create(t, o, orchestrator.Spec{Name: "a"})
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	stray := filepath.Join(c.Dir, "roots", "stray")
	if err := os.Mkdir(stray, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(stray, 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	b := c.Backends(*prefix)[orchestrator.DriverContainer]
	d, err := b.Open(t.Context(), orchestrator.Workspace{ID: "stray", Root: stray})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if list := containers(t, e, *prefix); len(list) != 2 {
		t.Fatalf("got %+v", list)
	}
	o = open(t, c)
	list := containers(t, e, *prefix)
	if len(list) != 1 || !strings.HasSuffix(list[0].Name, w.ID) {
		t.Errorf("got %+v, want that of %s alone", list, w.ID)
	}
	if _, err := os.Stat(stray); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the stray root: %v", err)
	}
	run(t, o, "a", "true")
}

// A git bundle is cloned inside the sandbox: with a git that is there, and not
// where there is none.
func TestContainerFromBundle(t *testing.T) {
	bundle := bundleOf(t)
	// The programs of this machine, git among them.
	c, _ := containerConfig(t, func(c *orchestrator.Config) {
		backends := c.Backends
		c.Backends = func(p string) map[string]orchestrator.Backend {
			b := backends(p)[orchestrator.DriverContainer].(orchestrator.ContainerBackend)
			b.Options.Image = ""
			return map[string]orchestrator.Backend{orchestrator.DriverContainer: b}
		}
	})
	o := open(t, c)
	u, err := o.Upload(t.Context(), bytes.NewReader(bundle))
	if err != nil {
		t.Fatal(err)
	}
	s := orchestrator.Spec{Name: "repo", Lazy: true, Source: orchestrator.Source{Bundle: u.ID}}
	create(t, o, s)
	if out := run(t, o, "repo", "cat f; git status --porcelain; git log --format=%s; ls /tmp"); string(out.Stdout) != "one\ntwo\none\n" {
		t.Errorf("got %q %q", out.Stdout, out.Stderr)
	}
	s = orchestrator.Spec{Name: "bare", Image: enginetest.BusyBox(t), Source: s.Source}
	_, err = o.Create(t.Context(), s)
	wantCode(t, "without git", err, workspace.ErrUnsupported)
	onlyRoots(t, o, c)
}
