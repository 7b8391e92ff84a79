package enginetest_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/wsctl/wsctl/internal/enginetest"
)

// output runs a program in a new container of the image and returns what it
// wrote to stdout.
func output(t *testing.T, cli *client.Client, image string, args ...string) string {
	t.Helper()
	ctx := t.Context()
	made, err := cli.ContainerCreate(ctx, &container.Config{Image: image, Entrypoint: args, Labels: enginetest.Labels()},
		&container.HostConfig{NetworkMode: "none"}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cli.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true})
	})
	ended, errs := cli.ContainerWait(ctx, made.ID, container.WaitConditionNextExit)
	if err := cli.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case err := <-errs:
		t.Fatal(err)
	}
	logs, err := cli.ContainerLogs(ctx, made.ID, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	var stdout, stderr bytes.Buffer
	if _, err := stdcopy.StdCopy(&stdout, &stderr, logs); err != nil {
		t.Fatal(err)
	}
	if stderr.Len() > 0 {
		t.Errorf("%q on %s: stderr %q", args, image, stderr.String())
	}
	return stdout.String()
}

func TestBusyBoxIsOneImageHoweverOftenAskedFor(t *testing.T) {
	cli := enginetest.Client(t)
	ref := enginetest.BusyBox(t)
	first, err := cli.ImageInspect(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if again := enginetest.BusyBox(t); again != ref {
		t.Errorf("asked again: %s, not %s", again, ref)
	}
	second, err := cli.ImageInspect(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	if first.ID != second.ID {
		t.Errorf("asked again, %s is another image", ref)
	}
	if got := output(t, cli, ref, "sh", "-c", "stat -c %a /tmp; echo x | /usr/bin/env tr x y"); got != "1777\ny\n" {
		t.Errorf("output %q", got)
	}
}

func TestImagesSetTheTrapsAskedFor(t *testing.T) {
	cli := enginetest.Client(t)
	ref := enginetest.Changed(t, "ENV LD_PRELOAD=/evil.so", "VOLUME /workspace/data", "LABEL trap=1", "USER 7:8", "HEALTHCHECK CMD id")
	img, err := cli.ImageInspect(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	c := img.Config
	_, volume := c.Volumes["/workspace/data"]
	if !slices.Contains(c.Env, "LD_PRELOAD=/evil.so") || !volume || c.Labels["trap"] != "1" || c.User != "7:8" || c.Healthcheck == nil {
		t.Errorf("configuration %+v", c)
	}
	lying := enginetest.WithFiles(t, enginetest.File{Name: "etc/group", Mode: 0o644, Body: []byte("docker:x:8:seven\n")})
	if got := output(t, cli, lying, "cat", "/etc/group"); got != "docker:x:8:seven\n" {
		t.Errorf("/etc/group is %q", got)
	}
}

func TestHostShellsRun(t *testing.T) {
	cli := enginetest.Client(t)
	ref, shells := enginetest.HostShells(t)
	for _, sh := range shells {
		if got := output(t, cli, ref, sh, "-c", "echo $((6 * 7))"); got != "42\n" {
			t.Errorf("%s: %q", sh, got)
		}
	}
}

func TestProbeTellsAConfinedProcessFromAnother(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), enginetest.Probe(t), t.TempDir()).Output()
	if err != nil {
		t.Fatal(err)
	}
	free, err := enginetest.ParseProbe(out)
	if err != nil {
		t.Fatal(err)
	}
	// Every attempt to make a set-uid file works unconfined: an attempt that
	// cannot succeed would prove nothing in a sandbox. Old kernels lack the
	// newest calls.
	for name, result := range free {
		old := result == "ENOSYS" && (name == "suid-fchmodat2" || name == "suid-openat2")
		if strings.HasPrefix(name, "suid-") && result != "ok" && result != "absent" && !old {
			t.Errorf("unconfined %s: %s", name, result)
		}
	}
	if free["keyctl"] != "ok" || free["ptrace"] != "ESRCH" {
		t.Errorf("unconfined keyctl %s, ptrace %s", free["keyctl"], free["ptrace"])
	}

	cli := enginetest.Client(t)
	confined, err := enginetest.ParseProbe([]byte(output(t, cli, enginetest.NoShell(t), "/probe", "/tmp")))
	if err != nil {
		t.Fatal(err)
	}
	if len(confined) != len(free) {
		t.Errorf("%d results in a container, %d outside", len(confined), len(free))
	}
	// The engine's own profile refuses these to a container's root.
	for _, name := range []string{"keyctl", "add_key", "mount", "unshare-uts", "bpf", "fsopen"} {
		if confined[name] != "EPERM" && confined[name] != "ENOSYS" {
			t.Errorf("in a container %s: %s", name, confined[name])
		}
	}
}

func TestParseProbeRefusesACutOutput(t *testing.T) {
	for _, text := range []string{"", "keyctl ok\n", "keyctl\nend ok\n", "a ok\na ok\nend ok\n"} {
		if got, err := enginetest.ParseProbe([]byte(text)); err == nil {
			t.Errorf("%q: %v and no error", text, got)
		}
	}
}

func TestKeeperIsAProgramThatOthersMayRun(t *testing.T) {
	path := enginetest.Keeper(t)
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if st.Mode().Perm()&0o555 != 0o555 {
		t.Errorf("mode %v", st.Mode())
	}
	if again := enginetest.Keeper(t); again != path {
		t.Errorf("asked again: %s, not %s", again, path)
	}
}

func TestDirRemovesWhatStillMountsIt(t *testing.T) {
	cli := enginetest.Client(t)
	image := enginetest.BusyBox(t)
	var id string
	t.Run("leaves one behind", func(t *testing.T) {
		dir := enginetest.Dir(t)
		made, err := cli.ContainerCreate(t.Context(), &container.Config{Image: image, Entrypoint: []string{"true"}, Labels: enginetest.Labels()},
			&container.HostConfig{Mounts: []mount.Mount{{Type: mount.TypeBind, Source: dir, Target: "/workspace"}}}, nil, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		id = made.ID
		if left := enginetest.Below(t, dir); len(left) != 1 || left[0].ID != id || left[0].State != "created" {
			t.Errorf("below %s: %+v", dir, left)
		}
	})
	if _, err := cli.ContainerInspect(t.Context(), id); err == nil {
		t.Error("the container is still there")
	}
}
