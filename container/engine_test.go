package container_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

// socketPath is short: a socket's path has at most 107 bytes (unix(7)).
func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "wsctl-sock-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func listen(t *testing.T) (net.Listener, string) {
	t.Helper()
	path := socketPath(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, "unix://" + path
}

// serve answers requests on a socket with h.
func serve(t *testing.T, h http.Handler) (host string) {
	t.Helper()
	l, host := listen(t)
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Second}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	return host
}

// pinging answers a ping with the API version and everything else with 500.
func pinging(version string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/_ping" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if version != "" {
			w.Header().Set("Api-Version", version)
		}
		fmt.Fprint(w, "OK")
	})
}

// tooNew is an engine that has dropped the API versions that this client knows.
var tooNew = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Api-Version", "1.99")
	if r.URL.Path != "/_ping" {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"message":"client version 1.51 is too old. Minimum supported API version is 1.90"}`)
	}
})

// An engine that is absent, denied, hung or too old is told as what it
// is, in seconds.
func TestConnectTellsWhyThereIsNoEngine(t *testing.T) {
	t.Parallel()
	silent, silentHost := listen(t)
	go func() {
		for {
			c, err := silent.Accept()
			if err != nil {
				return
			}
			defer c.Close()
		}
	}()
	stale, staleHost := listen(t)
	stale.(*net.UnixListener).SetUnlinkOnClose(false)
	stale.Close()
	for name, c := range map[string]struct{ host, want string }{
		"no socket":          {"unix:///nowhere/docker.sock", "there is no socket /nowhere/docker.sock"},
		"nobody listens":     {staleHost, "no Docker engine listens"},
		"says nothing":       {silentHost, "does not answer"},
		"no address":         {"what is this", "not an address"},
		"no host in it":      {"tcp://", "not an address"},
		"another scheme":     {"ssh://somebody@example.invalid", "ssh -L"},
		"remote without TLS": {"tcp://192.0.2.1:2375", "TLS"},
		"no TLS files":       {"tcp://127.0.0.1:1", "no Docker engine listens"},
		"too old":            {serve(t, pinging("1.40")), "speaks API 1.40"},
		"no engine":          {serve(t, pinging("")), "not a Docker engine"},
		"too new":            {serve(t, tooNew), "client version 1.51 is too old"},
		"ill":                {serve(t, pinging("1.41")), "engine at"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			e, err := container.Connect(t.Context(), container.EngineOptions{Host: c.host})
			if err == nil {
				e.Close()
				t.Fatal("connected")
			}
			if workspace.CodeOf(err) != workspace.ErrUnavailable {
				t.Errorf("code %v: %v", workspace.CodeOf(err), err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v does not say %q", err, c.want)
			}
			if took := time.Since(begun); took > 7*time.Second {
				t.Errorf("took %v", took)
			}
		})
	}
}

func TestConnectWithoutPermission(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may use every socket; `make test` runs this as another user too")
	}
	_, host := listen(t)
	path := strings.TrimPrefix(host, "unix://")
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	_, err := container.Connect(t.Context(), container.EngineOptions{Host: host})
	if workspace.CodeOf(err) != workspace.ErrUnavailable || !strings.Contains(err.Error(), "no permission") {
		t.Error(err)
	}
}

func TestConnectIsAborted(t *testing.T) {
	t.Parallel()
	_, host := listen(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := container.Connect(ctx, container.EngineOptions{Host: host})
	if workspace.CodeOf(err) != workspace.ErrAborted || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestConnectLearnsWhatTheEngineIs(t *testing.T) {
	t.Parallel()
	cli := enginetest.Client(t)
	e, err := container.Connect(t.Context(), container.EngineOptions{Host: cli.DaemonHost(), CertDir: os.Getenv("DOCKER_CERT_PATH")})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	info := e.Info()
	if info.Version == "" || info.API != cli.ClientVersion() || info.Kernel == "" || info.Arch == "" || info.Runtime == "" ||
		(info.Cgroup != "1" && info.Cgroup != "2") {
		t.Errorf("%+v", info)
	}
	if e.API() == nil || e.API().DaemonHost() != cli.DaemonHost() {
		t.Error("another engine")
	}
}

// What a root holds for docker's own tools decides nothing.
func TestConnectReadsNoDockerConfiguration(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, ".docker"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		".docker/config.json": `{"currentContext":"evil","credsStore":"evil","proxies":{"default":{"httpProxy":"http://127.0.0.1:1"}}}`,
		".env":                "DOCKER_HOST=unix:///evil.sock\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("HOME", dir)
	t.Setenv("DOCKER_CONFIG", filepath.Join(dir, ".docker"))
	t.Setenv("DOCKER_HOST", "unix:///evil.sock")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	host := serve(t, pinging("1.40"))
	_, err := container.Connect(t.Context(), container.EngineOptions{Host: host})
	if err == nil || !strings.Contains(err.Error(), "speaks API 1.40") {
		t.Errorf("another engine than %s was asked: %v", host, err)
	}
}
