package main

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is a command that only notes the signals it gets.
type recorder struct {
	mu  sync.Mutex
	got []syscall.Signal
}

func (r *recorder) deliver(sig syscall.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got = append(r.got, sig)
}

func (r *recorder) want(t *testing.T, want ...syscall.Signal) {
	t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.got, want) {
		t.Errorf("the command got %v, want %v", r.got, want)
	}
}

// testStopper is a stopper that catches no signal of this process.
func testStopper(t *testing.T) (s *stopper, ctx context.Context, gaveUp *[]syscall.Signal) {
	gaveUp = new([]syscall.Signal)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return &stopper{grace: 3 * time.Second, cancel: cancel, giveUp: func(sig syscall.Signal) { *gaveUp = append(*gaveUp, sig) }}, ctx, gaveUp
}

func TestFirstInterruptIsPassedOnAndSecondKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx, gaveUp := testStopper(t)
		var r recorder
		s.running(r.deliver)
		s.got(syscall.SIGINT)
		time.Sleep(time.Hour)
		r.want(t, syscall.SIGINT)
		s.got(syscall.SIGINT)
		r.want(t, syscall.SIGINT, syscall.SIGKILL)
		if ctx.Err() != nil {
			t.Error("its context ended before it had time to die")
		}
		time.Sleep(killWait)
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("the context of a command that does not die goes on")
		}
		s.got(syscall.SIGINT)
		if !slices.Equal(*gaveUp, []syscall.Signal{syscall.SIGINT}) || s.signal() != syscall.SIGINT {
			t.Errorf("gave up for %v, signal %v", *gaveUp, s.signal())
		}
	})
}

func TestTerminateKillsAfterTheGrace(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		synctest.Test(t, func(t *testing.T) {
			s, _, _ := testStopper(t)
			var r recorder
			s.running(r.deliver)
			s.got(sig)
			time.Sleep(s.grace - time.Millisecond)
			r.want(t, sig)
			time.Sleep(time.Millisecond)
			r.want(t, sig, syscall.SIGKILL)
			s.running(nil)
		})
	}
}

func TestNothingIsSentToACommandThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx, _ := testStopper(t)
		var r recorder
		s.running(r.deliver)
		s.got(syscall.SIGTERM)
		s.running(nil)
		time.Sleep(time.Hour)
		r.want(t, syscall.SIGTERM)
		if ctx.Err() != nil {
			t.Error("the context ended after the command had")
		}
	})
}

func TestFirstSignalBeforeACommandEndsTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ctx, gaveUp := testStopper(t)
		s.got(syscall.SIGINT)
		if ctx.Err() == nil || len(*gaveUp) > 0 {
			t.Errorf("context %v, gave up %v", ctx.Err(), *gaveUp)
		}
	})
}

func TestReaderThatLeftEndsTheCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := testStopper(t)
		var r recorder
		s.running(r.deliver)
		s.broken()
		s.broken()
		r.want(t, syscall.SIGTERM)
		time.Sleep(s.grace)
		r.want(t, syscall.SIGTERM, syscall.SIGKILL)
		if s.signal() != syscall.SIGPIPE {
			t.Errorf("signal %v", s.signal())
		}
		s.running(nil)
	})
}
