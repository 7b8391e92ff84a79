package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/wsctl/wsctl/workspace"
)

// Action is what becomes of a call.
type Action string

const (
	// Allow lets it go on.
	Allow Action = "allow"
	// Ask has somebody asked; where there is nobody it is refused.
	Ask Action = "ask"
	// Deny refuses it.
	Deny Action = "deny"
)

// ErrPending is what an Asker returns when the answer comes with a later call
// of the same tool with the same arguments: this one is ended, and nothing is
// decided. It is DENIED.
const ErrPending = pendingError("the user is being asked")

type pendingError string

func (e pendingError) Error() string { return string(e) }

// Asker asks a person whether a call may go on. Another error than ErrPending
// means that nobody could be asked.
type Asker func(ctx context.Context, q Question) (allowed bool, err error)

// Question is a call that somebody is asked about.
type Question struct {
	// Tool and Args are the call's.
	Tool *Tool
	Args json.RawMessage
	// Root is that of the workspace that it works on.
	Root string
	// Reason says why it is asked about.
	Reason string
}

// decision is what is decided about a call, by whom and why.
type decision struct {
	action Action
	by     string
	reason string
}

// Who decides.
const (
	byRule    = "rule"
	byTool    = "tool"
	byDefault = "default"
	byHook    = "hook"
	byPerson  = "person"
	byNobody  = "nobody"
)

// approve decides whether a call goes on. Nil: it does.
func (s *Set) approve(ctx context.Context, r Request, c *call, about subject) error {
	d, err := s.opts.Policy.decide(ctx, c, about)
	if err != nil {
		return err
	}
	if d.action == Allow && slices.Contains(s.opts.Approve, r.Name) {
		d = decision{Ask, byTool, "each call of this tool needs an approval"}
	}
	if d.action == Allow && s.opts.RequireApproval != nil && s.opts.RequireApproval(r.Name, r.Args) {
		d = decision{Ask, byHook, "this call needs an approval"}
	}
	if d.action == Ask {
		d = s.ask(ctx, r, c, d)
	}
	s.audit(r, c, about, Event{Kind: EventDecision, Decision: d.action, By: d.by, Reason: d.reason})
	switch {
	case d.action == Allow:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return workspace.Errorf(workspace.ErrDenied, r.Name, "", "%s", d.reason)
}

// ask turns an Ask into a person's answer.
func (s *Set) ask(ctx context.Context, r Request, c *call, d decision) decision {
	asker := r.Ask
	if asker == nil {
		asker = s.opts.Ask
	}
	if asker == nil {
		return decision{Deny, byNobody, d.reason + ", and there is nobody to ask: " + wayToAllow(r.Name)}
	}
	allowed, err := asker(ctx, Question{Tool: c.tool, Args: r.Args, Root: c.ws.Root(), Reason: d.reason})
	switch {
	case errors.Is(err, ErrPending):
		return decision{Ask, byNobody, d.reason + "; " + err.Error()}
	case err != nil:
		return decision{Deny, byNobody, fmt.Sprintf("%s, and nobody could be asked (%v): %s", d.reason, err, wayToAllow(r.Name))}
	case !allowed:
		return decision{Deny, byPerson, "the user refused this call: do not try it again in another way, ask what to do instead"}
	}
	return decision{Allow, byPerson, d.reason}
}

// wayToAllow tells a person how a call is allowed without being asked.
func wayToAllow(tool string) string {
	return fmt.Sprintf(`the user can allow it in the policy, with {"tools":{%q:"allow"}} or a rule`, tool)
}
