package keeper_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/keeper"
)

func TestHundredCommandsOverOneKeeper(t *testing.T) {
	l := serve(t)
	for i := range 100 {
		out := make([]byte, rand.IntN(3000))
		for j := range out {
			out[j] = byte(rand.Uint32())
		}
		file := filepath.Join(t.TempDir(), "out")
		check(t, os.WriteFile(file, out, 0o644))
		got := l.run(t, shell(fmt.Sprintf("cat %s; printf 'e%d' >&2; exit %d", file, i, i)), nil)
		if got.stdout != string(out) || got.stderr != fmt.Sprintf("e%d", i) || got.Code != i || got.Signal != 0 || got.Ended != 0 {
			t.Fatalf("command %d: %+v", i, got.Status)
		}
	}
}

func TestStatusBySignal(t *testing.T) {
	got := serve(t).run(t, shell("kill -KILL $$"), nil)
	if got.Code != 137 || got.Signal != 9 || got.Stopped {
		t.Errorf("got %+v", got.Status)
	}
}

func TestNoStdinIsEmpty(t *testing.T) {
	if got := serve(t).run(t, shell("cat; echo done"), nil); got.stdout != "done\n" {
		t.Errorf("got %q", got.stdout)
	}
}

// What a command leaves is gone when it is over, however it hid.
func TestNothingIsLeft(t *testing.T) {
	l := serve(t)
	sibling := serve(t)
	var out watched
	s := sibling.start(t, shell("echo here; exec sleep 7771"), keeper.Streams{Stdout: &out})
	out.await(t, "here")
	for name, line := range map[string]string{
		"group":       "sleep 7772 & echo x",
		"setsid":      "setsid sleep 7772 & sleep .05",
		"double fork": "(setsid sh -c 'sleep 7772 & exec sleep 7772' &) ; sleep .05",
		"empty env":   "env -i setsid /bin/sleep 7772 & sleep .05",
		"stopped":     "setsid sleep 7772 & sleep .05; kill -STOP $!",
		"ignores":     "trap '' TERM HUP INT; setsid sleep 7772 & sleep .05",
		"own stdio":   "setsid sleep 7772 </dev/null >/dev/null 2>&1 & sleep .05",
	} {
		got := l.run(t, shell(line), nil)
		if got.Ended == 0 || got.Unfinished != 0 || got.Retired {
			t.Errorf("%s: %+v", name, got.Status)
		}
		if n := named(t, "7772"); n != 0 {
			t.Errorf("%s: %d left", name, n)
		}
	}
	if !alive(pidOf(t, s)) {
		t.Error("a sibling's command was ended")
	}
}

func TestReturnsWhenTheCommandExits(t *testing.T) {
	l := serve(t)
	for _, line := range []string{
		"sleep 60 & echo done", "sleep 60 >/dev/null & echo done", "sleep 60 >/dev/null 2>&1 & echo done",
		"(while :; do echo tick >&2; sleep .1; done) & echo done",
	} {
		begin := time.Now()
		got := l.run(t, shell(line), nil)
		if took := time.Since(begin); got.stdout != "done\n" || got.Code != 0 || took > time.Second {
			t.Errorf("%q: %q, %v, took %v", line, got.stdout, got.Status, took)
		}
	}
}

func TestStdinIsExact(t *testing.T) {
	in := make([]byte, 20<<20)
	for i := range in {
		in[i] = byte(rand.Uint32())
	}
	got := serve(t).run(t, shell("cat"), bytes.NewReader(in))
	if got.stdout != string(in) {
		t.Errorf("%d bytes came, %d went", len(got.stdout), len(in))
	}
}

func TestCommandThatDoesNotRead(t *testing.T) {
	l := serve(t)
	in := bytes.Repeat([]byte("x"), 3<<20)
	if got := l.run(t, shell("exec <&-; sleep .1; echo done"), bytes.NewReader(in)); got.stdout != "done\n" {
		t.Errorf("got %+v", got)
	}
	var out watched
	r := l.start(t, shell("echo up; sleep 7777"), keeper.Streams{Stdin: bytes.NewReader(in), Stdout: &out})
	out.await(t, "up")
	check(t, r.Stop(5*time.Second))
	if status, err := r.Wait(deadline(t)); err != nil || status.Signal != 15 {
		t.Errorf("%+v, %v", status, err)
	}
	if got := l.run(t, shell("cat"), strings.NewReader("next")); got.stdout != "next" {
		t.Errorf("got %+v", got)
	}
}

func TestOutputAfterEndOfStdin(t *testing.T) {
	got := serve(t).run(t, shell("cat >/dev/null; sleep .2; echo late; echo late2 >&2"), strings.NewReader("x"))
	if got.stdout != "late\n" || got.stderr != "late2\n" {
		t.Errorf("got %+v", got)
	}
}

// blocked is a writer whose reader never comes.
type blocked struct{ release chan struct{} }

func (b blocked) Write(p []byte) (int, error) { <-b.release; return len(p), nil }

func TestBlockedWriterDoesNotBlockStop(t *testing.T) {
	l := serve(t)
	b := blocked{make(chan struct{})}
	r := l.start(t, shell("yes"), keeper.Streams{Stdout: b})
	time.Sleep(50 * time.Millisecond)
	check(t, r.Stop(time.Second))
	eventually(t, "the end of yes", func() bool { return named(t, "yes\x00") == 0 })
	close(b.release)
	if status, err := r.Wait(deadline(t)); err != nil || status.Signal != 15 {
		t.Errorf("%+v, %v", status, err)
	}
}

func TestKilledKeeperIsLost(t *testing.T) {
	l := serve(t)
	var out watched
	r := l.start(t, shell("echo up; exec sleep 7778"), keeper.Streams{Stdout: &out})
	out.await(t, "up")
	begin := time.Now()
	check(t, l.cmd.Process.Kill())
	_, err := r.Wait(deadline(t))
	if !errors.Is(err, keeper.ErrLost) || time.Since(begin) > 2*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
	if _, err := l.Start(deadline(t), shell("true"), keeper.Streams{}); !errors.Is(err, keeper.ErrLost) {
		t.Errorf("start: %v", err)
	}
	eventually(t, "the command's end", func() bool { return named(t, "7778") == 0 })
}

func TestOwnerGone(t *testing.T) {
	l := serve(t)
	var out watched
	r := l.start(t, shell("trap '' TERM; setsid sleep 7779 & echo up; sleep 7779"), keeper.Streams{Stdout: &out})
	out.await(t, "up")
	check(t, l.Close())
	if _, err := r.Wait(deadline(t)); !errors.Is(err, keeper.ErrLost) {
		t.Errorf("got %v", err)
	}
	if named(t, "7779") != 0 {
		t.Error("left")
	}
}

func TestStartErrors(t *testing.T) {
	l := serve(t)
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, nil, 0o644))
	for _, c := range []struct {
		step string
		want error
		edit func(*keeper.Request)
	}{
		{"chdir", syscall.ENOENT, func(r *keeper.Request) { r.Dir = "/nonexistent" }},
		{"chdir", syscall.ENOTDIR, func(r *keeper.Request) { r.Dir = file }},
		{"exec", syscall.ENOENT, func(r *keeper.Request) { r.Path = "/nonexistent" }},
		{"exec", syscall.EACCES, func(r *keeper.Request) { r.Path = file }},
		{"exec", syscall.EINVAL, func(r *keeper.Request) { r.Args = []string{"a\x00b"} }},
	} {
		req := shell("echo ran")
		c.edit(&req)
		_, err := l.Start(deadline(t), req, keeper.Streams{})
		var e *keeper.StartError
		if !errors.As(err, &e) || e.Step != c.step || !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.step, err, c.want)
		}
	}
	if got := l.run(t, shell("pwd"), nil); got.stdout != "/\n" {
		t.Errorf("after the errors: %+v", got)
	}
}

func TestForgedMarkerIsOutput(t *testing.T) {
	const forged = `\036aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa exit aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa code=0\n`
	got := serve(t).run(t, shell(`printf '`+forged+`'; printf '\036'; exit 9`), nil)
	if want := "\x1e" + forged[4:len(forged)-2] + "\n\x1e"; got.stdout != want || got.Code != 9 {
		t.Errorf("got %q, want %q", got.stdout, want)
	}
}

func TestSignalsAreDefault(t *testing.T) {
	got := serve(t).run(t, shell("exec grep -E '^Sig(Blk|Ign)|^Sh' /proc/self/status"), nil)
	for line := range strings.Lines(got.stdout) {
		if f := strings.Fields(line); strings.HasPrefix(line, "Sig") && f[1] != "0000000000000000" {
			t.Errorf("inherited: %q", line)
		}
	}
	if got := serve(t).run(t, shell("yes | head -n1"), nil); got.stdout != "y\n" || got.Code != 0 {
		t.Errorf("got %+v", got)
	}
}

// What a keeper was started with, blocked or ignored, is not for its commands; and
// no signal but KILL and STOP ends or stops it (32 and 33 are the C library's own).
func TestSignalsToTheKeeper(t *testing.T) {
	l := serve(t)
	check(t, ready(t, l))
	for n := 1; n <= 64; n++ {
		if n == 9 || n == 19 || n >= 32 && n <= 34 {
			continue
		}
		check(t, syscall.Kill(l.cmd.Process.Pid, syscall.Signal(n)))
	}
	if got := l.run(t, shell("echo still"), nil); got.stdout != "still\n" {
		t.Errorf("got %+v", got)
	}
}

func TestIgnoredSignalsAreNotInherited(t *testing.T) {
	named := filepath.Join(t.TempDir(), keeper.Name)
	check(t, os.Symlink(self(t), named))
	perl := `use POSIX; $SIG{$_} = "IGNORE" for qw(HUP INT TERM PIPE CONT TSTP TTIN TTOU USR1 CHLD QUIT); ` +
		`my $all = POSIX::SigSet->new; $all->fillset; sigprocmask(SIG_BLOCK, $all); exec @ARGV`
	l := serveFrom(t, "/usr/bin/perl", "perl", "-e", perl, named, keeper.ModeServe)
	got := l.run(t, shell("exec grep -E '^Sig(Blk|Ign)' /proc/self/status"), nil)
	for line := range strings.Lines(got.stdout) {
		if f := strings.Fields(line); f[1] != "0000000000000000" {
			t.Errorf("inherited: %q", line)
		}
	}
}

// ready returns when the keeper takes commands.
func ready(t *testing.T, l *local) error {
	t.Helper()
	_, err := l.start(t, shell("true"), keeper.Streams{}).Wait(deadline(t))
	return err
}

func TestOnlyStdioIsInherited(t *testing.T) {
	got := serve(t).run(t, shell("ls /proc/self/fd"), nil)
	if got.stdout != "0\n1\n2\n3\n" { // 3 is ls's own
		t.Errorf("got %q", got.stdout)
	}
}

func TestFlagsOfOneCommandDoNotReachTheNext(t *testing.T) {
	l := serve(t)
	l.run(t, shell(`perl -e 'use Fcntl; fcntl(STDOUT, F_SETFL, O_NONBLOCK|O_WRONLY)||die; fcntl(STDERR, F_SETFL, O_NONBLOCK|O_WRONLY)||die'`), nil)
	if got := l.run(t, shell("head -c 3000000 /dev/zero"), nil); len(got.stdout) != 3000000 || got.Code != 0 {
		t.Errorf("%d bytes, %+v, %q", len(got.stdout), got.Status, got.stderr)
	}
}

func TestSignalGroup(t *testing.T) {
	l := serve(t)
	var out watched
	r := l.start(t, shell("trap 'echo got' USR1; echo up; while :; do sleep .02; done"), keeper.Streams{Stdout: &out})
	if pid := pidOf(t, r); !alive(pid) {
		t.Errorf("pid %d", pid)
	}
	out.await(t, "up")
	check(t, r.Signal(int(syscall.SIGUSR1)))
	// The group includes the sleep, which dies of it; the shell goes on.
	out.await(t, "got")
	check(t, r.Signal(int(syscall.SIGKILL)))
	status, err := r.Wait(deadline(t))
	check(t, err)
	if status.Signal != 9 || status.Stopped {
		t.Errorf("got %+v", status)
	}
	if err := r.Signal(9); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("after the end: %v", err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	l := serve(t)
	r := l.start(t, shell("sleep 7780"), keeper.Streams{})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := r.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if _, err := l.Start(ctx, shell("true"), keeper.Streams{}); !errors.Is(err, keeper.ErrBusy) {
		t.Errorf("got %v", err)
	}
}

// A start that is given up gives the keeper up: the next command must not get
// what is left of it.
func TestStartThatIsGivenUp(t *testing.T) {
	l := serve(t)
	check(t, l.cmd.Process.Signal(syscall.SIGSTOP))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := l.Start(ctx, shell("exec sleep 7781"), keeper.Streams{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if l.Free() {
		t.Fatal("the keeper takes another command")
	}
	check(t, l.cmd.Process.Signal(syscall.SIGCONT))
	select {
	case <-l.Gone():
	case <-time.After(5 * time.Second):
		t.Fatal("the keeper goes on")
	}
}

// A command that starts as its context ends is the caller's to stop.
func TestStartAsTheContextEnds(t *testing.T) {
	l := serve(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r, err := l.Start(ctx, shell("exec sleep 7782"), keeper.Streams{})
	check(t, err)
	check(t, r.Stop(0))
	status, err := r.Wait(context.Background())
	check(t, err)
	if !status.Stopped || !l.Free() {
		t.Errorf("got %+v, free %v", status, l.Free())
	}
}
