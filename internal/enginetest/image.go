package enginetest

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

// Repository is the name under which every image of this package is tagged.
const Repository = "wsctl-test"

// File is one entry of an image.
type File struct {
	Name string // slash-separated, without a leading slash; a trailing slash makes a directory
	Mode int64  // permission and special bits, as in stat(2); ignored for a link
	Link string // not empty: a symbolic link to this target
	Body []byte // content of a regular file
	Uid  int    // owner
	Gid  int    // group
}

// Image is what [Import] makes an image from.
type Image struct {
	Name    string   // first part of the tag, for a reader of `docker images`
	Files   []File   // in this order, each name once; parents before children, or left out where 0755 root:root will do
	Changes []string // Dockerfile instructions: ENV, VOLUME, HEALTHCHECK, LABEL, USER, ENTRYPOINT, CMD, WORKDIR …
}

// Import makes sure that the engine has the image and returns its reference,
// "wsctl-test:NAME-HASH". The hash covers files and changes, so equal images are
// made once, whichever test process comes first.
func Import(t testing.TB, img Image) string {
	t.Helper()
	cli := Client(t)
	layer, err := img.layer()
	if err != nil {
		t.Fatalf("image %s: %v", img.Name, err)
	}
	sum := sha256.New()
	sum.Write(layer)
	for _, c := range img.Changes {
		fmt.Fprintf(sum, "\n%q", c)
	}
	ref := fmt.Sprintf("%s:%s-%x", Repository, img.Name, sum.Sum(nil)[:8])

	// Two processes that import the same content would leave an untagged
	// image behind, hence the lock between looking and making.
	unlock, err := lock(cacheDir(t), "images")
	if err != nil {
		t.Fatalf("image %s: %v", img.Name, err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := img.send(ctx, cli, ref, layer); err != nil {
		t.Fatalf("image %s: %v", img.Name, err)
	}
	return ref
}

// send imports the image unless the engine has its tag.
func (img Image) send(ctx context.Context, cli *client.Client, ref string, layer []byte) error {
	_, err := cli.ImageInspect(ctx, ref)
	if err == nil || !errdefs.IsNotFound(err) {
		return err
	}
	body, err := cli.ImageImport(ctx, image.ImportSource{Source: bytes.NewReader(layer), SourceName: "-"}, ref, image.ImportOptions{Changes: img.Changes})
	if err != nil {
		return err
	}
	defer body.Close()
	said, err := io.ReadAll(io.LimitReader(body, 1<<20))
	if err != nil {
		return err
	}
	if _, err := cli.ImageInspect(ctx, ref); err != nil {
		return fmt.Errorf("%w; the engine said %s", err, said)
	}
	return nil
}

// layer is the image's one layer as a tar archive. Times are zero, so that the
// same files are the same bytes.
func (img Image) layer() ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	made := map[string]bool{".": true}
	for _, f := range img.Files {
		if err := parents(w, made, path.Dir(strings.TrimSuffix(f.Name, "/"))); err != nil {
			return nil, err
		}
		h := &tar.Header{Name: f.Name, Mode: f.Mode, Uid: f.Uid, Gid: f.Gid, Typeflag: tar.TypeReg, Size: int64(len(f.Body))}
		switch {
		case f.Link != "":
			h.Typeflag, h.Linkname, h.Size, h.Mode = tar.TypeSymlink, f.Link, 0, 0o777
		case strings.HasSuffix(f.Name, "/"):
			h.Typeflag, h.Size = tar.TypeDir, 0
		}
		made[path.Clean(f.Name)] = true
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if h.Size > 0 {
			if _, err := w.Write(f.Body); err != nil {
				return nil, fmt.Errorf("%s: %w", f.Name, err)
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// parents writes the directories above an entry that no entry has made yet.
func parents(w *tar.Writer, made map[string]bool, dir string) error {
	if made[dir] {
		return nil
	}
	if err := parents(w, made, path.Dir(dir)); err != nil {
		return err
	}
	made[dir] = true
	return w.WriteHeader(&tar.Header{Name: dir + "/", Mode: 0o755, Typeflag: tar.TypeDir})
}

// FromHost is an image entry with the content of a file of this machine, links
// followed, at the place that name says.
func FromHost(t testing.TB, name, hostPath string, mode int64) File {
	t.Helper()
	body, err := os.ReadFile(hostPath)
	if err != nil {
		t.Fatalf("image file %s: %v", name, err)
	}
	return File{Name: name, Mode: mode, Body: body}
}
