package main

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/wsctl/wsctl/workspace"
)

func TestEveryFailureHasOneStatus(t *testing.T) {
	own := workspace.Errorf(workspace.ErrUnavailable, "connect", "", "no engine")
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{exitStatus(0), 0},
		{exitStatus(42), 42},
		{fmt.Errorf("wrapped: %w", exitStatus(255)), 255},
		{own, 125},
		{errors.New("anything"), 125},
		{&commandError{err: own}, 125},
		{&commandError{err: &interruptedError{sig: syscall.SIGINT, err: own}}, 130},
		{&interruptedError{sig: syscall.SIGTERM, err: own}, 143},
	} {
		if got := statusOf(c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

func TestResultOfAFailureHasTheStatusAndTheCode(t *testing.T) {
	err := workspace.Errorf(workspace.ErrUnavailable, "connect", "", "no engine")
	out := &workspace.Output{Stdout: []byte("half"), ExitCode: 7}
	r := newResult(out, err)
	if r.ExitCode != 125 || r.Stdout != "half" || r.Error == nil || r.Error.Code != workspace.ErrUnavailable || r.Error.Message != err.Error() {
		t.Errorf("%+v %+v", r, r.Error)
	}
}
