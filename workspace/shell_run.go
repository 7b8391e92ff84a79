package workspace

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// run runs one command in the session there is.
func (s *Shell) run(ctx context.Context, op string, c ShellCommand) (*ShellOutput, error) {
	run, cancel := withTimeout(ctx, c.Timeout)
	defer cancel()
	stdin := "/dev/null"
	if c.Stdin != nil {
		feed, err := s.feed(run, op, c.Stdin)
		if err != nil && context.Cause(run) == errTimeout {
			return &ShellOutput{Output: Output{TimedOut: true, ExitCode: statusTimedOut}}, nil
		}
		if err != nil {
			return nil, err
		}
		defer feed.stop()
		stdin = feed.path
	}
	began := time.Now()
	stdout, stderr := s.w.sinks(run, Command{MaxOutput: c.MaxOutput, Stdout: c.Stdout, Stderr: c.Stderr})
	defer stdout.to.close()
	if stderr.to != stdout.to {
		defer stderr.to.close()
	}
	x := s.session
	m := newShellMarks()
	toOut, toErr := x.stdout.watch(newShellWatch(m, stdout)), x.stderr.watch(newShellWatch(m, stderr))
	x.send(x.frame(m, stdin, c.Text))

	out := &ShellOutput{}
	ended := x.await(run, m, toOut, toErr)
	if !ended && s.life.Err() != nil {
		// The shell was ended by who ends the session, and the run ends with it.
		<-run.Done()
	}
	stopped := !ended && run.Err() != nil
	if stopped && s.life.Err() == nil && context.Cause(run) != error(ErrDisposed) {
		ended = x.interrupt(s, m, toOut, toErr)
	}
	var err error
	if !ended {
		if stopped {
			x.kill()
			out.Lost = "the command could not be ended alone, so its shell was; the next one begins in a new shell"
		}
		err = s.exited(x, out, stopped)
	}
	// The writers of a run that has ended hold nobody back, and nothing is
	// written to them once this has returned.
	cancel()
	x.stdout.leave()
	x.stderr.leave()
	if ended && !stopped {
		out.ExitCode, err = shellStatus(op, toOut.tail)
	}
	out.Duration = time.Since(began)
	out.Stdout, out.StdoutDropped = stdout.result()
	out.Stderr, out.StderrDropped = stderr.result()
	out.Truncated = out.StdoutDropped.Bytes > 0 || out.StderrDropped.Bytes > 0
	switch {
	case stopped && context.Cause(run) == errTimeout:
		out.TimedOut, out.ExitCode, out.Signal = true, statusTimedOut, 0
		return out, nil
	case stopped:
		return out, s.w.stopped(ctx, op, "")
	}
	return out, wrap(err, ErrIO, op, "")
}

// exited tells, in out, of a shell that has ended, and lets it go.
func (s *Shell) exited(x *shellSession, out *ShellOutput, killed bool) error {
	select {
	case <-x.p.exited:
	default:
		s.session = nil
		return errors.New("the shell cannot be ended, and is left behind")
	}
	exit, err := x.p.exit, x.p.err
	out.ExitCode, out.Signal, out.OOMKilled = exit.Code, exit.Signal, exit.OOMKilled
	out.Recreated, out.Ended = exit.Recreated, exit.Ended
	if !killed {
		out.Lost = fmt.Sprintf("the shell ended with status %d; the next command begins in a new one", exit.Code)
	}
	s.drop("")
	return err
}

// shellStatus reads the status behind an end mark.
func shellStatus(op, tail string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(tail))
	if err != nil || n < 0 || n > 255 {
		return 0, Errorf(ErrIO, op, "", "the shell told the status %q", tail)
	}
	return n, nil
}
