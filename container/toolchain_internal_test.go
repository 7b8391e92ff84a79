//go:build unix

package container

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

// toolBench runs commands in containers that have the host's toolchain. The
// containers are not hardened: they show what the files and mounts are.
type toolBench struct {
	cli   *client.Client
	top   string
	root  rootFacts
	user  commandUser
	cache string
}

func newToolBench(t *testing.T, user commandUser) toolBench {
	t.Helper()
	cli := enginetest.Client(t)
	top := enginetest.Dir(t)
	mkdir(t, top, 0o755)
	mkdir(t, filepath.Dir(top), 0o755)
	dir := mkdir(t, filepath.Join(top, "root"), 0o755)
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, int(user.UID), int(user.GID)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := checkRoot(t.Context(), dir, placePolicy{})
	if err != nil {
		t.Fatal(err)
	}
	return toolBench{cli: cli, top: top, root: root, user: user, cache: filepath.Join(top, "cache")}
}

func (b toolBench) request(dirs ...string) toolchainRequest {
	return toolchainRequest{User: b.user, HostPath: "/root/bin:/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin:/nowhere:.:", Dirs: dirs, CacheDir: b.cache, Root: b.root, LocalEngine: true}
}

// use makes the toolchain available.
func (b toolBench) use(t *testing.T, dirs ...string) toolchain {
	t.Helper()
	tools, err := useToolchain(t.Context(), b.cli, b.request(dirs...))
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// run runs a shell line in a new container over the toolchain and the home, and
// returns what it wrote and its status.
func (b toolBench) run(t *testing.T, home *homeDir, tools toolchain, mounts []Mount, line string) (string, int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	plan, err := planMounts(ctx, mountRequest{Root: b.root, Home: home, Toolchain: tools.Mounts, User: mounts})
	if err != nil {
		t.Fatal(err)
	}
	made, err := b.cli.ContainerCreate(ctx, &container.Config{
		Image: tools.Image.ID, User: b.user.String(), WorkingDir: guestRoot, Entrypoint: []string{"sh", "-c", line}, Labels: enginetest.Labels(),
		Env: commandEnv(envRequest{Image: tools.Image, User: b.user, UserName: tools.UserName, Offline: true}),
	}, &container.HostConfig{NetworkMode: "none", Mounts: plan.Mounts, CapDrop: []string{"ALL"}}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		err := b.cli.ContainerRemove(context.WithoutCancel(ctx), made.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil {
			t.Error(err)
		}
	}()
	done, failed := b.cli.ContainerWait(ctx, made.ID, container.WaitConditionNextExit)
	if err := b.cli.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	var status int64
	select {
	case err := <-failed:
		t.Fatal(err)
	case s := <-done:
		status = s.StatusCode
	}
	logs, err := b.cli.ContainerLogs(ctx, made.ID, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	var out bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &out, logs); err != nil {
		t.Fatal(err)
	}
	return out.String(), status
}

// runner is a user that commands run as: this test's, or a plain one when it is
// root.
func runner() commandUser {
	u := me()
	if u.UID == 0 {
		u = commandUser{UID: 1234, GID: 2345}
	}
	return u
}

// home opens the home of the bench's root.
func (b toolBench) home(t *testing.T) *homeDir {
	t.Helper()
	h, err := openHome(homeRequest{CacheDir: b.cache, Root: b.root, User: b.user})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		closeHome(t, h)
		makeRemovable(t, filepath.Join(b.cache, "home"))
	})
	return h
}

func TestToolchainRunsTheHostsPrograms(t *testing.T) {
	b := newToolBench(t, runner())
	home, tools := b.home(t), b.use(t)
	cases := []struct{ name, needs, line string }{
		{"identity", "", `test "$(id -u):$(id -g)" = ` + b.user.String()},
		{"name", "getent", `test "$(getent passwd "$(id -u)" | cut -d: -f1,6)" = "$USER:$HOME" && getent group "$(id -g)" && getent passwd nobody`},
		{"home", "", `test "$HOME" = /home/user && printf '#!/bin/sh\n' >~/x && chmod +x ~/x && ~/x && cd && test "$(pwd)" = /home/user`},
		{"tmp", "", `printf '#!/bin/sh\n' >$TMPDIR/x && chmod +x $TMPDIR/x && $TMPDIR/x && touch /var/tmp/x && ! touch /x 2>/dev/null`},
		{"workspace", "", `echo hi >/workspace/f && test "$(cat f)" = hi`},
		{"usr is read-only", "", `! touch /usr/x 2>/dev/null && ! rm -f /usr/bin/env 2>/dev/null && ls /usr/bin/env`},
		{"shadow and keys stay", "", `! test -e /etc/shadow && ! test -e /etc/gitconfig && ! test -e /etc/ssl/private && ! test -e /etc/ssh && ! test -e /root/.bashrc`},
		{"path", "", `case $PATH in *root*|*nowhere*|*.:*|*::*) exit 1;; esac; command -v env`},
		{"sbin", "ldconfig", `/sbin/ldconfig -p | head -1`},
		{"git", "git", `cd /workspace && git init -q g && cd g && git status -sb && git config --global user.name x && git config --global user.email x@y && git commit -qm x --allow-empty && git log --oneline`},
		{"python", "python3", `python3 -c 'import getpass, ssl, ctypes.util; print(getpass.getuser(), ssl.OPENSSL_VERSION)'`},
		{"pip", "pip", `pip config set global.timeout 5`},
		{"npm", "npm", `mkdir -p n && cd n && npm init -y >/dev/null && test -f package.json && test -d ~/.npm`},
		{"tar", "tar", `cd /workspace && tar cf t.tar f && rm f && tar xf t.tar && test -f f`},
	}
	// One container for all: each in a shell of its own, its status after it.
	var script strings.Builder
	for i, c := range cases {
		if c.needs != "" {
			if _, err := exec.LookPath(c.needs); err != nil {
				t.Logf("this machine has no %s", c.needs)
				cases[i].line = "true"
			}
		}
		fmt.Fprintf(&script, "echo; echo '<%d>'; ( %s ) 2>&1; echo; echo '<%d>' $?\n", i, cases[i].line, i)
	}
	out, _ := b.run(t, home, tools, nil, script.String())
	for i, c := range cases {
		mark := fmt.Sprintf("\n<%d>", i)
		_, rest, _ := strings.Cut(out, mark+"\n")
		said, rest, ended := strings.Cut(rest, mark+" ")
		if status, _, _ := strings.Cut(rest, "\n"); !ended || status != "0" {
			t.Errorf("%s: status %q: %s", c.name, status, said)
		}
	}
	info, err := os.Stat(filepath.Join(b.root.Real, "f"))
	if err != nil {
		t.Error(err)
	} else if os.Geteuid() != 0 {
		if f, err := os.OpenFile(filepath.Join(b.root.Real, "f"), os.O_WRONLY, 0); err != nil {
			t.Errorf("what a command made is not the caller's: %v, %v", info, err)
		} else {
			_ = f.Close()
		}
	}
}

// goProgram builds and runs a program that needs only Go's own runtime, as go run
// does: in the directories for caches and temporary files. -v names what is
// compiled.
const goProgram = `mkdir -p /workspace/m && cd /workspace/m && printf 'module example.com/m\n\ngo 1.20\n' >go.mod &&
printf 'package main\n\nfunc main() { println("it runs") }\n' >m.go && go run -v . && go env GOPROXY GOCACHE GOPATH`

func TestToolchainCompilesGo(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles Go's runtime: not under -short")
	}
	if _, err := os.Stat("/usr/local/go/bin/go"); err != nil {
		t.Skip("this machine has no Go below /usr")
	}
	b := newToolBench(t, runner())
	home, tools := b.home(t), b.use(t)
	out, status := b.run(t, home, tools, nil, goProgram)
	if status != 0 || !strings.Contains(out, "off\n/home/user/.cache/go-build\n/home/user/go\n") || !strings.Contains(out, "\nruntime\n") {
		t.Fatalf("status %d: %s", status, out)
	}
	// The second time the home is warm, and a module cache of the host may be
	// mounted in it read-only.
	mod := mkdir(t, filepath.Join(b.top, "mod"), 0o755)
	out, status = b.run(t, home, tools, []Mount{{Source: mod, Target: guestHome + "/go/pkg/mod"}}, goProgram+" && mkdir ~/go/bin")
	if status != 0 || !strings.Contains(out, "it runs") || strings.Contains(out, "\nruntime\n") {
		t.Errorf("the second time: status %d: %s", status, out)
	}
	// A module that is missing is told at once, not after a time-out.
	begun := time.Now()
	out, status = b.run(t, home, tools, nil, `cd m && printf 'module m\nrequire example.com/other v1.0.0\n' >go.mod && printf 'package main\nimport _ "example.com/other"\nfunc main() {}\n' >m.go && go build -mod=mod .`)
	if status == 0 || !strings.Contains(out, "GOPROXY=off") || time.Since(begun) > time.Minute {
		t.Errorf("a missing module, after %v: status %d: %s", time.Since(begun), status, out)
	}
}

func TestToolchainAsRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root's roots have commands run as root")
	}
	b := newToolBench(t, commandUser{})
	home, tools := b.home(t), b.use(t)
	if tools.UserName != "root" {
		t.Errorf("the user is %q", tools.UserName)
	}
	// Root without capabilities cannot give files away.
	line := `cd /workspace && mkdir d && touch d/f && tar --owner=1000 --group=1000 -cf t.tar d && rm -r d && tar xf t.tar && test -f d/f && getent passwd 0 && touch ~/x && id`
	if out, status := b.run(t, home, tools, nil, line); status != 0 {
		t.Errorf("status %d: %s", status, out)
	}
}

func TestToolchainDirectories(t *testing.T) {
	b := newToolBench(t, runner())
	tool := mkdir(t, filepath.Join(b.top, "tool", "bin"), 0o755)
	if err := os.WriteFile(filepath.Join(tool, "mine"), []byte("#!/bin/sh\necho it works\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(b.top, "current")
	if err := os.Symlink("tool", link); err != nil {
		t.Fatal(err)
	}
	r := b.request(link, "/usr/share", "/usr")
	r.HostPath = link + "/bin:" + r.HostPath
	tools, err := useToolchain(t.Context(), b.cli, r)
	if err != nil {
		t.Fatal(err)
	}
	if out, status := b.run(t, b.home(t), tools, nil, "mine && ! touch "+link+"/x"); status != 0 || !strings.HasPrefix(out, "it works\n") {
		t.Errorf("status %d: %s", status, out)
	}
	file := filepath.Join(tool, "mine")
	for dir, code := range map[string]workspace.Code{
		filepath.Join(b.top, "missing"): workspace.ErrNotFound, file: workspace.ErrNotDirectory, "rel": workspace.ErrInvalidArgument,
		"/": workspace.ErrInvalidArgument, "/etc": workspace.ErrInvalidArgument, "/proc": workspace.ErrInvalidArgument, "/workspace": workspace.ErrInvalidArgument,
		filepath.Join(b.root.Real, ".wsctl"): workspace.ErrDenied,
	} {
		if code == workspace.ErrDenied {
			mkdir(t, dir, 0o700)
		}
		if _, err := useToolchain(t.Context(), b.cli, b.request(dir)); !errors.Is(err, code) {
			t.Errorf("%s: %v, want %s", dir, err, code)
		}
	}
}

func TestRootWithAnOddNameIsMounted(t *testing.T) {
	b := newToolBench(t, runner())
	odd := mkdir(t, filepath.Join(b.top, "a:b,c d=e\nf\"g'h\\i$HOME;ü"), 0o777)
	if err := os.WriteFile(filepath.Join(odd, "canary"), []byte("tweet"), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := checkRoot(t.Context(), odd, placePolicy{})
	if err != nil {
		t.Fatal(err)
	}
	b.root = root
	// As a second mount it is at another odd place.
	also := Mount{Source: odd, Target: "/a:b,c d=e\nf"}
	line := `test "$(cat /workspace/canary)" = tweet && echo made >/workspace/made && cat '` + also.Target + `/made'`
	if out, status := b.run(t, b.home(t), b.use(t), []Mount{also}, line); status != 0 || out != "made\n" {
		t.Errorf("status %d: %q", status, out)
	}
	if made, err := os.ReadFile(filepath.Join(odd, "made")); err != nil || string(made) != "made\n" {
		t.Errorf("on the host: %q, %v", made, err)
	}
}

func TestToolchainThatHoldsTheRootMasksItsState(t *testing.T) {
	b := newToolBench(t, runner())
	plan, err := planMounts(t.Context(), mountRequest{Root: b.root, Home: b.home(t), Toolchain: b.use(t, b.top).Mounts})
	if want := filepath.Join(b.root.Real, ".wsctl"); err != nil || !slices.Equal(plan.Masks, []string{want}) {
		t.Errorf("masks %q, %v; want %s", plan.Masks, err, want)
	}
}

func TestToolchainImageIsMadeOnceAndTrustedByContent(t *testing.T) {
	// A user of its own, so that no other test has its image.
	user := commandUser{UID: 70_000 + uint32(os.Getpid()), GID: 4321}
	b := newToolBench(t, me())
	b.user = user
	var all sync.WaitGroup
	ids := make([]string, 6)
	for i := range ids {
		all.Add(1)
		go func() {
			defer all.Done()
			tools, err := useToolchain(t.Context(), b.cli, b.request())
			if err != nil {
				t.Error(err)
			}
			ids[i] = tools.Image.ID
		}()
	}
	all.Wait()
	remove := func(ref string) {
		if _, err := b.cli.ImageRemove(t.Context(), ref, image.RemoveOptions{Force: true}); err != nil {
			t.Error(err)
		}
	}
	if len(slices.Compact(ids)) != 1 || ids[0] == "" {
		t.Fatalf("images %q", ids)
	}
	got, err := b.cli.ImageInspect(t.Context(), ids[0])
	if err != nil || len(got.RepoTags) != 1 || !strings.HasPrefix(got.RepoTags[0], toolchainRepository+":") || len(got.Config.Labels) != 0 {
		t.Fatalf("got %+v, %v", got, err)
	}

	// Somebody else's image under its tag is not used.
	ref := got.RepoTags[0]
	if err := b.cli.ImageTag(t.Context(), enginetest.BusyBox(t), ref); err != nil {
		t.Fatal(err)
	}
	tools, err := useToolchain(t.Context(), b.cli, b.request())
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(tools.Image.layers, "") != got.RootFS.Layers[0] {
		t.Errorf("an image of layers %q, want %q", tools.Image.layers, got.RootFS.Layers)
	}
	remove(ref)
	if tools.Image.ID != ids[0] {
		remove(ids[0])
	}
}

func TestToolchainThatCannotBeHad(t *testing.T) {
	r := toolchainRequest{User: me(), CacheDir: t.TempDir()}
	_, err := useToolchain(t.Context(), fakeImages{}, r)
	if !errors.Is(err, workspace.ErrUnavailable) || !strings.Contains(err.Error(), "--image") {
		t.Errorf("engine elsewhere: %v", err)
	}
	err = needShell([]hostDirectory{{source: "/nowhere", target: "/nowhere"}})
	if !errors.Is(err, workspace.ErrUnavailable) || !strings.Contains(err.Error(), "--toolchain") || !strings.Contains(err.Error(), "--image") {
		t.Errorf("shell elsewhere: %v", err)
	}
}

func TestVisiblePath(t *testing.T) {
	dirs := []hostDirectory{{source: "/usr", target: "/usr"}, {source: "/x/opt", target: "/opt/tool"}}
	h := hostFacts{links: map[string]string{"bin": "usr/bin"}, sbin: []string{"x"}}
	for path, want := range map[string]string{
		"/usr/bin:/bin:/sbin":                         "/usr/bin:/bin:/sbin",
		"/root/bin:/usr/local/bin:/usr/local/bin/:.:": "/usr/local/bin",
		"/opt/tool/bin:/opt/other:/x/opt":             "/opt/tool/bin",
		"/usrx:/usr/../root":                          defaultPath,
		"":                                            defaultPath,
	} {
		if got := visiblePath(path, dirs, h); got != want {
			t.Errorf("%q: got %q, want %q", path, got, want)
		}
	}
}

func TestGuestUser(t *testing.T) {
	for _, c := range []struct {
		user          commandUser
		passwd, group string
	}{
		{commandUser{}, "root:x:0:0::/home/user:", "root:x:0:\n"},
		{commandUser{UID: 4_000_000_000, GID: 4_000_000_001}, "user:x:4000000000:4000000001::/home/user:", "user:x:4000000001:\n"},
		{commandUser{UID: overflowID, GID: overflowID}, ":x:65534:65534::/home/user:", ":x:65534:\n"},
	} {
		g := newGuestUser(c.user)
		if !strings.Contains(g.passwd(), c.passwd) || !strings.Contains(g.groups(), c.group) {
			t.Errorf("%s: %q, %q", c.user, g.passwd(), g.groups())
		}
		for _, file := range []string{g.passwd(), g.groups()} {
			seen := map[string]bool{}
			for line := range strings.Lines(file) {
				name, _, _ := strings.Cut(line, ":")
				if seen[name] {
					t.Errorf("%s: %s is there twice in %q", c.user, name, file)
				}
				seen[name] = true
			}
		}
	}
}

func TestToolchainLayerIsTheSameEachTime(t *testing.T) {
	h := hostFacts{
		links: map[string]string{"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}, real: []string{"/libx"}, sbin: []string{"a", "b"},
		etcDirs: []string{"alternatives", "ssl/certs"}, etcFiles: []string{"localtime", "ssl/openssl.cnf"}, osRelease: true, user: newGuestUser(commandUser{UID: 5, GID: 6}),
	}
	first, err := h.layer()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if again, err := h.layer(); err != nil || !bytes.Equal(again, first) {
			t.Fatalf("another layer of %d bytes, %v", len(again), err)
		}
	}
	h.user.uid++
	if other, _ := h.layer(); bytes.Equal(other, first) {
		t.Error("another user has the same layer")
	}
}
