package main

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/tools"
	"github.com/wsctl/wsctl/workspace"
)

// toolOptions are the flags that say which tools an agent has and what it may
// do with them.
type toolOptions struct {
	tools   []string
	approve []string
	policy  string
	audit   string
}

func (o *toolOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&names{&o.tools, "NAME,…"}, "tools", "only these tools (default: all)")
	_ = cmd.RegisterFlagCompletionFunc("tools", cobra.FixedCompletions(tools.Names(), cobra.ShellCompDirectiveNoFileComp))
	o.addPolicyFlags(cmd)
}

// addPolicyFlags adds the flags that say what the tools may do.
func (o *toolOptions) addPolicyFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&names{&o.approve, "NAME,…"}, "approve", "ask the user about each call of these tools that the policy does not deny")
	_ = cmd.RegisterFlagCompletionFunc("approve", cobra.FixedCompletions(tools.Names(), cobra.ShellCompDirectiveNoFileComp))
	f.Var(&named{&o.policy, "FILE"}, "policy", "JSON file that says which calls are allowed, asked about or denied (default: all are allowed)")
	_ = cmd.MarkFlagFilename("policy", "json")
	f.Var(&named{&o.audit, "FILE"}, "audit", "append a line of JSON for every decision and every call to this file")
	_ = cmd.MarkFlagFilename("audit")
}

// maxPolicy bounds a policy file, in bytes.
const maxPolicy = 1 << 20

// readPolicy reads the policy that the flags name; nil: none.
func (o *toolOptions) readPolicy() (*tools.Policy, error) {
	if o.policy == "" {
		return nil, nil
	}
	f, err := os.Open(o.policy)
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "--policy", "", "%w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPolicy+1))
	switch {
	case err != nil:
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "--policy", "", "%w", err)
	case len(data) > maxPolicy:
		return nil, workspace.Errorf(workspace.ErrTooLarge, "--policy", o.policy, "the policy has more than %d bytes", maxPolicy)
	}
	return tools.ParsePolicy(data)
}

// toolSet makes the tools that the flags describe. done ends what calls have
// started.
func (a *app) toolSet(ws *workspace.Workspace, o *toolOptions) (set *tools.Set, done func(), err error) {
	options := tools.Options{Tools: o.tools, Approve: o.approve, Logger: a.ui.logger()}
	if options.Policy, err = o.readPolicy(); err != nil {
		return nil, nil, err
	}
	closeAudit := func() {}
	if o.audit != "" {
		f, err := os.OpenFile(o.audit, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, workspace.Errorf(workspace.ErrInvalidArgument, "--audit", "", "%w", err)
		}
		options.Audit = tools.AuditLog(f, func(err error) { a.ui.warn("--audit: %v", err) })
		closeAudit = func() {
			if err := f.Close(); err != nil {
				a.ui.warn("--audit: %v", err)
			}
		}
	}
	if set, err = tools.NewSet(ws, options); err != nil {
		closeAudit()
		return nil, nil, err
	}
	return set, func() {
		if err := set.Close(); err != nil {
			a.ui.warn("%v", err)
		}
		closeAudit()
	}, nil
}
