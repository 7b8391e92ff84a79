//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/workspace"
)

const auditLong = `Print the audit log of a server: who did what in which workspace, when, and what came
of it, one line an entry, secrets blanked out. Without --remote it is that of your
own server. It takes a token with the scope admin.

Each entry has the hash of the one before. --verify checks the chain from its first
entry to its last and prints the hash of that: an entry that was changed, left out or
put in is CORRUPT. Keep the hash to tell later that the log was not cut short.`

const auditExample = `  wsctl audit --follow
  wsctl audit --json | jq 'select(.op == "exec")'
  wsctl audit --verify`

// auditOptions are the flags of audit.
type auditOptions struct {
	where                whereOptions
	after                count
	follow, verify, json bool
}

// followEvery is how often a log is asked for more.
const followEvery = time.Second

func newAuditCommand(a *app) *cobra.Command {
	var o auditOptions
	o.after.most = 1 << 62
	cmd := &cobra.Command{
		Use:     "audit [flags]",
		Short:   "Print the audit log of a server",
		Long:    auditLong,
		Example: auditExample,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.verify && (o.follow || o.after.value > 0) {
				return usagef(verbOf(cmd), "--verify checks the whole log; leave out --follow and --after")
			}
			ctx, stop := untilSignal(cmd.Context())
			defer stop()
			c, err := a.server(ctx, &o.where)
			if err != nil {
				return err
			}
			defer c.Close()
			if o.verify {
				return a.verifyAudit(ctx, c, o.json)
			}
			err = eachEntry(ctx, c, o.after.value, o.follow, func(e orchestrator.Entry) error {
				if o.json {
					return a.ui.line(e)
				}
				return a.ui.result([]byte(entryText(e) + "\n"))
			})
			return followed(ctx, o.follow, err)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "go on with what is added, until a signal comes")
	f.Var(&o.after, "after", "begin after the entry with this number (default: at the first)")
	f.BoolVar(&o.verify, "verify", false, "check the chain of hashes instead")
	f.BoolVar(&o.json, "json", false, "print one JSON object a line, as the log has them")
	o.where.addFlags(cmd)
	return cmd
}

// followed is no failure where a signal has ended what goes on until one comes.
func followed(ctx context.Context, follow bool, err error) error {
	if follow && ctx.Err() != nil && (err == nil || errors.Is(err, workspace.ErrAborted)) {
		return nil
	}
	return stopped(ctx, err)
}

// eachEntry calls do for the entries after one, and with follow for those to come.
func eachEntry(ctx context.Context, c *connection, after int64, follow bool, do func(orchestrator.Entry) error) error {
	for {
		list, last, err := c.Audit(ctx, after, 0)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := do(e); err != nil {
				return err
			}
		}
		if len(list) > 0 {
			// Who answers the same again would have us ask for ever.
			if last <= after {
				return workspace.Errorf(workspace.ErrUnavailable, "audit", "", "the server repeats itself")
			}
			after = last
			continue
		}
		if !follow {
			return nil
		}
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// verifiedAudit is what `wsctl audit --verify --json` prints.
type verifiedAudit struct {
	Entries int64     `json:"entries"`
	Hash    string    `json:"hash"`
	Time    time.Time `json:"time"`
}

// verifyAudit checks the chain here: the server's word for it is not taken.
func (a *app) verifyAudit(ctx context.Context, c *connection, asJSON bool) error {
	r, w := io.Pipe()
	go func() {
		e := json.NewEncoder(w)
		_ = w.CloseWithError(eachEntry(ctx, c, 0, false, func(entry orchestrator.Entry) error { return e.Encode(entry) }))
	}()
	_, last, err := orchestrator.VerifyAudit(r)
	_ = r.CloseWithError(err)
	if err != nil {
		return err
	}
	if asJSON {
		return a.ui.object(verifiedAudit{last.Seq, last.Hash, last.Time})
	}
	return a.ui.result([]byte(fmt.Sprintf("%d entries, whole; the last is %s\n", last.Seq, workspace.Printable(last.Hash))))
}

// entryText is an entry as a person reads it.
func entryText(e orchestrator.Entry) string {
	parts := []string{fmt.Sprint(e.Seq), e.Time.Local().Format(time.DateTime), e.Who, e.Op}
	for _, s := range []string{e.Workspace, e.Path, e.To, e.Dir} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if e.Shell != "" {
		parts = append(parts, fmt.Sprintf("%q", e.Shell))
	}
	for _, arg := range e.Args {
		parts = append(parts, fmt.Sprintf("%q", arg))
	}
	if e.Exit != nil {
		parts = append(parts, fmt.Sprintf("exit=%d", *e.Exit))
	}
	if e.TimedOut {
		parts = append(parts, "timed-out")
	}
	if e.DurationMS > 0 {
		parts = append(parts, fmt.Sprintf("%.1fms", e.DurationMS))
	}
	if e.Error != "" {
		parts = append(parts, e.Error)
	}
	return escapeLine(strings.Join(parts, " "))
}
