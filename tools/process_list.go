package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// processState is what is told of a process.
type processState struct {
	ID       string `json:"id" jsonschema:"the process"`
	Running  bool   `json:"running" jsonschema:"it has not exited"`
	ExitCode *int   `json:"exit_code,omitempty" jsonschema:"status of one that has exited; 128+n when signal n ended it"`
	Error    string `json:"error,omitempty" jsonschema:"why it was ended, or its status is not known"`
}

// state is what is known of the process now.
func (p *process) state() processState {
	s := processState{ID: p.id, Running: p.alive()}
	if !s.Running {
		s.ExitCode = &p.exit.Code
		switch {
		case errors.Is(p.err, context.DeadlineExceeded):
			s.Error = "its timeout ended it"
		case p.err != nil:
			s.Error = clip(failure("process", p.err).Error(), 300)
		}
	}
	return s
}

func (s processState) text() string {
	switch {
	case s.Running:
		return s.ID + " is running"
	case s.Error != "":
		return fmt.Sprintf("%s has ended with exit code %d (%s)", s.ID, *s.ExitCode, s.Error)
	}
	return fmt.Sprintf("%s has exited with code %d", s.ID, *s.ExitCode)
}

const processListText = `Lists the processes that process_start has started in this workspace, those that have exited too, the oldest first.`

type processListInput struct{}

type processListOutput struct {
	Processes []listedProcess `json:"processes" jsonschema:"the oldest first"`
}

type listedProcess struct {
	processState
	Command     string `json:"command" jsonschema:"what was started"`
	Cwd         string `json:"cwd,omitempty" jsonschema:"directory it was started in; not there for the root"`
	Started     string `json:"started" jsonschema:"when, RFC 3339"`
	OutputBytes int64  `json:"output_bytes" jsonschema:"bytes written so far"`
}

func processList() *Tool {
	return define(Tool{
		Name:        "process_list",
		Title:       "List processes",
		Description: processListText,
		Hints:       Hints{ReadOnly: true, Idempotent: true},
	}, runProcessList)
}

func runProcessList(_ context.Context, c *call, _ processListInput) (*processListOutput, error) {
	o := &processListOutput{Processes: []listedProcess{}}
	for _, p := range c.set.processes.of(c.ws) {
		_, _, end, _ := p.output.read(0, 0)
		o.Processes = append(o.Processes, listedProcess{
			processState: p.state(), Command: clip(p.command, 500), Cwd: p.cwd,
			Started: p.started.UTC().Format(time.RFC3339), OutputBytes: end,
		})
	}
	return o, nil
}

func (o *processListOutput) text() string {
	if len(o.Processes) == 0 {
		return "No process was started."
	}
	var b strings.Builder
	for _, p := range o.Processes {
		fmt.Fprintf(&b, "%s, %s of output, started %s: %s\n", p.text(), count(p.OutputBytes, "byte"), p.Started, workspace.Printable(p.Command))
	}
	return strings.TrimSuffix(b.String(), "\n")
}
