package enginetest

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
)

// answer is what the one question to the engine in this process brought.
type answer struct {
	version string // the negotiated API version; empty when there is no engine
	reason  string // why there is none
}

// engine asks once in a process whether an engine answers, so that a hundred
// tests without one cost one failed connection.
var engine = sync.OnceValue(func() answer {
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return answer{reason: fmt.Sprintf("no Docker client: %v", err)}
	}
	defer cli.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	ping, err := cli.Ping(ctx)
	if err != nil {
		return answer{reason: fmt.Sprintf("no Docker engine answers at %s (`make engine` starts one): %v", cli.DaemonHost(), err)}
	}
	if ping.OSType != "linux" {
		return answer{reason: fmt.Sprintf("the engine at %s runs %s containers, not Linux ones", cli.DaemonHost(), ping.OSType)}
	}
	cli.NegotiateAPIVersionPing(ping)
	removeAbandoned(ctx, cli)
	return answer{version: cli.ClientVersion()}
})

// Client returns a client of the engine, with the API version both sides know,
// that is closed when the test ends. Without an engine it ends the test: as
// skipped, or as failed under WSCTL_REQUIRE_DOCKER=1.
func Client(t testing.TB) *client.Client {
	t.Helper()
	got := engine()
	if got.version == "" {
		Missing(t, got.reason)
	}
	cli, err := client.NewClientWithOpts(client.FromEnv, client.WithVersion(got.version))
	if err != nil {
		t.Fatalf("Docker client: %v", err)
	}
	t.Cleanup(func() { cli.Close() })
	return cli
}

// Missing ends the test because something that Docker tests need is not there:
// as skipped, or as failed under WSCTL_REQUIRE_DOCKER=1. The reason is shown in
// the last lines of `make test`.
func Missing(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv("WSCTL_REQUIRE_DOCKER") == "1" {
		t.Fatalf("%s (WSCTL_REQUIRE_DOCKER=1 makes this a failure)", reason)
	}
	t.Skip(reason)
}

// Soak reports whether this is `make soak`: tests then take the time that all
// their rounds need.
func Soak() bool { return os.Getenv("WSCTL_SOAK") == "1" }

// Rounds is the number of rounds for a test that repeats something full times
// in `make soak`: all of them there, a tenth (at least one) otherwise.
func Rounds(full int) int {
	if Soak() {
		return full
	}
	return max(1, full/10)
}

// processLabel marks containers that tests make with the engine's own API. Its
// value is the pid of the test process.
const processLabel = "wsctl-test.process"

// Labels are for a container that a test makes by itself, beside the code under
// test. Should the test process be killed, the next one removes the container.
// They are a fresh map for each call.
func Labels() map[string]string {
	return map[string]string{processLabel: strconv.Itoa(os.Getpid())}
}

// removeAbandoned removes the containers labelled by test processes that no
// longer run. A reused pid spares one until that process has ended too.
func removeAbandoned(ctx context.Context, cli *client.Client) {
	found, err := cli.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", processLabel))})
	if err != nil {
		return // whatever ails the engine shows in the test itself
	}
	for _, c := range found {
		pid, err := strconv.Atoi(c.Labels[processLabel])
		if err != nil || pid <= 1 || alive(pid) {
			continue
		}
		_ = cli.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true})
	}
}

// alive tells whether a process of this pid exists, whoever owns it.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	defer func() { _ = p.Release() }()
	err = p.Signal(syscall.Signal(0))
	return err == nil || os.IsPermission(err)
}
