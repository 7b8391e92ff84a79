package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/mcpserver"
	"github.com/wsctl/wsctl/workspace"
)

// tokenVariable has the token where there is no file.
const tokenVariable = "WSCTL_MCP_TOKEN"

const (
	// leastToken and mostToken bound a token's length, in characters.
	leastToken = 16
	mostToken  = 4096
)

// httpOptions are the flags that say where and to whom MCP is served over HTTP.
type httpOptions struct {
	address   string
	tokenFile string
	cert, key string
	hosts     list
}

// httpOnly are the flags that mean nothing without --http.
var httpOnly = []string{"token-file", "tls-cert", "tls-key", "allow-host"}

func (o *httpOptions) addFlags(cmd *cobra.Command) {
	o.hosts.name = "NAME"
	f := cmd.Flags()
	f.Var(&named{&o.address, "ADDR"}, "http", "serve over HTTP on this address and port, such as 127.0.0.1:8808, instead of standard input and output")
	f.Var(&named{&o.tokenFile, "FILE"}, "token-file", "file with the token that clients must send, mode 0600 (default: the variable "+tokenVariable+"; beyond a loopback address one is needed)")
	_ = cmd.MarkFlagFilename("token-file")
	f.Var(&named{&o.cert, "FILE"}, "tls-cert", "certificate, PEM (needed beyond a loopback address)")
	_ = cmd.MarkFlagFilename("tls-cert", "pem", "crt")
	f.Var(&named{&o.key, "FILE"}, "tls-key", "its private key, PEM")
	_ = cmd.MarkFlagFilename("tls-key", "pem", "key")
	f.Var(&o.hosts, "allow-host", "name by which clients reach the server, beside that of the address (repeatable)")
}

func (o *httpOptions) check(cmd *cobra.Command) error {
	if o.address == "" {
		for _, name := range append([]string{"http"}, httpOnly...) {
			if cmd.Flags().Changed(name) {
				return usagef(verbOf(cmd), "--%s needs --http ADDR, such as 127.0.0.1:8808", name)
			}
		}
		return nil
	}
	if (o.cert == "") != (o.key == "") {
		return usagef(verbOf(cmd), "--tls-cert and --tls-key go together; give both")
	}
	return nil
}

// serve listens and serves until ctx ends.
func (o *httpOptions) serve(ctx context.Context, a *app, s *mcpserver.Server) error {
	who, err := o.who(a.env)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.address)
	if err != nil {
		return workspace.Errorf(workspace.ErrInvalidArgument, "--http", "", "%w", err)
	}
	scheme := "http"
	if who.TLS != nil {
		scheme = "https"
	}
	if who.Token == "" {
		a.ui.warn("without a token every user of this machine can use the server")
	}
	a.ui.talk(fmt.Sprintf("serving %s://%s%s", scheme, l.Addr(), mcpserver.Path))
	return s.ServeHTTP(ctx, l, who)
}

// who reads what the flags name.
func (o *httpOptions) who(env environment) (who mcpserver.HTTPOptions, err error) {
	who.Hosts = o.hosts.values
	if who.Token, err = o.token(env); err != nil {
		return who, err
	}
	if o.cert == "" {
		return who, nil
	}
	pair, err := tls.LoadX509KeyPair(o.cert, o.key)
	if err != nil {
		return who, workspace.Errorf(workspace.ErrInvalidArgument, "--tls-cert", "", "%w", err)
	}
	who.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return who, nil
}

// token is what clients must send; empty: nothing.
func (o *httpOptions) token(env environment) (string, error) {
	from, text := tokenVariable, env.get(tokenVariable)
	if o.tokenFile != "" {
		from = "--token-file"
		var err error
		if text, err = readToken(o.tokenFile, "make it with: (umask 077; openssl rand -hex 32 >FILE)"); err != nil {
			return "", err
		}
	}
	text = strings.TrimSpace(text)
	if from == tokenVariable && text == "" {
		return "", nil
	}
	// What it is must not be in the message.
	if len(text) < leastToken || len(text) > mostToken || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", workspace.Errorf(workspace.ErrInvalidArgument, from, "", "a token has %d to %d printable ASCII characters; make one with: openssl rand -hex 32", leastToken, mostToken)
	}
	return text, nil
}

// readToken reads a file that nobody else can read; advice is for who has none.
func readToken(name, advice string) (string, error) {
	fail := func(err error) (string, error) {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w; %s", err, advice)
		}
		return "", workspace.Errorf(workspace.ErrInvalidArgument, "--token-file", "", "%w", err)
	}
	fi, err := os.Stat(name)
	if err != nil {
		return fail(err)
	}
	if !fi.Mode().IsRegular() {
		return fail(fmt.Errorf("%s is no regular file", workspace.Printable(name)))
	}
	f, err := os.Open(name)
	if err != nil {
		return fail(err)
	}
	defer f.Close()
	if fi, err = f.Stat(); err != nil {
		return fail(err)
	}
	if fi.Mode().Perm()&0o077 != 0 {
		return fail(fmt.Errorf("%s can be read by others (mode %#o); chmod 600 it, and make a new token", workspace.Printable(name), fi.Mode().Perm()))
	}
	b, err := io.ReadAll(io.LimitReader(f, mostToken+2))
	if err != nil {
		return fail(err)
	}
	return string(b), nil
}
