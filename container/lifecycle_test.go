//go:build unix

package container_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	dockertypes "github.com/docker/docker/api/types/container"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

// connect is an engine for a test.
func connect(t testing.TB) *container.Engine {
	t.Helper()
	cli := enginetest.Client(t)
	e, err := container.Connect(t.Context(), container.EngineOptions{Host: cli.DaemonHost(), CertDir: os.Getenv("DOCKER_CERT_PATH")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// newRoot is a directory for a workspace.
func newRoot(t testing.TB) string {
	t.Helper()
	root := filepath.Join(enginetest.Dir(t), "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

// options are those of a small container with a keeper.
func options(t testing.TB) container.Options {
	t.Helper()
	return container.Options{
		Image: enginetest.BusyBox(t), CacheDir: filepath.Join(enginetest.Dir(t), "cache"),
		Keeper: enginetest.Keeper(t), Version: "test",
	}
}

// open is a driver that is closed when the test ends.
func open(t testing.TB, e *container.Engine, root string, o container.Options) *container.Driver {
	t.Helper()
	d, err := container.New(t.Context(), e, root, o)
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

// ready starts the driver within a time that a slow machine needs.
func ready(t testing.TB, d *container.Driver) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.Ready(ctx); err != nil {
		t.Fatal(err)
	}
}

// only is the one container over root.
func only(t testing.TB, root string) enginetest.Left {
	t.Helper()
	left := enginetest.Below(t, root)
	if len(left) != 1 {
		t.Fatalf("containers over the root: %v", left)
	}
	return left[0]
}

// none fails the test when a container over root is there.
func none(t testing.TB, root string) {
	t.Helper()
	if left := enginetest.Below(t, root); len(left) != 0 {
		t.Errorf("containers over the root: %v", left)
	}
}

// eventually polls until cond holds.
func eventually(t testing.TB, what string, within time.Duration, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !cond(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// exec runs a shell line and returns its output.
func exec(t testing.TB, w *workspace.Workspace, line string) *workspace.Output {
	t.Helper()
	out, err := w.Exec(t.Context(), workspace.Command{Shell: line, Timeout: time.Minute})
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return out
}

// openWorkspace is a workspace over a driver of its own.
func openWorkspace(t testing.TB, e *container.Engine, root string, o container.Options) *workspace.Workspace {
	t.Helper()
	d, err := container.New(t.Context(), e, root, o)
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

// Nothing is made before the first command, one container then, and
// afterwards the root holds nothing new but the state.
func TestOneContainerFromReadyToClose(t *testing.T) {
	t.Parallel()
	e, root := connect(t), newRoot(t)
	if err := os.WriteFile(filepath.Join(root, "kept"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := container.New(t.Context(), e, root, options(t))
	if err != nil {
		t.Fatal(err)
	}
	none(t, root)
	ready(t, d)
	first := only(t, root)
	ready(t, d)
	if again := only(t, root); again.ID != first.ID || again.State != "running" {
		t.Errorf("%v, then %v", first, again)
	}
	if got := d.Descriptor(); got.Kind != workspace.KindContainer || got.Root != "/workspace" || got.Ref == "" {
		t.Errorf("descriptor %+v", got)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	none(t, root)
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 2 || entries[0].Name() != ".wsctl" || entries[1].Name() != "kept" {
		t.Errorf("the root holds %v, %v", entries, err)
	}
}

// However many first calls, there is one container.
func TestManyFirstCallsMakeOneContainer(t *testing.T) {
	t.Parallel()
	e, root := connect(t), newRoot(t)
	w := openWorkspace(t, e, root, options(t))
	var calls sync.WaitGroup
	for range 16 {
		calls.Go(func() {
			out, err := w.Exec(t.Context(), workspace.Command{Shell: "echo $HOSTNAME; hostname"})
			if err != nil || !strings.Contains(string(out.Stdout), "wsctl") {
				t.Errorf("%+v, %v", out, err)
			}
		})
	}
	calls.Wait()
	only(t, root)
}

// Whenever the caller gives up, nothing is left half made.
func TestNothingIsLeftOfAnAbortedStart(t *testing.T) {
	t.Parallel()
	e := connect(t)
	o := options(t)
	aborted := 0
	for i := range 6 {
		root := newRoot(t)
		d := open(t, e, root, o)
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*60*time.Millisecond)
		err := d.Ready(ctx)
		cancel()
		switch {
		case err == nil:
			only(t, root)
		case workspace.CodeOf(err) != workspace.ErrAborted:
			t.Errorf("round %d: %v", i, err)
		default:
			aborted++
			none(t, root)
			ready(t, d) // the next call tries again
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		none(t, root)
	}
	if aborted == 0 {
		t.Error("no start was aborted")
	}
}

// A start that the engine refuses leaves nothing either.
func TestNothingIsLeftOfAFailedStart(t *testing.T) {
	t.Parallel()
	e := connect(t)
	for name, change := range map[string]func(*container.Options){
		"impossible CPU count": func(o *container.Options) { o.CPUs = 100000 },
		"no such network":      func(o *container.Options) { o.Network = "wsctl-no-such-network" },
		"no such runtime":      func(o *container.Options) { o.Runtime = "wsctl-no-such-runtime" },
	} {
		root := newRoot(t)
		o := options(t)
		change(&o)
		err := open(t, e, root, o).Ready(t.Context())
		if workspace.CodeOf(err) != workspace.ErrUnavailable {
			t.Errorf("%s: %v", name, err)
		}
		none(t, root)
	}
}

// That somebody else removes the container meanwhile is no failure.
func TestCloseWhileSomebodyElseRemoves(t *testing.T) {
	t.Parallel()
	e, cli := connect(t), enginetest.Client(t)
	for range 3 {
		root := newRoot(t)
		d, err := container.New(t.Context(), e, root, options(t))
		if err != nil {
			t.Fatal(err)
		}
		ready(t, d)
		id := only(t, root).ID
		var removal sync.WaitGroup
		removal.Go(func() { _ = cli.ContainerRemove(t.Context(), id, dockertypes.RemoveOptions{Force: true}) })
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		none(t, root)
		removal.Wait()
	}
}

// A container can be made as soon as the one before is gone.
func TestStartsRightAfterClose(t *testing.T) {
	t.Parallel()
	e, root := connect(t), newRoot(t)
	o := options(t)
	for range enginetest.Rounds(50) {
		d, err := container.New(t.Context(), e, root, o)
		if err != nil {
			t.Fatal(err)
		}
		ready(t, d)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	none(t, root)
}

// An engine that is to stop a container does not wait for it: PID 1 takes no signal.
func TestStopDoesNotWait(t *testing.T) {
	t.Parallel()
	e, cli := connect(t), enginetest.Client(t)
	for name, keeper := range map[string]bool{"keeper": true, "shell": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, o := newRoot(t), options(t)
			if !keeper {
				o.Keeper = ""
			}
			ready(t, open(t, e, root, o))
			begun := time.Now()
			if err := cli.ContainerStop(t.Context(), only(t, root).ID, dockertypes.StopOptions{}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > 8*time.Second {
				t.Errorf("stopped after %v", took)
			}
		})
	}
}

// A root that is moved away while it is mounted is noticed.
func TestMovedRootIsNoticed(t *testing.T) {
	t.Parallel()
	e, root := connect(t), newRoot(t)
	w := openWorkspace(t, e, root, options(t))
	exec(t, w, "true")
	if err := os.Rename(root, root+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := w.Exec(t.Context(), workspace.Command{Shell: "touch split"})
	if workspace.CodeOf(err) != workspace.ErrConflict {
		t.Errorf("got %v", err)
	}
	for _, dir := range []string{root, root + ".old"} {
		if _, err := os.Stat(filepath.Join(dir, "split")); err == nil {
			t.Errorf("the command ran in %s", dir)
		}
	}
}

// A missing root is an error, and nobody makes it.
func TestMissingRootIsNotMade(t *testing.T) {
	t.Parallel()
	e, root := connect(t), newRoot(t)
	if _, err := container.New(t.Context(), e, root+"-none", options(t)); workspace.CodeOf(err) != workspace.ErrNotFound {
		t.Errorf("got %v", err)
	}
	d := open(t, e, root, options(t))
	if err := os.Remove(root); err != nil {
		t.Fatal(err)
	}
	if err := d.Ready(t.Context()); workspace.CodeOf(err) != workspace.ErrNotFound {
		t.Errorf("got %v", err)
	}
	for _, dir := range []string{root, root + "-none"} {
		if _, err := os.Lstat(dir); !os.IsNotExist(err) {
			t.Errorf("%s was made: %v", dir, err)
		}
	}
}

// An image without a shell is told as what it is.
func TestImageWithoutShell(t *testing.T) {
	t.Parallel()
	e := connect(t)
	for _, keeper := range []string{enginetest.Keeper(t), ""} {
		root := newRoot(t)
		o := options(t)
		o.Image, o.Keeper = enginetest.NoShell(t), keeper
		err := open(t, e, root, o).Ready(t.Context())
		if workspace.CodeOf(err) != workspace.ErrUnavailable || !strings.Contains(err.Error(), " sh") {
			t.Errorf("with keeper %q: %v", keeper, err)
		}
		none(t, root)
	}
}

// Where no keeper can be mounted a shell keeps the container, as confined.
func TestShellAsKeeper(t *testing.T) {
	t.Parallel()
	e, root := connect(t), newRoot(t)
	o := options(t)
	o.Keeper = ""
	d := open(t, e, root, o)
	ready(t, d)
	ready(t, d)
	only(t, root)
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	e, root := connect(t), newRoot(t)
	for name, o := range map[string]container.Options{
		"memory":  {Memory: 1000},
		"cpus":    {CPUs: -1},
		"pids":    {Pids: 1},
		"network": {Network: "host"},
	} {
		if _, err := container.New(t.Context(), e, root, o); workspace.CodeOf(err) != workspace.ErrInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}
