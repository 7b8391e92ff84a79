package keeper

import (
	"errors"
	"io"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/wrapper"
)

const (
	// endTime is how long what was stopped may take to die by SIGKILL, on top of
	// the grace.
	endTime = 800 * time.Millisecond
	// leftTime is the same for what a command left that has ended by itself, for
	// whose end nobody has set a time: what does not die in it costs the container.
	leftTime = 4 * time.Second
	// abandonTime is the same where nobody waits any more.
	abandonTime = 5 * time.Second
)

// server is a serving keeper: one goroutine, bound to a thread, does everything
// that concerns processes.
type server struct {
	*events
	report *reporter
	// refused: a frame made no sense, so what sent it is not to be trusted.
	refused bool
	// standing and cpus are what commands are to inherit.
	standing standing
	cpus     affinity
}

// serve runs commands until stdin ends, and returns the exit status.
func serve() int {
	e, err := prepare()
	if err != nil {
		return exitKernel
	}
	s := &server{events: e, report: newReporter(), standing: currentStanding(), cpus: currentAffinity()}
	if mark(greeting, "serve") != nil {
		return exitOK
	}
	for {
		f, ok := s.in.take()
		if !ok {
			return s.ending()
		}
		switch f.kind {
		case frameRequest:
			o, ok := decodeOrder(f.payload)
			if !ok {
				return exitProtocol
			}
			if more, code := s.run(o); !more {
				return code
			}
		case frameStdin, frameEOF, frameSignal, frameStop, frameResize, frameGo:
			// Sent before its sender could know that the command was over.
		default:
			return exitProtocol
		}
	}
}

// spoiled tells whether a command has changed this process so that the next one
// would not run as it should: with a file size limit of its choosing, say. A
// process without capabilities cannot raise what was lowered.
func (s *server) spoiled() bool { return currentStanding() != s.standing }

// ending is the exit status after the end of stdin.
func (s *server) ending() int {
	if s.refused || !errors.Is(s.in.err, io.EOF) {
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
	if !s.inTime(o) {
		return false, s.ending()
	}
	if err := writeAll(1, wrapper.AppendMarker(nil, o.token, "start")); err != nil {
		return false, exitOK
	}
	c := &command{server: s, order: o}
	if what, err := c.start(); err != nil {
		return mark(o.token, "fail "+o.seal+" "+what+" "+strconv.Itoa(int(errnoOf(err)))) == nil, exitOK
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
	s.deafen()
	return true, 0
}

// errnoOf is the number that a start has failed with.
func errnoOf(err error) unix.Errno {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return unix.EIO
	}
	return errno
}

// inTime tells whether the order may be carried out: it has just been sent, or its
// sender still wants it. One that waited while this process was stopped or frozen
// may have been given up long ago.
func (s *server) inTime(o *order) bool {
	if age := time.Duration(sinceBoot() - o.sent); age >= 0 && age <= freshTime {
		return true
	}
	if writeAll(1, wrapper.AppendMarker(nil, o.token, "late")) != nil {
		return false
	}
	f, ok := s.in.take()
	s.refused = ok && f.kind != frameGo
	return ok && !s.refused
}

// retire stays as the parent of what a command has left until that is gone. A
// stop ends it, and the end of stdin unless it is to outlive that.
func (s *server) retire(outlive bool) {
	s.listen()
	for reapAll() {
		f, ok := s.in.next()
		switch {
		case !ok && (s.in.err == nil || outlive && errors.Is(s.in.err, io.EOF)):
			s.wait(-1)
			continue
		case ok && f.kind != frameStop && f.kind != frameRequest:
			continue
		case ok && f.kind == frameStop:
			if grace, ok := graceOf(f.payload); ok {
				for _, p := range descendants() {
					p.terminate()
				}
				s.drain(time.Now().Add(grace))
			}
		}
		s.abandon()
		return
	}
}

// drain reaps until there is nothing left, the time is over or stdin ends.
func (s *server) drain(over time.Time) {
	for reapAll() && s.in.err == nil && time.Now().Before(over) {
		s.wait(time.Until(over))
		s.in.drop()
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
