package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/workspace"
)

const doctorLong = `Look at the engine, at this machine and, from inside, at a probe container over
an empty directory, and print field by field how things are:

  ok    as it must be
  warn  it works, and something is weaker than it could be
  FAIL  commands cannot run, or not as confined as promised
  open  what no setting closes; it is listed so that nobody believes otherwise

The flags are those of "wsctl run": what is examined is the container that they
ask for. Exit status: 0 when nothing failed, 1 when a check failed, 125 when
wsctl could not look.`

const doctorExample = `  wsctl doctor
  wsctl doctor --image debian:13 --network bridge
  wsctl doctor --json | jq '.checks[] | select(.status == "fail")'`

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	place       placeOptions
	json, quiet bool
}

// examination is what `wsctl doctor --json` prints.
type examination struct {
	OK bool `json:"ok"`
	// Engine is nil when none answers.
	Engine *container.EngineInfo `json:"engine"`
	Checks []container.Check     `json:"checks"`
}

func newDoctorCommand(a *app) *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:     "doctor [flags]",
		Short:   "Prove how a sandbox is hardened, and name what stays open",
		Long:    doctorLong,
		Example: doctorExample,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.doctor(cmd, &o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print no warnings and no progress")
	o.place.addContainerFlags(cmd)
	return cmd
}

func (a *app) doctor(cmd *cobra.Command, o *doctorOptions) error {
	a.ui.setQuiet(o.quiet)
	if err := o.place.check(cmd); err != nil {
		return err
	}
	s, ctx := newStopper(cmd.Context(), 0, func(sig syscall.Signal) { os.Exit(exitSignal + int(sig)) })
	defer s.close()
	found, err := a.examine(ctx, &o.place)
	if err != nil {
		return err
	}
	if s.signal() != 0 {
		return interrupted(s, workspace.ErrAborted)
	}
	if o.json {
		err = a.ui.object(found)
	} else {
		err = a.ui.checks(found.Checks)
	}
	if err == nil && !found.OK {
		err = exitStatus(exitCheckFailed)
	}
	return err
}

// checks prints one check a line, what to do below it, and a count.
func (u *ui) checks(all []container.Check) error {
	width := 0
	for _, c := range all {
		width = max(width, len(c.Name))
	}
	count := map[container.CheckStatus]int{}
	var b strings.Builder
	for _, c := range all {
		count[c.Status]++
		name := strings.TrimPrefix(c.Name, "open: ")
		fmt.Fprintf(&b, "%s  %-*s  %s\n", u.mark(c.Status), width, workspace.Printable(name), workspace.Printable(c.Detail))
		if c.Advice != "" {
			fmt.Fprintf(&b, "%*s→ %s\n", width+8, "", workspace.Printable(c.Advice))
		}
	}
	fmt.Fprintf(&b, "\n%d ok, %d to improve, %d failed; %d things stay open\n",
		count[container.CheckOK], count[container.CheckWarn], count[container.CheckFail], count[container.CheckOpen])
	return u.result([]byte(b.String()))
}

// mark is a status as a word of four columns.
func (u *ui) mark(s container.CheckStatus) string {
	word, colour := string(s), ""
	switch s {
	case container.CheckOK:
		word, colour = "ok", "32"
	case container.CheckWarn:
		colour = "33"
	case container.CheckFail:
		word, colour = "FAIL", "31"
	case container.CheckOpen:
	}
	text := fmt.Sprintf("%-4s", word)
	if colour == "" || !u.outTTY || !u.fancy {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
