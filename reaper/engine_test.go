package reaper_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/reaper"
	"github.com/wsctl/wsctl/workspace"
)

// Other processes on this machine may reap at any time, so these tests look at
// what is left and never at who removed it.

// ownerVariable makes this test binary an owner process (see owner).
const ownerVariable = "WSCTL_TEST_REAPER_OWNER"

func TestMain(m *testing.M) {
	if img := os.Getenv(ownerVariable); img != "" {
		os.Exit(owner(img))
	}
	os.Exit(m.Run())
}

// only is the engine with none but the containers of one test: what other
// programs left on this machine is not this test's to remove.
type only struct {
	reaper.Engine
	root string
}

func (o only) ContainerList(ctx context.Context, opt container.ListOptions) ([]container.Summary, error) {
	all, err := o.Engine.ContainerList(ctx, opt)
	var found []container.Summary
	for _, c := range all {
		if strings.HasPrefix(c.Labels["wsctl.root"], o.root+"/") {
			found = append(found, c)
		}
	}
	return found, err
}

// create makes a container of t under its name. It sleeps once started.
func create(ctx context.Context, e *client.Client, img string, t reaper.Tag, name string, extra map[string]string) (string, error) {
	labels := t.Labels()
	maps.Copy(labels, extra)
	c, err := e.ContainerCreate(ctx,
		&container.Config{Image: img, Cmd: []string{"/bin/sleep", "600"}, Labels: labels},
		&container.HostConfig{NetworkMode: "none", LogConfig: container.LogConfig{Type: "none"}}, nil, nil, name)
	return c.ID, err
}

// put makes a container of its in the given state, removed when the test ends.
func put(t *testing.T, e *client.Client, img string, its reaper.Tag, name, state string) string {
	t.Helper()
	id, err := create(t.Context(), e, img, its, name, enginetest.Labels())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = e.ContainerRemove(ctx, id, container.RemoveOptions{Force: true})
	})
	steps := map[string][]func() error{}
	start := func() error { return e.ContainerStart(t.Context(), id, container.StartOptions{}) }
	steps["running"] = []func() error{start}
	steps["paused"] = []func() error{start, func() error { return e.ContainerPause(t.Context(), id) }}
	steps["exited"] = []func() error{start, func() error { return e.ContainerKill(t.Context(), id, "KILL") }}
	for _, step := range steps[state] {
		if err := step(); err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
			// Another process may reap an orphan as soon as it is there.
			if c, lookErr := e.ContainerInspect(t.Context(), id); lookErr == nil && c.State.Status != "removing" && c.State.Status != "dead" {
				t.Fatal(err)
			}
		}
	}
	return id
}

// there tells whether the engine has the container, and in which state.
func there(t *testing.T, e *client.Client, id string) (string, bool) {
	t.Helper()
	c, err := e.ContainerInspect(t.Context(), id)
	if errdefs.IsNotFound(err) {
		return "", false
	}
	if err != nil {
		t.Fatal(err)
	}
	return c.State.Status, true
}

// TestEngineReap: two roots with one prefix, foreign labels, owners that were killed, and the image that hands our labels down.
func TestEngineReap(t *testing.T) {
	t.Parallel()
	e, img := enginetest.Client(t), enginetest.BusyBox(t)
	root := t.TempDir()
	ours := only{Engine: e, root: root}

	// One owner lives, the other is gone, on roots one of which is the
	// beginning of the other, and on the same root.
	states := []string{"created", "running", "paused", "exited"}
	var keep, gone []string
	for _, state := range states {
		alive, dead := mine(t, root+"/proj"), orphaned(t, root+"/proj-2")
		keep = append(keep, put(t, e, img, alive, reaper.Name(alive.ID), state))
		gone = append(gone, put(t, e, img, dead, reaper.Name(dead.ID), state))
	}
	same := orphaned(t, root+"/proj")
	gone = append(gone, put(t, e, img, same, reaper.Name(same.ID), "running"))

	// The labels of an orphan, but handed down by an image.
	trap := orphaned(t, root+"/trap")
	var changes []string
	for k, v := range trap.Labels() {
		changes = append(changes, fmt.Sprintf("LABEL %s=%q", k, v))
	}
	labelled := importOnce(t, e, changes)
	keep = append(keep, put(t, e, labelled, trap, reaper.Name(trap.ID), "running"))
	// A stranger's name, and half of the labels.
	renamed := orphaned(t, root+"/renamed")
	keep = append(keep, put(t, e, img, renamed, "wsctl-test-stranger-"+renamed.ID, "created"))
	partial := orphaned(t, root+"/partial")
	id, err := e.ContainerCreate(t.Context(), &container.Config{
		Image: img, Cmd: []string{"/bin/true"},
		Labels: map[string]string{"wsctl.id": partial.ID, "wsctl.root": root + "/partial"},
	}, &container.HostConfig{NetworkMode: "none"}, nil, nil, reaper.Name(partial.ID))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.ContainerRemove(context.Background(), id.ID, container.RemoveOptions{Force: true}) })
	keep = append(keep, id.ID)

	list, err := reaper.Reap(t.Context(), ours, reaper.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range gone {
		if state, ok := there(t, e, id); ok {
			t.Errorf("an orphan is left: %s %s", id, state)
		}
	}
	for i, id := range keep {
		state, ok := there(t, e, id)
		if !ok {
			t.Errorf("container %d of those to keep is gone", i)
		}
		if i < len(states) && state != states[i] {
			t.Errorf("a living owner's container was %s and is %s", states[i], state)
		}
	}
	verdicts := map[string]reaper.Verdict{}
	for _, c := range list {
		verdicts[c.ID] = c.Verdict
	}
	for i, id := range keep {
		want := reaper.Alive
		if i >= len(states) {
			want = reaper.Foreign
		}
		if verdicts[id] != want {
			t.Errorf("container %d of those to keep is judged %q, want %q", i, verdicts[id], want)
		}
	}
}

// importOnce makes an image with labels that no other test has, and removes it.
func importOnce(t *testing.T, e *client.Client, changes []string) string {
	t.Helper()
	ref := enginetest.Changed(t, changes...)
	t.Cleanup(func() { _, _ = e.ImageRemove(context.Background(), ref, image.RemoveOptions{}) })
	return ref
}

// TestEngineRemovalUnderWay: D7, somebody else removes at the same time.
func TestEngineRemovalUnderWay(t *testing.T) {
	t.Parallel()
	e, img := enginetest.Client(t), enginetest.BusyBox(t)
	for range enginetest.Rounds(30) {
		root := t.TempDir()
		its := orphaned(t, root+"/proj")
		id := put(t, e, img, its, reaper.Name(its.ID), "running")
		done := make(chan error, 1)
		go func() { done <- e.ContainerRemove(t.Context(), id, container.RemoveOptions{Force: true}) }()
		if _, err := reaper.Reap(t.Context(), only{Engine: e, root: root}, reaper.Options{}); err != nil {
			t.Error(err)
		}
		<-done
		if state, ok := there(t, e, id); ok {
			t.Errorf("left: %s", state)
		}
	}
}

// TestEngineTwoOwners: two processes work on one root, each with a container,
// each reaping all the time; one is killed. Its container goes, the other's
// never does.
func TestEngineTwoOwners(t *testing.T) {
	t.Parallel()
	e, img := enginetest.Client(t), enginetest.BusyBox(t)
	root := t.TempDir()
	for round := range enginetest.Rounds(50) {
		a, b := startOwner(t, e, img, root), startOwner(t, e, img, root)
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond)
		a.kill()
		// b is an owner that reaps; a's container may be the test's to
		// remove where b has looked before a was gone.
		if _, err := reaper.Reap(t.Context(), only{Engine: e, root: root}, reaper.Options{}); err != nil {
			t.Fatal(err)
		}
		if state, ok := there(t, e, a.container); ok {
			t.Errorf("round %d: the dead owner's container is %s", round, state)
		}
		if state, ok := there(t, e, b.container); !ok || state != "running" {
			t.Fatalf("round %d: the living owner's container is %q", round, state)
		}
		if said := b.stop(); said != "" {
			t.Fatalf("round %d: the living owner says %s", round, said)
		}
		if _, ok := there(t, e, b.container); ok {
			t.Errorf("round %d: the owner has not removed its container", round)
		}
	}
}

// ownerProcess is a running owner.
type ownerProcess struct {
	t         *testing.T
	cmd       *exec.Cmd
	stdin     io.Closer
	stdout    *bufio.Reader
	container string
}

// startOwner starts a process that makes a container, reaps until it is told
// to stop, and says when its own container is not there any more.
func startOwner(t *testing.T, e *client.Client, img, root string) *ownerProcess {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ownerVariable+"="+img, "WSCTL_TEST_ROOT="+root)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &ownerProcess{t: t, cmd: cmd, stdin: stdin, stdout: bufio.NewReader(stdout)}
	t.Cleanup(func() {
		p.kill()
		_ = e.ContainerRemove(context.Background(), p.container, container.RemoveOptions{Force: true})
	})
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		t.Fatalf("the owner does not start: %q, %v", line, err)
	}
	p.container = strings.TrimSpace(line)
	return p
}

// kill ends it as the kernel would, and waits.
func (p *ownerProcess) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// stop asks it to end and returns what it has to complain about.
func (p *ownerProcess) stop() string {
	_ = p.stdin.Close()
	said, _ := io.ReadAll(p.stdout)
	if err := p.cmd.Wait(); err != nil {
		return fmt.Sprintf("%s %v", said, err)
	}
	return string(said)
}

// owner is the owner process: its container's id on stdout, then nothing unless
// something is wrong, until stdin ends.
func owner(img string) int {
	fail := func(what string, err error) int {
		fmt.Println(what, err)
		return 1
	}
	e, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return fail("client:", err)
	}
	defer e.Close()
	ctx := context.Background()
	self, err := reaper.Self()
	if err != nil {
		return fail("self:", err)
	}
	root := os.Getenv("WSCTL_TEST_ROOT")
	its := reaper.Tag{ID: reaper.NewID(), Root: root + "/proj", Owner: self}
	id, err := create(ctx, e, img, its, reaper.Name(its.ID), enginetest.Labels())
	if err != nil {
		return fail("create:", err)
	}
	if err := e.ContainerStart(ctx, id, container.StartOptions{}); err != nil {
		return fail("start:", err)
	}
	fmt.Println(id)
	stop := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(stop)
	}()
	for {
		if _, err := reaper.Reap(ctx, only{Engine: e, root: root}, reaper.Options{}); err != nil {
			return fail("reap:", err)
		}
		c, err := e.ContainerInspect(ctx, id)
		if err != nil || !c.State.Running {
			return fail("my container is gone:", err)
		}
		select {
		case <-stop:
			if err := e.ContainerRemove(ctx, id, container.RemoveOptions{Force: true}); err != nil {
				return fail("remove:", err)
			}
			return 0
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestEngineErrors: what the engine's client says of a missing engine and of a
// refused request are told apart (see engineError).
func TestEngineErrors(t *testing.T) {
	t.Parallel()
	e := enginetest.Client(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := reaper.List(ctx, e); workspace.CodeOf(err) != workspace.ErrAborted {
		t.Errorf("with a context that has ended: %v", err)
	}
}
