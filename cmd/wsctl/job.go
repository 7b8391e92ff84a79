//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/workspace"
)

const jobLong = `Run commands that go on without whoever started them, in workspaces of a server
("wsctl serve"). A job has an id; what it writes and how it ended is kept by the
server, also when the server is killed meanwhile. It ends by itself, at its
--timeout, by "wsctl job kill", and with its workspace. JOB is its id, or the
beginning of it. Without --remote the server is your own. All takes a token with
the scope exec.`

const jobExample = `  id=$(wsctl job run app -c 'npm ci && npm test')
  wsctl logs -f $id
  wsctl job wait $id && echo good
  wsctl job run app --wait 30s -- make        # goes on as a job after 30 s
  wsctl job ls app`

func newJobCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "job VERB",
		Short:   "Run commands that go on by themselves",
		Long:    jobLong,
		Example: jobExample,
		Args:    noVerb,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(
		newJobRunCommand(a), newJobLsCommand(a), newJobInspectCommand(a), newLogsCommand(a), newAttachCommand(a), newJobWaitCommand(a),
		newJobInputCommand(a), newJobSignalCommand(a), newJobKillCommand(a), newJobRmCommand(a),
	)
	return cmd
}

// jobVerb makes a verb about some jobs, which does something to one after the other
// up to the first failure.
func (a *app) jobVerb(cmd *cobra.Command, where *whereOptions, do func(context.Context, *connection, orchestrator.Job) error) *cobra.Command {
	cmd.Args = takes(1, -1, "jobs")
	cmd.ValidArgsFunction = a.completeJobs(where)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		return a.withJobs(ctx, where, func(c *connection) error {
			for _, ref := range args {
				j, err := c.FindJob(ctx, ref)
				if err == nil {
					err = do(ctx, c, j)
				}
				if err != nil {
					return stopped(ctx, err)
				}
			}
			return nil
		})
	}
	where.addFlags(cmd)
	return cmd
}

// withJobs does something on the server that is meant.
func (a *app) withJobs(ctx context.Context, where *whereOptions, do func(*connection) error) error {
	c, err := a.server(ctx, where)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(c)
}

// withJob does something about one job.
func (a *app) withJob(ctx context.Context, where *whereOptions, ref string, do func(*connection, orchestrator.Job) error) error {
	return a.withJobs(ctx, where, func(c *connection) error {
		j, err := c.FindJob(ctx, ref)
		if err != nil {
			return err
		}
		return do(c, j)
	})
}

// completeJobs offers the ids of jobs.
func (a *app) completeJobs(where *whereOptions) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begin string) (ids []string, _ cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		_ = a.withJobs(ctx, where, func(c *connection) error {
			list, err := c.Jobs(ctx, "")
			for _, j := range list {
				if strings.HasPrefix(j.ID, begin) {
					ids = append(ids, j.ID+"\t"+escapeLine(commandText(j)))
				}
			}
			return err
		})
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}

// jobList is what `wsctl job ls --json` prints.
type jobList struct {
	Jobs []orchestrator.Job `json:"jobs"`
}

func newJobLsCommand(a *app) *cobra.Command {
	var where whereOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [NAME]",
		Short: "List jobs, of one workspace or of all",
		Long: `List the jobs of a workspace, or of all that the token reaches, the oldest first: those
that run and those that have ended and are kept, with how they ended.`,
		Example: `  wsctl job ls
  wsctl job ls app --json | jq -r '.jobs[] | select(.state == "running") | .id'`,
		Args: takes(0, 1, "at most one workspace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			return a.withJobs(ctx, &where, func(c *connection) error {
				id := ""
				if len(args) > 0 {
					w, err := c.Find(ctx, args[0])
					if err != nil {
						return err
					}
					id = w.ID
				}
				list, err := c.Jobs(ctx, id)
				if err != nil {
					return err
				}
				if asJSON {
					return a.ui.object(jobList{list})
				}
				return a.listJobs(ctx, c, list)
			})
		},
		ValidArgsFunction: a.completeWorkspaces(1, &where),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	where.addFlags(cmd)
	return cmd
}

func (a *app) listJobs(ctx context.Context, c *connection, list []orchestrator.Job) error {
	workspaces, err := c.List(ctx)
	if err != nil {
		return err
	}
	names := map[string]string{}
	for _, w := range workspaces {
		names[w.ID] = w.Name
	}
	now := time.Now()
	rows := make([][]string, 0, len(list))
	for _, j := range list {
		rows = append(rows, []string{
			j.ID, column(names[j.Workspace]), jobStateText(j), age(now.Sub(j.Created)), column(commandText(j)),
		})
	}
	return a.ui.table([]string{"ID", "WORKSPACE", "STATE", "AGE", "COMMAND"}, rows)
}

// jobStateText is the state of a job, with how it ended.
func jobStateText(j orchestrator.Job) string {
	switch {
	case j.State != orchestrator.JobExited || j.Exit == nil:
		return string(j.State)
	case j.TimedOut:
		return fmt.Sprintf("exited %d (time limit)", *j.Exit)
	case j.Signal != 0:
		return fmt.Sprintf("exited %d (%s)", *j.Exit, signalName(syscall.Signal(j.Signal)))
	}
	return fmt.Sprintf("exited %d", *j.Exit)
}

// commandText is a job's command as a person reads it.
func commandText(j orchestrator.Job) string {
	const most = 60
	text := j.Shell
	if text == "" {
		text = strings.Join(j.Args, " ")
	}
	if r := []rune(text); len(r) > most {
		text = string(r[:most-1]) + "…"
	}
	return text
}

func newJobInspectCommand(a *app) *cobra.Command {
	var where whereOptions
	return a.jobVerb(&cobra.Command{
		Use:     "inspect JOB…",
		Short:   "Print what is known of jobs",
		Long:    `Print what is known of jobs, one JSON object each.`,
		Example: `  wsctl job inspect $id | jq .exit`,
	}, &where, func(_ context.Context, _ *connection, j orchestrator.Job) error { return a.ui.object(j) })
}

func newJobWaitCommand(a *app) *cobra.Command {
	var where whereOptions
	var asJSON bool
	cmd := a.jobVerb(&cobra.Command{
		Use:   "wait JOB…",
		Short: "Wait for jobs to end",
		Long: `Wait until jobs have ended. The exit status is that of the first one that did not exit
with 0, 124 for one that its --timeout ended, and 125 for one that is lost. A signal
ends the wait alone.`,
		Example: `  wsctl job wait $id
  wsctl job wait --json $id | jq .durationNs`,
	}, &where, func(ctx context.Context, c *connection, j orchestrator.Job) error {
		j, err := waitForJob(ctx, c, j)
		if err == nil && asJSON {
			err = a.ui.object(j)
		}
		if err != nil {
			return err
		}
		return jobStatus(j)
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what is known of each as a JSON object")
	return cmd
}

// waitForJob waits as long as it takes.
func waitForJob(ctx context.Context, c *connection, j orchestrator.Job) (orchestrator.Job, error) {
	for !j.Over() {
		var err error
		if j, err = c.WaitJob(ctx, j.Workspace, j.ID, orchestrator.MaxJobWait); err != nil {
			return j, err
		}
	}
	return j, nil
}

// jobStatus makes the status of a job that of wsctl.
func jobStatus(j orchestrator.Job) error {
	switch {
	case j.State == orchestrator.JobLost || j.Exit == nil:
		return workspace.Errorf(workspace.ErrUnavailable, "job", j.ID, "the job is lost: %s; what it wrote until then is there (wsctl logs %s)", workspace.Printable(j.Detail), j.ID)
	case *j.Exit != 0:
		return exitStatus(*j.Exit)
	}
	return nil
}

func newJobSignalCommand(a *app) *cobra.Command {
	var where whereOptions
	signal := signalValue(syscall.SIGTERM)
	cmd := a.jobVerb(&cobra.Command{
		Use:   "signal [--signal SIGNAL] JOB…",
		Short: "Send a signal to jobs",
		Long: `Send a signal to the commands of jobs, each with its process group; SIGTERM unless
--signal says otherwise. What a job makes of it is its own affair: "wsctl job kill"
ends it for certain.`,
		Example: `  wsctl job signal -s HUP $id`,
	}, &where, func(ctx context.Context, c *connection, j orchestrator.Job) error {
		return c.SignalJob(ctx, j.Workspace, j.ID, int(signal))
	})
	cmd.Flags().VarP(&signal, "signal", "s", "signal to send, by its name or its number (default TERM)")
	return cmd
}

// signalValue is a signal by its name or number.
type signalValue syscall.Signal

func (s *signalValue) String() string { return "" }

// Type names the value in help texts.
func (s *signalValue) Type() string { return "SIGNAL" }

func (s *signalValue) Set(text string) error {
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n <= 64 {
		*s = signalValue(n)
		return nil
	}
	name := strings.ToUpper(text)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	n := unix.SignalNum(name)
	if n == 0 {
		return errors.New("not a signal; write INT, SIGTERM or 10")
	}
	*s = signalValue(n)
	return nil
}

func newJobKillCommand(a *app) *cobra.Command {
	var where whereOptions
	grace := duration{value: workspace.DefaultKillGrace, most: workspace.MaxKillGrace}
	cmd := a.jobVerb(&cobra.Command{
		Use:   "kill JOB…",
		Short: "End jobs and all that they have started",
		Long: `End jobs and everything that they have started: SIGTERM, and SIGKILL after --grace. It
returns when nothing of them is left.`,
		Example: `  wsctl job kill $id`,
	}, &where, func(ctx context.Context, c *connection, j orchestrator.Job) error {
		_, err := c.KillJob(ctx, j.Workspace, j.ID, grace.value)
		return err
	})
	cmd.Flags().Var(&grace, "grace", fmt.Sprintf("time between asking to end (SIGTERM) and SIGKILL (default %s)", workspace.DefaultKillGrace))
	return cmd
}

func newJobRmCommand(a *app) *cobra.Command {
	var where whereOptions
	var force bool
	cmd := a.jobVerb(&cobra.Command{
		Use:     "rm JOB…",
		Short:   "Forget jobs that have ended",
		Long:    `Forget jobs that have ended, with what they wrote.`,
		Example: `  wsctl job rm $id`,
	}, &where, func(ctx context.Context, c *connection, j orchestrator.Job) error {
		return c.RemoveJob(ctx, j.Workspace, j.ID, force)
	})
	cmd.Flags().BoolVar(&force, "force", false, "kill those that run")
	return cmd
}
