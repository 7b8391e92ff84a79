package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/wsctl/wsctl/workspace"
)

// Policy says which calls go on, which are asked about and which are refused.
//
// A call is decided in this order:
//
//  1. the rules whose patterns match it, the strictest: deny, then ask, then
//     allow;
//  2. what Tools says of the tool;
//  3. ReadOnly, when the tool only reads;
//  4. Default.
//
// A shell text that is not plainly a list of simple commands is at least asked
// about where a rule of commands is for its tool, whatever allows it. Rules of
// paths are no protection from commands, and rules of commands none from what an
// allowed command does: the workspace is.
//
// Its JSON form is what ParsePolicy reads.
type Policy struct {
	// Default is for calls that nothing else decides; empty: Allow.
	Default Action `json:"default,omitempty"`
	// ReadOnly is the default of tools that change nothing; empty: Default.
	ReadOnly Action `json:"readOnly,omitempty"`
	// Tools is an action for all calls of a tool, by its name.
	Tools map[string]Action `json:"tools,omitempty"`
	// Rules decide by what a call is about.
	Rules []Rule `json:"rules,omitempty"`
}

// Rule is an action for calls that match one of its patterns. It has either
// paths or commands.
type Rule struct {
	Action Action `json:"action"`
	// Tools are the names of those it is for; empty: all that its patterns
	// mean something to.
	Tools []string `json:"tools,omitempty"`
	// Paths are globs of files below the root: * stops at a slash, ** does
	// not, {a,b} and [a-z] choose; one without a slash matches at any depth.
	// To allow, a glob matches the file itself; to ask or deny, also a
	// directory above it. Both the path as it is spelled and what its links
	// lead to count. A tool that searches a directory in which a file could
	// match to ask or deny is asked about.
	Paths []string `json:"paths,omitempty"`
	// Commands are the first words of simple commands: "git push" is for
	// "git push --force" and not for "git pushd". To allow, every command of
	// a text must match; to ask or deny, one, wherever it stands.
	Commands []string `json:"commands,omitempty"`
}

// ParsePolicy reads a policy from JSON. What it does not know is an error.
func ParsePolicy(data []byte) (*Policy, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	var p Policy
	err := dec.Decode(&p)
	if err == nil {
		if _, after := dec.Token(); after != io.EOF {
			err = fmt.Errorf("the policy goes on after its end")
		}
	}
	if err != nil {
		return nil, policyError("%w", err)
	}
	return &p, p.check()
}

func policyError(format string, args ...any) error {
	return workspace.Errorf(workspace.ErrInvalidArgument, "policy", "", format, args...)
}

// check refuses a policy that could mean something else than it says.
func (p *Policy) check() error {
	if p == nil {
		return nil
	}
	names := Names()
	known := func(where, name string) error {
		if !slices.Contains(names, name) {
			return policyError("%s: there is no tool %q; the tools are %s", where, name, strings.Join(names, ", "))
		}
		return nil
	}
	for where, a := range map[string]Action{"default": p.Default, "readOnly": p.ReadOnly} {
		if a != "" && !a.known() {
			return policyError("%s: %q is none of allow, ask, deny", where, a)
		}
	}
	for name, a := range p.Tools {
		if err := known("tools", name); err != nil {
			return err
		}
		if !a.known() {
			return policyError("tools: %s: %q is none of allow, ask, deny", name, a)
		}
	}
	for i, r := range p.Rules {
		where := fmt.Sprintf("rule %d", i+1)
		for _, name := range r.Tools {
			if err := known(where, name); err != nil {
				return err
			}
		}
		if err := r.check(where); err != nil {
			return err
		}
	}
	return nil
}

func (r Rule) check(where string) error {
	if !r.Action.known() {
		return policyError("%s: the action %q is none of allow, ask, deny", where, r.Action)
	}
	if (len(r.Paths) == 0) == (len(r.Commands) == 0) {
		return policyError("%s: give either paths or commands", where)
	}
	for _, glob := range r.Paths {
		if glob == "" || strings.HasPrefix(glob, "/") || !doublestar.ValidatePattern(glob) {
			return policyError("%s: %q is no glob of paths below the root", where, glob)
		}
	}
	for _, prefix := range r.Commands {
		if l := parseCommandLine(prefix); len(l.calls) != 1 || l.obscure != "" {
			return policyError("%s: %q is not the beginning of one simple command", where, prefix)
		}
	}
	return nil
}

func (a Action) known() bool { return a == Allow || a == Ask || a == Deny }

// strictness orders actions.
func (a Action) strictness() int { return slices.Index([]Action{Allow, Ask, Deny}, a) }

// decide is what the policy says of a call. A nil policy allows all.
func (p *Policy) decide(ctx context.Context, c *call, about subject) (decision, error) {
	if p == nil {
		return decision{Allow, byDefault, "there is no policy"}, nil
	}
	best := p.fallback(c.tool)
	strictest := -1
	consider := func(d decision) {
		if d.action.strictness() > strictest {
			best, strictest = d, d.action.strictness()
		}
	}
	places, err := p.places(ctx, c, about)
	if err != nil {
		return decision{}, err
	}
	var line commandLine
	if about.command != "" {
		line = parseCommandLine(about.command)
		if line.obscure == "" {
			line.obscure = about.obscure
		}
	}
	allowed := make([]bool, len(line.calls)) // by a rule of commands
	byCommand := false
	for i, r := range p.Rules {
		if len(r.Tools) > 0 && !slices.Contains(r.Tools, c.tool.Name) {
			continue
		}
		found := decision{r.Action, byRule, ""}
		if len(r.Paths) > 0 {
			if found.action, found.reason = r.matchPaths(places, about.command != ""); found.reason != "" {
				found.reason = fmt.Sprintf("rule %d of the policy is to %s %s", i+1, r.Action, found.reason)
				consider(found)
			}
			continue
		}
		if about.command == "" {
			continue
		}
		byCommand = true
		if prefix := r.matchCommands(line, allowed); prefix != "" {
			found.reason = fmt.Sprintf("rule %d of the policy is to %s the command %q", i+1, r.Action, prefix)
			consider(found)
		}
	}
	switch {
	case !byCommand:
	case line.obscure != "" && best.action == Allow:
		best = decision{Ask, byRule, "the policy has rules of commands, and this one is not plain: " + line.obscure}
	case line.obscure == "" && strictest < 0 && len(allowed) > 0 && !slices.Contains(allowed, false):
		best = decision{Allow, byRule, "rules of the policy allow each of its commands"}
	}
	return best, nil
}

// fallback is what is decided when no rule matches.
func (p *Policy) fallback(t *Tool) decision {
	if a, ok := p.Tools[t.Name]; ok {
		return decision{a, byTool, fmt.Sprintf("the policy is to %s this tool", a)}
	}
	if t.Hints.ReadOnly && p.ReadOnly != "" {
		return decision{p.ReadOnly, byDefault, fmt.Sprintf("the policy is to %s tools that only read", p.ReadOnly)}
	}
	if p.Default != "" {
		return decision{p.Default, byDefault, fmt.Sprintf("the policy is to %s what it does not name", p.Default)}
	}
	return decision{Allow, byDefault, "the policy does not name it"}
}

// matchCommands returns the pattern of a rule that asks or denies which matches
// a command of the line; a rule that allows notes in allowed which it does.
func (r Rule) matchCommands(line commandLine, allowed []bool) string {
	for _, prefix := range r.Commands {
		words := parseCommandLine(prefix).calls[0]
		for i, call := range line.calls {
			switch {
			case r.Action == Allow:
				allowed[i] = allowed[i] || begins(call, words)
			case mayRun(call, words):
				return prefix
			}
		}
	}
	return ""
}
