//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/workspace"
)

const serveLong = `Look after many workspaces for many clients, over a Unix socket and, with --listen,
over TCP. The verbs about workspaces reach them with --remote.

Who may connect to the socket is the user that the server runs as, and root; they
may do everything. Over TCP a token is needed ("wsctl token new"), and beyond this
machine TLS too. What the server knows is in --dir. It can be killed at any moment:
the next one takes over what runs. At SIGTERM and Ctrl-C it refuses new work, lets
what is under way end for --drain at most, and goes; containers stay.

The flags of the sandbox are defaults: a workspace may ask for another image,
network and limits. Its own directory is new, or with --allow-root one that is there
already. It is told on standard error how clients connect.`

const serveExample = `  wsctl serve
  wsctl serve --allow-root ~/src --pool 4 --max-running 20 --max-memory 32g
  wsctl serve --listen 0.0.0.0:7777 --tls-self --host-name build.example
  wsctl up --remote unix:$XDG_RUNTIME_DIR/wsctl.sock app`

// serveOptions are the flags of serve.
type serveOptions struct {
	dir, socket string
	tcp         listenOptions
	roots       list
	templates   string
	pool        count
	budget      budgetOptions
	hostDriver  bool
	drain       duration
	logFormat   choice
	place       placeOptions
}

// budgetOptions are the flags that bound what all workspaces take together.
type budgetOptions struct {
	workspaces, running count
	memory              size
	cpus                cpus
}

const (
	logText = "text"
	logJSON = "json"
)

// maxMany is more workspaces than a machine has.
const maxMany = 1 << 20

func newServeCommand(a *app) *cobra.Command {
	o := serveOptions{
		drain:     duration{value: 30 * time.Second, most: time.Hour},
		logFormat: choice{value: logText, words: []string{logText, logJSON}},
	}
	cmd := &cobra.Command{
		Use:     "serve [flags]",
		Short:   "Look after many workspaces for many clients",
		Long:    serveLong,
		Example: serveExample,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(o.place.check(cmd), o.tcp.check(cmd)); err != nil {
				return err
			}
			return a.serve(cmd.Context(), &o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o.roots.name = "DIR"
	o.pool = count{most: 1000}
	o.budget = budgetOptions{
		workspaces: count{most: maxMany}, running: count{most: maxMany}, memory: size{least: 6 << 20, most: 1 << 50},
	}
	f := cmd.Flags()
	f.Var(&named{&o.dir, "DIR"}, "dir", "directory of the server, for its database, keys and the roots that it makes (default: wsctl/server in XDG_STATE_HOME or ~/.local/state)")
	_ = cmd.MarkFlagDirname("dir")
	f.Var(&named{&o.socket, "PATH"}, "socket", "Unix socket to listen on (default: wsctl.sock in XDG_RUNTIME_DIR, else in the directory of the server)")
	o.tcp.addFlags(cmd)
	f.Var(&o.roots, "allow-root", "directory below which workspaces may be over what is there (repeatable; default: none may)")
	_ = cmd.MarkFlagDirname("allow-root")
	f.Var(&named{&o.templates, "DIR"}, "templates", "directory of directories that a workspace can begin as a copy of")
	_ = cmd.MarkFlagDirname("templates")
	f.Var(&o.pool, "pool", "how many workspaces wait ready for who asks (default 0)")
	f.Var(&o.budget.workspaces, "max-workspaces", "how many workspaces there may be (default: no limit)")
	f.Var(&o.budget.running, "max-running", "how many may run at once; more wait for room (default: no limit)")
	f.Var(&o.budget.memory, "max-memory", "what the limits of those that run may add up to (default: no limit)")
	f.Var(&o.budget.cpus, "max-cpus", "processors that their limits may add up to (default: no limit)")
	f.BoolVar(&o.hostDriver, "allow-host", false, "allow workspaces whose commands run on this machine, confined by nothing")
	f.Var(&o.drain, "drain", "how long what is under way may take to end when the server is told to (default 30s)")
	addChoice(cmd, &o.logFormat, "log-format", "how the log on standard error is written")
	o.place.addContainerFlags(cmd)
	return cmd
}

func (a *app) serve(ctx context.Context, o *serveOptions) error {
	ctx, stop := untilSignal(ctx)
	defer stop()
	if err := o.places(a.env); err != nil {
		return err
	}
	log := o.logger(a.ui)
	s, err := a.newService(ctx, o, log)
	if err != nil {
		return stopped(ctx, err)
	}
	return s.run(ctx, stop, o.drain.value)
}

// places finds out where what no flag names is.
func (o *serveOptions) places(env environment) error {
	if o.dir == "" {
		state := env.stateDir()
		if state == "" {
			return usagef("serve", "neither XDG_STATE_HOME nor HOME is an absolute path; give --dir")
		}
		o.dir = filepath.Join(state, serverDir)
	}
	o.dir = absolute(o.dir)
	if o.socket == "" {
		o.socket = env.serverSocket(o.dir)
	}
	o.socket = absolute(o.socket)
	for i, dir := range o.roots.values {
		o.roots.values[i] = absolute(dir)
	}
	if o.templates != "" {
		o.templates = absolute(o.templates)
	}
	return nil
}

func (o *serveOptions) logger(u *ui) *slog.Logger {
	if o.logFormat.value == logJSON {
		return slog.New(slog.NewJSONHandler(u.err, nil))
	}
	return slog.New(slog.NewTextHandler(u.err, nil))
}

// run serves until ctx ends, lets what is under way end for as long as drain, and
// closes everything. A second signal ends it at once.
func (s *service) run(ctx context.Context, again func(), drain time.Duration) (err error) {
	defer func() { err = errors.Join(err, s.close()) }()
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	over := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		go func(l net.Listener) { over <- s.server.Serve(serving, l) }(l)
	}
	left := len(s.listeners)
	select {
	case <-ctx.Done():
	case err = <-over:
		left--
	}
	again()
	s.draining.Store(true)
	s.log.Info("the server is going down", "drain", drain)
	late, cancel := context.WithTimeout(context.Background(), drain)
	late, stop := untilSignal(late)
	if undone := s.orchestrator.Drain(late); undone != nil {
		s.log.Warn("what is under way is ended", "reason", undone)
	}
	stop()
	cancel()
	end()
	for ; left > 0; left-- {
		err = cmp.Or(err, <-over)
	}
	return err
}

// listenOptions are the flags about TCP.
type listenOptions struct {
	address   string
	cert, key string
	clients   string
	self      bool
	names     list
}

func (o *listenOptions) addFlags(cmd *cobra.Command) {
	o.names.name = "NAME"
	f := cmd.Flags()
	f.Var(&named{&o.address, "ADDR"}, "listen", "listen on this address and port too, such as 127.0.0.1:7777; beyond loopback it needs TLS")
	f.Var(&named{&o.cert, "FILE"}, "tls-cert", "certificate of the server, PEM")
	_ = cmd.MarkFlagFilename("tls-cert", "pem", "crt")
	f.Var(&named{&o.key, "FILE"}, "tls-key", "its private key, PEM")
	_ = cmd.MarkFlagFilename("tls-key", "pem", "key")
	f.BoolVar(&o.self, "tls-self", false, "use a certificate of its own, which clients know by its fingerprint")
	f.Var(&named{&o.clients, "FILE"}, "tls-clients", "certificates, PEM, of clients or their authorities; others cannot connect")
	_ = cmd.MarkFlagFilename("tls-clients", "pem", "crt")
	f.Var(&o.names, "host-name", "name by which clients reach the server (repeatable)")
}

func (o *listenOptions) check(cmd *cobra.Command) error {
	verb := verbOf(cmd)
	if o.address == "" {
		for _, name := range []string{"listen", "tls-cert", "tls-key", "tls-self", "tls-clients", "host-name"} {
			if cmd.Flags().Changed(name) {
				return usagef(verb, "--%s needs --listen ADDR, such as 127.0.0.1:7777", name)
			}
		}
		return nil
	}
	switch {
	case (o.cert == "") != (o.key == ""):
		return usagef(verb, "--tls-cert and --tls-key go together; give both")
	case o.self && o.cert != "":
		return usagef(verb, "--tls-self and --tls-cert do not go together; leave one out")
	case o.clients != "" && !o.self && o.cert == "":
		return usagef(verb, "--tls-clients needs --tls-cert or --tls-self")
	}
	return nil
}

// own are the names and addresses of the server for certificates and the Host of
// requests.
func (o *listenOptions) own() ([]string, error) {
	names := append([]string{"localhost", "127.0.0.1", "::1"}, o.names.values...)
	at, _, err := net.SplitHostPort(o.address)
	if err != nil {
		return nil, workspace.Errorf(workspace.ErrInvalidArgument, "--listen", "", "%q is no HOST:PORT", o.address)
	}
	if ip := net.ParseIP(at); at != "" && (ip == nil || !ip.IsUnspecified()) {
		names = append(names, at)
	}
	return names, nil
}

// url is how clients name the server that listens on l.
func (o *listenOptions) url(l net.Listener) string {
	scheme := "http"
	if o.self || o.cert != "" {
		scheme = "https"
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	host, _, _ := net.SplitHostPort(o.address)
	if len(o.names.values) > 0 {
		host = o.names.values[0]
	}
	return fmt.Sprintf("%s://%s", scheme, net.JoinHostPort(host, port))
}
