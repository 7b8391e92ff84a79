package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

const toolLong = `Call one of the tools that an agent has, by hand, with the arguments of a model: a
JSON object. "wsctl tool ls" lists the tools; with --output json it has their
descriptions and schemas too.

The result is printed as a model gets it. A call that the policy has asked about
is a question on the terminal; without one it is refused. Processes that a call
starts end with wsctl.

Exit status:
  0    the call succeeded, whatever the status of a command that it ran
  1    the call failed; a line on standard error begins with the code
  125  wsctl itself failed`

const toolExample = `  wsctl tool read_file --json '{"path": "go.mod", "limit": 20}'
  wsctl tool run_command --json '{"command": "go test ./..."}' --output json | jq .structured
  echo '{"path": "a", "old_string": "x", "new_string": "y"}' | wsctl tool edit_file --json -`

// toolCallOptions are the flags of tool.
type toolCallOptions struct {
	place  placeOptions
	env    envOptions
	tools  toolOptions
	args   string
	output choice
	quiet  bool
}

// Forms of output.
const (
	outputText = "text"
	outputJSON = "json"
)

// maxToolArgs bounds the arguments that are read from standard input, in bytes.
const maxToolArgs = 64 << 20

func newToolCommand(a *app) *cobra.Command {
	o := toolCallOptions{output: choice{value: outputText, words: []string{outputText, outputJSON}}}
	cmd := &cobra.Command{
		Use:               "tool [flags] NAME",
		Short:             "Call one of the agent's tools by hand",
		Long:              toolLong,
		Example:           toolExample,
		Args:              takes(1, 1, "the name of a tool"),
		ValidArgsFunction: cobra.FixedCompletions(tools.Names(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.tool(cmd, &o, args[0])
		},
	}
	f := cmd.Flags()
	f.Var(&named{&o.args, "ARGS"}, "json", "the arguments, a JSON object; -: read it from standard input (default: none)")
	addChoice(cmd, &o.output, "output", "what to print: the text for a model, or a JSON object with it and the structured result")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print no warnings and no progress")
	o.tools.addPolicyFlags(cmd)
	o.env.addFlags(cmd)
	o.place.addFlags(cmd)
	cmd.AddCommand(newToolLsCommand(a))
	return cmd
}

func (a *app) tool(cmd *cobra.Command, o *toolCallOptions, name string) error {
	a.ui.setQuiet(o.quiet)
	verb := cmd.Name()
	o.env.inheritSet = cmd.Flags().Changed("inherit-env")
	if err := o.env.check(verb); err != nil {
		return err
	}
	if err := o.place.check(cmd); err != nil {
		return err
	}
	args, err := a.toolArgs(verb, o.args)
	if err != nil {
		return err
	}
	entries, err := o.env.entries(verb, a.env)
	if err != nil {
		return err
	}
	s, ctx := newStopper(cmd.Context(), 0, func(sig syscall.Signal) { os.Exit(exitSignal + int(sig)) })
	defer s.close()
	ws, closeAll, err := a.openForAgent(ctx, &o.place, &o.env, entries)
	if err != nil {
		return interrupted(s, err)
	}
	defer closeAll()
	set, done, err := a.toolSet(ws, &o.tools)
	if err != nil {
		return err
	}
	defer done()
	request := tools.Request{Name: name, Args: args}
	if o.args != "-" && a.ui.inTTY && a.ui.errTTY {
		request.Ask = a.askOnTerminal
	}
	result := set.Call(ctx, request)
	err = a.printToolResult(result, o.output.value)
	if sig := s.signal(); sig != 0 && errors.Is(err, workspace.ErrAborted) {
		return &interruptedError{sig: sig, err: err}
	}
	return err
}

// toolArgs are the arguments of a call; "-" reads them.
func (a *app) toolArgs(verb, text string) (json.RawMessage, error) {
	if text != "-" {
		return json.RawMessage(text), nil
	}
	b, err := io.ReadAll(io.LimitReader(a.ui.in, maxToolArgs+1))
	switch {
	case err != nil:
		return nil, workspace.Errorf(workspace.ErrIO, verb, "", "standard input: %w", err)
	case len(b) > maxToolArgs:
		return nil, workspace.Errorf(workspace.ErrTooLarge, verb, "", "the arguments on standard input have more than %d bytes", maxToolArgs)
	}
	return b, nil
}

// toolResult is a result as JSON.
type toolResult struct {
	Text       string          `json:"text"`
	Structured json.RawMessage `json:"structured,omitempty"`
	Images     []toolImage     `json:"images,omitempty"`
	Saved      string          `json:"saved,omitempty"`
	Error      *failure        `json:"error,omitempty"`
}

type toolImage struct {
	MIME   string `json:"mime"`
	Base64 []byte `json:"base64"`
}

// printToolResult prints a result, and returns the failure in it.
func (a *app) printToolResult(r *tools.Result, form string) error {
	if form == outputJSON {
		object := toolResult{Text: r.Text, Structured: r.Structured, Saved: r.Path}
		for _, image := range r.Images {
			object.Images = append(object.Images, toolImage{image.MIME, image.Data})
		}
		if r.IsError {
			object.Error = newFailure(r.Err)
			return failedOperation(r.Err, object)
		}
		return a.ui.object(object)
	}
	// The first line of a failure goes to standard error.
	if !r.IsError || r.Structured != nil {
		w, done := a.ui.stream(a.ui.out, a.ui.outTTY)
		_, err := io.WriteString(w, r.Text+"\n")
		done()
		if err != nil {
			return workspace.Errorf(workspace.ErrIO, "", "", "standard output: %w", err)
		}
	}
	return failedOperation(r.Err, nil)
}

// askOnTerminal asks the user about a call.
func (a *app) askOnTerminal(ctx context.Context, q tools.Question) (bool, error) {
	a.ui.question("%s %s: %s. Allow it? [y/N] ", q.Tool.Name, workspace.Printable(string(q.Args)), q.Reason)
	type answer struct {
		yes bool
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		b := make([]byte, 64)
		n, err := a.ui.in.Read(b)
		answers <- answer{n > 0 && (b[0] == 'y' || b[0] == 'Y'), err}
	}()
	select {
	case got := <-answers:
		return got.yes, got.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
