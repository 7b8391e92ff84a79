//go:build unix

package container

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"

	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

func TestPullWithProgress(t *testing.T) {
	r, cli := newRegistry(t), enginetest.Client(t)
	var events []PullEvent
	info, err := useImage(t.Context(), cli, imageRequest{Ref: r.ref, Progress: func(e PullEvent) { events = append(events, e) }})
	if err != nil {
		t.Fatal(err)
	}
	if info.Ref != r.ref+"@"+r.digest || info.ID != digest(r.config) || info.OS != "linux" {
		t.Errorf("got %+v, want the digest %s", info, r.digest)
	}
	if !slices.Contains(info.Env, "A=b") || !slices.Equal(info.Unset, []string{"LD_PRELOAD"}) {
		t.Errorf("environment %q without %q", info.Env, info.Unset)
	}
	for _, want := range []func(PullEvent) bool{
		func(e PullEvent) bool { return e.Layer == r.layerID && e.Total > 1<<20 && e.Current > 0 },
		func(e PullEvent) bool { return e.Layer == r.layerID && e.Status == "Pull complete" },
		func(e PullEvent) bool { return strings.Contains(e.Status, r.digest) },
	} {
		if !slices.ContainsFunc(events, want) {
			t.Errorf("an event is missing in %+v", events)
		}
	}

	// It is there now: nothing is asked of the registry.
	events = nil
	for _, policy := range []PullPolicy{"", PullMissing, PullNever} {
		if _, err := useImage(t.Context(), cli, imageRequest{Ref: r.ref, Pull: policy, Progress: func(e PullEvent) { events = append(events, e) }}); err != nil || events != nil {
			t.Errorf("%q: %v, events %+v", policy, err, events)
		}
	}
	if _, err := useImage(t.Context(), cli, imageRequest{Ref: r.ref, Pull: PullAlways, Progress: func(e PullEvent) { events = append(events, e) }}); err != nil || events == nil {
		t.Errorf("always: %v, events %+v", err, events)
	}
	for _, ref := range []string{info.ID, info.Ref, strings.TrimPrefix(info.ID, "sha256:")} {
		if got, err := useImage(t.Context(), cli, imageRequest{Ref: ref, Pull: PullNever}); err != nil || got.ID != info.ID {
			t.Errorf("by %s: %+v, %v", ref, got, err)
		}
	}
}

func TestPullByDigest(t *testing.T) {
	r, cli := newRegistry(t), enginetest.Client(t)
	ref := r.ref + "@" + r.digest
	info, err := useImage(t.Context(), cli, imageRequest{Ref: ref})
	if err != nil || info.Ref != ref {
		t.Fatalf("got %+v, %v", info, err)
	}
	if _, err := cli.ImageRemove(t.Context(), info.ID, image.RemoveOptions{Force: true}); err != nil {
		t.Error(err)
	}
}

func TestPullAborted(t *testing.T) {
	r, cli := newRegistry(t), enginetest.Client(t)
	r.slow.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := useImage(ctx, cli, imageRequest{Ref: r.ref})
		done <- err
	}()
	await := func(what string, c <-chan struct{}) {
		t.Helper()
		select {
		case <-c:
		case <-time.After(20 * time.Second):
			t.Fatal("no " + what + " within 20 s")
		}
	}
	await("half of the layer", r.began)
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, workspace.ErrAborted) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), r.ref) {
			t.Errorf("got %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the pull goes on 5 s after its context ended")
	}
	// The engine is told by the end of the connection. A busy one has been seen
	// to go on all the same, which is its own affair: it has to end some time.
	select {
	case <-r.left:
	case <-time.After(20 * time.Second):
		t.Log("the engine goes on with the download")
	}

	// The next one works.
	r.slow.Store(false)
	r.release()
	if _, err := useImage(t.Context(), cli, imageRequest{Ref: r.ref}); err != nil {
		t.Error(err)
	}
}

func TestImageThatCannotBeHad(t *testing.T) {
	r, cli := newRegistry(t), enginetest.Client(t)
	for _, c := range []struct {
		name string
		ref  string
		pull PullPolicy
		code workspace.Code
		says string
	}{
		{"no such name", r.base + "nothing", "", workspace.ErrUnavailable, "docker login"},
		{"no such tag", r.ref + ":v2", "", workspace.ErrUnavailable, "docker login"},
		{"no such name, always", r.base + "nothing", PullAlways, workspace.ErrUnavailable, "docker login"},
		{"never", r.ref, PullNever, workspace.ErrUnavailable, "--pull missing"},
		{"registry that is not there", "127.0.0.1:1/x", "", workspace.ErrUnavailable, "offline"},
		{"id", "sha256:" + strings.Repeat("0", 64), "", workspace.ErrUnavailable, "docker images"},
		{"upper case", "Upper/Case", "", workspace.ErrInvalidArgument, "lower-case"},
		{"space", "a b", "", workspace.ErrInvalidArgument, ""},
		{"option", "--privileged", "", workspace.ErrInvalidArgument, ""},
		{"empty", "", "", workspace.ErrInvalidArgument, ""},
		{"policy", r.ref, "sometimes", workspace.ErrInvalidArgument, "missing, always or never"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := useImage(t.Context(), cli, imageRequest{Ref: c.ref, Pull: c.pull})
			if !errors.Is(err, c.code) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, want %s that says %q", err, c.code, c.says)
			}
			if c.code == workspace.ErrUnavailable && !strings.Contains(err.Error(), c.ref) {
				t.Errorf("%v does not name the image", err)
			}
		})
	}
}

// fakeImages is an engine that answers pulls with what a test says.
type fakeImages struct {
	imageAPI
	body    io.ReadCloser
	err     error
	inspect image.InspectResponse
}

func (f fakeImages) ImagePull(context.Context, string, image.PullOptions) (io.ReadCloser, error) {
	return f.body, f.err
}

func TestPullAnswers(t *testing.T) {
	for _, c := range []struct {
		name, body string
		err        error
		code       workspace.Code
		says       string
	}{
		{name: "empty"},
		{name: "blank lines", body: "\n\r\n"},
		{name: "error in the stream", body: `{"status":"x"}` + "\n" + `{"errorDetail":{"message":"no space"},"error":"no space"}`, code: workspace.ErrUnavailable, says: "no space"},
		{name: "not JSON", body: "<html>", code: workspace.ErrUnavailable},
		{name: "endless line", body: strings.Repeat("x", 2*maxPullLine), code: workspace.ErrUnavailable},
		{name: "unauthorized", err: errdefs.ErrUnauthenticated, code: workspace.ErrUnavailable, says: "docker login"},
		{name: "server", err: errdefs.ErrInternal, code: workspace.ErrUnavailable, says: "offline"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := pull(t.Context(), fakeImages{body: io.NopCloser(strings.NewReader(c.body)), err: c.err}, imageRequest{Ref: "r"})
			if c.code == "" && err != nil || c.code != "" && (!errors.Is(err, c.code) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v, want %s that says %q", err, c.code, c.says)
			}
		})
	}
}

func TestPullEventsAreFitToPrint(t *testing.T) {
	var got PullEvent
	err := pullStep([]byte(`{"id":"a\u001b[2J","status":"b\u0007\n","progressDetail":{"current":3,"total":4}}`), func(e PullEvent) { got = e })
	if err != nil || strings.ContainsAny(got.Layer+got.Status, "\x1b\a\n") || got.Current != 3 || got.Total != 4 {
		t.Errorf("got %+v, %v", got, err)
	}
}
