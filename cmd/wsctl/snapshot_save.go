//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/snapshot"
	"github.com/wsctl/wsctl/workspace"
)

const snapshotSaveLong = `Keep the directory as it is now, and print the id. Commands may run meanwhile: each
file is whole. What is skipped, and why, is told: files over --max-file-size,
devices, FIFOs and sockets, what cannot be read, other file systems.

--exclude leaves out what a glob matches, relative to the root; one without a
slash matches at any depth, one that ends with a slash directories alone. With
--keep-last and the like older snapshots are removed after it.`

// snapshotOptions are the flags that say what snapshots hold and how many stay.
type snapshotOptions struct {
	exclude   list
	maxFile   size
	retention retentionOptions
}

// retentionOptions are the flags that say how many snapshots stay.
type retentionOptions struct {
	keepLast  count
	olderThan duration
	maxSize   size
	keepLabel string
}

func (o *retentionOptions) addFlags(cmd *cobra.Command) {
	const year = 365 * 24 * time.Hour
	o.keepLast = count{least: 1, most: 1 << 30}
	o.olderThan.most = 100 * year
	o.maxSize.least, o.maxSize.most = 1, maxSize
	f := cmd.Flags()
	f.Var(&o.keepLast, "keep-last", "remove all but so many of the newest")
	f.Var(&o.olderThan, "older-than", "remove those that are older: 12h, 720h")
	f.Var(&o.maxSize, "max-size", "remove the oldest until the rest takes at most this: 10g")
	f.Var(&named{&o.keepLabel, "GLOB"}, "keep-label", "keep those whose label this matches, whatever else is said")
}

func (o *retentionOptions) retention() snapshot.Retention {
	return snapshot.Retention{KeepLast: int(o.keepLast.value), MaxAge: o.olderThan.value, MaxBytes: o.maxSize.value, KeepLabel: o.keepLabel}
}

func (o *retentionOptions) bounded() bool {
	return o.keepLast.value > 0 || o.olderThan.value > 0 || o.maxSize.value > 0
}

func (o snapshotOptions) options() snapshot.Options {
	r := o.retention.retention()
	if !o.retention.bounded() {
		r = snapshot.Retention{}
	}
	return snapshot.Options{Exclude: o.exclude.values, MaxFileBytes: o.maxFile.value, Retention: r}
}

func newSnapshotSaveCommand(a *app) *cobra.Command {
	var o struct {
		storeOptions
		snapshotOptions
		label, turn, metadata string
	}
	o.exclude.name = "GLOB"
	o.maxFile = size{least: 1, most: maxSize}
	cmd := &cobra.Command{
		Use:     "save [flags]",
		Short:   "Keep the directory as it is now",
		Long:    snapshotSaveLong,
		Example: "  wsctl snapshot save --label before-upgrade\n  wsctl snapshot save --exclude '*.log' --exclude build/ --keep-last 50\n  wsctl snapshot save --turn 12 --metadata '{\"message\":\"m_81\"}' --json",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.metadata != "" && !json.Valid([]byte(o.metadata)) {
				return usagef(verbOf(cmd), "--metadata is no JSON")
			}
			return a.snapshotVerb(cmd, &o.storeOptions, o.options(), func(ctx context.Context, k *kept) error {
				stop := a.ui.spin("saving")
				s, err := k.snaps.Save(ctx, workspace.SaveOptions{Label: o.label, Turn: o.turn, Metadata: json.RawMessage(o.metadata)})
				stop()
				switch {
				case err != nil:
					return err
				case o.tree.json:
					return a.ui.object(newSnapshotText(s))
				}
				a.tellLeftOut(s)
				a.ui.talk(fmt.Sprintf("%d files, %s; %d read, %s added, in %s", s.Stats.Files, bytesText(s.Stats.Bytes), s.Stats.Read, bytesText(s.Stats.AddedBytes), s.Stats.Duration.Round(time.Millisecond)))
				return a.ui.result([]byte(s.ID + "\n"))
			})
		},
	}
	f := cmd.Flags()
	f.Var(&named{&o.label, "TEXT"}, "label", "what to call it")
	f.Var(&named{&o.turn, "TURN"}, "turn", "the turn of a conversation that it is taken before, for wsctl rewind")
	f.Var(&named{&o.metadata, "JSON"}, "metadata", "kept with it and given back")
	f.Var(&o.exclude, "exclude", "leave out what this glob matches (repeatable)")
	f.Var(&o.maxFile, "max-file-size", "skip larger files (default "+bytesText(snapshot.DefaultMaxFileBytes)+")")
	o.retention.addFlags(cmd)
	o.addFlags(cmd)
	return cmd
}

// tellLeftOut says what a snapshot does not hold, a few of it.
func (a *app) tellLeftOut(s workspace.Snapshot) {
	const most = 10
	for i, e := range s.Skipped {
		if i == most {
			a.ui.warn("and %d more were skipped; --json lists all", len(s.Skipped)-most)
			break
		}
		a.ui.warn("skipped %s: %s", workspace.Printable(e.Path), e.Reason)
	}
	for i, p := range s.Changed {
		if i == most {
			a.ui.warn("and %d more changed", len(s.Changed)-most)
			break
		}
		a.ui.warn("%s went on changing while it was read", workspace.Printable(p))
	}
}

// spin shows on a terminal that something goes on, until stop.
func (u *ui) spin(what string) (stop func()) {
	if u.isQuiet() || !u.errTTY || !u.fancy {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		shown := false
		for i := 0; ; i++ {
			select {
			case <-done:
				if shown {
					fmt.Fprint(u.err, "\r\x1b[K")
				}
				return
			case <-tick.C:
				if i > 2 {
					shown = true
					fmt.Fprintf(u.err, "\r%s %c ", what, `|/-\`[i%4])
				}
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}
