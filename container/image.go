//go:build unix

package container

import (
	"context"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/wsctl/wsctl/workspace"
)

// imageAPI is what is asked of the engine about images; *client.Client has it.
type imageAPI interface {
	ImageInspect(ctx context.Context, ref string, o ...client.ImageInspectOption) (image.InspectResponse, error)
	ImagePull(ctx context.Context, ref string, o image.PullOptions) (io.ReadCloser, error)
	ImageImport(ctx context.Context, source image.ImportSource, ref string, o image.ImportOptions) (io.ReadCloser, error)
}

// imageRequest says which image is wanted.
type imageRequest struct {
	// Ref is its name, with or without tag or digest, or its id.
	Ref string
	// Pull is when to ask the registry; "" is PullMissing.
	Pull PullPolicy
	// Progress is told how a pull goes, by the goroutine that waits for it;
	// may be nil.
	Progress func(PullEvent)
}

// imageInfo is an image that the engine has, and what is taken of its
// configuration. Its entrypoint, command, user, working directory and health
// check are not.
type imageInfo struct {
	// ID is what containers are created from: a tag may move.
	ID string
	// Ref is what a session records: the digest by which the image can be
	// pulled again, or the id of an image that no registry has.
	Ref string
	// Name is the image as the caller says it.
	Name string
	// Env is the image's environment without what would act on the wrapper's
	// shell or on every program; it has a PATH.
	Env []string
	// Unset are the names that were taken out. Given to the engine in a
	// create request without "=", it takes them out of the container's
	// environment too.
	Unset []string
	// OS and Arch are the image's, as Go spells them.
	OS, Arch string
	// Toolchain: the image is the frame of the host's own toolchain.
	Toolchain bool

	layers  []string
	volumes []string
}

// useImage finds the image, pulls it when the policy says so, and takes of its
// configuration what is wanted. It is bounded by ctx alone: a pull may take long.
//
// Errors: INVALID_ARGUMENT for a name that can be none; UNAVAILABLE, with the
// name and what to do, when the image cannot be had or must not be used; ABORTED.
func useImage(ctx context.Context, api imageAPI, r imageRequest) (imageInfo, error) {
	if _, err := reference.ParseAnyReference(r.Ref); err != nil {
		return imageInfo{}, imageError(workspace.ErrInvalidArgument, r.Ref, "this is not the name of an image (NAME, NAME:TAG, NAME@sha256:…; lower-case): %w", err)
	}
	policy, err := ParsePullPolicy(string(r.Pull))
	if err != nil {
		return imageInfo{}, err
	}
	if policy == PullAlways {
		if err := pull(ctx, api, r); err != nil {
			return imageInfo{}, err
		}
	}
	info, err := inspectImage(ctx, api, r.Ref)
	if !errdefs.IsNotFound(err) {
		return info, err
	}
	switch {
	case policy == PullNever:
		return imageInfo{}, imageError(workspace.ErrUnavailable, r.Ref, "the engine does not have this image, and pulling is off; use --pull missing, or load the image into the engine")
	case policy == PullAlways || isID(r.Ref):
		return imageInfo{}, imageError(workspace.ErrUnavailable, r.Ref, "the engine does not have this image; see `docker images` for those it has")
	}
	if err := pull(ctx, api, r); err != nil {
		return imageInfo{}, err
	}
	info, err = inspectImage(ctx, api, r.Ref)
	if errdefs.IsNotFound(err) {
		return imageInfo{}, imageError(workspace.ErrUnavailable, r.Ref, "the image was pulled and is gone again; somebody removes images, try again")
	}
	return info, err
}

// isID tells whether the name is an image's id, which no registry knows.
func isID(ref string) bool {
	named, err := reference.ParseAnyReference(ref)
	if err != nil {
		return false
	}
	_, isNamed := named.(reference.Named)
	return !isNamed
}

// imageError is an error about an image.
func imageError(code workspace.Code, ref, format string, args ...any) error {
	return workspace.Errorf(code, "image", ref, format, args...)
}

// inspectImage reads what the engine knows of an image. That it has none is the
// engine's own error, for errdefs.IsNotFound.
func inspectImage(ctx context.Context, api imageAPI, ref string) (imageInfo, error) {
	got, err := api.ImageInspect(ctx, ref)
	if err != nil {
		if errdefs.IsNotFound(err) {
			return imageInfo{}, err
		}
		return imageInfo{}, engineError(ctx, "image", err)
	}
	info := imageInfo{ID: got.ID, Ref: digestOf(ref, got), Name: ref, OS: got.Os, Arch: got.Architecture, layers: got.RootFS.Layers}
	if got.Os != "linux" {
		return imageInfo{}, imageError(workspace.ErrUnavailable, ref, "this is an image for %s; commands run in Linux containers", workspace.Printable(got.Os))
	}
	var env []string
	if c := got.Config; c != nil {
		env = c.Env
		for name := range c.Volumes {
			info.volumes = append(info.volumes, path.Clean("/"+name))
		}
		slices.Sort(info.volumes)
		for label := range c.Labels {
			// A container has the labels of its image, and by labels it is
			// found whose a container is.
			if strings.HasPrefix(label, labelPrefix) {
				return imageInfo{}, imageError(workspace.ErrUnavailable, ref, "the image has the label %s, and labels that begin with %s are for the containers of wsctl; rebuild it without", workspace.Printable(label), labelPrefix)
			}
		}
	}
	info.Env, info.Unset = cleanEnv(env)
	return info, nil
}

// labelPrefix begins every label that wsctl gives a container.
const labelPrefix = "wsctl."

// digestOf is the digest under which the registry of that name has the image; with
// several, the one of the name that was asked for.
func digestOf(ref string, got image.InspectResponse) string {
	named, err := reference.ParseNormalizedNamed(ref)
	for _, d := range got.RepoDigests {
		known, parseErr := reference.ParseNormalizedNamed(d)
		if err == nil && parseErr == nil && known.Name() == named.Name() {
			return d
		}
	}
	if len(got.RepoDigests) > 0 {
		return got.RepoDigests[0]
	}
	return got.ID
}

// checkVolumes refuses an image that declares a volume at or below one of the
// mount points: it would hide what is mounted, and the engine would make
// directories of root's in the caller's.
func (i imageInfo) checkVolumes(targets []string) error {
	for _, v := range i.volumes {
		for _, t := range targets {
			if below(v, t) {
				return imageError(workspace.ErrUnavailable, i.Name, "the image declares a volume at %s, which lies in %s; rebuild it without, or use another", workspace.Printable(v), t)
			}
		}
	}
	return nil
}

// noShellError says that an image has no shell to run commands with.
func noShellError(name string) error {
	return imageError(workspace.ErrUnavailable, name, "the image has no sh, and every command runs under one; use an image with a shell (distroless images have a :debug variant), nothing but sh is needed")
}
