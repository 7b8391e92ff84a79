//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// rawEngine does by the engine's API what ours is measured against.
type rawEngine struct{ cli *client.Client }

// exec runs a command in a container that runs: create, start attached, read to
// the end, inspect for the status.
func (e rawEngine) exec(ctx context.Context, id string, stdout io.Writer, args ...string) error {
	created, err := e.cli.ContainerExecCreate(ctx, id, container.ExecOptions{Cmd: args, AttachStdout: true, AttachStderr: true})
	if err != nil {
		return err
	}
	stream, err := e.cli.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	if err != nil {
		return err
	}
	defer stream.Close()
	if _, err := stdcopy.StdCopy(stdout, io.Discard, stream.Reader); err != nil {
		return err
	}
	got, err := e.cli.ContainerExecInspect(ctx, created.ID)
	if err == nil && got.ExitCode != 0 {
		err = fmt.Errorf("%v: status %d", args, got.ExitCode)
	}
	return err
}

// below is the container that has the directory mounted.
func (e rawEngine) below(ctx context.Context, dir string) (string, error) {
	all, err := e.cli.ContainerList(ctx, container.ListOptions{})
	if err != nil {
		return "", err
	}
	for _, c := range all {
		for _, m := range c.Mounts {
			if m.Source == dir {
				return c.ID, nil
			}
		}
	}
	return "", fmt.Errorf("no container has %s mounted", dir)
}

// request is what a container was made with, without its labels: they would make
// another one of the same request this module's own.
func (e rawEngine) request(ctx context.Context, id string) (container.InspectResponse, error) {
	got, err := e.cli.ContainerInspect(ctx, id)
	if err == nil {
		got.Config.Labels = nil
	}
	return got, err
}

// whole makes the same container, starts it, runs true in it and removes it.
func (e rawEngine) whole(ctx context.Context, same container.InspectResponse) (err error) {
	created, err := e.cli.ContainerCreate(ctx, same.Config, same.HostConfig, nil, nil, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.remove(context.WithoutCancel(ctx), created.ID)) }()
	if err := e.cli.ContainerStart(ctx, created.ID, container.StartOptions{}); err != nil {
		return err
	}
	return e.exec(ctx, created.ID, io.Discard, "true")
}

// remove removes a container and returns when it is gone: one that removes
// itself may be at it already.
func (e rawEngine) remove(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	err := e.cli.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	for errdefs.IsConflict(err) {
		if _, err = e.cli.ContainerInspect(ctx, id); err == nil {
			time.Sleep(5 * time.Millisecond)
			err = errdefs.ErrConflict
		}
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// busyBox makes sure that the engine has an image of a static BusyBox with the
// few programs that are run here, made from scratch, and returns its name.
func (e rawEngine) busyBox(ctx context.Context) (string, error) {
	path, err := osexec.LookPath("busybox")
	if err != nil {
		return "", fmt.Errorf("a static BusyBox is needed (Debian: busybox-static): %w", err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	write := func(h tar.Header, body []byte) {
		h.Size = int64(len(body))
		err = errors.Join(err, w.WriteHeader(&h))
		_, writeErr := w.Write(body)
		err = errors.Join(err, writeErr)
	}
	write(tar.Header{Name: "bin/", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	write(tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}, nil)
	write(tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755}, program)
	for _, name := range []string{"sh", "true", "head", "sleep"} {
		write(tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	// The name is that of the tests' images, which `make clean` removes.
	ref := fmt.Sprintf("wsctl-test:bench-%x", sha256.Sum256(layer.Bytes()))[:len("wsctl-test:bench-")+16]
	if _, err := e.cli.ImageInspect(ctx, ref); err == nil || !errdefs.IsNotFound(err) {
		return ref, err
	}
	body, err := e.cli.ImageImport(ctx, image.ImportSource{Source: &layer, SourceName: "-"}, ref, image.ImportOptions{})
	if err != nil {
		return "", err
	}
	defer body.Close()
	if _, err := io.Copy(io.Discard, body); err != nil {
		return "", err
	}
	_, err = e.cli.ImageInspect(ctx, ref)
	return ref, err
}

// command runs a program of this machine that must succeed.
func command(ctx context.Context, env []string, name string, args ...string) error {
	cmd := osexec.CommandContext(ctx, name, args...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// testcontainer is a container as testcontainers-go makes one.
type testcontainer struct {
	c *testcontainers.DockerContainer
}

func startTestcontainer(ctx context.Context, ref string) (testcontainer, error) {
	// There is no image of its reaper where none can be pulled, and its exec
	// is the same without.
	if err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true"); err != nil {
		return testcontainer{}, err
	}
	log.SetDefault(log.NewNoopLogger())
	c, err := testcontainers.Run(ctx, ref, testcontainers.WithEntrypoint("/bin/sleep", "600"))
	if err != nil {
		return testcontainer{}, errors.Join(err, testcontainers.TerminateContainer(c))
	}
	return testcontainer{c}, nil
}

func (t testcontainer) exec(ctx context.Context, args ...string) error {
	code, _, err := t.c.Exec(ctx, args)
	if err == nil && code != 0 {
		err = fmt.Errorf("%v: status %d", args, code)
	}
	return err
}

func (t testcontainer) close(ctx context.Context) error {
	return testcontainers.TerminateContainer(t.c, testcontainers.StopContext(context.WithoutCancel(ctx)), testcontainers.StopTimeout(0))
}
