//go:build unix

package container

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"

	"github.com/wsctl/wsctl/internal/enginetest"
)

// registry is a registry on the loopback interface, which the engine trusts
// without TLS. It has one image, "PREFIX/there:latest", of one layer that no
// engine has yet (the distribution API, version 2: ping, manifests, blobs).
type registry struct {
	ref string // the image
	// base is what other names at this registry begin with.
	base string
	// layerID is the short id under which progress tells of the layer.
	layerID string
	digest  string // of the manifest
	// slow has the layer come a little at a time, until the client leaves.
	slow atomic.Bool
	// left is told when the client leaves in the middle of the layer; began
	// when it has half of it. Both are of slow alone.
	began, left chan struct{}
	// closed ends the waiting for an engine that does not leave.
	closed  chan struct{}
	release func() // closes closed

	manifest, config, layer []byte
}

func digest(b []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(b)) }

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r := &registry{began: make(chan struct{}, 10), left: make(chan struct{}, 10), closed: make(chan struct{})}
	r.release = sync.OnceFunc(func() { close(r.closed) })
	noise := make([]byte, 1<<20)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	var plain, packed bytes.Buffer
	w := tar.NewWriter(&plain)
	if err := w.WriteHeader(&tar.Header{Name: "noise", Mode: 0o644, Size: int64(len(noise))}); err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write(noise)
	_ = w.Close()
	z := gzip.NewWriter(&packed)
	_, _ = z.Write(plain.Bytes())
	_ = z.Close()
	r.layer = packed.Bytes()
	r.layerID = strings.TrimPrefix(digest(r.layer), "sha256:")[:12]
	r.config = mustJSON(t, map[string]any{
		"architecture": "amd64", "os": "linux", "created": "2020-01-01T00:00:00Z",
		"config": map[string]any{"Env": []string{"A=b", "LD_PRELOAD=/x"}, "Cmd": []string{"/noise"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(plain.Bytes())}},
	})
	const docker = "application/vnd.docker."
	r.manifest = mustJSON(t, map[string]any{
		"schemaVersion": 2, "mediaType": docker + "distribution.manifest.v2+json",
		"config": map[string]any{"mediaType": docker + "container.image.v1+json", "size": len(r.config), "digest": digest(r.config)},
		"layers": []any{map[string]any{"mediaType": docker + "image.rootfs.diff.tar.gzip", "size": len(r.layer), "digest": digest(r.layer)}},
	})
	r.digest = digest(r.manifest)
	s := httptest.NewServer(r)
	t.Cleanup(func() {
		r.release()
		s.Close()
	})
	r.base = strings.TrimPrefix(s.URL, "http://") + "/"
	r.ref = r.base + "there"
	cli := enginetest.Client(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		// Not there where the test pulled nothing.
		_, _ = cli.ImageRemove(ctx, r.ref, image.RemoveOptions{Force: true})
	})
	return r
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	rest, there := strings.CutPrefix(q.URL.Path, "/v2/there/")
	switch {
	case q.URL.Path == "/v2/":
		w.WriteHeader(http.StatusOK)
	case there && (rest == "manifests/latest" || rest == "manifests/"+r.digest):
		w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.v2+json")
		w.Header().Set("Docker-Content-Digest", r.digest)
		_, _ = w.Write(r.manifest)
	case there && rest == "blobs/"+digest(r.config):
		_, _ = w.Write(r.config)
	case there && rest == "blobs/"+digest(r.layer):
		r.sendLayer(w, q)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown","detail":{"Tag":"?"}}]}`))
	}
}

// sendLayer sends the layer, or one half and then nothing until the client leaves.
func (r *registry) sendLayer(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Content-Length", fmt.Sprint(len(r.layer)))
	if !r.slow.Load() {
		_, _ = w.Write(r.layer)
		return
	}
	_, _ = w.Write(r.layer[:len(r.layer)/2])
	w.(http.Flusher).Flush()
	r.began <- struct{}{}
	select {
	case <-q.Context().Done():
		r.left <- struct{}{}
	case <-r.closed:
	}
}
