package reaper

// Owner identifies one process for ever: no other process, now or later, here
// or elsewhere, is equal to it. Fields are opaque but for equality; an empty
// one means that this system does not tell.
type Owner struct {
	// Host is the host name, as a person knows the machine.
	Host string
	// Machine identifies the installation: machine-id(5), hashed, since the
	// id itself is not for others to see. Empty where it has none, as in
	// most containers.
	Machine string
	// Boot identifies this run of the kernel.
	Boot string
	// PIDNamespace identifies the process table that PID is a number of, and
	// the clock that Started was read by: the PID and the time namespace.
	PIDNamespace string
	// PID is the process's number, greater than 0.
	PID int
	// Started is when the process was started, in clock ticks since boot
	// (proc_pid_stat(5), field 22): it tells a reused PID.
	Started string
}

// Presence is what the process table says about a PID.
type Presence struct {
	// Exists reports that a process has the PID and has not ended. One that
	// has ended and whose parent has not asked yet (a zombie) does not exist.
	Exists bool
	// Started is as in Owner; empty when the process may not be looked at.
	Started string
}
