//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/workspace"
)

const jobRunLong = `Start a command in a workspace of a server as a job, and print its id. NAME is the
workspace's name or the beginning of its id. Flags of wsctl stand before the command,
before or after NAME.

With --wait what it writes is printed meanwhile, and a job that ends in time gives its
exit status. One that does not goes on in the background; its id is told on standard
error, and the status is 124.`

const jobRunExample = `  id=$(wsctl job run app -- make test)
  wsctl job run app --wait 10s -c 'npm ci'
  id=$(wsctl job run app --input -- python3 -i); echo 'print(1)' | wsctl job input $id`

// jobRunOptions are the flags of job run.
type jobRunOptions struct {
	shell, dir     string
	env            envOptions
	timeout, grace duration
	wait           duration
	maxOutput      size
	input, json    bool
	where          whereOptions
}

// statusGoesOn is that of timeout(1) for a time that was not enough.
const statusGoesOn = exitStatus(124)

func newJobRunCommand(a *app) *cobra.Command {
	o := jobRunOptions{
		timeout: duration{most: workspace.MaxTimeout}, grace: duration{most: workspace.MaxKillGrace},
		wait: duration{most: workspace.MaxTimeout}, maxOutput: size{least: 1, most: 1 << 50},
	}
	cmd := &cobra.Command{
		Use:               "run NAME [flags] [--] CMD [ARG…]",
		Short:             "Start a command as a job",
		Long:              jobRunLong,
		Example:           jobRunExample,
		Args:              takes(1, -1, "a workspace and a command"),
		RunE:              func(cmd *cobra.Command, args []string) error { return a.runJob(cmd, &o, args[0], args[1:]) },
		ValidArgsFunction: a.completeWorkspaces(1, &o.where),
	}
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.VarP(&named{&o.shell, "LINE"}, "command", "c", "run this line of shell instead of CMD")
	f.Var(&named{&o.dir, "DIR"}, "dir", "run in this directory, below the root or as the command sees it")
	o.env.addFlags(cmd)
	f.Var(&o.timeout, "timeout", "end the job after this time, whoever is there, in seconds or as 90s, 2m; 0: never (default 0)")
	f.Var(&o.grace, "kill-grace", "time between asking to end (SIGTERM) and SIGKILL at its time limit (default 2s)")
	f.Var(&o.wait, "wait", "print what it writes for so long, and let it go on after that (default: not at all)")
	f.Var(&o.maxOutput, "max-output", "keep this much of what it writes, and count the rest (default, and most: the server's limit)")
	f.BoolVarP(&o.input, "input", "i", false, "give it a standard input, for \"wsctl job input\" and \"wsctl attach\"; otherwise that is empty")
	f.BoolVar(&o.json, "json", false, "print what is known of the job as one JSON object, and none of its output")
	o.where.addFlags(cmd)
	return cmd
}

func (a *app) runJob(cmd *cobra.Command, o *jobRunOptions, name string, rest []string) error {
	// Flags may stand after NAME, too.
	if err := cmd.Flags().Parse(rest); err != nil {
		return flagError(verbOf(cmd), err)
	}
	if help, err := cmd.Flags().GetBool("help"); err == nil && help {
		return cmd.Help()
	}
	s, err := o.spec(cmd, a.env)
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(cmd.Context())
	defer stop()
	return a.withJobs(ctx, &o.where, func(c *connection) error {
		w, err := c.Find(ctx, name)
		if err != nil {
			return err
		}
		if o.json {
			s.Wait = o.wait.value
		}
		j, err := c.StartJob(ctx, w.ID, s)
		switch {
		case err != nil:
			return stopped(ctx, err)
		case o.json:
			return errors.Join(a.ui.object(j), endOrGoesOn(o, j))
		case !o.wait.set:
			return a.ui.result([]byte(j.ID + "\n"))
		}
		return a.watchJob(ctx, c, o, j)
	})
}

// spec is what the flags ask for.
func (o *jobRunOptions) spec(cmd *cobra.Command, own environment) (orchestrator.JobSpec, error) {
	verb, args := verbOf(cmd), cmd.Flags().Args()
	o.env.inheritSet = cmd.Flags().Changed("inherit-env")
	shell := cmd.Flags().Changed("command")
	switch {
	case shell && len(args) > 0:
		return orchestrator.JobSpec{}, usagef(verb, "-c and a command are both given; use one")
	case !shell && len(args) == 0:
		return orchestrator.JobSpec{}, usagef(verb, "no command given; write wsctl job run NAME -- CMD [ARG…], or -c 'LINE'")
	}
	if err := o.env.check(verb); err != nil {
		return orchestrator.JobSpec{}, err
	}
	env, err := o.env.entries(verb, own)
	s := orchestrator.JobSpec{
		Shell: o.shell, Dir: o.dir, Env: workspace.MergeEnv(o.env.inherited(own), env), Input: o.input,
		Timeout: o.timeout.value, KillGrace: o.grace.value, MaxOutput: o.maxOutput.value,
	}
	if !shell {
		s.Args = args
	}
	if o.grace.set && o.grace.value == 0 {
		s.KillGrace = workspace.NoKillGrace
	}
	return s, err
}

// watchJob prints what a job writes until it is over or the wait is.
func (a *app) watchJob(ctx context.Context, c *connection, o *jobRunOptions, j orchestrator.Job) error {
	bounded, cancel := context.WithTimeout(ctx, o.wait.value)
	defer cancel()
	over, err := a.followJob(bounded, c, j, followOptions{stdout: true, stderr: true, follow: true})
	if err != nil && bounded.Err() != nil {
		over, err = j, nil
	}
	if err != nil {
		return err
	}
	if !over.Over() {
		a.ui.talk("the job " + j.ID + " goes on; wsctl logs -f " + j.ID + " shows what it writes")
	}
	return endOrGoesOn(o, over)
}

// endOrGoesOn is the status of a job, or that of one which was waited for in vain.
func endOrGoesOn(o *jobRunOptions, j orchestrator.Job) error {
	switch {
	case j.Over():
		return jobStatus(j)
	case o.wait.set:
		return statusGoesOn
	}
	return nil
}

func newJobInputCommand(a *app) *cobra.Command {
	var where whereOptions
	var end bool
	cmd := &cobra.Command{
		Use:   "input JOB",
		Short: "Write to the standard input of a job",
		Long: `Write what standard input brings to the standard input of a job that was started with
--input. With --end that of the job ends after it.`,
		Example: `  echo yes | wsctl job input $id
  wsctl job input --end $id <data`,
		Args: takes(1, 1, "one job"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			return a.withJob(ctx, &where, args[0], func(c *connection, j orchestrator.Job) error {
				return stopped(ctx, feedJob(ctx, c, j, a.ui.in, end))
			})
		},
		ValidArgsFunction: a.completeJobs(&where),
	}
	cmd.Flags().BoolVar(&end, "end", false, "end its standard input after that")
	where.addFlags(cmd)
	return cmd
}

// feedJob writes all that r brings to a job.
func feedJob(ctx context.Context, c *connection, j orchestrator.Job, r io.Reader, end bool) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		for rest := buf[:n]; len(rest) > 0; {
			taken, err := c.WriteJob(ctx, j.Workspace, j.ID, orchestrator.JobInput{Data: rest})
			if err != nil {
				return err
			}
			if rest = rest[taken:]; taken == 0 {
				// It has not read for seconds: there is nothing to do but wait.
				select {
				case <-ctx.Done():
					return workspace.Errorf(workspace.ErrAborted, "input", j.ID, "%w", ctx.Err())
				case <-time.After(100 * time.Millisecond):
				}
			}
		}
		switch {
		case errors.Is(err, io.EOF) && end:
			_, err := c.WriteJob(ctx, j.Workspace, j.ID, orchestrator.JobInput{End: true})
			return err
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return workspace.Errorf(workspace.ErrIO, "input", "", "standard input: %w", err)
		}
	}
}
