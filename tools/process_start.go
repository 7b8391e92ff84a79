package tools

import (
	"context"
	"fmt"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

const processStartText = `Starts a shell command (sh -c) in the workspace and returns at once: for servers, watchers and programs to talk to. The process runs until it exits, until process_signal ends it, or until the session ends.

Read what it writes with process_output, write to it with process_input, and see all with process_list. For a command whose end you wait for use run_command.`

type processStartInput struct {
	Command string            `json:"command" jsonschema:"text for sh -c"`
	Cwd     string            `json:"cwd,omitempty" jsonschema:"directory to run in: relative to the workspace's root, or absolute below it (default: the root)"`
	Env     map[string]string `json:"env,omitempty" jsonschema:"environment variables to add"`
	Timeout float64           `json:"timeout,omitempty" min:"0.001" max:"86400" jsonschema:"seconds after which the process is ended (default: never)"`
}

func (in processStartInput) subject() subject {
	return commandSubject(in.Command, in.Cwd, in.Env)
}

type processStartOutput struct {
	ID string `json:"id" jsonschema:"what the other process tools call it"`
}

func processStart() *Tool {
	return define(Tool{
		Name:        "process_start",
		Title:       "Start a process",
		Description: processStartText,
		Hints:       Hints{Destructive: true, OpenWorld: true},
	}, runProcessStart)
}

func runProcessStart(ctx context.Context, c *call, in processStartInput) (*processStartOutput, error) {
	env, err := environ(c.tool.Name, in.Env)
	if err != nil {
		return nil, err
	}
	cmd := workspace.Command{Shell: in.Command, Dir: in.Cwd, Env: env, Timeout: workspace.NoTimeout}
	if in.Timeout > 0 {
		cmd.Timeout = time.Duration(in.Timeout * float64(time.Second))
	}
	p, err := c.set.processes.start(ctx, c, cmd)
	if err != nil {
		return nil, err
	}
	return &processStartOutput{p.id}, nil
}

func (o *processStartOutput) text() string {
	return fmt.Sprintf("Started as %s. Read its output with process_output.", o.ID)
}
