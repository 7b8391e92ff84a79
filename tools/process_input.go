package tools

import (
	"context"

	"github.com/wsctl/wsctl/workspace"
)

const processInputText = `Writes text to the standard input of a process that process_start has started, byte for byte: a program that reads lines needs a line break at the end. With close the input ends after it (end of file). The call does not wait until the process has read it.`

type processInputInput struct {
	ID    string `json:"id" jsonschema:"the process"`
	Text  string `json:"text,omitempty" jsonschema:"what to write"`
	Close bool   `json:"close,omitempty" jsonschema:"end the input after it"`
}

type processInputOutput struct {
	processState
	Queued int `json:"queued" jsonschema:"bytes handed to the process"`
}

func processInput() *Tool {
	return define(Tool{
		Name:        "process_input",
		Title:       "Write to a process",
		Description: processInputText,
		Hints:       Hints{Destructive: true, OpenWorld: true},
	}, runProcessInput)
}

func runProcessInput(_ context.Context, c *call, in processInputInput) (*processInputOutput, error) {
	p, err := c.set.processes.find(c, in.ID)
	if err != nil {
		return nil, err
	}
	if in.Text == "" && !in.Close {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, c.tool.Name, "", "text: missing; give text, or close, or both")
	}
	if !p.alive() {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, c.tool.Name, "", "%s", p.state().text())
	}
	if err := p.input.add(in.Text, in.Close); err != nil {
		return nil, err
	}
	return &processInputOutput{p.state(), len(in.Text)}, nil
}

func (o *processInputOutput) text() string {
	return o.processState.text() + "; " + count(o.Queued, "byte") + " handed to it."
}
