//go:build linux

package snapshot_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

// opened is a workspace over d with its snapshots in the state.
func opened(t *testing.T, d workspace.Driver, root *host.Root) *workspace.Workspace {
	t.Helper()
	store, err := snapshot.Open(root, snapshot.Place{})
	check(t, err)
	t.Cleanup(store.Close)
	snaps, err := snapshot.New(root, store, snapshot.Options{})
	check(t, err)
	w, err := workspace.New(d, workspace.Options{Snapshots: snaps})
	check(t, err)
	t.Cleanup(func() { check(t, w.Close()) })
	return w
}

// onHost is a workspace of this machine, and its directory.
func onHost(t *testing.T) (*workspace.Workspace, string) {
	t.Helper()
	dir := t.TempDir()
	d, err := host.New(dir, host.Options{Env: []string{"PATH=/usr/bin:/bin"}})
	check(t, err)
	root, ok := d.Files().(*host.Root)
	if !ok {
		t.Fatalf("the files are a %T", d.Files())
	}
	return opened(t, d, root), dir
}

// inContainer is a workspace in a container, and its directory.
func inContainer(t *testing.T) (*workspace.Workspace, string) {
	t.Helper()
	cli := enginetest.Client(t)
	e, err := container.Connect(t.Context(), container.EngineOptions{Host: cli.DaemonHost(), CertDir: os.Getenv("DOCKER_CERT_PATH")})
	check(t, err)
	t.Cleanup(func() { e.Close() })
	dir := filepath.Join(enginetest.Dir(t), "root")
	check(t, os.Mkdir(dir, 0o755))
	d, err := container.New(t.Context(), e, dir, container.Options{
		Image: enginetest.BusyBox(t), CacheDir: filepath.Join(enginetest.Dir(t), "cache"), Keeper: enginetest.Keeper(t), Version: "test",
	})
	check(t, err)
	root, ok := d.Files().(*host.Root)
	if !ok {
		t.Fatalf("the files are a %T", d.Files())
	}
	return opened(t, d, root), dir
}

func run(t *testing.T, w *workspace.Workspace, text string) *workspace.Output {
	t.Helper()
	out, err := w.Exec(bg, workspace.Command{Shell: text, Timeout: time.Minute})
	check(t, err)
	return out
}

// While anything runs a restore is BUSY, a dry run says so, and whoever wants it
// can go on beside the commands.
func TestRestoreIsBusy(t *testing.T) {
	t.Parallel()
	w, dir := onHost(t)
	busyRounds(t, w, dir)
	// A process group cannot be paused for sure.
	p, err := w.Start(bg, workspace.Command{Shell: "sleep 60"})
	check(t, err)
	defer p.Close()
	_, err = w.Restore(bg, snapshot.Latest, workspace.RestoreOptions{WhileRunning: workspace.PauseWhileRunning})
	wantCode(t, err, workspace.ErrUnsupported)
	_, err = w.Restore(bg, snapshot.Latest, workspace.RestoreOptions{WhileRunning: "sometimes"})
	wantCode(t, err, workspace.ErrInvalidArgument)
}

func busyRounds(t *testing.T, w *workspace.Workspace, dir string) {
	t.Helper()
	check(t, os.WriteFile(filepath.Join(dir, "f"), []byte("F"), 0o644))
	first, err := w.Checkpoint(bg, "turn 1", json.RawMessage(`{"message":7}`))
	check(t, err)
	check(t, os.WriteFile(filepath.Join(dir, "f"), []byte("other"), 0o644))

	p, err := w.Start(bg, workspace.Command{Shell: "sleep 60"})
	check(t, err)
	_, err = w.Restore(bg, first.ID, workspace.RestoreOptions{})
	wantCode(t, err, workspace.ErrBusy)
	dry, err := w.Restore(bg, first.ID, workspace.RestoreOptions{DryRun: true})
	check(t, err)
	if !dry.Busy || !slices.Equal(dry.Restored, []string{"f"}) {
		t.Errorf("the dry run tells %+v", dry)
	}
	done, err := w.Restore(bg, first.ID, workspace.RestoreOptions{WhileRunning: workspace.ProceedWhileRunning})
	check(t, err)
	if b, _ := os.ReadFile(filepath.Join(dir, "f")); string(b) != "F" || len(done.Restored) != 1 {
		t.Errorf("f holds %q after %+v", b, done)
	}
	check(t, p.Close())

	// What a command left running counts as well.
	_, err = w.Exec(bg, workspace.Command{Shell: "sleep 30 & echo $!", Background: workspace.BackgroundKeep})
	check(t, err)
	_, err = w.Restore(bg, first.ID, workspace.RestoreOptions{})
	wantCode(t, err, workspace.ErrBusy)
	run(t, w, "pkill sleep || killall sleep")
	deadline := time.Now().Add(20 * time.Second)
	for {
		check(t, os.WriteFile(filepath.Join(dir, "f"), []byte("changed"), 0o644))
		done, err := w.Rewind(bg, "turn 1", workspace.RestoreOptions{Paths: []string{w.Root() + "/f"}})
		if workspace.CodeOf(err) == workspace.ErrBusy && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		check(t, err)
		if string(done.Snapshot.Metadata) != `{"message":7}` {
			t.Errorf("the metadata are %s", done.Snapshot.Metadata)
		}
		break
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "f")); string(b) != "F" {
		t.Errorf("f holds %q", b)
	}
	_, err = w.Rewind(bg, "turn 2", workspace.RestoreOptions{})
	wantCode(t, err, workspace.ErrNotFound)
}

// A checkpoint is taken beside commands without holding them up.
func TestCheckpointBesideCommands(t *testing.T) {
	t.Parallel()
	w, dir := onHost(t)
	for i := range 300 {
		check(t, os.WriteFile(filepath.Join(dir, strings.Repeat("x", i%50+1)+string(rune('a'+i%26))), random(5000), 0o644))
	}
	done := make(chan error, 1)
	go func() {
		_, err := w.Checkpoint(bg, "t", nil)
		done <- err
	}()
	for range 10 {
		if out := run(t, w, "echo yes"); string(out.Stdout) != "yes\n" {
			t.Errorf("the command says %q", out.Stdout)
		}
	}
	check(t, <-done)
}

// In a container the same holds; its processes can be paused, and go on after; a
// command that begins meanwhile is BUSY.
func TestContainerRestore(t *testing.T) {
	t.Parallel()
	w, dir := inContainer(t)
	check(t, w.Ready(t.Context()))
	busyRounds(t, w, dir)
	first, err := w.Checkpoint(bg, "paused", nil)
	check(t, err)
	p, err := w.Start(bg, workspace.Command{Shell: "while :; do echo x >> grows; done"})
	check(t, err)
	defer p.Close()
	for {
		if fi, err := os.Stat(filepath.Join(dir, "grows")); err == nil && fi.Size() > 100 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	done, err := w.Restore(bg, first.ID, workspace.RestoreOptions{WhileRunning: workspace.PauseWhileRunning})
	check(t, err)
	if !slices.Equal(done.Deleted, []string{"grows"}) || len(done.Kept) > 0 {
		t.Errorf("the restore did %+v", done)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		if _, err := os.Stat(filepath.Join(dir, "grows")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the paused process does not go on")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// A command can neither see, read, change nor remove the store, nor anything else
// of the state, and while it changes the tree under a restore nothing outside the
// root is written.
func TestContainerCannotReachTheStore(t *testing.T) {
	t.Parallel()
	w, dir := inContainer(t)
	out := filepath.Join(filepath.Dir(dir), "outside")
	check(t, os.Mkdir(out, 0o755))
	check(t, os.WriteFile(filepath.Join(out, "f"), []byte("canary"), 0o644))
	check(t, os.MkdirAll(filepath.Join(dir, "d"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "d/f"), []byte("F"), 0o644))
	first, err := w.Checkpoint(bg, "t", nil)
	check(t, err)
	store := filepath.Join(dir, host.StateName, "snapshots")
	before := manifest(t, store)
	for _, attack := range []string{
		"test -z \"$(ls -A .wsctl)\"", "! cat .wsctl/snapshots/store.json", "! touch .wsctl/x", "! mkdir .wsctl/snapshots", "! chmod 777 .wsctl",
		"! mv .wsctl y", "! rmdir .wsctl", "! umount .wsctl", "! ln -s /tmp .wsctl/x", "! mount -t tmpfs none .wsctl",
		"! find / -name store.json 2>/dev/null | grep -q .",
	} {
		if got := run(t, w, attack); got.ExitCode != 0 {
			t.Errorf("%s: status %d, %s", attack, got.ExitCode, got.Stderr)
		}
	}
	if after := manifest(t, store); !slices.Equal(after, before) {
		t.Error("a command changed the store")
	}
	p, err := w.Start(bg, workspace.Command{Shell: `while :; do mv d e; ln -s ../outside d; rm d; ln -s ` + out + ` d; rm d; mv e d; echo attack > d/f; rm -f d/f; mkdir d/f; rmdir d/f; done 2>/dev/null`})
	check(t, err)
	worked := 0
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end); {
		_, err := w.Restore(bg, first.ID, workspace.RestoreOptions{WhileRunning: workspace.ProceedWhileRunning, NoBackup: true})
		if err == nil {
			worked++
		}
	}
	check(t, p.Close())
	if worked == 0 {
		t.Error("no restore came to its end")
	}
	if b, _ := os.ReadFile(filepath.Join(out, "f")); string(b) != "canary" {
		t.Errorf("outside there is %q", b)
	}
	if names, _ := os.ReadDir(out); len(names) != 1 {
		t.Errorf("outside there are %d entries", len(names))
	}
	_, err = w.Rewind(bg, "t", workspace.RestoreOptions{})
	check(t, err)
	if b, _ := os.ReadFile(filepath.Join(dir, "d/f")); string(b) != "F" {
		t.Errorf("d/f holds %q", b)
	}
}
