package keeper

import (
	"golang.org/x/sys/unix"
)

// resources are the limits that getrlimit(2) knows, RLIMIT_CPU to RLIMIT_RTTIME.
const resources = 16

// standing is what the kernel lets any process of the same user change of this
// one, without the rights of a debugger, and commands inherit: resource limits
// (prlimit(2)), scheduling (sched_setattr(2), setpriority(2)) and the class of
// I/O (ioprio_set(2)). It is that of the calling thread, from which commands are
// started.
type standing struct {
	limits [resources]unix.Rlimit
	sched  unix.SchedAttr
	io     uintptr
}

// currentStanding reads it. What the kernel does not tell is zero, each time.
func currentStanding() standing {
	var s standing
	for i := range s.limits {
		_ = unix.Getrlimit(i, &s.limits[i])
	}
	if attr, err := unix.SchedGetAttr(0, 0); err == nil {
		s.sched = *attr
	}
	const whoProcess = 1 // IOPRIO_WHO_PROCESS
	if class, _, errno := unix.Syscall(unix.SYS_IOPRIO_GET, whoProcess, 0, 0); errno == 0 {
		s.io = class
	}
	return s
}

// affinity is on which processors the calling thread may run. It can be given
// back at any time, unlike a limit.
type affinity struct {
	cpus unix.CPUSet
	ok   bool
}

func currentAffinity() affinity {
	var a affinity
	a.ok = unix.SchedGetaffinity(0, &a.cpus) == nil
	return a
}

// restore takes them all back. The kernel keeps those that the cpuset has.
func (a *affinity) restore() {
	if a.ok {
		_ = unix.SchedSetaffinity(0, &a.cpus)
	}
}
