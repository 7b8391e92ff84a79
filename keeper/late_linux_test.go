package keeper_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/keeper"
)

// A request that the keeper gets late, because it was stopped or frozen meanwhile,
// is carried out when its sender still wants it.
func TestLateRequestThatIsStillWanted(t *testing.T) {
	l := serve(t)
	check(t, l.Ready(deadline(t)))
	check(t, l.cmd.Process.Signal(syscall.SIGSTOP))
	time.AfterFunc(400*time.Millisecond, func() { _ = l.cmd.Process.Signal(syscall.SIGCONT) })
	begin := time.Now()
	if got := l.run(t, shell("echo late"), nil); got.stdout != "late\n" || time.Since(begin) < 300*time.Millisecond {
		t.Errorf("after %v: %+v", time.Since(begin), got)
	}
	if got := l.run(t, shell("echo next"), nil); got.stdout != "next\n" {
		t.Errorf("next: %+v", got)
	}
}

// One that was given up is not, however long after.
func TestLateRequestThatWasGivenUp(t *testing.T) {
	l := serve(t)
	check(t, l.Ready(deadline(t)))
	check(t, l.cmd.Process.Signal(syscall.SIGSTOP))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	ran := filepath.Join(t.TempDir(), "ran")
	if _, err := l.Start(ctx, shell("echo > "+ran), keeper.Streams{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("got %v", err)
	}
	check(t, l.cmd.Process.Signal(syscall.SIGCONT))
	<-l.Gone()
	if _, err := os.Lstat(ran); err == nil {
		t.Error("it ran")
	}
}

// What has run must not run again elsewhere, so a keeper that is lost tells whether
// it had begun, also when the command ends it as its first act.
func TestLossTellsWhetherAnythingRan(t *testing.T) {
	l := serve(t)
	check(t, l.Ready(deadline(t)))
	check(t, l.cmd.Process.Kill())
	_, err := l.Start(deadline(t), shell("true"), keeper.Streams{})
	if !errors.Is(err, keeper.ErrLost) || !errors.Is(err, keeper.ErrNotRun) {
		t.Errorf("killed in waiting: %v", err)
	}
	for range 20 {
		r, err := serve(t).Start(deadline(t), shell("kill -9 $PPID"), keeper.Streams{})
		if err != nil {
			t.Fatalf("killed by its command: start: %v", err)
		}
		if _, err := r.Wait(deadline(t)); !errors.Is(err, keeper.ErrLost) || errors.Is(err, keeper.ErrNotRun) {
			t.Fatalf("killed by its command: %v", err)
		}
	}
}

// What a program that does not become a keeper says is in the error.
func TestNoKeeper(t *testing.T) {
	l := serveFrom(t, "/bin/sh", "sh", "-c", "echo no such runtime; exit 1")
	err := l.Ready(deadline(t))
	if !errors.Is(err, keeper.ErrLost) || err.Error() != `keeper: lost: exit status 1
"no such runtime"` {
		t.Errorf("got %v", err)
	}
}
