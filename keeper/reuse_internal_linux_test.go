package keeper

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inNamespace tells a copy of this test program that it is PID 1 of a PID namespace
// of its own, in which pids can be chosen.
const inNamespace = "KEEPER_TEST_PID_NAMESPACE"

// alone runs the rest of a test in a copy of this program that is PID 1 of a new PID
// namespace with a /proc of its own.
func alone(t *testing.T) (inside bool) {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Fatal(err)
		}
		if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
			t.Fatal(err)
		}
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("a PID namespace takes root")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", "1m")
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in its namespace: %v", err)
	}
	return false
}

// dialog is a shell that is told what to do line by line and answers with a line.
type dialog struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func talk(t *testing.T) *dialog {
	t.Helper()
	d := &dialog{Cmd: exec.Command("/bin/sh", "-c", `while read -r line; do eval "$line"; done`)}
	var err error
	if d.in, err = d.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := d.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.out = bufio.NewReader(out)
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.in.Close(); _ = d.Wait() })
	return d
}

func (d *dialog) say(t *testing.T, line string) string {
	t.Helper()
	if _, err := fmt.Fprintln(d.in, line); err != nil {
		t.Fatal(err)
	}
	answer, err := d.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return strings.TrimSpace(answer)
}

// reuse has d start a process and tells whether that got the pid. Threads of this
// program may take it first, so it tries a few times.
func (d *dialog) reuse(t *testing.T, pid int) bool {
	t.Helper()
	for range 20 {
		if err := os.WriteFile("/proc/sys/kernel/ns_last_pid", []byte(strconv.Itoa(pid-1)), 0); err != nil {
			t.Fatal(err)
		}
		if d.say(t, "sleep 1000 & echo $!") == strconv.Itoa(pid) {
			return true
		}
	}
	return false
}

// lives tells whether a process is there and is no zombie.
func lives(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(text), ") Z ")
}

func dies(pid int) bool {
	for range 200 {
		if !lives(pid) {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// A process that was found below a command, and whose pid has become another
// process's before it is asked to end, is not confused with that.
func TestReusedPidIsNotTerminated(t *testing.T) {
	if !alone(t) {
		return
	}
	command, other := talk(t), talk(t)
	pid, err := strconv.Atoi(command.say(t, "sleep 1000 & echo $!"))
	if err != nil {
		t.Fatal(err)
	}
	found := process{pid, command.Process.Pid}
	command.say(t, "kill -9 $!; wait; echo gone")
	if !other.reuse(t, pid) {
		t.Fatal("the pid was not reused")
	}
	found.terminate()
	time.Sleep(100 * time.Millisecond) // a signal would have taken effect
	if !lives(pid) {
		t.Error("another process with the pid was ended")
	}
	process{pid, other.Process.Pid}.terminate()
	if !dies(pid) {
		t.Error("the one that was found was not ended")
	}
}

// A dead child keeps its pid, and its group's number, until it is reaped: what is
// sent to them in between goes to nobody else.
func TestDeadChildKeepsItsPid(t *testing.T) {
	if !alone(t) {
		return
	}
	other := talk(t)
	pid, err := syscall.ForkExec("/bin/true", []string{"true"}, &syscall.ProcAttr{Sys: &syscall.SysProcAttr{Setsid: true}})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for found == 0 {
		if found, err = exited(); err != nil {
			t.Fatal(err)
		}
	}
	if found != pid {
		t.Fatalf("found %d, and not %d", found, pid)
	}
	if other.reuse(t, pid) {
		t.Error("the pid was given to another process before its own was reaped")
	}
	if err := unix.Kill(-pid, 0); err != nil {
		t.Errorf("its group: %v", err)
	}
	reapOne(pid)
	if !other.reuse(t, pid) {
		t.Error("the pid was not given to another process afterwards, so the test shows nothing")
	}
}
