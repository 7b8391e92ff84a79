//go:build unix

package integration

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
	"github.com/wsctl/wsctl/workspacetest"
)

// A command talks to a service that testcontainers-go runs, by its name, on a
// network made for the test; each side's containers are its own business.
func TestCommandTalksToAServiceOfTestcontainers(t *testing.T) {
	enginetest.Client(t)
	// There is no image of its reaper to be had offline, and no default
	// bridge to find the host by.
	t.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
	t.Setenv("TESTCONTAINERS_HOST_OVERRIDE", "127.0.0.1")
	image := enginetest.BusyBox(t)
	root := project(t)

	net, err := network.New(t.Context(), network.WithLabels(enginetest.Labels()))
	if err != nil {
		t.Fatal(err)
	}
	testcontainers.CleanupNetwork(t, net)
	service, err := testcontainers.Run(t.Context(), image,
		testcontainers.WithLabels(enginetest.Labels()),
		testcontainers.WithCmd("/bin/sh", "-c", "mkdir /www && echo 'hello from the service' >/www/index.html && echo serving && exec /bin/httpd -f -p 80 -h /www"),
		network.WithNetwork([]string{"service"}, net),
		testcontainers.WithWaitStrategy(wait.ForLog("serving")),
	)
	testcontainers.CleanupContainer(t, service, testcontainers.StopTimeout(0))
	if err != nil {
		t.Fatal(err)
	}

	// With the network the service answers, by the name it has there, and
	// without it nothing does. In the machine's own bash, since a static
	// BusyBox looks no names up.
	fetch := `for i in 1 2 3 4 5; do exec 3<>/dev/tcp/service/80 && printf 'GET / HTTP/1.0\r\n\r\n' >&3 && exec cat <&3; sleep 1; done 2>/dev/null; exit 1`
	r := run(t, "run", "-q", "--root", root, "--network", net.Name, "--", "bash", "-c", fetch).must(t)
	if !strings.HasSuffix(r.stdout, "hello from the service\n") {
		t.Errorf("the service said %q", r.stdout)
	}
	ws := workspacetest.New(t, workspacetest.Options{Network: net.Name, Keeper: enginetest.Keeper(t)})
	out, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"bash", "-c", fetch}})
	if err != nil || !strings.HasSuffix(string(out.Stdout), "hello from the service\n") {
		t.Errorf("a test's workspace beside the service: %v, %v", out, err)
	}
	if r := run(t, "run", "-q", "--root", root, "--", "bash", "-c", "exec 3<>/dev/tcp/service/80"); r.code == 0 {
		t.Errorf("without a network the service answers: %s", r.stdout)
	}

	// Neither side takes the other's for its own.
	cmd, rest := begin(t, "run", "-q", "--root", root, "--image", image, "--network", net.Name, "-c", "echo ready; sleep 300")
	if listed := run(t, "ps", "--json").must(t).stdout; strings.Contains(listed, service.GetContainerID()) {
		t.Errorf("ps lists a container of testcontainers: %s", listed)
	}
	run(t, "reap", "-q").must(t)
	if state, err := service.State(t.Context()); err != nil || !state.Running {
		t.Errorf("reap touched the service: %+v, %v", state, err)
	}
	ours := enginetest.Below(t, root)
	if len(ours) != 1 {
		t.Fatalf("our containers: %+v", ours)
	}
	labels := labelsOf(t, ours[0].ID)
	for key := range labels {
		if strings.HasPrefix(key, "org.testcontainers") || strings.HasPrefix(key, "com.docker.compose") {
			t.Errorf("our container has the label %s", key)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := service.Terminate(ctx, testcontainers.StopTimeout(0)); err != nil {
		t.Errorf("the service does not go: %v", err)
	}
	if left := enginetest.Below(t, root); len(left) != 1 || left[0].State != "running" {
		t.Errorf("ours went with the service: %+v", left)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	status(t, cmd, rest)
	nothingLeft(t, root, 5*time.Second)
}

// labelsOf are a container's labels.
func labelsOf(t *testing.T, id string) map[string]string {
	t.Helper()
	c, err := enginetest.Client(t).ContainerInspect(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c.Config.Labels
}
