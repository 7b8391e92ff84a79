//go:build linux

package container_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

// writers are commands that fill the disk, each in its way. None of them ends by
// itself within the time that the watcher has.
var writers = map[string]string{
	"one file":        `while :; do cat /bin/busybox /bin/busybox /bin/busybox >>big; done`,
	"fallocate":       `i=0; while :; do i=$((i+1)); fallocate -l 8m f$i 2>/dev/null || cat /bin/busybox >f$i; done`,
	"many files":      `i=0; while :; do i=$((i+1)); mkdir -p d$((i%100)); cat /bin/busybox >d$((i%100))/$i; done`,
	"in the home":     `while :; do cat /bin/busybox >>~/big; done`,
	"left running":    `(setsid sh -c 'while :; do cat /bin/busybox >>big; done' &); sleep 60`,
	"ignores signals": `trap '' TERM INT HUP; while :; do cat /bin/busybox >>big; done`,
}

// A command that writes more than the limit is ended, the error says so, the
// container is the same, and nothing is started until there is space.
func TestDiskLimitEndsTheWriter(t *testing.T) {
	t.Parallel()
	e := connect(t)
	for name, line := range writers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root, o := newRoot(t), options(t)
			o.Disk = 64 << 20
			if err := os.WriteFile(filepath.Join(root, "before"), make([]byte, 1<<20), 0o600); err != nil {
				t.Fatal(err)
			}
			w := openWorkspace(t, e, root, o)
			exec(t, w, "echo x >small")
			first := only(t, root)
			begun := time.Now()
			out, err := w.Exec(t.Context(), workspace.Command{Shell: "echo begun; " + line, Timeout: 50 * time.Second})
			if !errors.Is(err, workspace.ErrTooLarge) || out == nil || string(out.Stdout) != "begun\n" || out.TimedOut {
				t.Fatalf("%+v, %v", out, err)
			}
			if took := time.Since(begun); took > 40*time.Second {
				t.Errorf("it took %v", took)
			}
			_, err = w.Exec(t.Context(), workspace.Command{Args: []string{"true"}})
			if !errors.Is(err, workspace.ErrTooLarge) || !strings.Contains(err.Error(), "grown by") {
				t.Errorf("the next command: %v", err)
			}
			if name == "in the home" {
				return // which only a command reaches
			}
			entries, err := os.ReadDir(root)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range entries {
				if entry.Name() != ".wsctl" && entry.Name() != "small" {
					if err := w.Remove(t.Context(), entry.Name(), workspace.RemoveOptions{Recursive: true}); err != nil {
						t.Error(err)
					}
				}
			}
			if out := exec(t, w, "cat small"); string(out.Stdout) != "x\n" || out.Recreated != "" {
				t.Errorf("after making space: %q, %q", out.Stdout, out.Recreated)
			}
			if again := only(t, root); again.ID != first.ID {
				t.Error("another container")
			}
		})
	}
}

// What an earlier command has left running is ended too.
func TestDiskLimitEndsWhatWasKept(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), newRoot(t), options(t)
	o.Disk = 32 << 20
	w := openWorkspace(t, e, root, o)
	_, err := w.Exec(t.Context(), workspace.Command{Shell: "(while :; do cat /bin/busybox >>big; sleep 0.01; done) & true", Background: workspace.BackgroundKeep})
	if err != nil {
		t.Fatal(err)
	}
	size := func() int64 {
		var st unix.Stat_t
		// The command may be over before what it left has made the file.
		if err := unix.Stat(filepath.Join(root, "big"), &st); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return st.Size
	}
	eventually(t, "it has written too much", 40*time.Second, func() bool { return size() > o.Disk })
	eventually(t, "it writes no more", 40*time.Second, func() bool {
		before := size()
		time.Sleep(300 * time.Millisecond)
		return size() == before
	})
}

// A directory that nobody may look into hides nothing.
func TestDiskLimitCountsWhatIsClosed(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root looks into every directory")
	}
	e, root, o := connect(t), newRoot(t), options(t)
	o.Disk = 32 << 20
	w := openWorkspace(t, e, root, o)
	_, err := w.Exec(t.Context(), workspace.Command{Shell: "mkdir d; cd d; chmod 0 .; sleep 60", Timeout: 50 * time.Second})
	if !errors.Is(err, workspace.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if err := os.Chmod(filepath.Join(root, "d"), 0o700); err != nil {
		t.Error(err)
	}
}

// The layer counts where the engine tells its size.
func TestDiskLimitCountsTheLayer(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), newRoot(t), options(t)
	o.Disk = 32 << 20
	w := openWorkspace(t, e, root, o)
	_, err := w.Exec(t.Context(), workspace.Command{Shell: "i=0; while [ $i -lt 60 ]; do i=$((i+1)); cat /bin/busybox >>/tmp/big; done; sleep 60", Timeout: 50 * time.Second})
	if !errors.Is(err, workspace.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
}

// A detached workspace counts from when it was made, whoever runs commands in it,
// and who adopts it may set a limit of its own.
func TestDiskLimitOfADetachedWorkspace(t *testing.T) {
	t.Parallel()
	e, root, o := connect(t), newRoot(t), named(t)
	o.Disk = 48 << 20
	up(t, e, root, o)
	exec(t, adopt(t, e, o.Name), "i=0; while [ $i -lt 15 ]; do i=$((i+1)); cat /bin/busybox >>big; done")
	limited := func(disk int64) error {
		d, err := container.Adopt(t.Context(), e, o.Name, container.AdoptOptions{Disk: disk})
		if err != nil {
			t.Fatal(err)
		}
		w, err := workspace.New(d, workspace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		_, err = w.Exec(t.Context(), workspace.Command{Shell: "i=0; while [ $i -lt 10 ]; do i=$((i+1)); cat /bin/busybox >>big; done; sleep 45", Timeout: 50 * time.Second})
		return err
	}
	if err := limited(4 << 20); !errors.Is(err, workspace.ErrTooLarge) {
		t.Errorf("4 MiB from here: %v", err)
	}
	if err := limited(0); !errors.Is(err, workspace.ErrTooLarge) {
		t.Errorf("48 MiB from the beginning: %v", err)
	}
}

// On a small file system the host keeps a margin, even when what fills it has no
// name any more.
func TestDiskLimitKeepsAMargin(t *testing.T) {
	t.Parallel()
	mnt := enginetest.Disk(t, 400<<20, "mkfs.ext4", "-q", "-m", "0")
	root := filepath.Join(mnt, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	e, o := connect(t), options(t)
	o.Disk = 10 << 30
	d, err := container.New(t.Context(), e, root, o)
	if err != nil {
		t.Fatal(err)
	}
	w, err := workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	// A pace that the watcher can keep up with, on a loaded machine too.
	_, err = w.Exec(t.Context(), workspace.Command{Shell: "echo x >named; exec 3>gone; rm gone; while :; do cat /bin/busybox >&3 || exit 9; sleep 0.08; done", Timeout: 50 * time.Second})
	if !errors.Is(err, workspace.ErrTooLarge) || !strings.Contains(err.Error(), "nearly full") {
		t.Errorf("got %v", err)
	}
	if _, err := w.WriteFile(t.Context(), "after", []byte("x"), workspace.WriteOptions{}); err != nil {
		t.Errorf("a write of the host's: %v", err)
	}
}
