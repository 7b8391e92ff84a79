//go:build unix

package main

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/workspace"
)

const inspectLong = `Tell what there is to know of a workspace of "wsctl up": its directory, its state,
when it expires, and the options that it was made with. It is not looked at from
inside; "wsctl exec" does that before each command.`

func newInspectCommand(a *app) *cobra.Command {
	var asJSON bool
	var where whereOptions
	cmd := &cobra.Command{
		Use:     "inspect NAME [--json]",
		Short:   "Tell about a workspace",
		Long:    inspectLong,
		Example: "  wsctl inspect app\n  wsctl inspect app --json | jq .options.memory",
		Args:    takes(1, 1, "one workspace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withFleet(cmd.Context(), &where, func(f fleet) error {
				w, err := f.Find(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if asJSON {
					return a.ui.object(w)
				}
				return a.inspect(w)
			})
		},
		ValidArgsFunction: a.completeWorkspaces(1, &where),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	where.addFlags(cmd)
	return cmd
}

func (a *app) inspect(w workspaceText) error {
	var b bytes.Buffer
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, workspace.Printable(value))
		}
	}
	c := w.Options
	line("name", w.Name)
	line("id", w.ID)
	line("state", w.State)
	line("root", w.Root)
	line("workspace", w.Workspace)
	made := w.Created.Local().Format(time.DateTime)
	if w.Version != "" {
		made += " by wsctl " + w.Version
	}
	line("made", made)
	if w.Expires == nil {
		line("expires", "never")
	} else {
		line("expires", w.Expires.Local().Format(time.DateTime))
	}
	if s := w.Served; s != nil {
		line("driver", s.Driver)
		line("owner", s.Owner)
		line("labels", strings.Join(sortedLabels(s.Labels), " "))
		line("used", s.Used.Local().Format(time.DateTime))
		if s.IdleTTLSeconds > 0 {
			line("stopped", "after "+units.HumanDuration(time.Duration(s.IdleTTLSeconds)*time.Second)+" without use")
		}
	}
	line("image", imageText(w))
	line("toolchain", strings.Join(c.Toolchain, " "))
	line("user", c.User)
	line("network", c.Network)
	if c.Memory > 0 {
		line("memory", units.BytesSize(float64(c.Memory)))
	}
	if c.CPUs > 0 {
		line("cpus", fmt.Sprint(c.CPUs))
	}
	if c.Pids > 0 {
		line("pids", fmt.Sprint(c.Pids))
	}
	if c.Disk > 0 {
		line("disk", "may grow by "+units.BytesSize(float64(c.Disk)))
	}
	line("runtime", c.Runtime)
	if c.ReadOnlyRootfs {
		line("image", "read-only")
	}
	if c.Seccomp != "" && c.Seccomp != container.SeccompDefault {
		line("seccomp", string(c.Seccomp))
	}
	line("protected", strings.Join(c.Protect, ", "))
	if c.FreshHome {
		line("home", "its own, which goes with it")
	}
	for _, m := range c.Mounts {
		mode := "read-only"
		if m.Writable {
			mode = "writable"
		}
		line("mount", m.Source+" at "+m.Target+", "+mode)
	}
	return a.ui.result(b.Bytes())
}
