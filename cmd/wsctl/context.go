//go:build unix

package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/workspace"
)

const contextLong = `Keep servers under names, and choose the one that verbs use when no flag or variable
names another. "default" is the engine of this machine. They are in wsctl/contexts.json
in the user's configuration directory, tokens included, which is readable to the user
alone.`

const contextExample = `  wsctl context create build --remote https://build.example:7777 --token-file token
  wsctl context use build
  wsctl ls
  wsctl context use default`

func newContextCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "context VERB",
		Short:   "Keep servers under names, and choose one",
		Long:    contextLong,
		Example: contextExample,
		Args:    noVerb,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(newContextLsCommand(a), newContextCreateCommand(a), newContextUseCommand(a), newContextRmCommand(a), newContextShowCommand(a))
	return cmd
}

// contextText is a context as it is printed: without its token.
type contextText struct {
	Name        string `json:"name"`
	Current     bool   `json:"current"`
	Remote      string `json:"remote,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	HasToken    bool   `json:"hasToken"`
}

// contextList is what `wsctl context ls --json` prints.
type contextList struct {
	Contexts []contextText `json:"contexts"`
}

func (c contexts) text(name string) contextText {
	e := c.Contexts[name]
	current := c.Current == name || c.Current == "" && name == defaultContext
	return contextText{Name: name, Current: current, Remote: e.Remote, Fingerprint: e.Fingerprint, HasToken: e.Token != ""}
}

func newContextLsCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls",
		Short:   "List the contexts",
		Long:    "List the contexts; a star marks the one in use.",
		Example: "  wsctl context ls",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := readContexts(cmd.Context(), a.env)
			if err != nil {
				return err
			}
			list := contextList{}
			var rows [][]string
			for _, name := range c.names() {
				t := c.text(name)
				list.Contexts = append(list.Contexts, t)
				if t.Current {
					name += " *"
				}
				rows = append(rows, []string{column(name), column(orThisMachine(t.Remote))})
			}
			if asJSON {
				return a.ui.object(list)
			}
			return a.ui.table([]string{"NAME", "REMOTE"}, rows)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func orThisMachine(remote string) string {
	if remote == "" {
		return "(the engine of this machine)"
	}
	return remote
}

func newContextCreateCommand(a *app) *cobra.Command {
	var e endpoint
	var where whereOptions
	cmd := &cobra.Command{
		Use:   "create NAME --remote URL [flags]",
		Short: "Keep a server under a name",
		Long: `Keep a server under a name, with the token of --token-file or the variable
` + serverTokenVariable + `. A context that is there is replaced by rm and create.`,
		Example: "  wsctl context create build --remote https://build.example:7777 --token-file token\n  wsctl context create here --remote unix:/run/wsctl/wsctl.sock",
		Args:    takes(1, 1, "one name"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			switch {
			case name == defaultContext || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" || len(name) > 63:
				return usagef(verbOf(cmd), "%s cannot be a name; use up to 63 letters, digits and -_., and not \"default\"", workspace.Printable(name))
			case e.Remote == "":
				return usagef(verbOf(cmd), "give --remote, such as https://build.example:7777 or unix:/run/wsctl.sock")
			}
			where.remote = e.Remote
			full, err := where.endpoint(cmd.Context(), a.env)
			if err != nil {
				return err
			}
			c, err := full.connect() // which checks it, and asks nobody
			if err != nil {
				return err
			}
			c.Close()
			return changeContexts(cmd.Context(), a.env, func(c *contexts) error {
				if _, taken := c.Contexts[name]; taken {
					return workspace.Errorf(workspace.ErrExists, "context", name, "there is a context of that name; remove it first: wsctl context rm %s", name)
				}
				c.Contexts[name] = *full
				return nil
			})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().Var(&named{&e.Remote, "URL"}, "remote", "the server, https://HOST:PORT or unix:PATH")
	where.addTokenFlags(cmd)
	return cmd
}

func newContextUseCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "use NAME",
		Short:   "Choose the context that verbs use",
		Long:    "Choose the context that verbs use; \"default\" is the engine of this machine.",
		Example: "  wsctl context use build\n  wsctl context use default",
		Args:    takes(1, 1, "one context"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeContexts(cmd.Context(), a.env, func(c *contexts) error {
				_, err := c.endpoint(args[0])
				if err == nil {
					c.Current = args[0]
				}
				return err
			})
		},
		ValidArgsFunction: a.completeContexts,
	}
}

func newContextRmCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "rm NAME…",
		Short:   "Forget contexts",
		Long:    "Forget contexts, with their tokens. Where the one in use goes, \"default\" is used.",
		Example: "  wsctl context rm build",
		Args:    takes(1, -1, "contexts"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return changeContexts(cmd.Context(), a.env, func(c *contexts) error {
				for _, name := range args {
					if _, ok := c.Contexts[name]; !ok {
						return workspace.Errorf(workspace.ErrNotFound, "context", name, "there is no such context to forget; wsctl context ls lists them")
					}
					delete(c.Contexts, name)
					if c.Current == name {
						c.Current = ""
					}
				}
				return nil
			})
		},
		ValidArgsFunction: a.completeContexts,
	}
}

func newContextShowCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show [NAME]",
		Short:   "Tell about a context",
		Long:    "Print the name of the context in use, or with --json what is known of it, or of NAME. No token is printed.",
		Example: "  wsctl context show\n  wsctl context show build --json",
		Args:    takes(0, 1, "at most one context"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := readContexts(cmd.Context(), a.env)
			if err != nil {
				return err
			}
			name := c.Current
			if name == "" {
				name = defaultContext
			}
			if len(args) > 0 {
				name = args[0]
			}
			if _, err := c.endpoint(name); err != nil {
				return err
			}
			t := c.text(name)
			if asJSON {
				return a.ui.object(t)
			}
			return a.ui.table([]string{"NAME", "REMOTE"}, [][]string{{column(name), column(orThisMachine(t.Remote))}})
		},
		ValidArgsFunction: a.completeContexts,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// completeContexts offers the names of contexts.
func (a *app) completeContexts(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	c, err := readContexts(context.WithoutCancel(cmd.Context()), a.env)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.names(), cobra.ShellCompDirectiveNoFileComp
}
