package workspace

import (
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// shellPatience is how long a new shell has to answer.
	shellPatience = 20 * time.Second
	// shellStep is how long an interrupt waits for a shell to take a command
	// in or, after SIGKILL, to let it go.
	shellStep = 500 * time.Millisecond
)

// shellSession is one shell process.
type shellSession struct {
	p              *Process
	input          shellInput
	stdout, stderr shellStream
	pid            string // as the workspace's own processes see it
	bash           bool
}

// open starts a shell and waits until it answers. It lives as long as s.
func (s *Shell) open(ctx context.Context, op string) (*shellSession, error) {
	w := s.w
	starter, ok := w.driver.(Starter)
	if !ok {
		return nil, unsupported(op, "this kind of workspace runs one command at a time; use Exec")
	}
	c, err := w.prepare(ctx, op, Command{
		Args: []string{s.opts.Path, "-c", shellLaunch, s.opts.Path},
		Dir:  s.opts.Dir, Env: s.opts.Env, Timeout: NoTimeout, KillGrace: s.opts.KillGrace,
	})
	if err != nil {
		return nil, err
	}
	if err := w.ready(ctx, op); err != nil {
		return nil, err
	}
	x := &shellSession{}
	c.Stdout, c.Stderr = &x.stdout, &x.stderr
	m := newShellMarks()
	said := &sink{kept: capture{limit: maxErrorText / 4}}
	toOut := x.stdout.watch(newShellWatch(m, io.Discard).begin())
	toErr := x.stderr.watch(newShellWatch(m, said).begin())
	x.p, err = w.start(s.life, ctx, starter, c, func(*int, bool, error) {})
	if err != nil {
		return nil, err
	}
	x.input.w = x.p.stdin
	context.AfterFunc(x.p.ctx, x.hangUp)
	x.send(shellInit + epilogue(m, "$$ ${BASH_VERSION:+bash}"))
	limit, cancel := context.WithTimeout(ctx, shellPatience)
	defer cancel()
	if x.wait(limit, toOut.ended) && x.wait(limit, toErr.ended) {
		fields := append(strings.Fields(toOut.tail), "")
		if pid, _ := strconv.Atoi(fields[0]); pid > 0 {
			x.pid, x.bash = fields[0], fields[1] != ""
			return x, nil
		}
	}
	x.kill()
	_ = x.p.Close()
	switch {
	case ctx.Err() != nil:
		return nil, w.stopped(ctx, op, "")
	case x.p.err != nil:
		return nil, wrap(x.p.err, ErrUnavailable, op, s.opts.Path)
	}
	text, _ := said.result()
	return nil, Errorf(ErrUnavailable, op, s.opts.Path, "it does not answer as a shell does; give dash, bash or BusyBox ash: status %d, %q", x.p.exit.Code, text)
}

// hangUp ends an idle shell, and what a busy one runs, as the end of a terminal
// does. An interactive shell would not heed SIGTERM.
func (x *shellSession) hangUp() {
	_ = x.p.Signal(syscall.SIGHUP)
	_ = x.p.stdin.Close()
}

// send hands text to the shell, after what was sent before. It does not wait: the
// shell may take its time to read. It fails only when the shell has ended, which
// is noticed anyway.
func (x *shellSession) send(text string) { x.input.send(text) }

// await waits for the end marks, and has them printed: only once the shell has
// taken the frame in. An interrupt that a command sends to its own shell makes
// dash drop the input that it has read ahead, and a mark there would never
// come. It is false when the shell or ctx ended first.
func (x *shellSession) await(ctx context.Context, m shellMarks, toOut, toErr *shellWatch) bool {
	if !x.wait(ctx, toOut.started) {
		return false
	}
	x.send(epilogue(m, "$?"))
	return x.wait(ctx, toOut.ended) && x.wait(ctx, toErr.ended)
}

// wait waits for done. It is false when the shell or ctx ended first.
func (x *shellSession) wait(ctx context.Context, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-ctx.Done():
	case <-x.p.exited:
	}
	// What is there at the same time counts.
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// waitFor is wait for at most d, whatever has become of the caller's context.
func (x *shellSession) waitFor(d time.Duration, done ...<-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	for _, c := range done {
		if !x.wait(ctx, c) {
			return false
		}
	}
	return true
}

// interrupt ends the running command and reports whether the shell is still
// there and free.
func (x *shellSession) interrupt(s *Shell, m shellMarks, toOut, toErr *shellWatch) bool {
	// A shell that is still reading the frame would take the rest of it for
	// commands.
	if !x.waitFor(2*shellStep, toOut.started, toErr.started) {
		return false
	}
	grace := s.opts.KillGrace
	if grace == 0 {
		grace = s.w.opts.KillGrace
	}
	if x.interruptFor(s, m, max(grace, shellStep/2), toOut, toErr) {
		return true
	}
	if x.bash {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*shellStep)
	defer cancel()
	_, err := s.w.Exec(ctx, Command{Args: []string{"sh", "-c", killBelow, "sh", x.pid}, Dir: ".", Env: s.opts.Env, KillGrace: NoKillGrace})
	return err == nil && x.interruptFor(s, m, 2*shellStep, toOut, toErr)
}

// interruptFor interrupts and waits d. The end mark is asked for again because
// the shell drops the input that it has read ahead.
//
// bash takes an interrupt for handled when the program that it waits for exits by
// itself, which one that was about to end anyway does, and goes on. That shows in
// a program that it starts later, and it is interrupted again. Nothing else is: a
// program that cleans up after the first interrupt often breaks off at a second.
func (x *shellSession) interruptFor(s *Shell, m shellMarks, d time.Duration, toOut, toErr *shellWatch) bool {
	var before string // what bash runs, as of the last look
	if x.bash {
		before = x.children(s)
	}
	until := time.Now().Add(d)
	for again := true; again; {
		if err := x.p.Signal(syscall.SIGINT); err != nil {
			return false
		}
		x.send(epilogue(m, "$?"))
		for again = false; !again; {
			step := time.Until(until)
			if x.bash {
				step = min(step, shellStep/4)
			}
			if x.waitFor(step, toOut.ended, toErr.ended) {
				return x.settle()
			}
			select {
			case <-x.p.exited:
				return false
			default:
			}
			if !time.Now().Before(until) {
				return false
			}
			now := x.children(s)
			again = anyNew(before, now)
			before = now
		}
	}
	return false
}

// children lists the shell's children.
func (x *shellSession) children(s *Shell) string {
	ctx, cancel := context.WithTimeout(context.Background(), shellStep)
	defer cancel()
	out, err := s.w.Exec(ctx, Command{Args: []string{"sh", "-c", listChildren, "sh", x.pid}, Dir: ".", Env: s.opts.Env, KillGrace: NoKillGrace})
	if err != nil {
		return ""
	}
	return string(out.Stdout)
}

// anyNew tells whether a word of now is not in before.
func anyNew(before, now string) bool {
	had := strings.Fields(before)
	return slices.ContainsFunc(strings.Fields(now), func(pid string) bool { return !slices.Contains(had, pid) })
}

// settle waits until an interrupt is over and done with: one that comes as the
// shell is free makes it drop a line that it reads then.
func (x *shellSession) settle() bool {
	m := newShellMarks()
	toOut := x.stdout.watch(newShellWatch(m, io.Discard).begin())
	toErr := x.stderr.watch(newShellWatch(m, io.Discard).begin())
	for _, d := range [...]time.Duration{shellStep / 2, shellStep / 2, 2 * shellStep} {
		x.send(epilogue(m, ""))
		if x.waitFor(d, toOut.ended, toErr.ended) {
			return true
		}
	}
	return false
}

// kill ends the shell and everything below it at once.
func (x *shellSession) kill() {
	_ = x.p.running.Stop(0)
	// Its context ends too, so that no writer holds back what Wait waits for.
	x.p.cancel(errProcessClosed)
	_ = x.waitFor(2*shellStep, x.p.exited)
}
