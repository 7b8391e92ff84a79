//go:build linux

package host_test

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// The state is closed by every spelling, to every operation.
func TestRootStateClosed(t *testing.T) {
	forms := []string{
		".wsctl", ".wsctl/", "./.wsctl", ".WSCTL", ".wsctl.", ".wsctl ", ".Wsctl. .", ".ws\u200dctl", ".w\u017fctl", "\ufeff.wsctl",
		".wsctl/pending", "a/../.wsctl", "x", "x/", "x/pending", "ax", "chain", "up/../.wsctl", "a/./../.wsctl/trash",
	}
	tree := []string{"f = inside", "a/b", "x -> .wsctl", "ax -> ROOT/.wsctl", "chain -> x", "up -> a"}
	eachMode(t, modes, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, tree...)
		_, err := a.r.ID()
		check(t, err)
		before := treeHash(t, a.path(".wsctl"))
		for _, form := range forms {
			for op, run := range fileOps {
				if err := run(a, form); workspace.CodeOf(err) != workspace.ErrInvalidPath {
					t.Errorf("%s %q: %v, want INVALID_PATH", op, form, err)
				}
			}
		}
		for _, name := range []string{".wsctl", ".", "a/..", "./", ".wsctl/id", ".WSCTL"} {
			wantCode(t, a.r.Remove(bg, name, workspace.RemoveOptions{Recursive: true}), workspace.ErrInvalidPath)
			wantCode(t, a.r.Remove(bg, name, workspace.RemoveOptions{Trash: true}), workspace.ErrInvalidPath)
			wantCode(t, a.r.Rename(bg, name, "moved", workspace.RenameOptions{}), workspace.ErrInvalidPath)
		}
		if got := treeHash(t, a.path(".wsctl")); got != before {
			t.Error("the state was changed")
		}
		// A link to it is an entry of the tree, and goes like any other.
		check(t, a.r.Remove(bg, "x", workspace.RemoveOptions{}))
		// Deeper down the name means nothing.
		check(t, a.write("a/.wsctl/f", "x", workspace.WriteOptions{}))
	})
	a := newArea(t, host.TestHooks{Off: "state"}, host.RootOptions{}, "x -> .wsctl")
	_, err := a.r.ID()
	check(t, err)
	if _, err := a.read("x/id"); err != nil {
		t.Error("the attack fails without the guard:", err)
	}
}

// Saved results of tools can be read, and nothing else of the state.
func TestRootToolResults(t *testing.T) {
	eachMode(t, modes, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "x -> .wsctl/tool-results/r")
		_, err := a.r.ID()
		check(t, err)
		a.grow(".wsctl/tool-results/r = R", ".wsctl/tool-results/out -> ../id", ".wsctl/tool-results/abs -> OUT/secret")
		for _, name := range []string{".wsctl/tool-results/r", "x", ".wsctl/./tool-results//r"} {
			if got, err := a.read(name); got != "R" {
				t.Errorf("read %s: %q, %v", name, got, err)
			}
		}
		if _, err := a.r.ReadDir(bg, ".wsctl/tool-results", workspace.ListOptions{}); err != nil {
			t.Error(err)
		}
		for _, name := range []string{".wsctl/tool-results/../id", ".wsctl/tool-results/out", ".wsctl/tool-results/abs", ".wsctl/tool-results/.."} {
			_, err := a.read(name)
			wantCode(t, err, workspace.ErrInvalidPath)
		}
		wantCode(t, a.write(".wsctl/tool-results/r", "x", workspace.WriteOptions{}), workspace.ErrInvalidPath)
		wantCode(t, a.write("x", "x", workspace.WriteOptions{}), workspace.ErrInvalidPath)
		wantCode(t, a.r.Remove(bg, ".wsctl/tool-results/r", workspace.RemoveOptions{}), workspace.ErrInvalidPath)
	})
}

// The state is made when it is needed, private and ignored by git, and is
// never listed.
func TestRootState(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{})
	if _, err := os.Lstat(a.path(".wsctl")); err == nil {
		t.Fatal("opening made the state")
	}
	old := unix.Umask(0o777) // takes the owner's own bits too
	id, err := a.r.ID()
	unix.Umask(old)
	check(t, err)
	again, err := a.r.ID()
	check(t, err)
	other, err := host.OpenRoot(a.in, host.RootOptions{})
	check(t, err)
	defer other.Close()
	third, err := other.ID()
	check(t, err)
	if len(id) != 32 || id != again || id != third {
		t.Errorf("ids %q, %q, %q", id, again, third)
	}
	wantMode(t, a, ".wsctl", 0o700)
	if got := a.content(".wsctl/.gitignore"); got != "*\n" {
		t.Errorf(".gitignore holds %q", got)
	}
	list, err := a.r.ReadDir(bg, ".", workspace.ListOptions{})
	check(t, err)
	if len(list.Entries) != 0 {
		t.Errorf("listed: %v", list.Entries)
	}
	dev, ino, err := a.r.StateIdentity()
	check(t, err)
	var st unix.Stat_t
	check(t, unix.Stat(a.path(".wsctl"), &st))
	if dev != st.Dev || ino != st.Ino {
		t.Error("the identity is another one")
	}
	check(t, os.WriteFile(a.path(".wsctl/id"), []byte("nonsense"), 0o600))
	_, err = a.r.ID()
	wantCode(t, err, workspace.ErrCorrupt)
}

// Lock files are the same for all, private, the root's owner's, and regular.
func TestRootLockFile(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "f = x")
	if os.Geteuid() == 0 {
		check(t, os.Chown(a.path("."), 65534, 65534))
	}
	r, err := host.OpenRoot(a.path("."), host.RootOptions{})
	check(t, err)
	defer r.Close()
	var first, again unix.Stat_t
	for _, st := range []*unix.Stat_t{&first, &again} {
		f, err := r.LockFile("lock")
		check(t, err)
		check(t, unix.Fstat(int(f.Fd()), st))
		check(t, f.Close())
	}
	if first.Ino != again.Ino || first.Mode != unix.S_IFREG|0o600 {
		t.Errorf("inodes %d and %d, mode %o", first.Ino, again.Ino, first.Mode)
	}
	if os.Geteuid() == 0 && (first.Uid != 65534 || first.Gid != 65534) {
		t.Errorf("it belongs to %d:%d", first.Uid, first.Gid)
	}
	check(t, unix.Mkfifo(a.path(".wsctl/fifo"), 0o600))
	check(t, os.Symlink(a.path("f"), a.path(".wsctl/link")))
	for _, name := range []string{"fifo", "link"} {
		_, err = r.LockFile(name)
		wantCode(t, err, workspace.ErrCorrupt)
	}
}

func TestRootStateRefused(t *testing.T) {
	for _, tree := range []string{".wsctl -> OUT", ".wsctl -> missing", ".wsctl = file"} {
		a := newArea(t, host.TestHooks{}, host.RootOptions{}, tree, "d/f")
		before := a.canary()
		_, err := a.r.State()
		wantCode(t, err, workspace.ErrInvalidPath)
		wantCode(t, a.r.Remove(bg, "d", workspace.RemoveOptions{Recursive: true}), workspace.ErrInvalidPath)
		wantCode(t, a.r.Remove(bg, "d", workspace.RemoveOptions{Trash: true}), workspace.ErrInvalidPath)
		if _, err := os.Stat(a.path("d/f")); err != nil {
			t.Error("a removal that was refused removed:", err)
		}
		if a.canary() != before {
			t.Error("something outside was changed")
		}
	}
	if asRoot() {
		a := newArea(t, host.TestHooks{}, host.RootOptions{}, ".wsctl/")
		check(t, os.Chown(a.path(".wsctl"), 4321, 4321))
		_, err := a.r.State()
		wantCode(t, err, workspace.ErrDenied)
	}
}

func TestReservedNames(t *testing.T) {
	for _, name := range []string{".wsctl", ".WSCTL", ".wsctl...", ".wsctl . ", ".ws\u00adctl", ".wsctl\ufe0f"} {
		if !host.Reserved(name) {
			t.Errorf("%q is not reserved", name)
		}
	}
	for _, name := range []string{"wsctl", ".wsctl2", ".wsct", "x.wsctl", ".wsctl\xff", ".wśctl", " .wsctl"} {
		if host.Reserved(name) {
			t.Errorf("%q is reserved", name)
		}
	}
}

// A state that a repository brought along is read without opening what is no
// regular file: a FIFO's other end learns nothing.
func TestRootPlantedStateFIFO(t *testing.T) {
	a := newArea(t, host.TestHooks{}, host.RootOptions{})
	check(t, os.Mkdir(a.path(".wsctl"), 0o700))
	mkfifo(t, a.path(".wsctl/id"))
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		if f, err := os.OpenFile(a.path(".wsctl/id"), os.O_WRONLY, 0); err == nil {
			_ = f.Close()
		}
	}()
	_, err := a.r.ID()
	wantCode(t, err, workspace.ErrCorrupt)
	select {
	case <-opened:
		t.Error("the FIFO was opened")
	case <-time.After(50 * time.Millisecond):
	}
	fd, err := unix.Open(a.path(".wsctl/id"), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	check(t, err)
	<-opened
	check(t, unix.Close(fd))
}
