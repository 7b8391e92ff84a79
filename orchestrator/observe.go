//go:build unix

package orchestrator

import (
	"context"
	"time"

	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// observer writes down and measures what is done in one workspace, whoever does
// it.
type observer struct{ e *entry }

// Begin implements workspace.Observer: a command waits for room, and is written
// down before it runs.
func (v observer) Begin(ctx context.Context, a workspace.Activity) error {
	v.e.use()
	if err := v.e.admit(ctx); err != nil {
		return err
	}
	entry := v.entry(ctx, a)
	entry.Op += ".begin"
	return v.e.o.audit.Append(entry)
}

// End implements workspace.Observer.
func (v observer) End(ctx context.Context, a workspace.Activity) {
	v.e.use()
	o := v.e.o
	entry := v.entry(ctx, a)
	entry.Exit, entry.TimedOut = a.Exit, a.TimedOut
	entry.DurationMS = float64(a.Duration) / float64(time.Millisecond)
	if a.Err != nil {
		entry.Error = a.Err.Error()
	}
	if a.Args != nil || a.Shell != "" {
		o.metrics.phase.WithLabelValues(phaseExec).Observe(a.Duration.Seconds())
		o.metrics.commands.WithLabelValues(ending(a)).Inc()
	} else {
		o.metrics.changes.WithLabelValues(a.Op, result(a.Err)).Inc()
	}
	if err := o.audit.Append(entry); err != nil {
		// It is done and cannot be undone; nothing more will be.
		o.log.Error("the audit log cannot be written; commands are refused", "err", err)
	}
}

func (v observer) entry(ctx context.Context, a workspace.Activity) Entry {
	who, token := caller(ctx)
	return Entry{Who: who, Token: token, Workspace: v.e.record().ID, Op: a.Op, Path: a.Path, To: a.To, Args: a.Args, Shell: a.Shell, Dir: a.Dir, Job: jobOf(ctx)}
}

// caller names who a call is from.
func caller(ctx context.Context) (who, token string) {
	id, ok := remote.Caller(ctx)
	switch {
	case !ok:
		return "server", ""
	case id.Name != "":
		return id.Name, id.Token
	case id.Token == "":
		return "owner", ""
	}
	return "token", id.Token
}

func ending(a workspace.Activity) string {
	switch {
	case a.Err != nil:
		return result(a.Err)
	case a.TimedOut:
		return "timeout"
	case a.Exit != nil && *a.Exit != 0:
		return "failed"
	}
	return "ok"
}
