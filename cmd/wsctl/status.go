//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/reaper"
	"github.com/wsctl/wsctl/workspace"
)

const statusLong = `Tell how the state of a root is: its id, what crashes left, how much is in the
trash, and which containers are over it.

The tree is looked through for what a crash left at least an hour ago, as at the
start of a sandbox: temporary files of writes that never ended are removed,
deletions that had begun are finished, and entries that were on their way are
kept as .wsctl/pending/recovered-… until somebody moves them. What a race put
aside is kept as .wsctl/pending/quarantine-….

Containers need an engine; where none answers that is told, and is no failure.
A root without a state gets none.`

const statusExample = `  wsctl status
  wsctl status --root ~/src/app --json | jq .trash.size`

// status is what `wsctl status --json` prints.
type status struct {
	Root       string `json:"root"`
	RootBase64 string `json:"rootBase64,omitempty"`
	// ID is nil when the root has no state yet.
	ID        *string   `json:"id"`
	Leftovers leftovers `json:"leftovers"`
	Trash     struct {
		Items int   `json:"items"`
		Size  int64 `json:"size"`
	} `json:"trash"`
	// Containers is nil when no engine could tell; Engine says why.
	Containers []owned  `json:"containers"`
	Engine     *failure `json:"engineError,omitempty"`
}

// leftovers is host.Leftovers in JSON.
type leftovers struct {
	Removed     []pathText `json:"removed"`
	Finished    []pathText `json:"finished"`
	Recovered   []pathText `json:"recovered"`
	Quarantined []pathText `json:"quarantined"`
}

func newStatusCommand(a *app) *cobra.Command {
	o := treeOptions{driver: choice{value: driverContainer}, sweep: true}
	cmd := &cobra.Command{
		Use:     "status [flags]",
		Short:   "Tell how the state of a root is",
		Long:    statusLong,
		Example: statusExample,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.changing(cmd, &o, func(ctx context.Context, t *tree) error {
				return a.status(ctx, t, o.json)
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.root, "root", ".", "the directory to tell of, a `DIR`")
	_ = cmd.MarkFlagDirname("root")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	return cmd
}

func (a *app) status(ctx context.Context, t *tree, asJSON bool) error {
	var s status
	s.Root, s.RootBase64 = text([]byte(t.Name()))
	has, err := t.hasState()
	if err != nil {
		return err
	}
	if has {
		id, err := t.ID()
		if err != nil {
			return err
		}
		s.ID = &id
	}
	left, err := t.Leftovers(ctx)
	if err != nil {
		return err
	}
	s.Leftovers = newLeftovers(left)
	items, err := t.trash(ctx)
	if err != nil {
		return err
	}
	list := newTrashList(items, nil)
	s.Trash.Items, s.Trash.Size = len(items), list.Size
	over, err := a.containersOver(ctx, t)
	if err != nil {
		s.Engine = newFailure(err)
	} else {
		s.Containers = newContainers(over, nil).Containers
	}
	if asJSON {
		return a.ui.object(s)
	}
	return a.ui.status(t, &s)
}

func newLeftovers(left host.Leftovers) leftovers {
	texts := func(paths []string) []pathText {
		all := make([]pathText, 0, len(paths))
		for _, path := range paths {
			all = append(all, newPathText(path))
		}
		return all
	}
	return leftovers{
		Removed: texts(left.Removed), Finished: texts(left.Finished),
		Recovered: texts(left.Recovered), Quarantined: texts(left.Quarantined),
	}
}

// containersOver are the containers whose root is this directory, by whatever
// name.
func (a *app) containersOver(ctx context.Context, t *tree) ([]reaper.Container, error) {
	e, err := a.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	all, err := reaper.List(ctx, e.API())
	if err != nil {
		return nil, err
	}
	this, err := os.Stat(t.Name())
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrIO, "status", t.Name(), "%w", err)
	}
	var over []reaper.Container
	for _, c := range all {
		if fi, err := os.Stat(c.Tag.Root); err == nil && os.SameFile(fi, this) {
			over = append(over, c)
		}
	}
	return over, nil
}

// status prints a line a subject, and below it a line for each entry that is
// kept somewhere.
func (u *ui) status(t *tree, s *status) error {
	var b bytes.Buffer
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s "+format+"\n", append([]any{name}, args...)...)
	}
	line("root", "%s", workspace.Printable(t.Name()))
	if s.ID != nil {
		line("id", "%s", *s.ID)
	} else {
		line("id", "none yet")
	}
	var counts []string
	l := &s.Leftovers
	for _, each := range []struct {
		what  string
		paths []pathText
	}{{"removed", l.Removed}, {"finished", l.Finished}, {"recovered", l.Recovered}, {"in quarantine", l.Quarantined}} {
		if len(each.paths) > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", len(each.paths), each.what))
		}
	}
	if counts == nil {
		counts = []string{"none"}
	}
	line("leftovers", "%s", strings.Join(counts, ", "))
	for _, paths := range [][]pathText{l.Removed, l.Finished, l.Recovered, l.Quarantined} {
		for _, each := range paths {
			line("", "%s", workspace.Printable(each.Path))
		}
	}
	if s.Trash.Items == 0 {
		line("trash", "empty")
	} else {
		line("trash", "%d removed, %s", s.Trash.Items, units.BytesSize(float64(s.Trash.Size)))
	}
	switch {
	case s.Engine != nil:
		line("containers", "not known: %s", s.Engine.Message)
	case len(s.Containers) == 0:
		line("containers", "none")
	}
	for _, c := range s.Containers {
		line("container", "%s, %s, %s", workspace.Printable(c.Name), workspace.Printable(c.State), c.Verdict)
	}
	return u.result(b.Bytes())
}
