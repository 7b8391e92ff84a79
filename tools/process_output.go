package tools

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const processOutputText = `Reads what a process has written, standard output and standard error together, from a byte offset on: 0 the first time, then the next_offset of the call before. With wait the call returns as soon as there is more, or the process exits, or the seconds are over.

The latest output is kept; how many bytes before it are gone is said. Of a process that has exited the exit code is told.`

type processOutputInput struct {
	ID        string  `json:"id" jsonschema:"the process"`
	Offset    int64   `json:"offset,omitempty" min:"0" max:"9000000000000000000" jsonschema:"first byte of output to read (default 0)"`
	Wait      float64 `json:"wait,omitempty" min:"0" max:"300" jsonschema:"seconds to wait for output when there is none yet (default 0)"`
	StripANSI bool    `json:"strip_ansi,omitempty" jsonschema:"leave out colours and other escape sequences of terminals"`
}

type processOutputOutput struct {
	processState
	Output     string `json:"output" jsonschema:"what it has written"`
	Offset     int64  `json:"offset" jsonschema:"where output begins"`
	NextOffset int64  `json:"next_offset" jsonschema:"offset that goes on"`
	Remaining  int64  `json:"remaining" jsonschema:"bytes after next_offset that can be read now"`
	Dropped    int64  `json:"dropped,omitempty" jsonschema:"bytes between the offset asked for and output that are no longer kept"`
	Replaced   int    `json:"replaced,omitempty" jsonschema:"bytes that are not UTF-8 and are U+FFFD here"`
}

func processOutput() *Tool {
	return define(Tool{
		Name:        "process_output",
		Title:       "Read a process's output",
		Description: processOutputText,
		Hints:       Hints{ReadOnly: true, Idempotent: true},
	}, runProcessOutput)
}

func runProcessOutput(ctx context.Context, c *call, in processOutputInput) (*processOutputOutput, error) {
	p, err := c.set.processes.find(c, in.ID)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(time.Duration(in.Wait * float64(time.Second)))
	defer timer.Stop()
	limit := 2 * c.set.opts.Limits.CommandOutput
	for {
		// The state comes first: what a process writes before it exits is
		// there when the state says that it has.
		state := p.state()
		data, from, end, more := p.output.read(in.Offset, limit)
		// Half a character waits for the rest, while there may be one.
		if state.Running || from+int64(len(data)) < end {
			data = data[:len(data)-unfinished(data)]
		}
		if len(data) == 0 && state.Running {
			select {
			case <-more:
				continue
			case <-p.exited:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-timer.C:
			}
		}
		o := &processOutputOutput{processState: state, Offset: from, NextOffset: from + int64(len(data)), Dropped: max(from-in.Offset, 0)}
		o.Remaining = end - o.NextOffset
		if in.StripANSI {
			data = withoutANSI(data)
		}
		o.Output, o.Replaced = valid(data)
		return o, nil
	}
}

func (o *processOutputOutput) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s; output from byte %d, next_offset %d", o.processState.text(), o.Offset, o.NextOffset)
	if o.Remaining > 0 {
		fmt.Fprintf(&b, ", %s more to read", count(o.Remaining, "byte"))
	}
	if o.Dropped > 0 {
		fmt.Fprintf(&b, "; %s before it are no longer kept", count(o.Dropped, "byte"))
	}
	if said := saidReplaced(o.Replaced); said != "" {
		b.WriteString("; " + said)
	}
	b.WriteString(".")
	if o.Output == "" {
		return b.String() + " (no output)"
	}
	return b.String() + "\n" + o.Output
}
