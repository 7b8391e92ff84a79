package tools

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

const runCommandText = `Runs a shell command (sh -c) in the workspace and returns its exit code and output.

Standard output and standard error come apart. Of long output the beginning and the end are shown, the bytes left out are counted, and all of it is saved in a file that read_file pages through (commands cannot see that file). A status other than 0 is a result, not an error; after the timeout everything the command started is ended, the status is 124 and timed_out is true.

What the command leaves running is ended when it exits; background "keep" lets it run, without its further output. For servers and anything to talk to use process_start. Each call is a new shell: cd and exports do not carry over. There is no terminal, and standard input is empty unless stdin is given.`

type runCommandInput struct {
	Command    string            `json:"command" jsonschema:"text for sh -c"`
	Cwd        string            `json:"cwd,omitempty" jsonschema:"directory to run in: relative to the workspace's root, or absolute below it (default: the root)"`
	Env        map[string]string `json:"env,omitempty" jsonschema:"environment variables to add"`
	Stdin      string            `json:"stdin,omitempty" jsonschema:"text for standard input"`
	Timeout    float64           `json:"timeout,omitempty" min:"0.001" max:"86400" jsonschema:"seconds after which the command is ended (default: that of the server, 120 unless it says otherwise)"`
	Background string            `json:"background,omitempty" enum:"kill,keep" jsonschema:"what becomes of what the command leaves running (default kill)"`
	StripANSI  bool              `json:"strip_ansi,omitempty" jsonschema:"leave out colours and other escape sequences of terminals"`
}

func (in runCommandInput) subject() subject {
	return commandSubject(in.Command, in.Cwd, in.Env)
}

// commandSubject is what a policy is asked about a command.
func commandSubject(command, cwd string, env map[string]string) subject {
	about := subject{command: command}
	if cwd != "" {
		about.paths = []string{cwd}
	}
	if len(env) > 0 {
		// PATH alone makes another program of the same words.
		about.obscure = "it sets environment variables"
	}
	return about
}

type runCommandOutput struct {
	ExitCode      int    `json:"exit_code" jsonschema:"status, as of a shell; 124 with timed_out when the timeout ended it"`
	Signal        string `json:"signal,omitempty" jsonschema:"signal that ended the command"`
	TimedOut      bool   `json:"timed_out" jsonschema:"the timeout ended it"`
	OOMKilled     bool   `json:"oom_killed,omitempty" jsonschema:"the kernel ended it for want of memory"`
	Ended         int    `json:"ended,omitempty" jsonschema:"processes that it left running and that were ended"`
	DurationMS    int64  `json:"duration_ms" jsonschema:"wall time in milliseconds"`
	Stdout        string `json:"stdout" jsonschema:"standard output; where stdout_dropped is not 0 its middle is left out"`
	Stderr        string `json:"stderr" jsonschema:"standard error; where stderr_dropped is not 0 its middle is left out"`
	StdoutDropped int64  `json:"stdout_dropped,omitempty" jsonschema:"bytes left out of stdout"`
	StderrDropped int64  `json:"stderr_dropped,omitempty" jsonschema:"bytes left out of stderr"`
	Replaced      int    `json:"replaced,omitempty" jsonschema:"bytes of both that are not UTF-8 and are U+FFFD here"`
	OutputPath    string `json:"output_path,omitempty" jsonschema:"file with all of both streams as they came; read it with read_file"`
	Warning       string `json:"warning,omitempty" jsonschema:"what is missing from output_path, or why there is none"`
	Recreated     string `json:"recreated,omitempty" jsonschema:"why the place where commands run had to be made anew; what they installed outside the workspace is lost"`
}

func runCommand() *Tool {
	return define(Tool{
		Name:        "run_command",
		Title:       "Run a command",
		Description: runCommandText,
		Hints:       Hints{Destructive: true, OpenWorld: true},
	}, runRunCommand)
}

func runRunCommand(ctx context.Context, c *call, in runCommandInput) (*runCommandOutput, error) {
	limits := c.set.opts.Limits
	env, err := environ(c.tool.Name, in.Env)
	if err != nil {
		return nil, err
	}
	cmd := workspace.Command{
		Shell: in.Command, Dir: in.Cwd, Env: env,
		Timeout: limits.CommandTimeout, MaxOutput: limits.CommandOutput, Background: workspace.Background(in.Background),
	}
	if in.Timeout > 0 {
		cmd.Timeout = time.Duration(in.Timeout * float64(time.Second))
	}
	if in.Stdin != "" {
		cmd.Stdin = strings.NewReader(in.Stdin)
	}
	live := newLiveOutput(ctx, c)
	cmd.Stdout, cmd.Stderr = live.stream("stdout"), live.stream("stderr")
	out, err := c.ws.Exec(ctx, cmd)
	path, warning := live.finish(out != nil && out.Truncated)
	if out == nil {
		return nil, err
	}
	c.saved = path
	o := &runCommandOutput{
		ExitCode: out.ExitCode, TimedOut: out.TimedOut, OOMKilled: out.OOMKilled, Ended: out.Ended,
		DurationMS:    out.Duration.Milliseconds(),
		StdoutDropped: out.StdoutDropped.Bytes, StderrDropped: out.StderrDropped.Bytes,
		OutputPath: path, Warning: warning, Recreated: out.Recreated,
	}
	if out.Signal != 0 {
		o.Signal = out.Signal.String()
	}
	o.Stdout = o.shown(out.Stdout, out.StdoutDropped, in.StripANSI)
	o.Stderr = o.shown(out.Stderr, out.StderrDropped, in.StripANSI)
	return o, err
}

// environ is env as entries of a Command. Their order means nothing.
func environ(tool string, env map[string]string) ([]string, error) {
	var entries []string
	for name, value := range env {
		if strings.Contains(name, "=") {
			return nil, workspace.Errorf(workspace.ErrInvalidArgument, tool, "", "env: the name %q has a '=' in it", clip(name, 40))
		}
		entries = append(entries, name+"="+value)
	}
	return entries, nil
}

// shown is a stream as text, with a note where its middle is left out.
func (o *runCommandOutput) shown(b []byte, d workspace.Dropped, strip bool) string {
	part := func(b []byte) string {
		if strip {
			b = withoutANSI(b)
		}
		s, replaced := valid(b)
		o.Replaced += replaced
		return s
	}
	if d.Bytes == 0 {
		return part(b)
	}
	return fmt.Sprintf("%s\n[%s left out here]\n%s", part(b[:d.Offset]), count(d.Bytes, "byte"), part(b[d.Offset:]))
}

func (o *runCommandOutput) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Exit code %d after %.1f s", o.ExitCode, float64(o.DurationMS)/1000)
	if o.TimedOut {
		b.WriteString("; the timeout ended it")
	}
	if o.Signal != "" {
		b.WriteString("; ended by signal: " + o.Signal)
	}
	if o.OOMKilled {
		b.WriteString("; the kernel ended it for want of memory")
	}
	if o.Ended > 0 {
		fmt.Fprintf(&b, "; %s that it left running ended", count(o.Ended, "process"))
	}
	if said := saidReplaced(o.Replaced); said != "" {
		b.WriteString("; " + said)
	}
	b.WriteString(".\n")
	if o.Recreated != "" {
		fmt.Fprintf(&b, "[The place where commands run was made anew: %s. What commands installed outside the workspace is lost.]\n", workspace.Printable(o.Recreated))
	}
	if o.OutputPath != "" {
		fmt.Fprintf(&b, "[All output is in %s: page through it with read_file. Commands cannot see that file.]\n", o.OutputPath)
	}
	if o.Warning != "" {
		fmt.Fprintf(&b, "[%s]\n", o.Warning)
	}
	for _, s := range []struct{ name, text string }{{"stdout", o.Stdout}, {"stderr", o.Stderr}} {
		if s.text == "" {
			continue
		}
		fmt.Fprintf(&b, "--- %s ---\n%s", s.name, s.text)
		if !strings.HasSuffix(s.text, "\n") {
			b.WriteString("\n")
		}
	}
	if o.Stdout == "" && o.Stderr == "" {
		b.WriteString("(no output)\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
