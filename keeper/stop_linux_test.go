package keeper_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/keeper"
)

func TestKeep(t *testing.T) {
	l := serve(t)
	req := shell("sleep 7773 & setsid sleep 7773 & echo done")
	req.Keep = true
	got := l.run(t, req, nil)
	if got.stdout != "done\n" || !got.Retired || got.Ended != 0 {
		t.Fatalf("got %+v", got)
	}
	eventually(t, "both of the kept", func() bool { return named(t, "sleep\x007773") == 2 })
	if _, err := l.Start(deadline(t), shell("true"), keeper.Streams{}); !errors.Is(err, keeper.ErrBusy) {
		t.Errorf("a retired keeper took a command: %v", err)
	}
	check(t, l.Close())
	<-l.Gone()
	if n := named(t, "7773"); n != 0 {
		t.Errorf("%d left after the owner went", n)
	}
}

func TestKeepWithNothingLeftDoesNotRetire(t *testing.T) {
	l := serve(t)
	req := shell("true")
	req.Keep = true
	if got := l.run(t, req, nil); got.Retired || !l.Free() {
		t.Errorf("retired: %+v", got.Status)
	}
	if got := l.run(t, shell("echo again"), nil); got.stdout != "again\n" {
		t.Errorf("got %+v", got)
	}
}

func TestRetiredKeeperExitsWithTheLastKept(t *testing.T) {
	l := serve(t)
	req := shell("sleep .2 &")
	req.Keep = true
	if !l.run(t, req, nil).Retired {
		t.Fatal("did not retire")
	}
	select {
	case <-l.Gone():
	case <-time.After(5 * time.Second):
		t.Fatal("still there")
	}
}

func TestStopOfKept(t *testing.T) {
	l := serve(t)
	req := shell("setsid sh -c 'trap \"\" TERM; sleep 7774' & setsid sleep 7774 & sleep .1")
	req.Keep = true
	r := l.start(t, req, keeper.Streams{})
	status, err := r.Wait(deadline(t))
	check(t, err)
	if !status.Retired {
		t.Fatal("did not retire")
	}
	begin := time.Now()
	check(t, r.Stop(300*time.Millisecond))
	eventually(t, "the end of what was kept", func() bool { return named(t, "7774") == 0 })
	if took := time.Since(begin); took < 250*time.Millisecond || took > 1300*time.Millisecond {
		t.Errorf("took %v", took)
	}
	<-l.Gone()
}

func TestStopEndsWhatObeysAtOnce(t *testing.T) {
	l := serve(t)
	var out watched
	r := l.start(t, shell("trap 'echo bye; exit 3' TERM; echo up; setsid sleep 7775 & wait"), keeper.Streams{Stdout: &out})
	out.await(t, "up")
	// Not before the fork has become sleep: a shell's child that has not yet reset
	// the trap would swallow the signal.
	eventually(t, "sleep", func() bool { return named(t, "sleep\x007775") == 1 })
	begin := time.Now()
	check(t, r.Stop(5*time.Second))
	status, err := r.Wait(deadline(t))
	check(t, err)
	if status.Code != 3 || !status.Stopped || !strings.HasSuffix(out.String(), "bye\n") || time.Since(begin) > 2*time.Second {
		t.Errorf("%+v, %q, %v", status, out.String(), time.Since(begin))
	}
	if named(t, "7775") != 0 {
		t.Error("left")
	}
	if got := l.run(t, shell("echo next"), nil); got.stdout != "next\n" || got.Stopped {
		t.Errorf("next: %+v", got)
	}
}

func TestStopKillsAfterGrace(t *testing.T) {
	l := serve(t)
	for name, line := range map[string]string{
		"leader ignores": "trap '' TERM INT HUP; echo up; while :; do sleep .05; done",
		"child ignores":  "(trap '' TERM; setsid sh -c 'echo up; sleep 7776; sleep 7776') & wait",
		"stopped":        "trap '' TERM; echo up; kill -STOP $$",
	} {
		var out watched
		r := l.start(t, shell(line), keeper.Streams{Stdout: &out})
		out.await(t, "up")
		begin := time.Now()
		check(t, r.Stop(300*time.Millisecond))
		status, err := r.Wait(deadline(t))
		check(t, err)
		if took := time.Since(begin); name != "stopped" && took < 290*time.Millisecond || took > 1300*time.Millisecond {
			t.Errorf("%s: took %v", name, took)
		}
		if !status.Stopped || status.Unfinished != 0 || named(t, "7776") != 0 {
			t.Errorf("%s: %+v", name, status)
		}
	}
}
