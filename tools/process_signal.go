package tools

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

const processSignalText = `Sends a signal to a process that process_start has started, and to its group: TERM asks it to end, INT is Ctrl-C, KILL ends it at once. After TERM, INT, QUIT and KILL the call waits up to 3 seconds for the process to exit and says whether it has. One that has exited already is no error.`

type processSignalInput struct {
	ID     string `json:"id" jsonschema:"the process"`
	Signal string `json:"signal,omitempty" enum:"TERM,INT,KILL,HUP,QUIT" jsonschema:"signal to send (default TERM)"`
}

type processSignalOutput struct{ processState }

func processSignal() *Tool {
	return define(Tool{
		Name:        "process_signal",
		Title:       "Signal a process",
		Description: processSignalText,
		Hints:       Hints{Destructive: true},
	}, runProcessSignal)
}

// signalWait is how long a process has to end after a signal.
const signalWait = 3 * time.Second

func runProcessSignal(ctx context.Context, c *call, in processSignalInput) (*processSignalOutput, error) {
	p, err := c.set.processes.find(c, in.ID)
	if err != nil {
		return nil, err
	}
	// These have one number on every system.
	sig := map[string]syscall.Signal{
		"": syscall.SIGTERM, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT,
		"KILL": syscall.SIGKILL, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT,
	}[in.Signal]
	err = p.running.Signal(sig)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nil, err
	}
	if sig != syscall.SIGHUP {
		timer := time.NewTimer(signalWait)
		defer timer.Stop()
		select {
		case <-p.exited:
		case <-timer.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return &processSignalOutput{p.state()}, nil
}

func (o *processSignalOutput) text() string { return o.processState.text() + "." }
