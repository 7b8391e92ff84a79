//go:build unix

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync/atomic"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/orchestrator"
	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
)

// service is what `wsctl serve` consists of. What is nil is not there yet.
type service struct {
	engine       *container.Engine
	orchestrator *orchestrator.Orchestrator
	tokens       *tokenBook
	server       *remote.Server
	listeners    []net.Listener
	log          *slog.Logger
	probe        engineProbe
	draining     atomic.Bool
}

// newService opens everything, and closes it again when a part cannot be.
func (a *app) newService(ctx context.Context, o *serveOptions, log *slog.Logger) (s *service, err error) {
	s = &service{log: log}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.engine, err = a.connect(ctx); err != nil {
		return s, err
	}
	s.probe.engine = s.engine
	cfg, err := a.orchestratorConfig(s.engine, o, log)
	if err != nil {
		return s, err
	}
	if s.orchestrator, err = orchestrator.Open(ctx, cfg); err != nil {
		return s, err
	}
	// The directory is ours from here on.
	if s.tokens, err = openTokenBook(ctx, o.dir, s.orchestrator); err != nil {
		return s, err
	}
	options := remote.Options{Authority: s.tokens.authority, Logger: log}
	options.Routes = append(options.Routes, s.orchestrator.Routes()...)
	options.Routes = append(options.Routes, s.tokens.routes()...)
	options.Routes = append(options.Routes, s.routes()...)
	if o.tcp.address != "" {
		if options.Hosts, err = o.tcp.own(); err != nil {
			return s, err
		}
	}
	if s.server, err = remote.New(s.orchestrator, options); err != nil {
		return s, err
	}
	return s, s.listen(ctx, o)
}

// listen opens the listeners and tells of them.
func (s *service) listen(ctx context.Context, o *serveOptions) error {
	l, err := s.server.Listen("unix:"+o.socket, nil)
	if err != nil {
		return err
	}
	s.listeners = append(s.listeners, l)
	if o.tcp.address != "" {
		config, fingerprint, err := o.tcp.config(ctx, s.tokens.dir)
		if err != nil {
			return err
		}
		l, err := s.server.Listen(o.tcp.address, config)
		if err != nil {
			return err
		}
		s.listeners = append(s.listeners, l)
		facts := []any{"remote", o.tcp.url(l), "listen", l.Addr().String()}
		if fingerprint != "" {
			facts = append(facts, "fingerprint", fingerprint)
		}
		s.log.Info("serving", facts...)
	}
	s.log.Info("serving", "remote", socketScheme+o.socket, "dir", o.dir)
	return nil
}

// close lets everything go. Containers stay.
func (s *service) close() error {
	for _, l := range s.listeners {
		_ = l.Close() // Serve may have done it
	}
	if s.server != nil {
		s.server.Close()
	}
	var err error
	if s.orchestrator != nil {
		err = s.orchestrator.Close()
	}
	if s.tokens != nil {
		s.tokens.close()
	}
	if s.engine != nil {
		err = errors.Join(err, s.engine.Close())
	}
	return err
}

// orchestratorConfig is what the flags say of the workspaces.
func (a *app) orchestratorConfig(e *container.Engine, o *serveOptions, log *slog.Logger) (orchestrator.Config, error) {
	c, err := a.containerOptions(e, &o.place)
	if err != nil {
		return orchestrator.Config{}, err
	}
	// Workspaces choose images, and with some of them only a static keeper runs.
	self, err := os.Executable()
	if err == nil {
		c.Keeper, _ = container.FindKeeper(self, container.KeeperTarget{Arch: e.Info().Arch})
	}
	c.Logger, c.Root.Logger = log, log
	cfg := orchestrator.Config{
		Dir:         o.dir,
		Directories: o.roots.values,
		Templates:   o.templates,
		Limits:      orchestrator.Limits{Memory: c.Memory, CPUs: c.CPUs, Pids: c.Pids},
		Budget: orchestrator.Budget{
			Workspaces: int(o.budget.workspaces.value), Running: int(o.budget.running.value),
			Memory: o.budget.memory.value, CPUs: o.budget.cpus.value,
		},
		Pool:      int(o.pool.value),
		Snapshots: a.serverSnapshots,
		Options:   workspace.Options{Logger: log},
		Logger:    log,
		Backends: func(prefix string) map[string]orchestrator.Backend {
			all := map[string]orchestrator.Backend{
				driverContainer: orchestrator.ContainerBackend{Engine: e, Options: c, Prefix: prefix},
			}
			if o.hostDriver {
				all[driverHost] = orchestrator.HostBackend{Options: host.Options{
					Root: host.RootOptions{Logger: log}, Env: (&envOptions{}).hostBase(a.env), Keeper: ownKeeper(), Logger: log,
				}}
			}
			return all
		},
	}
	return cfg, nil
}

// config is the TLS of the server, nil for none, and the fingerprint of a
// certificate of its own, which it keeps in dir.
func (o *listenOptions) config(ctx context.Context, dir privateDir) (*tls.Config, string, error) {
	var cert, key, clients []byte
	var err error
	read := func(flag, name string) []byte {
		if name == "" || err != nil {
			return nil
		}
		b, readErr := os.ReadFile(name)
		if readErr != nil {
			err = workspace.Errorf(workspace.ErrInvalidArgument, flag, "", "%w", readErr)
		}
		return b
	}
	cert, key, clients = read("--tls-cert", o.cert), read("--tls-key", o.key), read("--tls-clients", o.clients)
	if err != nil || !o.self && cert == nil {
		return nil, "", err
	}
	fingerprint := ""
	if o.self {
		names, err := o.own()
		if err != nil {
			return nil, "", err
		}
		if cert, key, err = ownCertificate(ctx, dir, names); err != nil {
			return nil, "", err
		}
		if fingerprint, err = remote.Fingerprint(cert); err != nil {
			return nil, "", err
		}
	}
	config, err := remote.ServerTLS(cert, key, clients)
	return config, fingerprint, err
}
