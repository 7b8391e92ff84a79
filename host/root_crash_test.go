//go:build linux

package host_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

// crashTree is what there is before.
var crashTree = []string{"f = old", "g = G", "d/", "tree/a/b = B", "tree/l -> a", "other/c = C", "keep = K"}

// crashOp is a change that is killed half-way.
type crashOp struct {
	run func(a *area) error
	// done are the lines of a listing that differ when it is done.
	done []string
	// between are further trees that may be left: with nothing of the old
	// one or the new one lost.
	between [][]string
	// kept may lie in the state, recovered.
	kept string
	// calls are system calls at which it must have been killed.
	calls []uintptr
}

var write = []uintptr{unix.SYS_WRITE, unix.SYS_FSYNC, unix.SYS_LINKAT, unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT}

var crashOps = map[string]crashOp{
	"replace": {
		run:  func(a *area) error { return a.write("f", "new", workspace.WriteOptions{}) },
		done: []string{"f = new"}, calls: write,
	},
	"new": {
		run:     func(a *area) error { return a.write("d/e/n", "new", workspace.WriteOptions{}) },
		done:    []string{"d/e/", "d/e/n = new"},
		between: [][]string{{"d/e/"}}, // directories that were made stay
		calls:   []uintptr{unix.SYS_MKDIRAT, unix.SYS_WRITE, unix.SYS_FSYNC, unix.SYS_LINKAT},
	},
	"append": {
		run:  func(a *area) error { return a.write("f", "+", workspace.WriteOptions{Append: true}) },
		done: []string{"f = old+"}, calls: write,
	},
	"edit": {
		run: func(a *area) error {
			_, err := a.r.Edit(bg, "f", workspace.EditOptions{}, double)
			return err
		},
		done: []string{"f = oldold"}, calls: write,
	},
	"copy": {
		run:  func(a *area) error { _, err := a.r.Copy(bg, "g", "f", workspace.WriteOptions{}); return err },
		done: []string{"f = G"}, calls: write[1:],
	},
	"copy tree": {
		run:   func(a *area) error { return a.r.CopyTree(bg, "tree", "copied", host.CopyTreeOptions{}) },
		done:  []string{"copied/", "copied/a/", "copied/a/b = B", "copied/l -> a"},
		calls: []uintptr{unix.SYS_MKDIRAT, unix.SYS_SYMLINKAT, unix.SYS_SYNCFS, unix.SYS_RENAMEAT2},
	},
	"rename file": {
		run:     func(a *area) error { return a.r.Rename(bg, "g", "f", workspace.RenameOptions{Overwrite: true}) },
		done:    []string{"f = G", "- g"},
		between: [][]string{{"f = G", "g = old"}},
		kept:    "old",
		calls:   []uintptr{unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT},
	},
	"rename directory": {
		run:     func(a *area) error { return a.r.Rename(bg, "tree", "other", workspace.RenameOptions{Overwrite: true}) },
		done:    []string{"- tree/", "- tree/a/", "- tree/a/b", "- tree/l", "- other/c", "other/a/", "other/a/b = B", "other/l -> a"},
		between: [][]string{{"- tree/a/", "- tree/a/b", "- tree/l", "- other/c", "other/a/", "other/a/b = B", "other/l -> a", "tree/c = C"}},
		kept:    "c = C",
		calls:   []uintptr{unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT},
	},
	"remove": {
		run:   func(a *area) error { return a.r.Remove(bg, "tree", workspace.RemoveOptions{Recursive: true}) },
		done:  []string{"- tree/", "- tree/a/", "- tree/a/b", "- tree/l"},
		kept:  "a/ a/b = B l -> a",
		calls: []uintptr{unix.SYS_RENAMEAT2, unix.SYS_UNLINKAT},
	},
}

// The child tells where the change begins and ends by closing descriptors that
// cannot be.
const crashBegins, crashEnds = 1<<31 - 7, 1<<31 - 8

// TestCrashChild is the process that TestCrash kills; by itself it has nothing
// to do.
func TestCrashChild(t *testing.T) {
	dir := os.Getenv("WSCTL_CRASH_DIR")
	if dir == "" {
		return
	}
	a := &area{t: t, in: dir}
	var err error
	a.r, err = host.OpenRootWith(dir, host.RootOptions{LeftoverAge: -1}, host.TestHooks{NoTmpfile: os.Getenv("WSCTL_CRASH_NAMED") != ""})
	check(t, err)
	op := crashOps[os.Getenv("WSCTL_CRASH_OP")]
	check(t, onThread(func() error {
		fmt.Printf("thread %d\n", unix.Gettid())
		_, _ = os.Stdin.Read(make([]byte, 1))
		_ = unix.Close(crashBegins)
		err := op.run(a)
		_ = unix.Close(crashEnds)
		return err
	}))
}

// onThread runs f on a thread of its own which is not the process's first: to
// wait for that one is to wait for the process.
func onThread(f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if unix.Gettid() != os.Getpid() {
		return f()
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		done <- f()
	}()
	return <-done
}

// A process that is killed at any system call of a change leaves the old tree
// or the new one, and the next opening removes what else it left. Of a removal
// or a replacement nothing is lost that was not meant to be.
func TestCrash(t *testing.T) {
	t.Parallel()
	for name, op := range crashOps {
		for _, named := range []string{"", "1"} {
			if named != "" && name != "replace" && name != "new" {
				continue // the others make no file, or make it as these do
			}
			if testing.Short() && name != "replace" && name != "remove" {
				continue
			}
			t.Run(name+named, func(t *testing.T) {
				t.Parallel()
				var whole []uintptr // the calls of one that nobody killed
				crash := func(at int) (call uintptr) {
					dir := t.TempDir()
					a := &area{t: t, in: dir}
					a.grow(crashTree...)
					calls, killed := crashAt(t, dir, name, named, at)
					if len(calls) > 0 {
						call = calls[len(calls)-1]
					}
					a.crashed(fmt.Sprintf("killed at system call %d, number %d", at, call), op, killed)
					if !killed {
						whole = calls
					}
					return call
				}
				crash(neverCrash)
				var killedAt []uintptr
				for _, at := range crashSteps(whole) {
					killedAt = append(killedAt, crash(at))
				}
				for _, call := range op.calls {
					unnamed := call == unix.SYS_LINKAT // a file that has a name takes the new one otherwise
					if !slices.Contains(killedAt, call) && !(unnamed && named != "") {
						t.Errorf("it was killed at system calls %v, and never at %d", killedAt, call)
					}
				}
			})
		}
	}
}

// crashSteps are the system calls of a change at which it is killed: all of them in
// a soak, else the first of each kind and every seventh, from where chance will.
func crashSteps(calls []uintptr) []int {
	every, from := 7, rand.N(7)
	if enginetest.Soak() {
		every, from = 1, 0
	}
	var steps []int
	for i, call := range calls {
		if i%every == from || slices.Index(calls, call) == i {
			steps = append(steps, i)
		}
	}
	return steps
}

// crashed opens the root again and looks at what is there.
func (a *area) crashed(when string, op crashOp, killed bool) {
	a.t.Helper()
	r, err := host.OpenRoot(a.in, host.RootOptions{LeftoverAge: 1})
	check(a.t, err)
	found, err := r.Leftovers(bg)
	check(a.t, err)
	check(a.t, r.Close())
	if len(found.Quarantined) > 0 {
		a.t.Errorf("%s: %v", when, found.Quarantined)
	}
	trees := [][]string{op.done}
	if killed {
		trees = append(append(trees, op.between...), nil)
	}
	got := listing(a.t, a.in)
	if !slices.ContainsFunc(trees, func(changed []string) bool { return slices.Equal(got, changedListing(changed)) }) {
		a.t.Errorf("%s leaves %q", when, got)
	}
	pending, err := os.ReadDir(a.path(".wsctl/pending"))
	if err != nil && !os.IsNotExist(err) {
		a.t.Error(err)
	}
	for _, e := range pending {
		kept := strings.Join(listing(a.t, a.path(".wsctl/pending/"+e.Name())), " ")
		if !strings.HasPrefix(e.Name(), "recovered-") || kept != op.kept || !killed {
			a.t.Errorf("%s leaves %s in the state, which holds %q", when, e.Name(), kept)
		}
	}
}

// listing is a line for each entry below dir but the state, sorted; of a file
// its content alone.
func listing(t testing.TB, dir string) []string {
	t.Helper()
	var lines []string
	check(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		line := strings.TrimPrefix(path, dir+"/")
		switch {
		case line == ".wsctl":
			return filepath.SkipDir
		case path == dir && d.IsDir():
			return nil
		case d.IsDir():
			line += "/"
		case d.Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			check(t, err)
			line += " -> " + target
		default:
			b, err := os.ReadFile(path)
			check(t, err)
			line += " = " + string(b)
			if path == dir {
				line = string(b)
			}
		}
		lines = append(lines, line)
		return nil
	}))
	slices.Sort(lines)
	return lines
}

// changedListing is the listing of crashTree with some lines changed: one with
// a leading "- " takes the entry away.
func changedListing(changed []string) []string {
	name := func(line string) string { return strings.Fields(line)[0] }
	lines := []string{"other/", "tree/", "tree/a/"}
	lines = append(lines, crashTree...)
	for _, change := range changed {
		gone, isGone := strings.CutPrefix(change, "- ")
		lines = slices.DeleteFunc(lines, func(line string) bool { return name(line) == name(gone) })
		if !isGone {
			lines = append(lines, change)
		}
	}
	slices.Sort(lines)
	return lines
}

// neverCrash is no system call's number.
const neverCrash = -1

// crashAt runs the operation in a child and kills the child when it is about to
// make its system call at, counted from 0. It returns those that it began, the
// last of which killed it, and false when the operation came to its end before.
func crashAt(t *testing.T, dir, op, named string, at int) (calls []uintptr, killed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashChild$", "-test.count=1") //nolint:noctx // it ends by itself
	// The runtime's own system calls in that thread would only be noise.
	cmd.Env = append(os.Environ(), "WSCTL_CRASH_DIR="+dir, "WSCTL_CRASH_OP="+op, "WSCTL_CRASH_NAMED="+named, "GOGC=off", "GODEBUG=asyncpreemptoff=1")
	cmd.Stderr = os.Stderr
	goOn, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	check(t, err)
	tid, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "thread ")))
	check(t, err)
	// The kernel takes requests only from the thread that traces.
	runtime.LockOSThread()
	err = traceThread(tid, func() error { _, err := goOn.Write([]byte{'\n'}); return err }, func(n int, number uintptr) bool {
		calls = append(calls, number)
		if n == at {
			killed = true
			_ = unix.Kill(cmd.Process.Pid, unix.SIGKILL)
		}
		return killed
	})
	runtime.UnlockOSThread()
	switch {
	case errors.Is(err, unix.EPERM):
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Skip("this machine lets nobody trace")
	case err != nil:
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil && !killed {
		t.Fatal(err)
	}
	return calls, killed
}

// runtimeCalls are made by Go's runtime when it likes. They change no file, and
// numbers that count them would mean another call in each run.
var runtimeCalls = []uintptr{
	unix.SYS_FUTEX, unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MADVISE, unix.SYS_MPROTECT, unix.SYS_GETRANDOM, unix.SYS_NANOSLEEP,
	unix.SYS_SCHED_YIELD, unix.SYS_TGKILL, unix.SYS_GETPID, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_CLONE, unix.SYS_EPOLL_PWAIT,
	unix.SYS_PRCTL,
}

// traceThread calls at before each system call of the thread between the two
// marks, until that kills it and
// returns true. The thread is stopped meanwhile.
func traceThread(tid int, goOn func() error, at func(n int, number uintptr) bool) error {
	if err := unix.PtraceSeize(tid); err != nil {
		return fmt.Errorf("seize: %w", err)
	}
	if err := unix.PtraceInterrupt(tid); err != nil {
		return fmt.Errorf("interrupt: %w", err)
	}
	begun, n := false, 0
	for {
		var status unix.WaitStatus
		err := ignoreIntr(func() error { _, err := unix.Wait4(tid, &status, unix.WALL, nil); return err })
		if err != nil {
			return fmt.Errorf("wait: %w", err)
		}
		signal := 0
		switch {
		case !status.Stopped():
			return fmt.Errorf("the thread has ended by itself: %#x", status)
		case goOn != nil:
			if err := unix.PtraceSetOptions(tid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL); err != nil {
				return err
			}
			if err := goOn(); err != nil {
				return err
			}
			goOn = nil
		case status.StopSignal() == unix.SIGTRAP|0x80:
			entered, number, first, err := syscallOf(tid)
			switch {
			case err != nil:
				return err
			case !entered:
			case number == unix.SYS_CLOSE && first == crashBegins:
				begun = true
			case number == unix.SYS_CLOSE && first == crashEnds:
				return unix.PtraceDetach(tid)
			case begun && !slices.Contains(runtimeCalls, number):
				if at(n, number) {
					// Nobody else may wait for a thread that is traced,
					// and until somebody has, its process stays.
					return ignoreIntr(func() error { _, err := unix.Wait4(tid, nil, unix.WALL, nil); return err })
				}
				n++
			}
		case status.StopSignal() != unix.SIGTRAP:
			signal = int(status.StopSignal())
		}
		if err := unix.PtraceSyscall(tid, signal); err != nil {
			return fmt.Errorf("go on: %w", err)
		}
	}
}

// syscallOf tells which system call a stopped thread enters, by ptrace(2),
// PTRACE_GET_SYSCALL_INFO, which is the same on every architecture.
func syscallOf(tid int) (entered bool, number, first uintptr, err error) {
	const getSyscallInfo, entry = 0x420e, 1
	var info struct {
		op        uint8
		_         [3]uint8
		arch      uint32
		ip, stack uint64
		number    uint64
		args      [6]uint64
	}
	_, _, no := unix.Syscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if no != 0 {
		return false, 0, 0, no
	}
	return info.op == entry, uintptr(info.number), uintptr(info.args[0]), nil
}

func ignoreIntr(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}
