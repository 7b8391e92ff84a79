package container

import (
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"
	"github.com/docker/go-connections/tlsconfig"

	"github.com/wsctl/wsctl/workspace"
)

const (
	// dialTimeout bounds making a connection to the engine.
	dialTimeout = 3 * time.Second
	// connectTimeout bounds Connect: an engine that accepts and says nothing
	// is told as what it is, in seconds.
	connectTimeout = 5 * time.Second
	// minAPI is the oldest API that can express the create request:
	// CgroupnsMode came with it (Engine 20.10).
	minAPI = "1.41"
)

// EngineOptions say where the engine is.
type EngineOptions struct {
	// Host is its address as in DOCKER_HOST: unix:///path or tcp://host:port;
	// empty: the socket where Docker puts it. TCP to another machine needs
	// CertDir: whoever reaches an open engine is root there.
	Host string
	// CertDir holds ca.pem, cert.pem and key.pem for TLS, as DOCKER_CERT_PATH
	// does; empty: no TLS.
	CertDir string
}

// Engine is a Docker engine that has answered. All methods may be called by many
// goroutines at once. No configuration file of docker's is read here, neither the
// user's nor one in a workspace.
type Engine struct {
	cli  *client.Client
	info EngineInfo
	// learned: info is all of it; else only Host is known.
	learned bool
}

// EngineInfo is what an engine says of itself, read once by Connect.
type EngineInfo struct {
	// Host is the address it was reached at.
	Host string `json:"host"`
	// Version is the engine's, API the negotiated version of its API.
	Version string `json:"version"`
	API     string `json:"api"`
	// System, Kernel and Arch are of the machine it runs on; Arch is spelled
	// as uname(1) does. MachineName is that machine's host name.
	System      string `json:"system"`
	Kernel      string `json:"kernel"`
	Arch        string `json:"arch"`
	MachineName string `json:"machineName"`
	// Cgroup is the version of the cgroup hierarchy, "1" or "2".
	Cgroup string `json:"cgroup"`
	// Rootless and UserNS report an engine whose root is not the machine's.
	Rootless bool `json:"rootless"`
	UserNS   bool `json:"userns"`
	// Seccomp, AppArmor and SELinux report what the engine confines with.
	Seccomp  bool `json:"seccomp"`
	AppArmor bool `json:"apparmor"`
	SELinux  bool `json:"selinux"`
	// MemoryLimit, SwapLimit, PidsLimit and CPULimit report which limits it
	// can set.
	MemoryLimit bool `json:"memoryLimit"`
	SwapLimit   bool `json:"swapLimit"`
	PidsLimit   bool `json:"pidsLimit"`
	CPULimit    bool `json:"cpuLimit"`
	// Runtime is the default one.
	Runtime string `json:"runtime"`
	// Runtimes are the names of all, sorted; nil where the engine does not
	// tell.
	Runtimes []string `json:"runtimes,omitempty"`
	// DataRoot is the engine's own directory on its machine.
	DataRoot string `json:"dataRoot"`
	// Warnings are the engine's own about its machine.
	Warnings []string `json:"warnings,omitempty"`
}

// Connect finds the engine and reads what it is, within seconds. Every failure
// is UNAVAILABLE with the cause and what to do; a context that ends is ABORTED.
func Connect(ctx context.Context, o EngineOptions) (*Engine, error) {
	return connect(ctx, o, true)
}

// Dial is Connect without the question what the engine is, which takes it longer
// than all that a command in a detached workspace needs. Adopt and what is done to
// a Detached work with such an engine; Info has its address alone.
func Dial(ctx context.Context, o EngineOptions) (*Engine, error) {
	return connect(ctx, o, false)
}

func connect(ctx context.Context, o EngineOptions, learn bool) (*Engine, error) {
	const op = "connect"
	if o.Host == "" {
		o.Host = client.DefaultDockerHost
	}
	cli, d, err := newClient(o)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	e := &Engine{cli: cli}
	// The Docker client keeps the cause of a failed connection to itself.
	err = d.try(bounded)
	if err == nil {
		err = e.negotiate(bounded, o.Host)
	}
	if err == nil && learn {
		err = e.learn(bounded)
	}
	if err != nil {
		_ = cli.Close()
		if ctx.Err() != nil {
			return nil, workspace.Errorf(workspace.ErrAborted, op, "", "connecting to the engine at %s: %w", o.Host, ctx.Err())
		}
		var told *workspace.Error
		if errors.As(err, &told) {
			return nil, err
		}
		return nil, connectError(o.Host, err)
	}
	return e, nil
}

// newClient makes a client that has not spoken to anybody yet.
func newClient(o EngineOptions) (*client.Client, dialer, error) {
	const op = "connect"
	u, err := client.ParseHostURL(o.Host)
	if err != nil || u.Host == "" {
		return nil, dialer{}, workspace.Errorf(workspace.ErrUnavailable, op, "", "%s is not an address of a Docker engine; write unix:///path/to/docker.sock or tcp://host:port", workspace.Printable(o.Host))
	}
	var secure *tls.Config
	switch u.Scheme {
	case "unix":
	case "tcp":
		if o.CertDir != "" {
			secure, err = tlsconfig.Client(tlsconfig.Options{
				CAFile:             filepath.Join(o.CertDir, "ca.pem"),
				CertFile:           filepath.Join(o.CertDir, "cert.pem"),
				KeyFile:            filepath.Join(o.CertDir, "key.pem"),
				ExclusiveRootPools: true,
			})
			if err != nil {
				return nil, dialer{}, workspace.Errorf(workspace.ErrUnavailable, op, "", "TLS files for the engine at %s: %w", o.Host, err)
			}
			if secure.ServerName, _, err = net.SplitHostPort(u.Host); err != nil {
				return nil, dialer{}, workspace.Errorf(workspace.ErrUnavailable, op, "", "%s is not an address of a Docker engine; write tcp://host:port", workspace.Printable(o.Host))
			}
		} else if !loopback(u.Host) {
			return nil, dialer{}, workspace.Errorf(workspace.ErrUnavailable, op, "", "the engine at %s is on another machine and there are no TLS files for it: anybody who can reach it is root there; name their directory, or forward its socket (ssh -L /path/docker.sock:/var/run/docker.sock) and use unix:///path/docker.sock", o.Host)
		}
	default:
		return nil, dialer{}, workspace.Errorf(workspace.ErrUnavailable, op, "", "wsctl does not speak %s:// to an engine (%s); for ssh, forward its socket (ssh -L /path/docker.sock:/var/run/docker.sock) and use unix:///path/docker.sock", u.Scheme, workspace.Printable(o.Host))
	}
	d := dialer{network: u.Scheme, address: u.Host, tls: secure}
	cli, err := client.NewClientWithOpts(
		client.WithHTTPClient(&http.Client{Transport: &http.Transport{}, CheckRedirect: client.CheckRedirect}),
		client.WithHost(o.Host),
		client.WithDialContext(d.dial),
		client.WithAPIVersionNegotiation(),
	)
	if err != nil {
		return nil, dialer{}, workspace.Errorf(workspace.ErrUnavailable, op, "", "client for the engine at %s: %w", workspace.Printable(o.Host), err)
	}
	return cli, d, nil
}

// loopback tells whether host:port is this machine.
func loopback(hostPort string) bool {
	name, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		name = hostPort
	}
	return name == "localhost" || net.ParseIP(name).IsLoopback()
}

// negotiate asks the engine whether it is one, and which API it speaks.
func (e *Engine) negotiate(ctx context.Context, host string) error {
	const op = "connect"
	ping, err := e.cli.Ping(ctx)
	if err != nil {
		return err
	}
	if ping.APIVersion == "" {
		return workspace.Errorf(workspace.ErrUnavailable, op, "", "what answers at %s is not a Docker engine (no API version in its answer); check the address", host)
	}
	if versions.LessThan(ping.APIVersion, minAPI) {
		return workspace.Errorf(workspace.ErrUnavailable, op, "", "the engine at %s speaks API %s; wsctl needs %s, which Docker Engine 20.10 and later have", host, ping.APIVersion, minAPI)
	}
	e.cli.NegotiateAPIVersionPing(ping)
	e.info.Host = host
	return nil
}

// learn asks the engine what it is.
func (e *Engine) learn(ctx context.Context) error {
	const op = "connect"
	info, err := e.cli.Info(ctx)
	if err != nil {
		return err
	}
	if info.OSType != "linux" {
		return workspace.Errorf(workspace.ErrUnavailable, op, "", "the engine at %s runs %s containers; switch it to Linux containers", e.info.Host, info.OSType)
	}
	e.info, e.learned = newEngineInfo(e.info.Host, e.cli.ClientVersion(), info), true
	return nil
}

// newEngineInfo picks from the engine's answer what matters here.
func newEngineInfo(host, api string, i system.Info) EngineInfo {
	// Each option is "name=seccomp,profile=default" or the like.
	has := func(name string) bool {
		return slices.ContainsFunc(i.SecurityOptions, func(o string) bool {
			return o == "name="+name || strings.HasPrefix(o, "name="+name+",")
		})
	}
	return EngineInfo{
		Host: host, Version: i.ServerVersion, API: api,
		System: i.OperatingSystem, Kernel: i.KernelVersion, Arch: i.Architecture, MachineName: i.Name,
		Cgroup: i.CgroupVersion, Rootless: has("rootless"), UserNS: has("userns"),
		Seccomp: has("seccomp"), AppArmor: has("apparmor"), SELinux: has("selinux"),
		MemoryLimit: i.MemoryLimit, SwapLimit: i.SwapLimit, PidsLimit: i.PidsLimit, CPULimit: i.CPUCfsQuota,
		Runtime: i.DefaultRuntime, Runtimes: slices.Sorted(maps.Keys(i.Runtimes)), DataRoot: i.DockerRootDir, Warnings: i.Warnings,
	}
}

// API is the client, for what this package does not do itself. It must not be
// closed; Close of the Engine does that.
func (e *Engine) API() *client.Client { return e.cli }

// Info is what Connect learned.
func (e *Engine) Info() EngineInfo {
	info := e.info
	info.Warnings, info.Runtimes = slices.Clone(info.Warnings), slices.Clone(info.Runtimes)
	return info
}

// Close drops the idle connections. Drivers over this engine must be closed
// before.
func (e *Engine) Close() error { return e.cli.Close() }
