//go:build linux

package container

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// inMountNamespace runs f on a thread of its own with mounts of its own, which end
// with it.
func inMountNamespace(t *testing.T, f func() error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		err := errors.Join(unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		if err == nil {
			err = f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestRootThatIsAHomeByAnotherMount(t *testing.T) {
	top := plainDir(t)
	home := mkdir(t, filepath.Join(top, "home", "me"), 0o755)
	alias := mkdir(t, filepath.Join(top, "alias"), 0o755)
	inMountNamespace(t, func() error {
		if err := unix.Mount(filepath.Dir(home), alias, "", unix.MS_BIND, ""); err != nil {
			return err
		}
		for _, root := range []string{alias, filepath.Join(alias, "me")} {
			if _, err := checkRoot(t.Context(), root, placePolicy{Homes: []string{home}}); !errors.Is(err, workspace.ErrDenied) {
				t.Errorf("%s: %v", root, err)
			}
		}
		return nil
	})
}

func TestSocketsOnOtherFileSystemsAreNotPassedOn(t *testing.T) {
	root := plainDir(t)
	sub := mkdir(t, filepath.Join(root, "sub"), 0o755)
	inMountNamespace(t, func() error {
		if err := unix.Mount("tmpfs", sub, "tmpfs", 0, ""); err != nil {
			return err
		}
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(sub, "docker.sock")}); err != nil {
			return err
		}
		if _, err := checkRoot(t.Context(), root, placePolicy{}); err != nil {
			t.Error(err)
		}
		return nil
	})
}

func TestMountsBelow(t *testing.T) {
	dir := plainDir(t)
	odd := mkdir(t, filepath.Join(dir, "a b\\c\nd"), 0o755)
	mkdir(t, dir+"2", 0o755)
	t.Cleanup(func() { _ = os.Remove(dir + "2") })
	inMountNamespace(t, func() error {
		err := errors.Join(unix.Mount("tmpfs", odd, "tmpfs", 0, ""), unix.Mount("tmpfs", dir+"2", "tmpfs", 0, ""))
		if err != nil {
			return err
		}
		// The namespace is this thread's and not the process's first one's.
		got, err := mountsBelow(dir)
		if err != nil || !slices.Equal(got, []string{odd}) {
			t.Errorf("got %q, %v; want %q", got, err, odd)
		}
		return nil
	})
}

func TestBirthTimeIsTheDirectorysOwn(t *testing.T) {
	top := plainDir(t)
	facts := func() rootFacts {
		got, err := checkRoot(t.Context(), mkdir(t, filepath.Join(top, "r"), 0o755), placePolicy{})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := facts()
	if again := facts(); again.Born != first.Born || again.Ino != first.Ino {
		t.Errorf("the same directory: %+v, %+v", first, again)
	}
	if err := os.Remove(filepath.Join(top, "r")); err != nil {
		t.Fatal(err)
	}
	if made := facts(); made.Born == first.Born && made.Ino == first.Ino {
		t.Errorf("another directory of the name has identity %+v", made)
	}
}
