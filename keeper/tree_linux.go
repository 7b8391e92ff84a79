package keeper

import (
	"bytes"
	"os"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pidOffset is where siginfo_t has si_pid for a child's change of state: after
// three ints, aligned to a pointer (sigaction(2), asm-generic/siginfo.h).
const pidOffset = 8 + unsafe.Sizeof(uintptr(0))

// exited finds a child that can be waited for, and leaves it so: its pid and its
// group's number cannot be given to another process before it is reaped.
// 0 without an error: there are children, all of them alive. unix.ECHILD: none.
func exited() (int, error) {
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT|unix.WALL, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, err
		}
		return int(*(*int32)(unsafe.Add(unsafe.Pointer(&info), pidOffset))), nil
	}
}

// reapOne waits for a child that exited has found.
func reapOne(pid int) (unix.WaitStatus, unix.Rusage) {
	var status unix.WaitStatus
	var usage unix.Rusage
	for {
		if _, err := unix.Wait4(pid, &status, unix.WALL, &usage); err != unix.EINTR {
			return status, usage
		}
	}
}

// childrenOf lists the children of all threads of a process; "self" is this one.
// A process that forks and dies meanwhile may be missed: callers repeat.
func childrenOf(pid string) []int {
	tasks, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil {
		return nil
	}
	var list []int
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/" + pid + "/task/" + task.Name() + "/children")
		if err != nil {
			if task.Name() == pid || pid == "self" {
				if _, gone := os.Stat("/proc/" + pid + "/task/" + task.Name()); gone == nil {
					return childrenByParent(pid) // a kernel without CONFIG_PROC_CHILDREN
				}
			}
			continue
		}
		for word := range bytes.FieldsSeq(text) {
			if n, err := strconv.Atoi(string(word)); err == nil {
				list = append(list, n)
			}
		}
	}
	return list
}

// childrenByParent looks through every process for those of one parent.
func childrenByParent(pid string) []int {
	parent := os.Getpid()
	if pid != "self" {
		parent, _ = strconv.Atoi(pid)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var list []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && parentOf(n) == parent {
			list = append(list, n)
		}
	}
	return list
}

// parentOf is the parent's pid, 0 where there is no such process.
func parentOf(pid int) int {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The second field is the name in parentheses and may hold anything, proc(5).
	words := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(words) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(string(words[1]))
	return n
}

// process is a descendant, and whose child it was when it was found.
type process struct{ pid, parent int }

// descendants lists everything below this process, parents first.
func descendants() []process {
	self := os.Getpid()
	var list []process
	for _, pid := range childrenOf("self") {
		list = append(list, process{pid, self})
	}
	seen := map[int]bool{}
	for i := 0; i < len(list); i++ {
		if p := list[i].pid; !seen[p] {
			seen[p] = true
			for _, pid := range childrenOf(strconv.Itoa(p)) {
				list = append(list, process{pid, p})
			}
		}
	}
	return list
}

// terminate asks a descendant to end, and wakes it if it is stopped. The pid of
// somebody else's child may be another process's by now, so it is held by a
// descriptor first and its parent looked up again.
func (p process) terminate() {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil && err != unix.ENOSYS && err != unix.EPERM {
		return
	}
	if err == nil {
		defer unix.Close(fd)
	}
	if now := parentOf(p.pid); now != p.parent && now != os.Getpid() {
		return
	}
	for _, sig := range [...]unix.Signal{unix.SIGTERM, unix.SIGCONT} {
		if err != nil {
			_ = unix.Kill(p.pid, sig) // a kernel or a profile without pidfd
			continue
		}
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// endAll kills every child until there is none, also those that come up
// meanwhile, and reaps them. Each goes to reaped. It gives up at the deadline and
// tells how many are left.
//
// A child that is not reaped keeps its pid, so no other process is ever hit; and
// a group that one of them leads keeps its number. Killing the group first
// matters: it is atomic against fork, so a chain of forks in one group ends.
func endAll(deadline time.Time, reaped func(int, unix.WaitStatus, unix.Rusage)) int {
	const shortest, longest = 50 * time.Microsecond, 2 * time.Millisecond
	pause := shortest
	for {
		for {
			pid, err := exited()
			if err != nil {
				return 0 // ECHILD
			}
			if pid == 0 {
				break
			}
			_ = unix.Kill(-pid, unix.SIGKILL)
			status, usage := reapOne(pid)
			reaped(pid, status, usage)
			pause = shortest
		}
		list := childrenOf("self")
		for _, pid := range list {
			_ = unix.Kill(-pid, unix.SIGKILL)
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		if time.Now().After(deadline) {
			return max(len(list), 1)
		}
		time.Sleep(pause)
		pause = min(pause*3/2, longest)
	}
}
