//go:build unix

package container

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	dockerspec "github.com/moby/docker-image-spec/specs-go/v1"

	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

func (f fakeImages) ImageInspect(context.Context, string, ...client.ImageInspectOption) (image.InspectResponse, error) {
	return f.inspect, f.err
}

func TestImageWithTraps(t *testing.T) {
	cli := enginetest.Client(t)
	use := func(changes ...string) (imageInfo, error) {
		return useImage(t.Context(), cli, imageRequest{Ref: enginetest.Changed(t, changes...), Pull: PullNever})
	}
	if _, err := use("LABEL wsctl.id=1"); !errors.Is(err, workspace.ErrUnavailable) || !strings.Contains(err.Error(), "wsctl.id") {
		t.Errorf("label of ours: %v", err)
	}
	if _, err := use("LABEL wsctlx=1"); err != nil {
		t.Errorf("another label: %v", err)
	}
	info, err := use("VOLUME /workspace/data", "VOLUME /var/lib/x", "ENV LD_PRELOAD=/x", "HEALTHCHECK CMD id", "USER 0", `ENTRYPOINT ["/bin/false"]`)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Join(info.Unset, ",") != "LD_PRELOAD" || strings.Contains(strings.Join(info.Env, "\n"), "LD_") {
		t.Errorf("environment %q without %q", info.Env, info.Unset)
	}
	if info.Ref != info.ID || !strings.HasPrefix(info.ID, "sha256:") {
		t.Errorf("the reference of a local image is %q", info.Ref)
	}
	if err := info.checkVolumes([]string{guestRoot, guestHome}); !errors.Is(err, workspace.ErrUnavailable) || !strings.Contains(err.Error(), "/workspace/data") {
		t.Errorf("volume in the workspace: %v", err)
	}
	if err := info.checkVolumes([]string{guestHome, "/var/lib/xy"}); err != nil {
		t.Errorf("volumes elsewhere: %v", err)
	}
}

func TestImageVolumes(t *testing.T) {
	for volume, refused := range map[string]bool{
		"/workspace": true, "/workspace/": true, "workspace/a": true, "/x/../workspace/a": true, "/home/user/.cache": true,
		"/": false, "/home": false, "/workspacex": false, "/data": false,
	} {
		f := fakeImages{inspect: image.InspectResponse{ID: "sha256:1", Os: "linux"}}
		f.inspect.Config = &dockerspec.DockerOCIImageConfig{}
		f.inspect.Config.Volumes = map[string]struct{}{volume: {}}
		info, err := inspectImage(t.Context(), f, "r")
		if err != nil {
			t.Fatal(err)
		}
		if err := info.checkVolumes([]string{guestRoot, guestHome}); (err != nil) != refused {
			t.Errorf("%s: %v, want refused: %v", volume, err, refused)
		}
	}
}

func TestImageForAnotherSystem(t *testing.T) {
	_, err := inspectImage(t.Context(), fakeImages{inspect: image.InspectResponse{ID: "sha256:1", Os: "windows"}}, "r")
	if !errors.Is(err, workspace.ErrUnavailable) || !strings.Contains(err.Error(), "windows") {
		t.Errorf("got %v", err)
	}
}

func TestImageDigest(t *testing.T) {
	sum := func(c string) string { return "sha256:" + strings.Repeat(c, 64) }
	for _, c := range []struct {
		ref     string
		digests []string
		want    string
	}{
		{"alpine", []string{"mirror.example/alpine@" + sum("1"), "alpine@" + sum("2")}, "alpine@" + sum("2")},
		{"docker.io/library/alpine:3", []string{"alpine@" + sum("2")}, "alpine@" + sum("2")},
		{sum("9"), []string{"alpine@" + sum("2")}, "alpine@" + sum("2")},
		{"other", []string{"alpine@" + sum("2")}, "alpine@" + sum("2")},
		{"local", nil, sum("3")},
	} {
		if got := digestOf(c.ref, image.InspectResponse{ID: sum("3"), RepoDigests: c.digests}); got != c.want {
			t.Errorf("%s: got %s, want %s", c.ref, got, c.want)
		}
	}
}

func TestNoShellErrorSaysWhatToDo(t *testing.T) {
	if err := noShellError("img"); !errors.Is(err, workspace.ErrUnavailable) || !strings.Contains(err.Error(), "img") || !strings.Contains(err.Error(), "sh") {
		t.Errorf("got %v", err)
	}
}
