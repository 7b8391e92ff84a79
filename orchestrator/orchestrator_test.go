//go:build linux

package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/workspace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hostConfig is a server of workspaces of this machine in a directory of the
// test's own.
func hostConfig(t testing.TB, change ...func(*orchestrator.Config)) orchestrator.Config {
	t.Helper()
	c := orchestrator.Config{
		Dir: filepath.Join(t.TempDir(), "server"),
		Backends: func(string) map[string]orchestrator.Backend {
			return map[string]orchestrator.Backend{orchestrator.DriverHost: orchestrator.HostBackend{Options: host.Options{Env: []string{"PATH=" + os.Getenv("PATH")}}}}
		},
		Sweep: 20 * time.Millisecond,
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func open(t testing.TB, c orchestrator.Config) *orchestrator.Orchestrator {
	t.Helper()
	o, err := orchestrator.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// hostSpec is a workspace of this machine.
func hostSpec(name string) orchestrator.Spec {
	return orchestrator.Spec{Name: name, Driver: orchestrator.DriverHost}
}

func create(t *testing.T, o *orchestrator.Orchestrator, s orchestrator.Spec) orchestrator.Workspace {
	t.Helper()
	w, err := o.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// run runs a shell line in a workspace.
func run(t *testing.T, o *orchestrator.Orchestrator, ref, line string) *workspace.Output {
	t.Helper()
	ws, done, err := o.Open(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	out, err := ws.Exec(t.Context(), workspace.Command{Shell: line})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantCode(t *testing.T, what string, err error, code workspace.Code) {
	t.Helper()
	if !errors.Is(err, code) {
		t.Errorf("%s: got %v, want %s", what, err, code)
	}
}

// A workspace is found by id and by name, used, listed and removed with its
// root.
func TestLife(t *testing.T) {
	o := open(t, hostConfig(t))
	s := hostSpec("one")
	s.Labels = map[string]string{"team": "a"}
	w := create(t, o, s)
	if w.State != orchestrator.Ready || w.Name != "one" || w.Labels["team"] != "a" {
		t.Errorf("got %+v", w)
	}
	if out := run(t, o, "one", "echo x > file; cat file"); string(out.Stdout) != "x\n" {
		t.Errorf("got %q %q", out.Stdout, out.Stderr)
	}
	if b, err := os.ReadFile(filepath.Join(w.Root, "file")); err != nil || string(b) != "x\n" {
		t.Errorf("on the host: %q, %v", b, err)
	}
	for _, ref := range []string{"one", w.ID} {
		if got, err := o.Get(ref); err != nil || got.ID != w.ID {
			t.Errorf("%s: %+v, %v", ref, got, err)
		}
	}
	_, err := o.Create(t.Context(), hostSpec("one"))
	wantCode(t, "the same name", err, workspace.ErrExists)
	_, err = o.Create(t.Context(), hostSpec(w.ID))
	wantCode(t, "the id of another as a name", err, workspace.ErrExists)
	if list := o.List(); len(list) != 1 {
		t.Errorf("listed: %+v", list)
	}
	if err := o.Remove(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(w.Root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the root: %v", err)
	}
	_, err = o.Get("one")
	wantCode(t, "get", err, workspace.ErrNotFound)
	wantCode(t, "remove again", o.Remove(t.Context(), "one"), workspace.ErrNotFound)
	_, _, err = o.Open(t.Context(), w.ID)
	wantCode(t, "open", err, workspace.ErrNotFound)
	if w := create(t, o, hostSpec("one")); w.Name != "one" {
		t.Error("the name is not free again")
	}
}

// A directory that was there is used only where that is allowed, through no
// link that leads elsewhere, and is never removed.
func TestExistingDirectory(t *testing.T) {
	base := t.TempDir()
	mine, other := filepath.Join(base, "mine"), filepath.Join(base, "mine-not")
	for _, dir := range []string{filepath.Join(mine, "a"), other} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(other, filepath.Join(mine, "out")); err != nil {
		t.Fatal(err)
	}
	o := open(t, hostConfig(t, func(c *orchestrator.Config) { c.Directories = []string{mine} }))
	for dir, code := range map[string]workspace.Code{
		other: workspace.ErrOutside, filepath.Join(mine, "out"): workspace.ErrOutside, mine + "/../mine-not": workspace.ErrOutside,
		"/etc": workspace.ErrOutside, "/nothing-here": workspace.ErrOutside, filepath.Join(mine, "gone"): workspace.ErrNotFound, "a": workspace.ErrInvalidArgument,
	} {
		s := hostSpec("")
		s.Source.Directory = dir
		_, err := o.Create(t.Context(), s)
		wantCode(t, dir, err, code)
	}
	s := hostSpec("a")
	s.Source.Directory = filepath.Join(mine, "a")
	create(t, o, s)
	run(t, o, "a", "echo x > f")
	if err := o.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(mine, "a/f")); err != nil || string(b) != "x\n" {
		t.Errorf("the directory lost its file: %v", err)
	}
	if list := o.List(); len(list) != 0 {
		t.Errorf("what failed is listed: %+v", list)
	}
}

// A template is copied, links as links; a name cannot leave the templates.
func TestTemplate(t *testing.T) {
	templates := t.TempDir()
	if err := os.MkdirAll(filepath.Join(templates, "go/sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(templates, "go/sub/run.sh"), []byte("#!/bin/sh\necho ran\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("sub/run.sh", filepath.Join(templates, "go/link")); err != nil {
		t.Fatal(err)
	}
	o := open(t, hostConfig(t, func(c *orchestrator.Config) { c.Templates = templates }))
	s := hostSpec("t")
	s.Source.Template = "go"
	create(t, o, s)
	if out := run(t, o, "t", "./link; readlink link"); string(out.Stdout) != "ran\nsub/run.sh\n" {
		t.Errorf("got %q %q", out.Stdout, out.Stderr)
	}
	for _, name := range []string{"..", "../server", "none", "go/sub", ".hidden"} {
		s := hostSpec("")
		s.Source.Template = name
		if _, err := o.Create(t.Context(), s); !errors.Is(err, workspace.ErrNotFound) && !errors.Is(err, workspace.ErrInvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What makes no sense is refused with what to do, and nothing is made.
func TestBadSpecs(t *testing.T) {
	o := open(t, hostConfig(t))
	many := map[string]string{}
	for i := range 65 {
		many[fmt.Sprint(i)] = ""
	}
	for what, change := range map[string]func(*orchestrator.Spec){
		"upper case": func(s *orchestrator.Spec) { s.Name = "A" }, "slash": func(s *orchestrator.Spec) { s.Name = "a/b" }, "dot": func(s *orchestrator.Spec) { s.Name = ".a" },
		"long": func(s *orchestrator.Spec) { s.Name = strings.Repeat("a", 64) }, "space": func(s *orchestrator.Spec) { s.Name = "pool x" },
		"memory": func(s *orchestrator.Spec) { s.Limits.Memory = -1 }, "ttl": func(s *orchestrator.Spec) { s.TTL = -1 }, "labels": func(s *orchestrator.Spec) { s.Labels = many },
		"limits of host": func(s *orchestrator.Spec) { s.Limits.CPUs = 1 }, "driver": func(s *orchestrator.Spec) { s.Driver = "vm" },
		"two sources":     func(s *orchestrator.Spec) { s.Source = orchestrator.Source{Directory: "/a", Template: "b"} },
		"half a snapshot": func(s *orchestrator.Spec) { s.Source.Snapshot = "latest" },
	} {
		s := hostSpec("ok")
		change(&s)
		_, err := o.Create(t.Context(), s)
		wantCode(t, what, err, workspace.ErrInvalidArgument)
	}
	_, err := o.Create(t.Context(), orchestrator.Spec{})
	wantCode(t, "no such back end", err, workspace.ErrUnsupported)
	s := hostSpec("x")
	s.Source.Workspace, s.Source.Snapshot = "none", "latest"
	_, err = o.Create(t.Context(), s)
	wantCode(t, "a snapshot of nothing", err, workspace.ErrNotFound)
	if len(o.List()) != 0 {
		t.Errorf("listed: %+v", o.List())
	}
}

// Names and labels change, and what others have is refused.
func TestUpdate(t *testing.T) {
	o := open(t, hostConfig(t))
	w := create(t, o, hostSpec("a"))
	create(t, o, hostSpec("b"))
	name, idle := "c", time.Hour
	got, err := o.Update(t.Context(), "a", orchestrator.Change{Name: &name, IdleTTL: &idle, Labels: map[string]string{"k": "v", "gone": ""}})
	if err != nil || got.Name != "c" || got.IdleTTL != idle || got.Labels["k"] != "v" || len(got.Labels) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := o.Get("a"); !errors.Is(err, workspace.ErrNotFound) {
		t.Errorf("the old name: %v", err)
	}
	taken := "b"
	_, err = o.Update(t.Context(), w.ID, orchestrator.Change{Name: &taken})
	wantCode(t, "a name that is taken", err, workspace.ErrExists)
	create(t, o, hostSpec("a"))
	wantCode(t, "pause", o.Pause(t.Context(), "b"), workspace.ErrUnsupported)
}

// Looking at a workspace does not keep it from being idle; a command and a
// change do. A stopped one starts again with the next command.
func TestIdle(t *testing.T) {
	o := open(t, hostConfig(t))
	s := hostSpec("idle")
	s.IdleTTL = 400 * time.Millisecond
	create(t, o, s)
	used := hostSpec("used")
	used.IdleTTL = s.IdleTTL
	create(t, o, used)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		w, err := o.Get("idle")
		if err != nil {
			t.Fatal(err)
		}
		o.List()
		ws, done, err := o.Open(t.Context(), "idle")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = ws.Stat(t.Context(), ".")
		done()
		run(t, o, "used", "true")
		if w.State == orchestrator.Stopped {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("it is not stopped")
		}
	}
	if w, _ := o.Get("used"); w.State != orchestrator.Ready {
		t.Errorf("the used one is %s", w.State)
	}
	run(t, o, "idle", "true")
	if w, _ := o.Get("idle"); w.State != orchestrator.Ready {
		t.Errorf("after a command it is %s", w.State)
	}
}

// A time to live removes, also what is in use.
func TestTimeToLive(t *testing.T) {
	o := open(t, hostConfig(t))
	s := hostSpec("short")
	s.TTL = 300 * time.Millisecond
	w := create(t, o, s)
	ws, done, err := o.Open(t.Context(), "short")
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	_, err = ws.Exec(t.Context(), workspace.Command{Shell: "sleep 60"})
	wantCode(t, "the command", err, workspace.ErrDisposed)
	deadline := time.Now().Add(5 * time.Second)
	for {
		if _, err := os.Stat(w.Root); errors.Is(err, os.ErrNotExist) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the root is still there")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// There is room for so many and no more: further commands wait in turn, and
// then are TOO_MANY; one that fits in goes on once another is stopped.
func TestBudget(t *testing.T) {
	o := open(t, hostConfig(t, func(c *orchestrator.Config) {
		c.Budget = orchestrator.Budget{Workspaces: 3, Running: 1, Wait: 300 * time.Millisecond}
	}))
	a := hostSpec("a")
	create(t, o, a)
	b := hostSpec("b")
	b.Lazy = true
	create(t, o, b)
	ws, done, err := o.Open(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	began := time.Now()
	_, err = ws.Exec(t.Context(), workspace.Command{Shell: "true"})
	wantCode(t, "no room", err, workspace.ErrTooMany)
	if waited := time.Since(began); waited < 250*time.Millisecond {
		t.Errorf("it waited %v", waited)
	}
	time.AfterFunc(100*time.Millisecond, func() { _ = o.Stop(context.Background(), "a") })
	if _, err := ws.Exec(t.Context(), workspace.Command{Shell: "true"}); err != nil {
		t.Errorf("once there is room: %v", err)
	}
	c := hostSpec("c")
	c.Lazy = true
	create(t, o, c)
	_, err = o.Create(t.Context(), hostSpec("d"))
	wantCode(t, "one too many", err, workspace.ErrTooMany)
}

// Whoever comes next finds what was acknowledged, and nothing else; a directory
// has one server.
func TestNextServer(t *testing.T) {
	c := hostConfig(t)
	o := open(t, c)
	w := create(t, o, hostSpec("a"))
	run(t, o, "a", "echo x > f")
	_, err := orchestrator.Open(t.Context(), c)
	wantCode(t, "a second server", err, workspace.ErrBusy)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	// Left by one that died: a root that nobody has.
	stray := filepath.Join(c.Dir, "roots", "stray")
	if err := os.MkdirAll(filepath.Join(stray, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	o = open(t, c)
	got, err := o.Get("a")
	if err != nil || got.ID != w.ID || got.Root != w.Root || !got.Created.Equal(w.Created) {
		t.Errorf("got %+v, want %+v, %v", got, w, err)
	}
	if out := run(t, o, "a", "cat f"); string(out.Stdout) != "x\n" {
		t.Errorf("got %q", out.Stdout)
	}
	if _, err := os.Stat(stray); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what nobody has is still there: %v", err)
	}
	_, _, err = o.Open(t.Context(), "stray")
	wantCode(t, "the stray", err, workspace.ErrNotFound)
}

// Many at once, with as many names: one winner a name, and what is listed in
// the end is what was acknowledged.
func TestManyAtOnce(t *testing.T) {
	o := open(t, hostConfig(t))
	var mu sync.Mutex
	won := map[string]string{}
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			name := fmt.Sprint("n", i%10)
			w, err := o.Create(context.Background(), hostSpec(name))
			if err != nil {
				if !errors.Is(err, workspace.ErrExists) {
					t.Errorf("%s: %v", name, err)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if won[name] != "" {
				t.Errorf("%s was made twice", name)
			}
			won[name] = w.ID
		}()
	}
	wg.Wait()
	list := o.List()
	if len(list) != 10 || len(won) != 10 {
		t.Fatalf("%d listed, %d acknowledged", len(list), len(won))
	}
	for _, w := range list {
		if won[w.Name] != w.ID {
			t.Errorf("%s is %s, was acknowledged as %s", w.Name, w.ID, won[w.Name])
		}
		wg.Add(1)
		go func() {
			defer wg.Done()
			if err := o.Remove(context.Background(), w.ID); err != nil {
				t.Errorf("%s: %v", w.Name, err)
			}
		}()
	}
	wg.Wait()
	if list := o.List(); len(list) != 0 {
		t.Errorf("left: %+v", list)
	}
}

// Events come in order, and a reader that waits gets the next one.
func TestEvents(t *testing.T) {
	o := open(t, hostConfig(t))
	got := make(chan []orchestrator.Event, 1)
	go func() {
		list, _ := o.Events(context.Background(), 0)
		got <- list
	}()
	create(t, o, hostSpec("a"))
	if list := <-got; len(list) != 1 || list[0].Type != "created" || list[0].Name != "a" {
		t.Errorf("got %+v", list)
	}
	if err := o.Stop(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := o.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	list, err := o.Events(t.Context(), 1)
	if err != nil || len(list) != 2 || list[0].Type != "stopped" || list[1].Type != "removed" || list[1].Seq != 3 {
		t.Errorf("got %+v, %v", list, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if list, err := o.Events(ctx, 3); err != nil || list != nil {
		t.Errorf("with nothing new: %+v, %v", list, err)
	}
}
