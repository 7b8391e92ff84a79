//go:build linux

package host_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// crashOps are the writes that are killed half-way.
var crashOps = map[string]func(a *area) error{
	"replace": func(a *area) error { return a.write("f", "new", workspace.WriteOptions{}) },
	"new":     func(a *area) error { return a.write("d/n", "new", workspace.WriteOptions{}) },
	"append":  func(a *area) error { return a.write("f", "+", workspace.WriteOptions{Append: true}) },
	"edit":    func(a *area) error { _, err := a.r.Edit(bg, "f", workspace.EditOptions{}, double); return err },
	"remove":  func(a *area) error { return a.r.Remove(bg, "tree", workspace.RemoveOptions{Recursive: true}) },
	"rename": func(a *area) error {
		return a.r.Rename(bg, "tree", "other", workspace.RenameOptions{Overwrite: true})
	},
}

// after are the contents that a crash may leave: of f, of d/n.
var after = map[string][]string{"f": {"old", "new", "old+", "oldold"}, "d/n": {"", "new"}}

// TestRootCrashChild is the process that TestRootCrash kills; by itself it has
// nothing to do.
func TestRootCrashChild(t *testing.T) {
	dir, op := os.Getenv("WSCTL_CRASH_DIR"), os.Getenv("WSCTL_CRASH_OP")
	if dir == "" {
		return
	}
	at, err := strconv.Atoi(os.Getenv("WSCTL_CRASH_AT"))
	check(t, err)
	a := &area{t: t, in: dir}
	a.r, err = host.OpenRootWith(dir, host.RootOptions{LeftoverAge: -1}, host.TestHooks{
		NoTmpfile: os.Getenv("WSCTL_CRASH_NAMED") != "",
		Step: func(string) {
			if at--; at < 0 {
				_ = unix.Kill(os.Getpid(), unix.SIGKILL)
				select {}
			}
		},
	})
	check(t, err)
	check(t, crashOps[op](a))
}

// A process that is killed before any step of a write leaves the old file or
// the new one, and the next opening removes what else it left. Of a removal or
// a replacement nothing is lost that was not meant to be.
func TestRootCrash(t *testing.T) {
	for op := range crashOps {
		for _, named := range []string{"", "1"} {
			if named != "" && (op == "remove" || op == "rename") {
				continue
			}
			steps := 0
			for crashAt(t, op, named, steps) {
				steps++
			}
			if steps < 3 {
				t.Errorf("%s was killed at %d steps only", op, steps)
			}
		}
	}
}

// crashAt reports whether the process was killed at the step.
func crashAt(t *testing.T, op, named string, step int) bool {
	t.Helper()
	dir := t.TempDir()
	a := &area{t: t, in: dir}
	a.grow("f = old", "d/", "tree/a/b = B", "other/c = C", "keep = K")
	cmd := exec.Command(os.Args[0], "-test.run=^TestRootCrashChild$", "-test.count=1") //nolint:noctx // it ends by itself
	cmd.Env = append(os.Environ(), "WSCTL_CRASH_DIR="+dir, "WSCTL_CRASH_OP="+op, "WSCTL_CRASH_AT="+strconv.Itoa(step), "WSCTL_CRASH_NAMED="+named)
	out, err := cmd.CombinedOutput()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	killed := status.Signaled() && status.Signal() == unix.SIGKILL
	if err != nil && !killed {
		t.Fatalf("%s: %v\n%s", op, err, out)
	}
	r, err := host.OpenRoot(dir, host.RootOptions{LeftoverAge: 1})
	check(t, err)
	defer r.Close()
	_, err = r.Leftovers(bg)
	check(t, err)
	for name, contents := range after {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && (name == "f" || !os.IsNotExist(err)) {
			t.Errorf("%s killed at %d: %v", op, step, err)
		}
		if !strings.Contains(" "+strings.Join(contents, " ")+" ", " "+string(b)+" ") {
			t.Errorf("%s killed at %d: %s holds %q", op, step, name, b)
		}
	}
	if got := a.content("keep"); got != "K" {
		t.Errorf("%s killed at %d: keep holds %q", op, step, got)
	}
	a.noTemps()
	if op == "rename" && !reachable(t, dir, "b", "B") {
		t.Errorf("%s killed at %d: what was moved is lost", op, step)
	}
	return killed
}

// reachable reports whether a file of that name and content is somewhere below
// dir.
func reachable(t *testing.T, dir, name, content string) bool {
	t.Helper()
	found := false
	check(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == name {
			b, readErr := os.ReadFile(path)
			found = found || readErr == nil && string(b) == content
		}
		return err
	}))
	return found
}

// A write that a limit of the process stops leaves the old file and nothing
// else.
func TestRootFileSizeLimit(t *testing.T) {
	var old unix.Rlimit
	check(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	eachMode(t, plainSystems, func(t *testing.T, m mode) {
		a := newArea(t, m.hooks, host.RootOptions{}, "f = old")
		few := old
		few.Cur = 64 << 10
		big := strings.Repeat("x", 256<<10)
		check(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &few))
		errOld := a.write("f", big, workspace.WriteOptions{})
		errNew := a.write("new", big, workspace.WriteOptions{})
		check(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &old))
		wantCode(t, errOld, workspace.ErrIO)
		wantCode(t, errNew, workspace.ErrIO)
		if a.content("f") != "old" || len(a.names(".")) != 1 {
			t.Errorf("f holds %q; there are %v", a.content("f"), a.names("."))
		}
	})
}

// The same on a disk that is full.
func TestRootDiskFull(t *testing.T) {
	inMounts(t, func(t *testing.T, dir string) {
		check(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"))
		for _, noTmpfile := range []bool{false, true} {
			r, err := host.OpenRootWith(dir, host.RootOptions{LeftoverAge: -1}, host.TestHooks{NoTmpfile: noTmpfile})
			check(t, err)
			a := &area{t: t, in: dir, r: r}
			a.grow("f = old")
			big := strings.Repeat("x", 1<<20)
			wantCode(t, a.write("f", big, workspace.WriteOptions{}), workspace.ErrIO)
			wantCode(t, a.write("new", big, workspace.WriteOptions{}), workspace.ErrIO)
			_, err = a.r.Edit(bg, "f", workspace.EditOptions{}, func([]byte) ([]byte, error) { return []byte(big), nil })
			wantCode(t, err, workspace.ErrIO)
			if a.content("f") != "old" || len(a.names(".")) != 1 {
				t.Errorf("f holds %q; there are %v", a.content("f"), a.names("."))
			}
			check(t, r.Close())
		}
	})
}

// A file that cannot be read is not appended to, and is still replaced.
func TestRootUnreadable(t *testing.T) {
	if asRoot() {
		t.Skip("root reads every file")
	}
	a := newArea(t, host.TestHooks{}, host.RootOptions{}, "f = old", "d/x")
	check(t, os.Chmod(a.path("f"), 0o200))
	_, err := a.read("f")
	wantCode(t, err, workspace.ErrDenied)
	wantCode(t, a.write("f", "x", workspace.WriteOptions{Append: true}), workspace.ErrDenied)
	check(t, a.write("f", "new", workspace.WriteOptions{}))
	check(t, os.Chmod(a.path("d"), 0o500))
	wantCode(t, a.write("d/n", "x", workspace.WriteOptions{}), workspace.ErrDenied)
	wantCode(t, a.r.Remove(bg, "d/x", workspace.RemoveOptions{}), workspace.ErrDenied)
	check(t, os.Chmod(a.path("d"), 0))
	_, err = a.r.Stat(bg, "d/x")
	wantCode(t, err, workspace.ErrDenied)
	_, err = a.r.OpenDir(bg, "d")
	wantCode(t, err, workspace.ErrDenied)
	check(t, os.Chmod(a.path("d"), 0o300))
	check(t, a.write("d/n", "written without reading the directory", workspace.WriteOptions{}))
	check(t, os.Chmod(a.path("d"), 0o700))
}
