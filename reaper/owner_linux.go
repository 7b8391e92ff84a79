package reaper

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"github.com/wsctl/wsctl/workspace"
)

// Self returns the identity of this process. It fails where /proc does not
// tell, since a container labelled with half an owner could never be reaped.
func Self() (Owner, error) {
	const op = "owner"
	host, err := os.Hostname()
	if err != nil {
		return Owner{}, workspace.Errorf(workspace.ErrIO, op, "", "no host name: %w", err)
	}
	o := Owner{Host: host, Machine: machine(), PID: os.Getpid()}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return Owner{}, workspace.Errorf(workspace.ErrIO, op, "", "the boot cannot be identified; is /proc mounted? %w", err)
	}
	o.Boot = strings.TrimSpace(string(boot))
	if o.PIDNamespace, err = os.Readlink("/proc/self/ns/pid"); err != nil {
		return Owner{}, workspace.Errorf(workspace.ErrIO, op, "", "the PID namespace cannot be identified; is /proc mounted? %w", err)
	}
	// The kernel tells start times by the reader's own clock. Two processes
	// in one PID namespace but in two time namespaces read different start
	// times of the same process, and would bury each other alive.
	// Kernels before 5.6 have no such namespace.
	if clock, err := os.Readlink("/proc/self/ns/time"); err == nil {
		o.PIDNamespace += " " + clock
	}
	p := process(o.PID)
	if p.Started == "" {
		return Owner{}, workspace.Errorf(workspace.ErrIO, op, "", "/proc/%d/stat does not tell when this process was started; is /proc that of another PID namespace?", o.PID)
	}
	o.Started = p.Started
	return o, nil
}

// machine returns the hashed machine id, "" when there is none.
func machine() string {
	for _, name := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		b, err := os.ReadFile(name)
		id := strings.TrimSpace(string(b))
		// "uninitialized" is what it holds in early boot.
		if raw, bad := hex.DecodeString(id); err == nil && bad == nil && len(raw) == 16 {
			h := hmac.New(sha256.New, raw)
			h.Write([]byte("wsctl container owner"))
			return hex.EncodeToString(h.Sum(nil)[:16])
		}
	}
	return ""
}

// process looks a PID up in this process's own PID namespace.
func process(pid int) Presence {
	if pid <= 0 {
		return Presence{}
	}
	if b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil {
		return parseStat(string(b))
	}
	// A /proc mounted with hidepid does not show the processes of others, so
	// its silence proves nothing. The kernel itself answers kill(2) with
	// EPERM for them, and with ESRCH only where there is none.
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return Presence{}
	}
	return Presence{Exists: true}
}

// parseStat reads the text of /proc/PID/stat (proc_pid_stat(5)). What it cannot
// read counts as a process that exists.
func parseStat(stat string) Presence {
	// The second field is the program's name in parentheses; it may hold
	// spaces and parentheses itself.
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const (
		first   = 3 // of the fields in f, as the man page counts
		state   = 0
		threads = 20 - first
		started = 22 - first
	)
	if len(f) <= started {
		return Presence{Exists: true}
	}
	// A main thread that has ended while others run is shown as a zombie too.
	if f[state] == "X" || f[state] == "Z" && f[threads] == "1" {
		return Presence{}
	}
	return Presence{Exists: true, Started: f[started]}
}
