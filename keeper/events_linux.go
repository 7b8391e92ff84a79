package keeper

import (
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// events is all that a keeper waits for: frames on standard input, the end of a
// command, the death of any child. One thread waits in one poll(2) and does what
// is to be done: each thread that has to be woken costs more than the work.
type events struct {
	in inbox
	// leader is a descriptor of the command that runs (pidfd_open(2)); -1: none.
	leader int
	// wake is an eventfd. While listening is true it is readable when a child has
	// died since the last wait.
	wake      int
	child     chan os.Signal
	listening bool
}

func newEvents() (*events, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	e := &events{leader: -1, wake: wake, child: make(chan os.Signal, 1)}
	go func() {
		one := []byte{1, 0, 0, 0, 0, 0, 0, 0} // in any byte order not 0
		for range e.child {
			_, _ = unix.Write(wake, one)
		}
	}()
	return e, nil
}

// listen makes the death of any child end a wait. Those that are dead already are
// for the caller to look for. A command that is over within milliseconds is done
// without: the signal passes through three threads.
func (e *events) listen() {
	if !e.listening {
		e.listening = true
		signal.Notify(e.child, unix.SIGCHLD)
	}
}

// deafen undoes listen.
func (e *events) deafen() {
	if e.listening {
		e.listening = false
		signal.Stop(e.child)
	}
}

// wait returns when something has happened or the time has passed; a negative one
// never does. The frames that have come are then in the inbox.
func (e *events) wait(d time.Duration) {
	fds := [...]unix.PollFd{
		{Fd: 0, Events: unix.POLLIN},
		{Fd: int32(e.leader), Events: unix.POLLIN},
		{Fd: int32(e.wake), Events: unix.POLLIN},
	}
	if e.in.err != nil {
		fds[0].Fd = -1
	}
	var timeout *unix.Timespec
	if d >= 0 {
		t := unix.NsecToTimespec(int64(d))
		timeout = &t
	}
	if n, err := unix.Ppoll(fds[:], timeout, nil); err != nil || n == 0 {
		return
	}
	if fds[2].Revents != 0 {
		var count [8]byte
		_, _ = unix.Read(e.wake, count[:])
	}
	if fds[0].Revents != 0 {
		e.in.fill()
	}
}

// inbox holds what has come on standard input and is not yet taken.
type inbox struct {
	buf  []byte
	from int // of what is not yet taken
	// err is why nothing more will come: io.EOF at the end, errMalformed.
	err error
}

const (
	// readSize is the least that one read of standard input has room for.
	readSize = 64 << 10
	// keptBuffer bounds the buffer that is kept after a large frame.
	keptBuffer = 512 << 10
)

// fill reads once. It blocks while there is nothing to read.
func (in *inbox) fill() {
	if in.from == len(in.buf) {
		in.from, in.buf = 0, in.buf[:0]
		if cap(in.buf) > keptBuffer {
			in.buf = nil
		}
	}
	if cap(in.buf)-len(in.buf) < readSize {
		// A frame that is not yet whole moves to the front of what is made.
		buf := make([]byte, len(in.buf)-in.from, 2*(len(in.buf)-in.from)+readSize)
		copy(buf, in.buf[in.from:])
		in.from, in.buf = 0, buf
	}
	for {
		n, err := unix.Read(0, in.buf[len(in.buf):cap(in.buf)])
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			in.err = err
		case n == 0:
			in.err = io.EOF
			if in.from < len(in.buf) {
				in.err = io.ErrUnexpectedEOF
			}
		default:
			in.buf = in.buf[:len(in.buf)+n]
		}
		return
	}
}

// next takes a frame, if a whole one is there. Its payload is good until fill.
func (in *inbox) next() (f frame, ok bool) {
	f, n, err := parseFrame(in.buf[in.from:])
	if err != nil {
		in.stop(err)
		return frame{}, false
	}
	in.from += n
	return f, n > 0
}

// stop drops what has come, and takes nothing more.
func (in *inbox) stop(why error) { in.err, in.from = why, len(in.buf) }

// drop takes all frames and forgets them.
func (in *inbox) drop() {
	for ok := true; ok; {
		_, ok = in.next()
	}
}

// take waits for a frame. ok is false when none will come.
func (in *inbox) take() (f frame, ok bool) {
	for {
		if f, ok := in.next(); ok {
			return f, true
		}
		if in.err != nil {
			return frame{}, false
		}
		in.fill()
	}
}
