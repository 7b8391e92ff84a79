package keeper

import (
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// taken are the signals that would end or stop a Go program, and those that it
// leaves ignored when it was started so. All others have a handler of the
// runtime's that drops them (runtime/sigtab_linux_generic.go). Not simply all: each
// costs two thread switches, and a keeper must start quickly.
var taken = []os.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGILL, unix.SIGTRAP, unix.SIGABRT, unix.SIGBUS, unix.SIGFPE,
	unix.SIGSEGV, unix.SIGTERM, unix.SIGSTKFLT, unix.SIGCONT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGSYS,
}

// prepare makes this process fit to be the parent of hostile commands. The
// calling goroutine is bound to its thread, from which all commands are started:
// the signal mask is a thread's, and PR_SET_PDEATHSIG speaks of one. It returns
// what that thread waits for.
func prepare() (*events, error) {
	runtime.LockOSThread()
	// Nobody of the same user may open our memory, descriptors or environment. The
	// file's mode 0111 says the same; this holds where it was started otherwise.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, err
	}
	// What the one who started us has blocked is not for our commands.
	var none unix.Sigset_t
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &none, nil); err != nil {
		return nil, err
	}
	// Each signal that can be handled has a handler: none ends us, PID 1 included
	// (`kill -SYS 1`), and as exec resets handlers, none reaches a command as ignored.
	signal.Notify(make(chan os.Signal, 1), taken...)
	closeOnExec()
	e, err := newEvents()
	if err != nil {
		return nil, err
	}
	warmThreads()
	// Everything rests on this call: where it is filtered nothing could be proved.
	if _, err := exited(); err != nil && err != unix.ECHILD {
		return nil, err
	}
	return e, nil
}

// closeOnExec keeps descriptors that we were started with from commands.
func closeOnExec() {
	const all = ^uint32(0)
	if unix.CloseRange(3, uint(all), unix.CLOSE_RANGE_CLOEXEC) == nil {
		return
	}
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range list {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// warmThreads makes the threads that are needed later. At a spent process limit
// there are no new ones, and a Go program that asks for one dies.
func warmThreads() {
	const threads = 4
	var all, done sync.WaitGroup
	all.Add(threads)
	done.Add(threads)
	for range threads {
		go func() {
			runtime.LockOSThread() // forces a thread of its own
			all.Done()
			all.Wait()
			runtime.UnlockOSThread() // leaves it to the pool
			done.Done()
		}()
	}
	done.Wait()
}

// writeAll writes b to a descriptor that a command may have made non-blocking.
// Up to PIPE_BUF bytes go to a pipe in one piece.
func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		switch err {
		case nil:
			b = b[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1); err != nil && err != unix.EINTR {
				return err
			}
		default:
			return err
		}
	}
	return nil
}
