//go:build unix

package host_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// run runs a shell text that must give a status.
func run(t testing.TB, ws *workspace.Workspace, text string) *workspace.Output {
	t.Helper()
	out, err := ws.Exec(t.Context(), workspace.Command{Shell: text})
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return out
}

// eventually polls until ok, for at most ten seconds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not after 10 s: %s", what)
		}
	}
}

// alive reports whether a process has mark among its arguments.
func alive(t testing.TB, mark string) bool {
	t.Helper()
	out, err := exec.Command("ps", "-A", "-o", "stat=,args=").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, mark) && !strings.HasPrefix(line, "Z") {
			return true
		}
	}
	return false
}

// runs reports whether a process has not ended.
func runs(t testing.TB, pid int) bool {
	t.Helper()
	// ps fails where there is no such process.
	stat, _ := exec.Command("ps", "-p", strconv.Itoa(pid), "-o", "stat=").Output()
	return len(stat) > 0 && stat[0] != 'Z'
}

// TestEnv: a command has what the options, the workspace and the command give
// it, and nothing of this process's own.
func TestEnv(t *testing.T) {
	t.Setenv("WSCTL_TEST_CANARY", "canary")
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			ws := open(t, w.keeper, host.Options{Env: []string{path, "A=base", "B=base", "weird.name=x"}})
			out, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"env"}, Env: []string{"B=command", "C=a\nb"}})
			if err != nil {
				t.Fatal(err)
			}
			got := string(out.Stdout)
			for _, want := range []string{path + "\n", "A=base\n", "B=command\n", "C=a\nb\n"} {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
			for _, never := range []string{"canary", "B=base", "HOME=", "USER="} {
				if strings.Contains(got, never) {
					t.Errorf("%q in\n%s", never, got)
				}
			}
		})
	}
}

func TestInheritedEnv(t *testing.T) {
	t.Parallel()
	got := host.InheritedEnv([]string{
		"PATH=/bin", "HOME=/home/me", "AWS_SECRET_ACCESS_KEY=s", "LC_ALL=C", "LC_=x", "LANG=C", "LCX=1", "TZ=UTC", "TERM=dumb",
		"PATH=/usr/bin", "LD_PRELOAD=/x.so", "TMPDIR=/t", "TMP=/t", "TEMP=/t", "USER=me", "LOGNAME=me", "SHELL=/bin/sh",
		"TOKEN", "PATHX=1", "path=/x", "BASH_FUNC_PATH%%=() {", "GITHUB_TOKEN=s", "=C:=x",
	})
	want := []string{
		"PATH=/usr/bin", "HOME=/home/me", "LC_ALL=C", "LC_=x", "LANG=C", "TZ=UTC", "TERM=dumb",
		"TMPDIR=/t", "TMP=/t", "TEMP=/t", "USER=me", "LOGNAME=me", "SHELL=/bin/sh",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dir  string
		o    host.Options
		code workspace.Code
	}{
		{t.TempDir(), host.Options{Env: []string{"NAME"}}, workspace.ErrInvalidArgument},
		{t.TempDir(), host.Options{Env: []string{"=x"}}, workspace.ErrInvalidArgument},
		{t.TempDir(), host.Options{Env: []string{"A=\x00"}}, workspace.ErrInvalidArgument},
		{filepath.Join(t.TempDir(), "none"), host.Options{}, workspace.ErrNotFound},
	} {
		if d, err := host.New(c.dir, c.o); workspace.CodeOf(err) != c.code {
			t.Errorf("%+v: %v, %v; want %s", c.o, d, err, c.code)
		}
	}
}

func TestDescriptor(t *testing.T) {
	t.Parallel()
	real, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	d, err := host.New(link, host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got, want := d.Descriptor(), (workspace.Descriptor{Kind: workspace.KindLocal, Root: link}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if d.Real() != real {
		t.Errorf("real root %q, want %q", d.Real(), real)
	}
}

// TestShWithoutPath: a bare sh is found whatever PATH says, or does not say.
func TestShWithoutPath(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, kept bool) {
		for _, env := range [][]string{{"A=1"}, {"PATH="}, {"PATH=/nonexistent"}, {"PATH=/nonexistent:"}, {"PATH=/proc/self/fd"}} {
			ws := open(t, kept, host.Options{Env: env})
			out, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"sh", "-c", `echo "$0 $1"`, "a", "b c"}})
			if err != nil || out.ExitCode != 0 || string(out.Stdout) != "a b c\n" {
				t.Errorf("%q: %+v, %v", env, out, err)
			}
		}
	})
}

// TestOwnPath: Args[0] is looked up in the command's PATH, not in this
// process's.
func TestOwnPath(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, kept bool) {
		ws := open(t, kept, host.Options{})
		// A command makes it: what this process has open for writing, a process
		// that it starts at that moment has too, and then nobody can run it.
		run(t, ws, `mkdir bin; printf '#!/bin/sh\necho mine\n' > bin/sh; chmod +x bin/sh`)
		for _, c := range []workspace.Command{
			{Args: []string{"sh"}, Env: []string{"PATH=" + ws.Root() + "/bin:/usr/bin:/bin"}},
			{Args: []string{"./sh"}, Dir: "bin"},
			{Args: []string{"bin/sh"}},
		} {
			out, err := ws.Exec(t.Context(), c)
			if err != nil || string(out.Stdout) != "mine\n" {
				t.Errorf("%q: %+v, %v", c.Args, out, err)
			}
		}
	})
}

// TestSwappedDir: while a directory and a link to the outside take turns at one
// name, no command ever runs outside.
func TestSwappedDir(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, kept bool) {
		ws := open(t, kept, host.Options{})
		root := ws.Descriptor().Root
		outside := t.TempDir()
		for _, dir := range []string{"d", "real"} {
			if err := os.Mkdir(filepath.Join(root, dir), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(outside, filepath.Join(root, "evil")); err != nil {
			t.Fatal(err)
		}
		stop := make(chan struct{})
		var swaps int
		var attacker sync.WaitGroup
		attacker.Go(func() {
			at := func(name string) string { return filepath.Join(root, name) }
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, next := range []string{"evil", "real"} {
					_ = os.Rename(at("d"), at("aside"))
					_ = os.Rename(at(next), at("d"))
					runtime.Gosched()
					_ = os.Rename(at("d"), at(next))
					_ = os.Rename(at("aside"), at("d"))
					swaps++
				}
			}
		})
		inside := 0
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
			out, err := ws.Exec(t.Context(), workspace.Command{Shell: "pwd -P; : > here", Dir: "d"})
			switch workspace.CodeOf(err) {
			case "":
				inside++
				if dir := strings.TrimSpace(string(out.Stdout)); dir == outside {
					t.Fatalf("a command ran in %s", dir)
				}
			case workspace.ErrNotFound, workspace.ErrOutside, workspace.ErrNotDirectory:
			default:
				t.Fatal(err)
			}
		}
		close(stop)
		attacker.Wait()
		if inside == 0 || swaps == 0 {
			t.Errorf("%d commands ran and %d swaps were made: nothing is shown", inside, swaps)
		}
		if list, err := os.ReadDir(outside); err != nil || len(list) > 0 {
			t.Errorf("outside: %v, %v", list, err)
		}
	})
}

// TestNoCommandsInMovedRoot: commands do not run when the root's name leads elsewhere, and
// the error says so.
func TestNoCommandsInMovedRoot(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, kept bool) {
		ws := open(t, kept, host.Options{})
		root := ws.Root()
		if err := os.Rename(root, root+".old"); err != nil {
			t.Fatal(err)
		}
		_, err := ws.Exec(t.Context(), workspace.Command{Shell: ":"})
		if workspace.CodeOf(err) != workspace.ErrNotFound {
			t.Errorf("moved: %v", err)
		}
		if err := os.Mkdir(root, 0o777); err != nil {
			t.Fatal(err)
		}
		_, err = ws.Exec(t.Context(), workspace.Command{Shell: ":"})
		if workspace.CodeOf(err) != workspace.ErrConflict {
			t.Errorf("replaced: %v", err)
		}
		if err := os.Remove(root); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(root+".old", root); err != nil {
			t.Fatal(err)
		}
		if out := run(t, ws, "echo back"); string(out.Stdout) != "back\n" {
			t.Errorf("moved back: %+v", out)
		}
	})
}

// TestDirThatMayNotBeEntered: DENIED, and nothing runs. Root may enter all.
func TestDirThatMayNotBeEntered(t *testing.T) {
	t.Parallel()
	var denied, missing workspace.Code
	if os.Getuid() != 0 {
		denied, missing = workspace.ErrDenied, workspace.ErrNotFound
	}
	each(t, func(t *testing.T, kept bool) {
		ws := open(t, kept, host.Options{})
		if err := ws.Mkdir(t.Context(), "d", workspace.MkdirOptions{Perm: 0o600}); err != nil {
			t.Fatal(err)
		}
		_, err := ws.Exec(t.Context(), workspace.Command{Shell: "touch " + ws.Root() + "/ran", Dir: "d"})
		if workspace.CodeOf(err) != denied {
			t.Errorf("error %v, want %q", err, denied)
		}
		if _, err := ws.Stat(t.Context(), "ran"); workspace.CodeOf(err) != missing {
			t.Errorf("what it makes: %v, want %q", err, missing)
		}
		// A directory that may be entered and not read is no obstacle.
		if err := ws.Chmod(t.Context(), "d", 0o300); err != nil {
			t.Fatal(err)
		}
		if out, err := ws.Exec(t.Context(), workspace.Command{Shell: "echo in", Dir: "d"}); err != nil || string(out.Stdout) != "in\n" {
			t.Errorf("%+v, %v", out, err)
		}
	})
}

// TestEscapeeWithoutKeeper: without a keeper what leaves the group gets away,
// and holds nothing up, even when it floods the output.
func TestEscapeeWithoutKeeper(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("there is no setsid here")
	}
	ws := open(t, false, host.Options{})
	began := time.Now()
	out := run(t, ws, "setsid sh -c 'echo $$ > pid; exec yes' & while ! [ -s pid ]; do :; done; echo done >&2")
	if took := time.Since(began); took > 5*time.Second || string(out.Stderr) != "done\n" {
		t.Errorf("after %v: %+v", took, out.ExitCode)
	}
	data, err := ws.ReadFile(t.Context(), "pid", 0)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	// The pipe is closed, so it ends by SIGPIPE.
	eventually(t, "the escapee has ended", func() bool { return !runs(t, pid) })
}

// TestTerminalNeedsKeeper: without one it is UNSUPPORTED.
func TestTerminalNeedsKeeper(t *testing.T) {
	t.Parallel()
	ws := open(t, false, host.Options{})
	_, err := ws.Start(t.Context(), workspace.Command{Shell: ":", Terminal: &workspace.TerminalSize{Rows: 2, Cols: 2}})
	if workspace.CodeOf(err) != workspace.ErrUnsupported || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("error %v", err)
	}
}
