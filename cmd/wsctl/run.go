package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/workspace"
)

const runLong = `Run one command in a fresh sandbox over a directory, and remove the sandbox.

The directory (--root, by default the current one) is /workspace in there, and
what the command writes below it is on the host at once. Nothing else of the
host can be written. There is no network unless --network asks for one. Without
--image the command finds the programs of this machine, read-only.

Output is passed through as it comes. To a terminal it goes as text: what would
drive the terminal is shown as an escape, unless -t gives the command a terminal
of its own. Flags of wsctl stand before the command; all that follows is the
command's own.

Ctrl-C interrupts the command, a second one kills it, a third one does not even
wait for that. With -t all keys go to the command.

Exit status:
  N    the command's own
  124  --timeout ended the command
  125  wsctl itself failed; a line on standard error says why
  126  the command was found and cannot be executed
  127  the command was not found
  128+n  signal n ended the command, or wsctl before the command ran
  141  nobody read the output any more
With --json the field "error" is there when, and only when, wsctl itself failed.`

const runExample = `  wsctl run -- go test ./...
  wsctl run --timeout 2m -c 'make && ./a.out | tail -3'
  wsctl run --root ~/src/app --dir web --network bridge -- npm ci
  wsctl run --image python:3.13 -it -- python3
  tar c . | wsctl run -i -- tar t
  wsctl run --json -- ls | jq .exitCode`

// runOptions are the flags of run.
type runOptions struct {
	place   placeOptions
	command commandOptions
	flow    flowOptions
}

// flowOptions are the flags that say what is run and how it is joined to wsctl.
type flowOptions struct {
	shell string
	stdin bool
	tty   bool
	json  bool
	quiet bool
}

func (o *flowOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SetInterspersed(false)
	f.VarP(&named{&o.shell, "LINE"}, "command", "c", "run this line of shell instead of CMD")
	f.BoolVarP(&o.stdin, "stdin", "i", false, "pass standard input on; otherwise the command finds it empty")
	f.BoolVarP(&o.tty, "tty", "t", false, "give the command a terminal of its own, joined to this one")
	f.BoolVar(&o.json, "json", false, "print one JSON object when the command has ended, and nothing else")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print no warnings and no progress")
}

// check refuses flags that do not go together; command are those of the command,
// args what follows the flags.
func (o *flowOptions) check(cmd *cobra.Command, u *ui, command *commandOptions, args []string) error {
	if err := command.check(cmd); err != nil {
		return err
	}
	shell := cmd.Flags().Changed("command")
	verb := cmd.Name()
	switch {
	case shell && len(args) > 0:
		return usagef(verb, "-c and a command are both given; use one")
	case shell && o.shell == "":
		return usagef(verb, "-c: the line is empty")
	case !shell && len(args) == 0:
		return usagef(verb, "no command given; write wsctl %s -- CMD [ARG…], or -c 'LINE'", verbUse(cmd))
	case o.tty && o.json:
		return usagef(verb, "-t and --json do not go together; leave one out")
	case o.tty && command.maxOutput.set:
		return usagef(verb, "-t and --max-output do not go together; leave one out")
	case o.tty && command.background.value != "":
		return usagef(verb, "-t and --background do not go together: what a command leaves goes with its terminal")
	case o.tty && !u.inTTY:
		return usagef(verb, "-t needs a terminal on standard input; use -i to pass on what is there instead")
	}
	return nil
}

// verbUse is a verb with the first word that it takes.
func verbUse(cmd *cobra.Command) string {
	if cmd.Name() == "exec" {
		return "exec NAME"
	}
	return cmd.Name()
}

// command makes the Command that the flags and args stand for.
func (o *flowOptions) command(cmd *cobra.Command, own environment, command *commandOptions, args []string) (workspace.Command, error) {
	c, err := command.command(cmd.Name(), own)
	if c.Args, c.Shell = args, o.shell; o.shell != "" {
		c.Args = nil
	}
	return c, err
}

// commandOptions are the flags that concern one command.
type commandOptions struct {
	dir        string
	env        envOptions
	timeout    duration
	grace      duration
	background choice
	maxOutput  size
}

func (o *commandOptions) addFlags(cmd *cobra.Command) {
	o.timeout.most, o.grace.most = workspace.MaxTimeout, workspace.MaxKillGrace
	o.background = choice{words: []string{string(workspace.BackgroundKill), string(workspace.BackgroundKeep)}}
	o.maxOutput.most = maxMaxOutput
	f := cmd.Flags()
	f.Var(&named{&o.dir, "DIR"}, "dir", "run in this directory, below the root or as the command sees it")
	_ = cmd.MarkFlagDirname("dir")
	o.env.addFlags(cmd)
	f.Var(&o.timeout, "timeout", "end the command after this time, in seconds or as 90s, 2m; 0: never (default 0)")
	f.Var(&o.grace, "kill-grace", fmt.Sprintf("time between asking to end (SIGTERM) and SIGKILL (default %s)", workspace.DefaultKillGrace))
	addChoice(cmd, &o.background, "background", "what becomes of what the command leaves running: kill, or keep until the sandbox goes (default kill)")
	f.Var(&o.maxOutput, "max-output", "keep this much of each stream, half of it from the end, and print it when the command has ended (with --json: default 512KiB)")
}

// maxMaxOutput bounds --max-output: it is held in memory.
const maxMaxOutput = 1 << 30

// check refuses what no single flag can tell.
func (o *commandOptions) check(cmd *cobra.Command) error {
	o.env.inheritSet = cmd.Flags().Changed("inherit-env")
	return o.env.check(cmd.Name())
}

// command makes the Command of these flags.
func (o *commandOptions) command(verb string, own environment) (workspace.Command, error) {
	env, err := o.env.entries(verb, own)
	if err != nil {
		return workspace.Command{}, err
	}
	c := workspace.Command{Dir: o.dir, Env: env, Timeout: workspace.NoTimeout, Background: workspace.Background(o.background.value)}
	if o.timeout.value > 0 {
		c.Timeout = o.timeout.value
	}
	switch {
	case o.grace.value > 0:
		c.KillGrace = o.grace.value
	case o.grace.set:
		c.KillGrace = workspace.NoKillGrace
	}
	switch {
	case o.maxOutput.value > 0:
		c.MaxOutput = int(o.maxOutput.value)
	case o.maxOutput.set:
		c.MaxOutput = workspace.NoOutput
	}
	return c, nil
}

func newRunCommand(a *app) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:     "run [flags] [--] CMD [ARG…]",
		Short:   "Run a command in a fresh sandbox",
		Long:    runLong,
		Example: runExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.run(cmd, &o, args)
		},
	}
	o.flow.addFlags(cmd)
	o.command.addFlags(cmd)
	o.place.addFlags(cmd)
	return cmd
}

func (a *app) run(cmd *cobra.Command, o *runOptions, args []string) error {
	a.ui.setQuiet(o.flow.quiet)
	if err := o.flow.check(cmd, a.ui, &o.command, args); err != nil {
		return err
	}
	if err := o.place.check(cmd); err != nil {
		return err
	}
	c, err := o.flow.command(cmd, a.env, &o.command, args)
	if err != nil {
		return err
	}
	open := func(ctx context.Context) (*workspace.Workspace, error) {
		return a.open(ctx, &o.place, &o.command.env)
	}
	return a.runAndTell(cmd.Context(), open, &o.flow, c)
}

// runAndTell runs c as the flags say and prints what there is to print.
func (a *app) runAndTell(ctx context.Context, open opener, o *flowOptions, c workspace.Command) error {
	out, err := a.runIn(ctx, open, runMode{tty: o.tty, stdin: o.stdin, json: o.json}, c)
	if err != nil {
		return &commandError{out: out, err: err}
	}
	if o.json {
		if err := a.ui.object(newResult(out, nil)); err != nil {
			return err
		}
	}
	return exitStatus(out.ExitCode)
}

// runMode says how a command's streams are joined to wsctl's.
type runMode struct{ tty, stdin, json bool }

// opener opens the workspace that a command is for. It starts nothing.
type opener func(context.Context) (*workspace.Workspace, error)

// runIn opens a workspace, runs c in it, and closes it. The Output may be there
// with an error, for what is known of the command.
func (a *app) runIn(ctx context.Context, open opener, mode runMode, c workspace.Command) (out *workspace.Output, err error) {
	grace := max(c.KillGrace, 0)
	if c.KillGrace == 0 {
		grace = workspace.DefaultKillGrace
	}
	t := &terminal{ui: a.ui}
	s, ctx := newStopper(ctx, grace, func(sig syscall.Signal) {
		t.restore()
		os.Exit(exitSignal + int(sig))
	})
	defer s.close()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ws, err := open(ctx)
	if err != nil {
		return nil, interrupted(s, err)
	}
	defer func() {
		if closeErr := ws.Close(); closeErr != nil {
			a.ui.warn("%v", closeErr)
		}
	}()
	if c.Dir != "" {
		// Before anything is started for it; Exec checks again.
		if _, err := ws.Stat(ctx, c.Dir); err != nil {
			var e *workspace.Error
			if errors.As(err, &e) {
				err = &workspace.Error{Code: e.Code, Op: "--dir", Path: e.Path, Err: e.Err}
			}
			return nil, err
		}
	}
	if err := ws.Ready(ctx); err != nil {
		return nil, interrupted(s, err)
	}
	if mode.tty {
		if term, ok := a.env.lookup("TERM"); ok {
			c.Env = workspace.MergeEnv([]string{"TERM=" + term}, c.Env)
		}
		out, err = t.runTerminal(ctx, ws, c, s)
	} else {
		out, err = a.exec(ctx, ws, c, mode, s)
	}
	return a.ended(out, err, s, c)
}

// interrupted marks a failure of the start that a signal brought.
func interrupted(s *stopper, err error) error {
	if sig := s.signal(); sig != 0 && errors.Is(err, workspace.ErrAborted) {
		return &interruptedError{sig: sig, err: workspace.Errorf(workspace.ErrAborted, "", "", "%s came before the command ran, so it did not", signalName(sig))}
	}
	return err
}

// exec runs c without a terminal.
func (a *app) exec(ctx context.Context, ws *workspace.Workspace, c workspace.Command, mode runMode, s *stopper) (*workspace.Output, error) {
	u := a.ui
	outText, outDone := u.stream(u.out, u.outTTY)
	errText, errDone := u.stream(u.err, u.errTTY)
	stdout := &outlet{name: "standard output", to: outText, broken: s.broken}
	stderr := &outlet{name: "standard error", to: errText, broken: s.broken}
	live := !mode.json && c.MaxOutput == 0
	if live {
		c.Stdout, c.Stderr, c.MaxOutput = stdout, stderr, workspace.NoOutput
	}
	if mode.stdin {
		c.Stdin = u.in
	}
	// More than it can be sent: each signal sends at most one, and broken and
	// the grace two.
	signals := make(chan os.Signal, 8)
	c.Signals = signals
	s.running(func(sig syscall.Signal) {
		select {
		case signals <- sig:
		default:
		}
	})
	out, err := ws.Exec(ctx, c)
	s.running(nil)
	if !live && !mode.json && out != nil {
		s.running(func(syscall.Signal) {})
		_, _ = io.Copy(stdout, bytes.NewReader(out.Stdout))
		_, _ = io.Copy(stderr, bytes.NewReader(out.Stderr))
		s.running(nil)
	}
	outDone()
	errDone()
	return out, cmp.Or(err, stdout.err(), stderr.err())
}

// ended says what there is to say about a command that has ended, and makes of
// what wsctl itself did to it what it is: not a failure.
func (a *app) ended(out *workspace.Output, err error, s *stopper, c workspace.Command) (*workspace.Output, error) {
	sig := s.signal()
	if sig != 0 && out != nil && errors.Is(err, workspace.ErrAborted) {
		// It did not die of SIGKILL in time and its context was ended.
		err = nil
	}
	if err != nil || out == nil {
		return out, err
	}
	switch {
	case sig == syscall.SIGPIPE:
		out.ExitCode = exitSignal + int(syscall.SIGPIPE)
	case out.TimedOut:
		a.ui.warn("the command was ended after %s (--timeout)", c.Timeout)
	case out.OOMKilled:
		a.ui.warn("the kernel ended the command for want of memory; --memory gives it more")
	}
	if out.Truncated && c.MaxOutput != 0 {
		for _, d := range []struct {
			name    string
			dropped workspace.Dropped
		}{{"stdout", out.StdoutDropped}, {"stderr", out.StderrDropped}} {
			if d.dropped.Bytes > 0 {
				a.ui.warn("%d bytes of %s are left out after byte %d (--max-output)", d.dropped.Bytes, d.name, d.dropped.Offset)
			}
		}
	}
	if out.Recreated != "" {
		a.ui.warn("the sandbox was not as it had been left: %s", workspace.Printable(out.Recreated))
	}
	if out.ExitCode < 0 || out.ExitCode > math.MaxUint8 {
		return out, workspace.Errorf(workspace.ErrIO, "", "", "the command's status is %d, which is none", out.ExitCode)
	}
	return out, nil
}
