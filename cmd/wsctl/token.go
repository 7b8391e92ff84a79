//go:build unix

package main

import (
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

const tokenLong = `Make, narrow, revoke and list the tokens of a server ("wsctl serve").

A token says what its holder may do (scopes), in which workspaces, below which
directory and until when. No scope includes another: who may read may not therefore
run commands. Tokens are made, listed and revoked over the Unix socket of the server,
which its owner alone can use. Whoever has a token can narrow it, without the server.
A token is printed once and kept nowhere; keep it in a file of mode 0600.`

const tokenExample = `  (umask 077; wsctl token new --scopes read,exec --workspaces app --expires 8h >token)
  wsctl token narrow --token-file token --scopes read >reader
  wsctl token ls
  wsctl token revoke 3f2a`

func newTokenCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "token VERB",
		Short:   "Make, narrow, revoke and list the tokens of a server",
		Long:    tokenLong,
		Example: tokenExample,
		Args:    noVerb,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(newTokenNewCommand(a), newTokenNarrowCommand(a), newTokenRevokeCommand(a), newTokenLsCommand(a))
	return cmd
}

// socketOption is the flag that says which server a verb of its owner is for.
type socketOption struct{ path string }

func (o *socketOption) addFlags(cmd *cobra.Command) {
	cmd.Flags().Var(&named{&o.path, "PATH"}, "socket", "Unix socket of the server (default: where \"wsctl serve\" has it)")
}

// connect connects as the owner.
func (o *socketOption) connect(a *app) (*connection, error) {
	e := endpoint{Remote: socketScheme + absolute(o.path)}
	if o.path == "" {
		e.Remote = a.ownServer()
	}
	return e.connect()
}

// grantOptions are the flags that say what a token allows.
type grantOptions struct {
	name       string
	scopes     []string
	workspaces []string
	prefix     string
	expires    duration
}

// maxExpiry bounds --expires.
const maxExpiry = 10 * 365 * 24 * time.Hour

// addFlags adds them; unset says what holds where one is not given.
func (o *grantOptions) addFlags(cmd *cobra.Command, unset string) {
	o.expires.most = maxExpiry
	f := cmd.Flags()
	f.Var(&named{&o.name, "NAME"}, "name", "whose token it is, for the audit log")
	f.Var(&names{&o.scopes, "SCOPE,…"}, "scopes", "what it is for: read, write, exec, admin")
	_ = cmd.RegisterFlagCompletionFunc("scopes", cobra.FixedCompletions([]string{"read", "write", "exec", "admin"}, cobra.ShellCompDirectiveNoFileComp))
	f.Var(&names{&o.workspaces, "NAME,…"}, "workspaces", "only these workspaces"+unset)
	f.Var(&named{&o.prefix, "DIR"}, "prefix", "only the files below this directory of the root: no commands, no snapshots")
}

func (o *grantOptions) scopeList() []remote.Scope {
	var all []remote.Scope
	for _, s := range o.scopes {
		all = append(all, remote.Scope(strings.TrimSpace(s)))
	}
	return all
}

const tokenNewLong = `Make a token and print it, this once. Workspaces are named by name or id, and the
token is for those that have these names now.`

func newTokenNewCommand(a *app) *cobra.Command {
	var grant grantOptions
	var socket socketOption
	var asJSON bool
	grant.expires.value = 24 * time.Hour
	cmd := &cobra.Command{
		Use:     "new --scopes SCOPE,… [flags]",
		Short:   "Make a token",
		Long:    tokenNewLong,
		Example: "  (umask 077; wsctl token new --scopes read,exec --workspaces app --expires 8h >token)\n  wsctl token new --name ci --scopes read,write,exec,admin --expires 2160h",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case len(grant.scopes) == 0:
				return usagef(verbOf(cmd), "give --scopes, some of read,write,exec,admin")
			case grant.expires.value == 0:
				return usagef(verbOf(cmd), "a token ends some time; give --expires, such as 8h")
			}
			c, err := socket.connect(a)
			if err != nil {
				return err
			}
			defer c.Close()
			wish := tokenWish{
				Name: grant.name, Scopes: grant.scopeList(), Workspaces: grant.workspaces, Prefix: grant.prefix, Expires: time.Now().Add(grant.expires.value),
			}
			var made newToken
			if err := c.plain.Call(cmd.Context(), "token", "POST", tokensPath, nil, wish, &made); err != nil {
				return err
			}
			if asJSON {
				return a.ui.object(made)
			}
			return a.ui.result([]byte(workspace.Printable(made.Token) + "\n"))
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	grant.addFlags(cmd, " (default: all)")
	cmd.Flags().Var(&grant.expires, "expires", "how long it is good (default 24h)")
	socket.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

const tokenNarrowLong = `Make of a token one that allows less, and print it. No server is asked. The token is
read from --token-file, the variable ` + serverTokenVariable + `, or standard input. Revoking a token
ends all that were narrowed from it. Workspaces are named by id.`

// narrowedToken is what `wsctl token narrow --json` prints.
type narrowedToken struct {
	ID    string `json:"id"`
	Token string `json:"token"`
}

func newTokenNarrowCommand(a *app) *cobra.Command {
	var grant grantOptions
	var file string
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "narrow [flags]",
		Short:   "Make a token that allows less, without the server",
		Long:    tokenNarrowLong,
		Example: "  wsctl token narrow --token-file token --scopes read --prefix docs --expires 1h >reader",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := a.tokenToNarrow(file)
			if err != nil {
				return err
			}
			g := remote.Grant{Name: grant.name, Scopes: grant.scopeList(), Workspaces: grant.workspaces, Prefix: grant.prefix}
			if grant.expires.value > 0 {
				g.Expires = time.Now().Add(grant.expires.value)
			}
			t, err := remote.Token(text).Narrow(g)
			if err != nil {
				return err
			}
			if !asJSON {
				return a.ui.result([]byte(string(t) + "\n"))
			}
			id, err := t.ID()
			if err != nil {
				return err
			}
			return a.ui.object(narrowedToken{id, string(t)})
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	grant.addFlags(cmd, " (default: as before)")
	f := cmd.Flags()
	f.Var(&grant.expires, "expires", "how long it is good from now on, if the token is that long (default: as before)")
	f.Var(&named{&file, "FILE"}, "token-file", "file with the token, mode 0600")
	_ = cmd.MarkFlagFilename("token-file")
	f.BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// tokenToNarrow reads the token from where it is.
func (a *app) tokenToNarrow(file string) (string, error) {
	if file != "" {
		return readServerToken(file)
	}
	if text := a.env.get(serverTokenVariable); text != "" {
		return strings.TrimSpace(text), nil
	}
	b, err := io.ReadAll(io.LimitReader(a.ui.in, mostToken+2))
	if err != nil {
		return "", workspace.Errorf(workspace.ErrIO, "token narrow", "", "standard input: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

func newTokenRevokeCommand(a *app) *cobra.Command {
	var socket socketOption
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "revoke ID…",
		Short: "End tokens before their time",
		Long: `End tokens, by their ids or, for those that are listed, the beginning of one. What
is under way with them ends too, and tokens that were narrowed from them are no good.
The server knows it for ever. Each id is printed.`,
		Example: "  wsctl token revoke 3f2a",
		Args:    takes(1, -1, "ids of tokens; wsctl token ls lists them"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := socket.connect(a)
			if err != nil {
				return err
			}
			defer c.Close()
			var done tokenIDs
			if err := c.plain.Call(cmd.Context(), "token", "POST", tokensPath+"/revoke", nil, tokenIDs{args}, &done); err != nil {
				return err
			}
			if asJSON {
				return a.ui.object(done)
			}
			return a.ui.result([]byte(workspace.Printable(strings.Join(done.IDs, " ")) + "\n"))
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	socket.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func newTokenLsCommand(a *app) *cobra.Command {
	var socket socketOption
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the tokens of a server",
		Long: `List the tokens that a server has issued, without what is secret of them. Tokens that
were narrowed from them are not known to the server. One is listed for 30 days after
its end.`,
		Example: "  wsctl token ls\n  wsctl token ls --json | jq -r '.tokens[] | select(.revoked | not) | .id'",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := socket.connect(a)
			if err != nil {
				return err
			}
			defer c.Close()
			list := tokenList{Tokens: []issuedToken{}}
			if err := c.plain.Call(cmd.Context(), "token", "GET", tokensPath, nil, nil, &list); err != nil {
				return err
			}
			if asJSON {
				return a.ui.object(list)
			}
			now := time.Now()
			rows := make([][]string, 0, len(list.Tokens))
			for _, t := range list.Tokens {
				rows = append(rows, []string{
					column(t.ID[:min(len(t.ID), 12)]), column(t.Name), column(joined(t.Scopes)), column(strings.Join(t.Workspaces, ",")), column(t.Prefix), tokenEnd(now, t),
				})
			}
			return a.ui.table([]string{"ID", "NAME", "SCOPES", "WORKSPACES", "PREFIX", "EXPIRES"}, rows)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	socket.addFlags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

// tokenEnd prints when a token ends, or that it has.
func tokenEnd(now time.Time, t issuedToken) string {
	switch {
	case t.Revoked:
		return "revoked"
	case !t.Expires.After(now):
		return "expired"
	}
	return expiry(now, &t.Expires)
}

func joined(scopes []remote.Scope) string {
	var all []string
	for _, s := range scopes {
		all = append(all, string(s))
	}
	return strings.Join(all, ",")
}
