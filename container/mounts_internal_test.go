//go:build unix

package container

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/mount"

	"github.com/wsctl/wsctl/workspace"
)

func TestParseMount(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spec string
		want Mount // zero: refused
	}{
		{"/a:/b", Mount{Source: "/a", Target: "/b"}},
		{"/a:/b:ro", Mount{Source: "/a", Target: "/b"}},
		{"/a:/b:rw", Mount{Source: "/a", Target: "/b", Writable: true}},
		{"/a:b:/c", Mount{Source: "/a:b", Target: "/c"}},
		{"/a:/b:/c:rw", Mount{Source: "/a:/b", Target: "/c", Writable: true}},
		{"/a,b c\n:/d", Mount{Source: "/a,b c\n", Target: "/d"}},
		{"/a:/b/../c/", Mount{Source: "/a", Target: "/c"}},
		{"/a/../x/:/b", Mount{Source: "/x", Target: "/b"}},
		{"a:/b", Mount{Source: filepath.Join(here, "a"), Target: "/b"}},
		{"~/a:/b", Mount{Source: filepath.Join(here, "~/a"), Target: "/b"}},
		{"/a:/b:x", Mount{Source: "/a", Target: "/b:x"}},
		{"/a:/", Mount{Source: "/a", Target: "/"}},
		{"", Mount{}},
		{"/a", Mount{}},
		{":/b", Mount{}},
		{"/a:b", Mount{}},
		{"/a:", Mount{}},
		{"/a:rw", Mount{}},
	} {
		got, err := ParseMount(c.spec)
		if c.want == (Mount{}) {
			if !errors.Is(err, workspace.ErrInvalidArgument) {
				t.Errorf("%q: got %+v, %v", c.spec, got, err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%q: got %+v, %v; want %+v", c.spec, got, err, c.want)
		}
	}
}

// mountBench is what a plan of mounts needs.
type mountBench struct {
	top  string
	root rootFacts
	home *homeDir
}

func newMountBench(t *testing.T) mountBench {
	t.Helper()
	top := plainDir(t)
	root, err := checkRoot(t.Context(), mkdir(t, filepath.Join(top, "src", "root"), 0o755), placePolicy{})
	if err != nil {
		t.Fatal(err)
	}
	mkdir(t, filepath.Join(root.Real, ".wsctl"), 0o700)
	mkdir(t, filepath.Join(root.Real, "sub"), 0o755)
	home, err := openHome(homeRequest{CacheDir: filepath.Join(top, "cache"), Root: root, User: commandUser{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := home.Close(); err != nil {
			t.Error(err)
		}
	})
	return mountBench{top: top, root: root, home: home}
}

func (b mountBench) plan(t *testing.T, p placePolicy, m ...Mount) (mountPlan, error) {
	t.Helper()
	return planMounts(t.Context(), mountRequest{Root: b.root, Home: b.home, User: m, Keeper: "/k/wskeeper", Policy: p, Toolchain: []mount.Mount{bind("/usr", "/usr", false)}})
}

func TestMountTargets(t *testing.T) {
	b := newMountBench(t)
	source := mkdir(t, filepath.Join(b.top, "data"), 0o755)
	for target, ok := range map[string]bool{
		"/data": true, "/etc/data": true, "/home/other": true, "/workspacex": true, "/usr/data": true, "/home/user/go/pkg/mod": true, "/tmp/x": true,
		"/": false, "data": false, "": false, "/a/../b": false, "/a/": false, "/a\x00b": false, "/\xff": false,
		"/workspace": false, "/workspace/data": false, "/workspace/.wsctl": false,
		"/home/user": false, "/home": false, "/usr": false, "/wskeeper": false,
		"/proc": false, "/proc/1": false, "/sys/x": false, "/dev": false, "/dev/shm": false, "/etc": false, "/etc/hosts": false,
	} {
		_, err := b.plan(t, placePolicy{}, Mount{Source: source, Target: target})
		if ok && err != nil || !ok && !errors.Is(err, workspace.ErrInvalidArgument) {
			t.Errorf("%q: %v, want ok: %v", target, err, ok)
		}
	}
	twice := Mount{Source: source, Target: "/data"}
	if _, err := b.plan(t, placePolicy{}, twice, twice); !errors.Is(err, workspace.ErrInvalidArgument) {
		t.Errorf("one target twice: %v", err)
	}
	if _, err := b.plan(t, placePolicy{}, Mount{Source: source, Target: "/a/b"}, Mount{Source: source, Target: "/a"}); !errors.Is(err, workspace.ErrInvalidArgument) {
		t.Errorf("a target over another: %v", err)
	}
}

func TestMountSources(t *testing.T) {
	b := newMountBench(t)
	home := mkdir(t, filepath.Join(b.top, "me"), 0o755)
	tool := mkdir(t, filepath.Join(home, ".nvm"), 0o755)
	socket := filepath.Join(b.top, "any.sock")
	listen(t, socket)
	holds := mkdir(t, filepath.Join(b.top, "holds", "run"), 0o755)
	listen(t, filepath.Join(holds, "docker.sock"))
	file := filepath.Join(b.top, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(b.top, "link")
	if err := os.Symlink(tool, link); err != nil {
		t.Fatal(err)
	}
	badName := mkdir(t, filepath.Join(b.top, "\xff"), 0o755)
	state := filepath.Join(b.top, "state")
	if err := os.Symlink(filepath.Join(b.root.Real, ".wsctl"), state); err != nil {
		t.Fatal(err)
	}
	p := placePolicy{Homes: []string{home}, CacheDir: filepath.Join(b.top, "cache"), EngineRoot: mkdir(t, filepath.Join(b.top, "engine"), 0o700)}
	for _, c := range []struct {
		name, source string
		writable     bool
		code         workspace.Code
		real         string // where a good one leads; "" = itself
	}{
		{name: "directory of tools in the home", source: tool},
		{name: "by a link", source: link, real: tool},
		{name: "file", source: file},
		{name: "part of the root", source: filepath.Join(b.root.Real, "sub"), writable: true},
		{name: "above the root, read-only", source: filepath.Dir(b.root.Real)},
		{name: "above the root, writable", source: filepath.Dir(b.root.Real), writable: true, code: workspace.ErrDenied},
		{name: "the root, writable", source: b.root.Real, writable: true, code: workspace.ErrDenied},
		{name: "state", source: filepath.Join(b.root.Real, ".wsctl"), code: workspace.ErrDenied},
		{name: "state by a link", source: state, code: workspace.ErrDenied},
		{name: "in the state", source: mkdir(t, filepath.Join(b.root.Real, ".wsctl", "trash"), 0o700), code: workspace.ErrDenied},
		{name: "home", source: home, code: workspace.ErrDenied},
		{name: "above the home", source: b.top, code: workspace.ErrDenied},
		{name: "everything", source: "/", code: workspace.ErrDenied},
		{name: "cache", source: p.CacheDir, code: workspace.ErrDenied},
		{name: "another's home in the cache", source: filepath.Join(p.CacheDir, "home"), code: workspace.ErrDenied},
		{name: "engine", source: p.EngineRoot, code: workspace.ErrDenied},
		{name: "socket", source: socket, code: workspace.ErrDenied},
		{name: "holds an engine's socket", source: filepath.Dir(holds), code: workspace.ErrDenied},
		{name: "device", source: "/dev/null", code: workspace.ErrDenied},
		{name: "kernel", source: "/proc/sys", code: workspace.ErrDenied},
		{name: "etc", source: "/etc", code: workspace.ErrDenied},
		{name: "missing", source: filepath.Join(b.top, "missing"), code: workspace.ErrNotFound},
		{name: "not UTF-8", source: badName, code: workspace.ErrInvalidArgument},
		{name: "relative", source: "x", code: workspace.ErrInvalidArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := b.plan(t, p, Mount{Source: c.source, Target: "/m", Writable: c.writable})
			if c.code != "" {
				if !errors.Is(err, c.code) {
					t.Fatalf("got %v, want %s", err, c.code)
				}
				return
			}
			if c.real == "" {
				c.real = c.source
			}
			if err != nil || !slices.ContainsFunc(plan.Mounts, func(m mount.Mount) bool {
				return m.Target == "/m" && m.Source == c.real && m.ReadOnly != c.writable && m.BindOptions.NonRecursive
			}) {
				t.Fatalf("got %+v, %v", plan, err)
			}
		})
	}
}

func TestMountPlan(t *testing.T) {
	b := newMountBench(t)
	plan, err := b.plan(t, placePolicy{}, Mount{Source: b.top, Target: "/top"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"/workspace", "/home/user", "/usr", "/wskeeper", "/top"}; !slices.Equal(plan.Targets(), want) {
		t.Errorf("targets %q, want %q", plan.Targets(), want)
	}
	for _, m := range plan.Mounts {
		writable := m.Target == guestRoot || m.Target == guestHome
		if m.Type != mount.TypeBind || m.ReadOnly == writable || m.BindOptions == nil || m.BindOptions.Propagation != mount.PropagationRPrivate || !m.BindOptions.NonRecursive {
			t.Errorf("mount %+v", m)
		}
	}
	if want := []string{"/top/src/root/.wsctl"}; !slices.Equal(plan.Masks, want) {
		t.Errorf("masks %q, want %q", plan.Masks, want)
	}
}

func TestMountPointsInTheHome(t *testing.T) {
	b := newMountBench(t)
	outside := plainDir(t)
	m := Mount{Source: mkdir(t, filepath.Join(b.top, "mod"), 0o755), Target: guestHome + "/go/pkg/mod"}
	for range 2 { // made, then found
		if _, err := b.plan(t, placePolicy{}, m); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Lstat(filepath.Join(b.home.Path, "go/pkg/mod"))
	if err != nil || !info.IsDir() {
		t.Fatalf("the mount point: %v, %v", info, err)
	}
	file := Mount{Source: filepath.Join(b.top, "f"), Target: guestHome + "/.config/tool.conf"}
	if err := os.WriteFile(file.Source, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := b.plan(t, placePolicy{}, file); err != nil {
		t.Fatal(err)
	}

	// What a command planted is not followed.
	if err := os.Symlink(outside, filepath.Join(b.home.Path, "planted")); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"planted", "planted/x", ".config/tool.conf/x"} {
		m.Target = guestHome + "/" + target
		if _, err := b.plan(t, placePolicy{}, m); !errors.Is(err, workspace.ErrConflict) || !strings.Contains(err.Error(), "fresh home") {
			t.Errorf("%s: %v", target, err)
		}
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) != 0 {
		t.Errorf("outside: %v, %v", left, err)
	}
}
