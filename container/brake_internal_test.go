//go:build unix

package container

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// A pause waits for execs that are coming to be, and no exec begins while it lasts.
func TestBrake(t *testing.T) {
	var k brake
	for range 2 {
		if err := k.enter(); err != nil {
			t.Fatal(err)
		}
	}
	held := make(chan error, 1)
	go func() { held <- k.hold(t.Context()) }()
	k.leave()
	select {
	case err := <-held:
		t.Fatalf("held beside an exec: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	if err := k.enter(); !errors.Is(err, workspace.ErrBusy) {
		t.Errorf("an exec began before a pause: %v", err)
	}
	k.leave()
	if err := <-held; err != nil {
		t.Errorf("hold: %v", err)
	}
	if err := k.enter(); !errors.Is(err, workspace.ErrBusy) {
		t.Errorf("an exec began in a pause: %v", err)
	}
	k.release()
	if err := k.enter(); err != nil {
		t.Errorf("after the pause: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := k.hold(ctx); !errors.Is(err, workspace.ErrAborted) {
		t.Errorf("hold that is aborted: %v", err)
	}
	if err := k.enter(); err != nil {
		t.Errorf("after a pause that was aborted: %v", err)
	}
}
