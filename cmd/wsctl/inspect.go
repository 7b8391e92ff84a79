//go:build unix

package main

import (
	"bytes"
	"context"
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
	cmd := &cobra.Command{
		Use:     "inspect NAME [--json]",
		Short:   "Tell about a workspace",
		Long:    inspectLong,
		Example: "  wsctl inspect app\n  wsctl inspect app --json | jq .options.memory",
		Args:    takes(1, 1, "one workspace"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.inspect(cmd.Context(), args[0], asJSON)
		},
		ValidArgsFunction: a.completeWorkspaces(1),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (a *app) inspect(ctx context.Context, ref string, asJSON bool) error {
	e, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer e.Close()
	w, err := container.FindDetached(ctx, e, ref)
	if err != nil {
		return err
	}
	if asJSON {
		return a.ui.object(newWorkspaceText(w))
	}
	var b bytes.Buffer
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-10s %s\n", name, workspace.Printable(value))
		}
	}
	c := w.Choices
	line("name", w.Name)
	line("id", w.ID)
	line("state", w.State)
	line("root", w.Root)
	line("workspace", w.Workspace)
	line("made", w.Created.Format(time.DateTime)+" by wsctl "+w.Version)
	if w.Expires.IsZero() {
		line("expires", "never")
	} else {
		line("expires", w.Expires.Local().Format(time.DateTime))
	}
	line("image", imageText(c))
	line("toolchain", strings.Join(c.Toolchain, " "))
	line("user", c.User)
	line("network", c.Network)
	line("memory", units.BytesSize(float64(c.Memory)))
	line("cpus", fmt.Sprint(c.CPUs))
	line("pids", fmt.Sprint(c.Pids))
	if c.Disk > 0 {
		line("disk", "may grow by "+units.BytesSize(float64(c.Disk)))
	}
	line("runtime", c.Runtime)
	if c.ReadOnlyRootfs {
		line("image", "read-only")
	}
	if c.Seccomp != container.SeccompDefault {
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
