//go:build unix

package container

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// plainDir returns a new directory without links in its path and with usual
// permissions whatever the umask.
func plainDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// mkdir makes a directory with exactly that mode.
func mkdir(t *testing.T, path string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// listen makes a socket, whose path may be longer than a socket's may be.
func listen(t *testing.T, path string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	t.Cleanup(func() { _ = l.Close() })
	if err := os.Rename(filepath.Join(dir, "s"), path); err != nil {
		t.Fatal(err)
	}
}

func TestRootThatMustNotBeUsed(t *testing.T) {
	top := plainDir(t)
	home := mkdir(t, filepath.Join(top, "homes", "me"), 0o755)
	cache := mkdir(t, filepath.Join(home, ".cache", "wsctl"), 0o700)
	engine := mkdir(t, filepath.Join(top, "var", "docker"), 0o755)
	p := placePolicy{Homes: []string{home}, CacheDir: cache, EngineRoot: engine}

	project := mkdir(t, filepath.Join(home, "project"), 0o755)
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(top, "fifo")
	if err := unix.Mkfifo(fifo, 0o644); err != nil {
		t.Fatal(err)
	}
	link := func(name, to string) string {
		path := filepath.Join(top, name)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		name, root string
		code       workspace.Code
		says       string
	}{
		{"project", project, "", ""},
		{"link to the project", link("p", project), "", ""},
		{"sibling of a home with its name as prefix", mkdir(t, home+"2", 0o755), "", ""},
		{"sibling of the cache", mkdir(t, cache+"x", 0o755), "", ""},
		{"everything", "/", workspace.ErrDenied, "whole machine"},
		{"everything by a link", link("all", "/"), workspace.ErrDenied, "whole machine"},
		{"everything by ..", project + "/../../../../../../../../..", workspace.ErrDenied, "project directory"},
		{"home", home, workspace.ErrDenied, "home directory"},
		{"home by a link", link("h", home), workspace.ErrDenied, "home directory"},
		{"above home", filepath.Dir(home), workspace.ErrDenied, "home directory"},
		{"cache", cache, workspace.ErrDenied, "wsctl"},
		{"above the cache", filepath.Dir(cache), workspace.ErrDenied, "wsctl"},
		{"in the cache", mkdir(t, filepath.Join(cache, "home", "x"), 0o755), workspace.ErrDenied, "wsctl"},
		{"engine's data", engine, workspace.ErrDenied, "engine's own data"},
		{"above the engine's data", filepath.Dir(engine), workspace.ErrDenied, "engine's own data"},
		{"in the engine's data", mkdir(t, filepath.Join(engine, "volumes"), 0o755), workspace.ErrDenied, "engine's own data"},
		{"system", "/usr", workspace.ErrDenied, "operating system"},
		{"kernel", "/proc", workspace.ErrDenied, "operating system"},
		{"below the kernel", "/proc/self/fd", workspace.ErrDenied, ""},
		{"missing", filepath.Join(top, "missing"), workspace.ErrNotFound, "make it first"},
		{"dangling", link("d", "nowhere"), workspace.ErrNotFound, ""},
		{"loop", link("loop", "loop"), workspace.ErrInvalidArgument, "circle"},
		{"file", file, workspace.ErrNotDirectory, ""},
		{"below a file", filepath.Join(file, "x"), workspace.ErrNotDirectory, ""},
		{"FIFO", fifo, workspace.ErrNotDirectory, ""},
		{"device", "/dev/null", workspace.ErrNotDirectory, ""},
		{"empty", "", workspace.ErrInvalidArgument, ""},
		{"NUL", "a\x00b", workspace.ErrInvalidArgument, ""},
		{"too long", "/" + strings.Repeat("a", 300), workspace.ErrInvalidArgument, "too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			begun := time.Now()
			got, err := checkRoot(t.Context(), c.root, p)
			if time.Since(begun) > 5*time.Second {
				t.Errorf("it took %v", time.Since(begun))
			}
			if c.code == "" {
				if err != nil {
					t.Fatal(err)
				}
				id, _ := identify(c.root)
				if (fileID{got.Dev, got.Ino}) != id || got.Name != c.root {
					t.Errorf("got %+v, want %v", got, id)
				}
				return
			}
			if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %+v, %v; want %s that says %q", got, err, c.code, c.says)
			}
		})
	}
}

func TestRootThatIsTheHomeOfItsOwner(t *testing.T) {
	for uid := uint32(firstPerson); uid < firstPerson+20; uid++ {
		for _, home := range homesOf(uid) {
			d, st, err := openDirectory(home)
			if err != nil {
				continue
			}
			_ = d.Close()
			if st.Uid != uid || home == "/" {
				continue
			}
			if _, err := checkRoot(t.Context(), home, placePolicy{}); !errors.Is(err, workspace.ErrDenied) || !strings.Contains(err.Error(), "home directory") {
				t.Errorf("%s: %v", home, err)
			}
			return
		}
	}
	t.Skip("no person has a readable home on this machine")
}

func TestRootWithACacheThatIsNotThereYet(t *testing.T) {
	top := plainDir(t)
	root := mkdir(t, filepath.Join(top, "p"), 0o755)
	if _, err := checkRoot(t.Context(), root, placePolicy{CacheDir: filepath.Join(root, "a", "b")}); !errors.Is(err, workspace.ErrDenied) {
		t.Errorf("the root above it: %v", err)
	}
	if _, err := checkRoot(t.Context(), root, placePolicy{CacheDir: filepath.Join(top, "a", "b")}); err != nil {
		t.Errorf("the root beside it: %v", err)
	}
}

func TestRootBelowWhatOthersCanWrite(t *testing.T) {
	for _, c := range []struct {
		name   string
		mode   os.FileMode
		stick  bool
		gid    int // -1: as it is
		denied bool
	}{
		{"everybody", 0o777, false, -1, true},
		{"everybody, sticky", 0o777, true, -1, false},
		{"write without read", 0o772, false, -1, true},
		{"own group", 0o775, false, -1, false},
		{"strange group", 0o775, false, 4242, true},
		{"strange group, sticky", 0o775, true, 4242, false},
		{"strange group that reads", 0o755, false, 4242, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			above := mkdir(t, filepath.Join(plainDir(t), "above"), 0o755)
			root := mkdir(t, filepath.Join(above, "mid", "root"), 0o755)
			if c.gid >= 0 {
				if os.Geteuid() != 0 {
					t.Skip("only root can give a directory to a strange group")
				}
				if err := os.Chown(above, -1, c.gid); err != nil {
					t.Fatal(err)
				}
			}
			mode := c.mode
			if c.stick {
				mode |= os.ModeSticky
			}
			mkdir(t, above, mode)
			_, err := checkRoot(t.Context(), root, placePolicy{})
			if denied := errors.Is(err, workspace.ErrDenied); denied != c.denied || err != nil && !denied {
				t.Fatalf("got %v, want denied: %v", err, c.denied)
			}
			if err != nil && !strings.Contains(err.Error(), "chmod") {
				t.Errorf("%v does not say what to do", err)
			}
		})
	}
}

func TestRootInAStrangersDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to a stranger")
	}
	above := mkdir(t, filepath.Join(plainDir(t), "above"), 0o755)
	root := mkdir(t, filepath.Join(above, "root"), 0o755)
	if err := os.Chown(above, 4242, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := checkRoot(t.Context(), root, placePolicy{}); !errors.Is(err, workspace.ErrDenied) || !strings.Contains(err.Error(), "4242") {
		t.Fatalf("got %v", err)
	}
	if err := os.Chown(root, 4242, -1); err != nil {
		t.Fatal(err)
	}
	if _, err := checkRoot(t.Context(), root, placePolicy{}); err != nil {
		t.Fatalf("the stranger's own root: %v", err)
	}
}

func TestRootWithAnEngineSocket(t *testing.T) {
	for _, c := range []struct {
		name, at string
		socket   bool
		known    bool
		denied   bool
	}{
		{name: "at the top", at: "docker.sock", socket: true, denied: true},
		{name: "deep", at: "a/b/Docker-Proxy.sock", socket: true, denied: true},
		{name: "podman", at: "a/podman.sock", socket: true, denied: true},
		{name: "containerd", at: "containerd.sock", socket: true, denied: true},
		{name: "another socket", at: "a/mysql.sock", socket: true},
		{name: "a file of that name", at: "a/docker.sock"},
		{name: "out of reach of the search", at: "a/b/c/docker.sock", socket: true},
		{name: "the engine's, out of reach of the search", at: "a/b/c/d/e.sock", socket: true, known: true, denied: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := plainDir(t)
			at := filepath.Join(root, c.at)
			mkdir(t, filepath.Dir(at), 0o755)
			if c.socket {
				listen(t, at)
			} else if err := os.WriteFile(at, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			var p placePolicy
			if c.known {
				// By another name, as /var/run/docker.sock leads to /run.
				p.EngineSocket = filepath.Join(plainDir(t), "sock")
				if err := os.Symlink(at, p.EngineSocket); err != nil {
					t.Fatal(err)
				}
			}
			_, err := checkRoot(t.Context(), root, p)
			if denied := errors.Is(err, workspace.ErrDenied); denied != c.denied || err != nil && !denied {
				t.Fatalf("got %v, want denied: %v", err, c.denied)
			}
		})
	}
}

func TestSocketSearchFollowsNoLinkAndOpensNoFifo(t *testing.T) {
	outside, root := plainDir(t), plainDir(t)
	listen(t, filepath.Join(outside, "docker.sock"))
	if err := os.Symlink(outside, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(root, "cycle")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(root, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := checkRoot(t.Context(), root, placePolicy{}); err != nil {
		t.Fatal(err)
	}
}

func TestSocketSearchIsBounded(t *testing.T) {
	root := plainDir(t)
	for i := range 40 {
		mkdir(t, filepath.Join(root, "d", strings.Repeat("x", i+1)), 0o755)
	}
	d, st, err := openDirectory(root)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s := socketSearch{dev: uint64(st.Dev), left: 10}
	if found, err := s.search(t.Context(), d, ".", 100); err != nil || found != "" || s.left < 0 {
		t.Errorf("got %q, %v with %d left", found, err, s.left)
	}
}

func TestRootCheckStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := checkRoot(ctx, plainDir(t), placePolicy{}); !errors.Is(err, workspace.ErrAborted) || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func TestRootWithOddNames(t *testing.T) {
	top := plainDir(t)
	for _, name := range []string{"a:b", "a,b", "a b", "a\nb", `a"b'c`, `back\slash`, "ünï", "-rf", "$HOME", "a;b&c|d"} {
		root := mkdir(t, filepath.Join(top, name), 0o755)
		if got, err := checkRoot(t.Context(), root, placePolicy{}); err != nil || got.Real != root {
			t.Errorf("%q: %+v, %v", name, got, err)
		}
	}
	bad := mkdir(t, filepath.Join(top, "\xff\xfe"), 0o755)
	_, err := checkRoot(t.Context(), bad, placePolicy{})
	if !errors.Is(err, workspace.ErrInvalidArgument) || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("not UTF-8: %v", err)
	}
}

func TestRootWarnings(t *testing.T) {
	root := mkdir(t, filepath.Join(plainDir(t), "r"), 0o777)
	got, err := checkRoot(t.Context(), root, placePolicy{})
	if err != nil || len(got.Warnings) == 0 || !strings.Contains(got.Warnings[0], "every user") {
		t.Errorf("got %q, %v", got.Warnings, err)
	}
	mkdir(t, root, 0o755)
	if got, err := checkRoot(t.Context(), root, placePolicy{}); err != nil || strings.Contains(strings.Join(got.Warnings, ""), "every user") {
		t.Errorf("got %q, %v", got.Warnings, err)
	}
}

func TestHomesOf(t *testing.T) {
	if got := homesOf(0, 0, 4_000_000_000); len(got) != 1 || !filepath.IsAbs(got[0]) {
		t.Errorf("got %q, want root's home once", got)
	}
}
