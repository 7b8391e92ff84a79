package mcpserver

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"github.com/wsctl/wsctl/tools"
)

// What the URIs of resources begin with. After fileURI comes the path of a file
// below the root, after snapshotURI the id of a kept state.
const (
	fileURI      = "wsctl://file/"
	snapshotsURI = "wsctl://snapshots"
	snapshotURI  = "wsctl://snapshot/"
)

// The same as templates (RFC 6570).
const (
	fileTemplate     = fileURI + "{+path}"
	snapshotTemplate = snapshotURI + "{id}"
)

var errURI = errors.New("no URI of a resource here; write wsctl://file/PATH, the path relative to the root and percent-encoded once, wsctl://snapshots, or wsctl://snapshot/ID")

// resource is what a URI names.
type resource interface {
	// read returns what it holds, if that may be read without asking.
	read(ctx context.Context, set *tools.Set) (tools.Blob, error)
	// version changes when what it holds does; empty when it is not there.
	version(ctx context.Context, set *tools.Set) string
}

type (
	fileResource      struct{ path string }
	snapshotsResource struct{}
	snapshotResource  struct{ id string }
)

func (r fileResource) read(ctx context.Context, set *tools.Set) (tools.Blob, error) {
	return set.ReadResource(ctx, r.path)
}

func (r fileResource) version(ctx context.Context, set *tools.Set) string {
	return set.ResourceVersion(ctx, r.path)
}

func (snapshotsResource) read(ctx context.Context, set *tools.Set) (tools.Blob, error) {
	return set.ReadSnapshots(ctx)
}

func (snapshotsResource) version(ctx context.Context, set *tools.Set) string {
	return set.SnapshotsVersion(ctx)
}

func (r snapshotResource) read(ctx context.Context, set *tools.Set) (tools.Blob, error) {
	return set.ReadSnapshot(ctx, r.id)
}

// version: what differs from a state is told when it is read; that the state is
// forgotten is a change of snapshotsResource.
func (snapshotResource) version(ctx context.Context, set *tools.Set) string {
	return set.SnapshotsVersion(ctx)
}

// resourceOf is what a URI names. Each thing has few spellings and nothing is
// decoded twice: no query, no dot segments, no separator in disguise.
func resourceOf(uri string) (resource, error) {
	if uri == snapshotsURI {
		return snapshotsResource{}, nil
	}
	if id, ok := strings.CutPrefix(uri, snapshotURI); ok {
		if id == "" || strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return nil, errURI
		}
		return snapshotResource{id}, nil
	}
	rest, ok := strings.CutPrefix(uri, fileURI)
	if !ok || strings.ContainsAny(rest, "?#") {
		return nil, errURI
	}
	for segment := range strings.SplitSeq(rest, "/") {
		name, err := url.PathUnescape(segment)
		if err != nil || name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
			return nil, errURI
		}
	}
	path, err := url.PathUnescape(rest)
	return fileResource{path}, err
}
