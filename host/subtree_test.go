//go:build linux

package host_test

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// newSubtree returns the directory "src/api" of a root, as a tree of its own.
func newSubtree(t *testing.T, test host.TestHooks) (root *host.Root, dir string, sub workspace.Tree) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range map[string]string{"src/api/f": "inside", "src/secret": "secret", "src/api/d/f": "deeper", "top": "top"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := host.OpenRootWith(dir, host.RootOptions{Guest: "/guest"}, test)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	if sub, err = root.Subtree(t.Context(), "src/api"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Close() })
	return root, dir, sub
}

func TestSubtreeHoldsEveryNameIn(t *testing.T) {
	for what, test := range map[string]host.TestHooks{"openat2": {}, "walk": {Openat2: unix.ENOSYS}} {
		t.Run(what, func(t *testing.T) {
			root, dir, sub := newSubtree(t, test)
			for link, to := range map[string]string{
				"out": "../secret", "outdir": "..", "abs": "/guest/src/secret", "in": "d/f", "absin": "/guest/src/api/f", "up": "d/../f", "top": "/guest/top",
			} {
				if err := os.Symlink(to, filepath.Join(dir, "src/api", link)); err != nil {
					t.Fatal(err)
				}
			}
			ctx := t.Context()
			for name, code := range map[string]workspace.Code{
				"f": "", "d/f": "", "d/../f": "", "in": "", "absin": "", "up": "",
				"../secret": workspace.ErrOutside, "d/../../secret": workspace.ErrOutside, "out": workspace.ErrOutside, "outdir/secret": workspace.ErrOutside,
				"abs": workspace.ErrOutside, "top": workspace.ErrOutside, "../api/f": workspace.ErrOutside, "..": workspace.ErrOutside,
			} {
				f, err := sub.Open(ctx, name)
				if code != "" {
					wantCode(t, err, code)
				} else if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if err == nil {
					f.Close()
				}
				if _, err := sub.Stat(ctx, name); (err != nil) != (code != "") {
					t.Errorf("Stat %s: %v", name, err)
				}
			}
			wantCode(t, sub.Symlink(ctx, "../secret", "l"), workspace.ErrOutside)
			wantCode(t, sub.Rename(ctx, "f", "../f", workspace.RenameOptions{}), workspace.ErrOutside)
			_, err := sub.Copy(ctx, "../secret", "stolen", workspace.WriteOptions{})
			wantCode(t, err, workspace.ErrOutside)
			for name, code := range map[string]workspace.Code{
				"gone": workspace.ErrNotFound, "top": workspace.ErrNotDirectory, "..": workspace.ErrOutside, ".wsctl": workspace.ErrInvalidPath, ".wsctl/tool-results": workspace.ErrInvalidPath,
			} {
				_, err := root.Subtree(ctx, name)
				wantCode(t, err, code)
			}
		})
	}
}

func TestSubtreeIsAPartOfTheWhole(t *testing.T) {
	root, dir, sub := newSubtree(t, host.TestHooks{})
	ctx := t.Context()
	// Edits through both wait for each other.
	inside, done := make(chan struct{}), make(chan error, 1)
	go func() {
		_, err := root.Edit(ctx, "src/api/f", workspace.EditOptions{}, func([]byte) ([]byte, error) {
			close(inside)
			time.Sleep(50 * time.Millisecond)
			return []byte("one"), nil
		})
		done <- err
	}()
	<-inside
	if _, err := sub.Edit(ctx, "f", workspace.EditOptions{}, func(b []byte) ([]byte, error) { return append(b, " two"...), nil }); err != nil {
		t.Error(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got, _ := os.ReadFile(filepath.Join(dir, "src/api/f")); string(got) != "one two" {
		t.Errorf("both edits left %q", got)
	}
	// What is removed goes to the trash of the whole, and back to its place.
	if err := sub.Remove(ctx, "f", workspace.RemoveOptions{Trash: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "src/api/.wsctl")); err == nil {
		t.Error("the subtree has a state of its own")
	}
	items, err := root.Trash(ctx)
	if err != nil || len(items) != 1 || items[0].Path != "src/api/f" {
		t.Errorf("the trash holds %+v, %v", items, err)
	}
	if err := sub.Close(); err != nil {
		t.Error(err)
	}
	if _, err := root.Stat(ctx, "src/api/d/f"); err != nil {
		t.Errorf("after the subtree was closed the whole is no good: %v", err)
	}
	again, err := root.Subtree(ctx, "src")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if err := root.Close(); err != nil {
		t.Error(err)
	}
	_, err = again.Stat(ctx, "secret")
	wantCode(t, err, workspace.ErrDisposed)
}

// TestSubtreeIsNotLeftInARace swaps a directory for a link out of the subtree
// while files are read through it.
func TestSubtreeIsNotLeftInARace(t *testing.T) {
	_, dir, sub := newSubtree(t, host.TestHooks{})
	at := func(name string) string { return filepath.Join(dir, "src/api", name) }
	if err := os.WriteFile(filepath.Join(dir, "src/f"), []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..", at("link")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var swaps atomic.Int64
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			if unix.Renameat2(unix.AT_FDCWD, at("d"), unix.AT_FDCWD, at("link"), unix.RENAME_EXCHANGE) == nil {
				swaps.Add(1)
			}
		}
	}()
	reads, refused := 0, 0
	for ctx.Err() == nil {
		f, err := sub.Open(t.Context(), "d/f")
		if err != nil {
			refused++
			continue
		}
		b := make([]byte, 16)
		n, _ := f.Read(b)
		f.Close()
		if got := string(b[:n]); got != "deeper" {
			t.Fatalf("it read %q", got)
		}
		reads++
	}
	<-stopped
	if swaps.Load() == 0 || reads == 0 || refused == 0 {
		t.Errorf("nothing raced: %d swaps, %d reads, %d refused", swaps.Load(), reads, refused)
	}
}
