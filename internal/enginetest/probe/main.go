//go:build linux

// Probe tries system calls that a sandbox should refuse and prints a line about
// each: a name, a space, and what became of it ("ok", "stripped", "absent",
// "SIGSYS", "EPERM" …). The last line is "end ok". Each attempt runs in a child
// of its own, so that a filter which kills shows as the signal. Unconfined it
// does no harm: calls that could get dummy arguments which fail later than the
// permission check.
//
//	probe [DIRECTORY]
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// childFlag comes before the name of the one attempt that a child makes.
const childFlag = "-attempt"

func main() {
	if len(os.Args) == 3 && os.Args[1] == childFlag {
		fmt.Println(attempts()[os.Args[2]]())
		return
	}
	if len(os.Args) > 1 {
		if err := os.Chdir(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, "probe:", err)
			os.Exit(2)
		}
	}
	for name := range attempts() {
		fmt.Println(name, inChild(name))
	}
	fmt.Println("end ok")
}

// inChild makes one attempt in a new process and returns what it printed, or
// the signal it died of.
func inChild(name string) string {
	out, err := exec.Command("/proc/self/exe", childFlag, name).Output()
	var died *exec.ExitError
	if errors.As(err, &died) {
		if ws, ok := died.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			return unix.SignalName(ws.Signal())
		}
	}
	if err != nil {
		return "no-child"
	}
	return string(out[:len(out)-1])
}

// result names what a system call returned.
func result(err error) string {
	if err == nil {
		return "ok"
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) || unix.ErrnoName(errno) == "" {
		return "unknown"
	}
	return unix.ErrnoName(errno)
}

// raw makes a system call and names what it returned.
func raw(trap, a1, a2, a3, a4, a5 uintptr) string {
	_, _, errno := syscall.Syscall6(trap, a1, a2, a3, a4, a5, 0)
	if errno != 0 {
		return result(errno)
	}
	return "ok"
}
