package keeper

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/wrapper"
)

const (
	// endTime is how long what a command left may take to die by SIGKILL. With a
	// stop it comes on top of the grace.
	endTime = 800 * time.Millisecond
	// abandonTime is the same where nobody waits any more.
	abandonTime = 5 * time.Second
)

// server is a serving keeper: one goroutine, bound to a thread, does everything
// that concerns processes.
type server struct {
	frames <-chan frame
	fault  error // why frames was closed
	child  <-chan os.Signal
	report *reporter
	// refused: a frame made no sense, so what sent it is not to be trusted.
	refused bool
	// standing and cpus are what commands are to inherit.
	standing standing
	cpus     affinity
}

// serve runs commands until stdin ends, and returns the exit status.
func serve() int {
	child, err := prepare()
	if err != nil {
		return exitKernel
	}
	frames := make(chan frame)
	s := &server{frames: frames, child: child, report: newReporter(), standing: currentStanding(), cpus: currentAffinity()}
	go readFrames(frames, &s.fault)
	for f := range frames {
		switch f.kind {
		case frameRequest:
			o, ok := decodeOrder(f.payload)
			if !ok {
				return exitProtocol
			}
			if more, code := s.run(o); !more {
				return code
			}
		case frameStdin, frameEOF, frameSignal, frameStop, frameResize:
			// Sent before its sender could know that the command was over.
		default:
			return exitProtocol
		}
	}
	return s.ending()
}

// spoiled tells whether a command has changed this process so that the next one
// would not run as it should: with a file size limit of its choosing, say. A
// process without capabilities cannot raise what was lowered.
func (s *server) spoiled() bool { return currentStanding() != s.standing }

// ending is the exit status after the end of stdin.
func (s *server) ending() int {
	if s.refused || !errors.Is(s.fault, io.EOF) {
		return exitProtocol
	}
	return exitOK
}

// abandon ends everything because the owner is gone or not to be trusted.
func (s *server) abandon() {
	endAll(time.Now().Add(abandonTime), func(int, unix.WaitStatus, unix.Rusage) {})
}

// run does one command. more is false when this keeper is done, with its status.
func (s *server) run(o *order) (more bool, code int) {
	clearFlags()
	s.cpus.restore()
	if s.spoiled() {
		return false, exitSpoiled
	}
	if err := mark(o.token, "start"); err != nil {
		return false, exitOK
	}
	c := &command{server: s, order: o}
	if what, err := c.start(); err != nil {
		var errno unix.Errno
		if !errors.As(err, &errno) {
			errno = unix.EIO
		}
		return mark(o.token, "fail "+o.seal+" "+what+" "+strconv.Itoa(int(errno))) == nil, exitOK
	}
	owned := c.wait()
	c.end(owned)
	if !owned {
		return false, s.ending()
	}
	c.status.Retired = c.status.Retired || s.spoiled()
	if err := mark(o.token, c.status.body(o.seal)); err != nil {
		s.abandon()
		return false, exitOK
	}
	if c.status.Retired {
		s.retire(o.Outlive)
		return false, exitOK
	}
	return true, 0
}

// retire stays as the parent of what a command has left until that is gone. A
// stop ends it, and the end of stdin unless it is to outlive that.
func (s *server) retire(outlive bool) {
	for {
		if !reapAll() {
			return
		}
		select {
		case f, ok := <-s.frames:
			if !ok && outlive && errors.Is(s.fault, io.EOF) {
				s.frames = nil
				continue
			}
			if !ok || f.kind == frameRequest {
				s.abandon()
				return
			}
			if f.kind != frameStop {
				continue
			}
			if grace, ok := graceOf(f.payload); ok {
				for _, p := range descendants() {
					p.terminate()
				}
				s.drain(time.NewTimer(grace).C)
			}
			s.abandon()
			return
		case <-s.child:
		}
	}
}

// drain reaps until there is nothing left, the time is over or stdin ends.
func (s *server) drain(over <-chan time.Time) {
	for reapAll() {
		select {
		case <-over:
			return
		case _, ok := <-s.frames:
			if !ok {
				return
			}
		case <-s.child:
		}
	}
}

// reapAll reaps what is dead and tells whether something lives.
func reapAll() bool {
	for {
		pid, err := exited()
		if err != nil || pid == 0 {
			return err == nil
		}
		reapOne(pid)
	}
}

// mark writes a marker on both streams: stderr first, so that whoever has seen
// the one on stdout need not wait long for the other.
func mark(token, body string) error {
	m := wrapper.AppendMarker(nil, token, body)
	if err := writeAll(2, m); err != nil {
		return err
	}
	return writeAll(1, m)
}

// clearFlags undoes what an earlier command did to the open files that it shared
// with us: non-blocking, packet mode, signals on readiness.
func clearFlags() {
	for fd := 1; fd <= 2; fd++ {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil {
			const odd = unix.O_NONBLOCK | unix.O_DIRECT | unix.O_ASYNC
			if flags&odd != 0 {
				_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags&^odd)
			}
		}
	}
}

// newFrameReader reads standard input through the runtime's poller, which costs no
// thread while it waits.
func newFrameReader() *bufio.Reader {
	_ = unix.SetNonblock(0, true)
	return bufio.NewReaderSize(os.NewFile(0, "stdin"), 64<<10)
}
