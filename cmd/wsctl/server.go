//go:build unix

package main

import (
	"context"
	"crypto/tls"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// Variables that say which server is meant, where no flag does.
const (
	remoteVariable      = "WSCTL_REMOTE"
	serverTokenVariable = "WSCTL_TOKEN"
	contextVariable     = "WSCTL_CONTEXT"
)

// serverDir is the directory of the user's own server, below the state directory.
const serverDir = "server"

// socketScheme begins the address of a server on a Unix socket.
const socketScheme = "unix:"

// whereOptions are the flags that say where workspaces are: on the engine of this
// machine, or on a server.
type whereOptions struct {
	remote    string
	context   string
	tokenFile string
	pin       string
}

func (o *whereOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&named{&o.remote, "URL"}, "remote", "server to ask, https://HOST:PORT or unix:PATH (default: the variable "+remoteVariable+", else the context)")
	f.Var(&named{&o.context, "NAME"}, "context", "context to use, \"default\" for the engine of this machine (default: the variable "+contextVariable+", else what \"wsctl context use\" chose)")
	o.addTokenFlags(cmd)
}

// addTokenFlags adds the flags about what is shown to a server and asked of it.
func (o *whereOptions) addTokenFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(&named{&o.tokenFile, "FILE"}, "token-file", "file with the token for the server, mode 0600 (default: the variable "+serverTokenVariable+", else that of the context)")
	_ = cmd.MarkFlagFilename("token-file")
	f.Var(&named{&o.pin, "SHA256"}, "fingerprint", "trust the server whose certificate has this fingerprint, and no other")
}

// endpoint is a server and what is needed to use it.
type endpoint struct {
	// Remote is an URL, or unix: and a path.
	Remote      string `json:"remote"`
	Token       string `json:"token,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
}

// endpoint finds out which server is meant; nil: none, but the engine.
func (o *whereOptions) endpoint(ctx context.Context, env environment) (*endpoint, error) {
	e, err := o.chosen(ctx, env)
	if err != nil || e == nil {
		if err == nil && (o.tokenFile != "" || o.pin != "") {
			err = workspace.Errorf(workspace.ErrInvalidArgument, "remote", "", "--token-file and --fingerprint are for a server; name it with --remote")
		}
		return nil, err
	}
	if o.pin != "" {
		e.Fingerprint = o.pin
	}
	if token := env.get(serverTokenVariable); token != "" {
		e.Token = strings.TrimSpace(token)
	}
	if o.tokenFile != "" {
		text, err := readServerToken(o.tokenFile)
		if err != nil {
			return nil, err
		}
		e.Token = text
	}
	return e, nil
}

func readServerToken(name string) (string, error) {
	text, err := readToken(name, "who runs the server makes it with: (umask 077; wsctl token new … >FILE)")
	return strings.TrimSpace(text), err
}

// chosen is the server that flags, variables and contexts name, in this order.
func (o *whereOptions) chosen(ctx context.Context, env environment) (*endpoint, error) {
	if o.remote != "" && o.context != "" {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "remote", "", "--remote and --context are both given; use one")
	}
	if o.remote != "" {
		return &endpoint{Remote: o.remote}, nil
	}
	if url := env.get(remoteVariable); url != "" && o.context == "" {
		return &endpoint{Remote: url}, nil
	}
	name := o.context
	if name == "" {
		name = env.get(contextVariable)
	}
	c, err := readContexts(ctx, env)
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = c.Current
	}
	return c.endpoint(name)
}

// connection is a server that can be asked.
type connection struct {
	*orchestrator.Client
	plain *remote.Client
}

// connect makes a connection. Nothing is sent.
func (e *endpoint) connect() (*connection, error) {
	address, options := e.Remote, remote.DialOptions{}
	if path, ok := strings.CutPrefix(e.Remote, socketScheme); ok {
		path = strings.TrimPrefix(path, "//")
		if !filepath.IsAbs(path) {
			return nil, workspace.Errorf(workspace.ErrInvalidArgument, "remote", path, "the path of a socket is absolute, as in unix:/run/wsctl.sock")
		}
		address, options.Socket = "http://localhost", path
	}
	if e.Fingerprint != "" {
		var err error
		var trust *tls.Config
		if trust, err = remote.Pinned(e.Fingerprint); err != nil {
			return nil, err
		}
		options.TLS = trust
	}
	token := remote.Token(e.Token)
	c, err := orchestrator.NewClient(address, token, options)
	if err != nil {
		return nil, err
	}
	plain, err := remote.NewClient(address, token, options)
	if err != nil {
		c.Close()
		return nil, err
	}
	return &connection{c, plain}, nil
}

// Close lets the connections go.
func (c *connection) Close() {
	c.Client.Close()
	c.plain.Close()
}

// server connects to the server that is meant, which for verbs about servers alone
// is the user's own where none is named.
func (a *app) server(ctx context.Context, o *whereOptions) (*connection, error) {
	e, err := o.endpoint(ctx, a.env)
	if err != nil {
		return nil, err
	}
	if e == nil {
		e = &endpoint{Remote: a.ownServer()}
	}
	return e.connect()
}

// ownServer is the address of the user's own server, where no flag moves it.
func (a *app) ownServer() string {
	return socketScheme + a.env.serverSocket(filepath.Join(a.env.stateDir(), serverDir))
}
