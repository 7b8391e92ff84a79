//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/workspace"
)

const logsLong = `Print what a job has written, its standard output and its standard error each where it
belongs. With -f go on with what it writes until it ends. Not all of what a job writes
may be kept: how much came after the limit of the server is told on standard error.`

const logsExample = `  wsctl logs $id
  wsctl logs -f --stdout $id | grep FAIL`

// followOptions say what of a job's output is printed.
type followOptions struct {
	stdout, stderr bool
	follow, json   bool
	// skip leaves out what was written before.
	skip bool
}

// logLine is what `wsctl logs --json` prints, one a line.
type logLine struct {
	Stream string `json:"stream"`
	Offset int64  `json:"offset"`
	Text   string `json:"text"`
	// Base64 has the exact bytes where they are not UTF-8.
	Base64 string `json:"base64,omitempty"`
}

func newLogsCommand(a *app) *cobra.Command {
	var where whereOptions
	var o followOptions
	cmd := &cobra.Command{
		Use:     "logs JOB",
		Short:   "Print what a job has written",
		Long:    logsLong,
		Example: logsExample,
		Args:    takes(1, 1, "one job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !o.stdout && !o.stderr {
				o.stdout, o.stderr = true, true
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return a.withJob(ctx, &where, args[0], func(c *connection, j orchestrator.Job) error {
				j, err := a.followJob(ctx, c, j, o)
				if n := j.Stdout.Dropped + j.Stderr.Dropped; err == nil && n > 0 {
					a.ui.warn("%d bytes that came after the limit of %d were dropped", n, j.MaxOutput)
				}
				return followed(ctx, o.follow, err)
			})
		},
		ValidArgsFunction: a.completeJobs(&where),
	}
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "go on with what it writes, until it ends or a signal comes")
	f.BoolVar(&o.stdout, "stdout", false, "print its standard output alone")
	f.BoolVar(&o.stderr, "stderr", false, "print its standard error alone; with --stdout both")
	f.BoolVar(&o.json, "json", false, "print one JSON object a line, each with a part of one stream")
	where.addFlags(cmd)
	return cmd
}

// followJob prints what a job has written and, with follow, what it goes on to write
// until it is over. It returns what is known of it then.
func (a *app) followJob(ctx context.Context, c *connection, j orchestrator.Job, o followOptions) (orchestrator.Job, error) {
	var q orchestrator.JobQuery
	var at [2]int64
	if o.skip {
		at = [2]int64{j.Stdout.Bytes, j.Stderr.Bytes}
	}
	if o.stdout {
		q.Stdout = &at[0]
	}
	if o.stderr {
		q.Stderr = &at[1]
	}
	if o.follow {
		q.Wait = orchestrator.MaxJobWait
	}
	stdout, doneOut := a.ui.stream(a.ui.out, a.ui.outTTY)
	defer doneOut()
	stderr, doneErr := a.ui.stream(a.ui.err, a.ui.errTTY)
	defer doneErr()
	for {
		out, err := c.JobOutput(ctx, j.Workspace, j.ID, q)
		if err != nil {
			return j, err
		}
		j = out.Job
		more := false
		for i, s := range []struct {
			chunk *orchestrator.JobChunk
			name  string
			to    io.Writer
		}{{out.Stdout, "stdout", stdout}, {out.Stderr, "stderr", stderr}} {
			if s.chunk == nil {
				continue
			}
			if err := a.printChunk(s.name, s.chunk, s.to, o.json); err != nil {
				return j, err
			}
			at[i] += int64(len(s.chunk.Data))
			more = more || !s.chunk.End && (o.follow || len(s.chunk.Data) > 0)
		}
		if !more {
			return j, nil
		}
	}
}

func (a *app) printChunk(name string, chunk *orchestrator.JobChunk, to io.Writer, asJSON bool) error {
	switch {
	case len(chunk.Data) == 0:
		return nil
	case asJSON:
		valid, exact := text(chunk.Data)
		return a.ui.line(logLine{Stream: name, Offset: chunk.Offset, Text: valid, Base64: exact})
	}
	if _, err := to.Write(chunk.Data); err != nil {
		return workspace.Errorf(workspace.ErrIO, "logs", "", "the job's output cannot be passed on: %w", err)
	}
	return nil
}

const attachLong = `Join a running job: print what it writes from now on, pass standard input on to it if it
was started with --input, and exit with its status when it ends. The end of standard
input ends that of the job.

Ctrl-C, SIGTERM and SIGHUP detach: the job goes on. With --signals they are passed on
to the job instead, and three of them detach.`

const attachExample = `  wsctl attach $id
  wsctl attach --from-start $id </dev/null`

func newAttachCommand(a *app) *cobra.Command {
	var where whereOptions
	var fromStart, signals, noInput bool
	cmd := &cobra.Command{
		Use:     "attach JOB",
		Short:   "Join a job: its output, its input, its exit status",
		Long:    attachLong,
		Example: attachExample,
		Args:    takes(1, 1, "one job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withJob(cmd.Context(), &where, args[0], func(c *connection, j orchestrator.Job) error {
				o := followOptions{stdout: true, stderr: true, follow: true, skip: !fromStart}
				return a.attach(cmd.Context(), c, j, o, signals, j.Input && !noInput)
			})
		},
		ValidArgsFunction: a.completeJobs(&where),
	}
	f := cmd.Flags()
	f.BoolVar(&fromStart, "from-start", false, "print what it wrote before as well")
	f.BoolVar(&signals, "signals", false, "pass signals on to the job")
	f.BoolVar(&noInput, "no-stdin", false, "pass no standard input on")
	where.addFlags(cmd)
	return cmd
}

// maxPassed is how many signals are passed on before one detaches.
const maxPassed = 2

func (a *app) attach(ctx context.Context, c *connection, j orchestrator.Job, o followOptions, pass, input bool) error {
	ctx, detach := context.WithCancelCause(ctx)
	defer detach(nil)
	got := make(chan os.Signal, 4)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(got)
	go func() {
		for n := 1; ; n++ {
			select {
			case s := <-got:
				sig, _ := s.(syscall.Signal)
				if !pass || n > maxPassed {
					detach(&interruptedError{sig: sig, err: workspace.Errorf(workspace.ErrAborted, "attach", j.ID, "detached; the job goes on")})
					return
				}
				if err := c.SignalJob(ctx, j.Workspace, j.ID, int(sig)); err != nil {
					a.ui.warn("%s cannot be passed on: %v", signalName(sig), err)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	if input {
		// A read of the terminal cannot be ended; it goes with the process.
		go func() {
			if err := feedJob(ctx, c, j, a.ui.in, true); err != nil && ctx.Err() == nil && !errors.Is(err, workspace.ErrNotStarted) {
				a.ui.warn("standard input is not passed on any more: %v", err)
			}
		}()
	}
	over, err := a.followJob(ctx, c, j, o)
	var interrupted *interruptedError
	switch {
	case err != nil && errors.As(context.Cause(ctx), &interrupted):
		return interrupted
	case err != nil:
		return err
	}
	return jobStatus(over)
}
