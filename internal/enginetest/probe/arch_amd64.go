//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// archAttempts are the calls that only this architecture has: the old ones with
// a path and no directory, and those of 32-bit programs, whose numbers a filter
// written for 64 bits does not match.
func archAttempts() map[string]func() string {
	const suid = unix.S_ISUID | 0o755
	old := func(trap uintptr, made bool, args ...uintptr) func() string {
		return inScratch(unix.S_ISUID, func(dir, file string) (string, error) {
			if made {
				file = filepath.Join(dir, "made")
			}
			p, err := unix.BytePtrFromString(file)
			if err != nil {
				return "", err
			}
			args := append(args, 0, 0)
			_, _, errno := unix.Syscall(trap, uintptr(unsafe.Pointer(p)), args[0], args[1])
			if errno != 0 {
				return "", errno
			}
			return file, nil
		})
	}
	const create = unix.O_CREAT | unix.O_WRONLY | unix.O_CLOEXEC
	return map[string]func() string{
		"suid-chmod":       old(unix.SYS_CHMOD, false, suid),
		"suid-open":        old(unix.SYS_OPEN, true, create, suid),
		"suid-creat":       old(unix.SYS_CREAT, true, suid),
		"suid-mknod":       old(unix.SYS_MKNOD, true, unix.S_IFREG|suid),
		"int80-socket-alg": func() string { return call32(sysSocket32, unix.AF_ALG, unix.SOCK_SEQPACKET, 0) },
		"int80-getpid":     func() string { return call32(sysGetpid32, 0, 0, 0) },
	}
}

// Numbers of asm/unistd_32.h.
const (
	sysGetpid32 = 20
	sysSocket32 = 359
)

// int80 makes a system call as a 32-bit program does and returns what the
// kernel left in EAX, sign-extended.
func int80(trap, a1, a2, a3 uintptr) int64

// call32 makes a call with int80 and names its answer: "SIGSEGV" is that of a
// kernel without 32-bit calls. A filter may kill the calling thread alone
// (seccomp(2), SECCOMP_RET_KILL_THREAD), so the call has a thread of its own.
func call32(trap, a1, a2, a3 uintptr) string {
	runtime.GOMAXPROCS(2) // the killed thread keeps its processor
	thread, answer := make(chan int, 1), make(chan string, 1)
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		answer <- answer32(trap, a1, a2, a3)
	}()
	status := fmt.Sprintf("/proc/self/task/%d/status", <-thread)
	for {
		select {
		case a := <-answer:
			return a
		case <-time.After(5 * time.Millisecond):
			// The first thread of a process stays as a zombie.
			text, err := os.ReadFile(status)
			if err != nil || strings.Contains(string(text), "State:\tZ") {
				return "SIGSYS"
			}
		}
	}
}

func answer32(trap, a1, a2, a3 uintptr) (answer string) {
	defer func() {
		if recover() != nil {
			answer = "SIGSEGV"
		}
	}()
	if r := int80(trap, a1, a2, a3); r < 0 {
		return result(syscall.Errno(-r))
	}
	return "ok"
}
