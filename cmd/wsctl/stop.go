package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// stopper turns the signals that wsctl gets into the end of what it runs:
//
//   - While nothing runs yet, the first one ends the start.
//   - While a command runs, the first one is passed on to it, as a terminal
//     would, and wsctl waits for it to end. After SIGTERM and SIGHUP, which ask
//     wsctl itself to go, and when nobody reads its output any more, that wait
//     is the kill grace and then the command is killed. The second one kills it.
//   - The third one ends wsctl at once. The keeper sees that its owner is gone
//     and ends the rest.
//
// A signal that was ignored when wsctl started stays so (nohup).
type stopper struct {
	grace  time.Duration
	giveUp func(syscall.Signal)
	cancel context.CancelFunc
	in     chan os.Signal
	done   chan struct{}

	mu      sync.Mutex
	deliver func(syscall.Signal) // guarded by mu; nil: no command runs
	first   syscall.Signal       // guarded by mu; 0: none came
	count   int                  // guarded by mu
	timer   *time.Timer          // guarded by mu; what comes next by itself
}

// killWait is how long a killed command may take to be gone before its context
// ends too.
const killWait = time.Second

// newStopper catches signals until close. The context it returns ends when the
// start must be given up, or a command did not die. giveUp must not return.
func newStopper(parent context.Context, grace time.Duration, giveUp func(syscall.Signal)) (*stopper, context.Context) {
	ctx, cancel := context.WithCancel(parent)
	s := &stopper{grace: grace, giveUp: giveUp, cancel: cancel, in: make(chan os.Signal, 8), done: make(chan struct{})}
	for _, sig := range stopSignals() {
		if !signal.Ignored(sig) {
			signal.Notify(s.in, sig)
		}
	}
	// Caught rather than ignored, which the command would inherit: a write to
	// a closed pipe is then an error that outlet turns into broken.
	signal.Notify(s.in, syscall.SIGPIPE)
	go s.listen()
	return s, ctx
}

func (s *stopper) listen() {
	defer close(s.done)
	for sig := range s.in {
		if n, ok := sig.(syscall.Signal); ok && n != syscall.SIGPIPE {
			s.got(n)
		}
	}
}

// got takes one signal.
func (s *stopper) got(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	if s.first == 0 {
		s.first = sig
	}
	switch {
	case s.count > 2:
		s.giveUp(s.first)
	case s.deliver == nil:
		s.cancel()
	case s.count == 2:
		s.kill()
	default:
		s.deliver(sig)
		if sig == syscall.SIGTERM || sig == syscall.SIGHUP {
			s.after(s.grace, s.kill)
		}
	}
}

// broken says that nobody reads the command's output any more. In a shell the
// command would get SIGPIPE at its next write; here it is ended, and the status
// is that of SIGPIPE.
func (s *stopper) broken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first != 0 || s.deliver == nil {
		return
	}
	s.first = syscall.SIGPIPE
	s.deliver(syscall.SIGTERM)
	s.after(s.grace, s.kill)
}

// kill ends the command; mu is held.
func (s *stopper) kill() {
	if s.deliver == nil {
		return
	}
	s.deliver(syscall.SIGKILL)
	s.after(killWait, s.cancel)
}

// after runs next, with mu held, unless something else comes first; mu is held.
func (s *stopper) after(d time.Duration, next func()) {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.deliver != nil {
			next()
		}
	})
}

// running says that a command runs and how to send it a signal; deliver must
// not block. nil: it has ended.
func (s *stopper) running(deliver func(syscall.Signal)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deliver = deliver
	if deliver == nil && s.timer != nil {
		s.timer.Stop()
	}
}

// signal returns the first signal that came, SIGPIPE when nobody reads the
// output, 0 for none.
func (s *stopper) signal() syscall.Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}

// close lets signals do again what they did before.
func (s *stopper) close() {
	signal.Stop(s.in)
	close(s.in)
	<-s.done
	s.running(nil)
	s.cancel()
}
