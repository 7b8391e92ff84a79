package keeper_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/keeper"
)

// pid1 is a keeper in init mode. In a PID namespace of its own it is PID 1; as a
// plain process it is a subreaper, which answers just so.
type pid1 struct {
	*keeper.InitClient
	cmd    *exec.Cmd
	exited chan struct{}
	pid    int // of the keeper, as we see it
}

func startInit(t testing.TB, namespace bool, args ...string) *pid1 {
	t.Helper()
	p := &pid1{exited: make(chan struct{})}
	p.cmd = &exec.Cmd{Path: self(t), Args: append([]string{keeper.Name, keeper.ModeInit}, args...)}
	if namespace {
		if os.Getuid() != 0 {
			t.Skip("only root can make a PID namespace")
		}
		unshare, err := exec.LookPath("unshare")
		check(t, err)
		named := filepath.Join(t.TempDir(), keeper.Name)
		check(t, os.Symlink(self(t), named))
		p.cmd.Path = unshare
		p.cmd.Args = append([]string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc", named, keeper.ModeInit}, args...)
	}
	stdin, err := p.cmd.StdinPipe()
	check(t, err)
	stdout, err := p.cmd.StdoutPipe()
	check(t, err)
	check(t, p.cmd.Start())
	p.InitClient = keeper.NewInitClient(stdin)
	go func() {
		_, _ = io.Copy(p.Stdout(), stdout)
		p.Lost(p.cmd.Wait())
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.Close()
		_ = p.cmd.Process.Kill()
		<-p.exited
	})
	p.pid = p.cmd.Process.Pid
	if namespace {
		eventually(t, "PID 1", func() bool { return len(childrenOf(t, p.cmd.Process.Pid)) == 1 })
		p.pid, err = strconv.Atoi(childrenOf(t, p.cmd.Process.Pid)[0])
		check(t, err)
		if !p.alive(t) {
			t.Fatal("no answer")
		}
	}
	return p
}

// alive tells whether PID 1 answers.
func (p *pid1) alive(t testing.TB) bool {
	t.Helper()
	_, err := p.Report(deadline(t), nil)
	return err == nil
}

// inside runs a line in the namespace of PID 1, as `docker exec` would.
func (p *pid1) inside(t testing.TB, line string) {
	t.Helper()
	out, err := exec.Command("nsenter", "-t", strconv.Itoa(p.pid), "-p", "-m", "--", "sh", "-c", line).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v: %s", line, err, out)
	}
}

func TestReport(t *testing.T) {
	p := startInit(t, false)
	dir := t.TempDir()
	file, link, big := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "big")
	fifo := filepath.Join(dir, "fifo")
	check(t, os.WriteFile(file, []byte("a\x00b"), 0o640))
	check(t, os.Symlink("to\nwhere", link))
	check(t, syscall.Mkfifo(fifo, 0o600))
	check(t, os.WriteFile(big, make([]byte, keeper.MaxRead+1), 0o600))
	got, err := p.Report(deadline(t), []keeper.Item{
		{keeper.AskRead, file},
		{keeper.AskRead, "/nonexistent"},
		{keeper.AskRead, big},
		{keeper.AskRead, fifo},
		{keeper.AskRead, "/proc/self/status"},
		{keeper.AskStat, file},
		{keeper.AskStat, link},
		{keeper.AskReadlink, link},
		{keeper.AskReadlink, file},
		{keeper.AskAccess, dir},
		{keeper.AskAccess, "/proc/version"},
		{keeper.Question('?'), dir},
	})
	check(t, err)
	for i, want := range []syscall.Errno{0, syscall.ENOENT, syscall.EFBIG, 0, 0, 0, 0, 0, syscall.EINVAL, 0, syscall.EACCES, syscall.EINVAL} {
		if got[i].Errno != want {
			t.Errorf("item %d: %v, want %v", i, got[i].Errno, want)
		}
	}
	if string(got[0].Data) != "a\x00b" || !strings.Contains(string(got[4].Data), "\nPid:\t"+strconv.Itoa(p.cmd.Process.Pid)) || string(got[7].Data) != "to\nwhere" {
		t.Errorf("got %q, %q, %q", got[0].Data, got[4].Data, got[7].Data)
	}
	var st syscall.Stat_t
	check(t, syscall.Lstat(file, &st))
	s, err := got[5].Stat()
	check(t, err)
	if s.Dev != uint64(st.Dev) || s.Ino != st.Ino || s.Mode != st.Mode || s.UID != st.Uid || s.GID != st.Gid || s.LinkCount != 1 {
		t.Errorf("stat: %+v, want %+v", s, st)
	}
	if l, err := got[6].Stat(); err != nil || l.Mode&syscall.S_IFMT != syscall.S_IFLNK {
		t.Errorf("link: %+v, %v", l, err)
	}
	if _, err := got[1].Stat(); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("got %v", err)
	}
}

func TestReportAtOnce(t *testing.T) {
	p := startInit(t, false)
	done := make(chan error)
	for range 40 {
		go func() {
			got, err := p.Report(context.Background(), []keeper.Item{{keeper.AskRead, "/proc/self/stat"}})
			if err == nil && got[0].Errno != 0 {
				err = got[0].Errno
			}
			done <- err
		}()
	}
	for range 40 {
		check(t, <-done)
	}
}

func TestLeash(t *testing.T) {
	p := startInit(t, false)
	check(t, p.Close())
	select {
	case <-p.exited:
	case <-time.After(2 * time.Second):
		t.Fatal("it stays without an owner")
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if _, err := p.Report(deadline(t), nil); !errors.Is(err, keeper.ErrLost) {
		t.Errorf("got %v", err)
	}
}

func TestDetachedStays(t *testing.T) {
	p := startInit(t, false, keeper.Detached)
	if !p.alive(t) {
		t.Fatal("no answer")
	}
	check(t, p.Close())
	select {
	case <-p.exited:
		t.Error("it went with its owner")
	case <-time.After(200 * time.Millisecond):
	}
}

func TestInitTakesEverySignal(t *testing.T) {
	p := startInit(t, true)
	p.inside(t, `n=1; while [ $n -le 64 ]; do kill -$n 1; n=$((n+1)); done 2>/dev/null; kill -9 -1; kill -SYS 1; kill -STOP 1; true`)
	if !p.alive(t) {
		t.Error("a signal ended it")
	}
}

// The end of PID 1 is the end of its namespace.
func TestLeashEndsTheNamespace(t *testing.T) {
	p := startInit(t, true)
	p.inside(t, "setsid sleep 7790 >/dev/null 2>&1 &")
	eventually(t, "sleep", func() bool { return named(t, "sleep\x007790") == 1 })
	check(t, p.Close())
	eventually(t, "its end", func() bool { return named(t, "7790") == 0 })
}

func TestReapsAndSweeps(t *testing.T) {
	p := startInit(t, true)
	p.inside(t, "n=0; while [ $n -lt 500 ]; do (sleep .05 &); n=$((n+1)); done >/dev/null 2>&1")
	eventually(t, "the end of all 500", func() bool { return len(childrenOf(t, p.pid)) == 0 })
	p.inside(t, "for i in 1 2 3; do (setsid sh -c 'trap \"\" TERM; sleep 7791; sleep 7791' &); done >/dev/null 2>&1")
	// The words as arguments of their own: a shell that has yet to fork has them in a line.
	eventually(t, "three", func() bool { return named(t, "sleep\x007791") == 3 })
	killed, left, err := p.Sweep(deadline(t), 5*time.Second)
	check(t, err)
	// A shell that waits can still reap its sleep while it is being killed itself.
	if killed < 3 || killed > 6 || left != 0 || named(t, "7791") != 0 {
		t.Errorf("killed %d, left %d, alive %d", killed, left, named(t, "7791"))
	}
}

func TestKillOfGroup(t *testing.T) {
	p := startInit(t, false)
	victim := exec.Command("sleep", "7792")
	victim.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check(t, victim.Start())
	check(t, p.Kill(deadline(t), victim.Process.Pid, int(syscall.SIGTERM)))
	if err := victim.Wait(); err == nil || victim.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("got %v", err)
	}
	if err := p.Kill(deadline(t), victim.Process.Pid, 9); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("got %v", err)
	}
	for _, group := range []int{-1, 0, 1, 1 << 40} {
		if err := p.Kill(deadline(t), group, 9); err == nil {
			t.Errorf("group %d is taken", group)
		}
	}
}

func childrenOf(t testing.TB, pid int) []string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(pid) + "/children")
	check(t, err)
	return strings.Fields(string(text))
}
