package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/workspace"
)

// engine says where the engine is, as docker's own client finds it: DOCKER_HOST,
// else the context that DOCKER_CONTEXT or the client's configuration names, else the
// socket where Docker puts it, or that of a rootless engine. The configuration is
// the user's, in DOCKER_CONFIG or ~/.docker; nothing in the workspace is looked at,
// and nothing is run or written.
func (e environment) engine() (container.EngineOptions, error) {
	// As docker's own client: a certificate directory counts when it is named.
	o := container.EngineOptions{Host: e.get("DOCKER_HOST"), CertDir: e.get("DOCKER_CERT_PATH")}
	if o.Host != "" {
		return o, nil
	}
	dir := e.dockerConfig()
	name := e.get("DOCKER_CONTEXT")
	if name == "" {
		var config struct {
			CurrentContext string `json:"currentContext"`
		}
		if err := readDockerFile(filepath.Join(dir, "config.json"), &config); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return o, contextError("", "the configuration of docker's client, %s: %w; mend it, or set DOCKER_HOST", filepath.Join(dir, "config.json"), err)
		}
		name = config.CurrentContext
	}
	if name != "" && name != "default" {
		return dockerContext(dir, name)
	}
	o.Host = e.usualSocket()
	return o, nil
}

// usualSocket is where Docker puts its socket, or a rootless engine.
func (e environment) usualSocket() string {
	const usual = "/var/run/docker.sock"
	if _, err := os.Stat(usual); err == nil {
		return "unix://" + usual
	}
	if dir := e.get("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		rootless := filepath.Join(dir, "docker.sock")
		if _, err := os.Stat(rootless); err == nil {
			return "unix://" + rootless
		}
	}
	return "unix://" + usual
}

// dockerConfig is the directory of docker's client; not absolute when there is none.
func (e environment) dockerConfig() string {
	if dir := e.get("DOCKER_CONFIG"); dir != "" {
		return dir
	}
	return filepath.Join(e.get("HOME"), ".docker")
}

// dockerContext reads a context of docker's client: contexts/meta/ID/meta.json and
// contexts/tls/ID/docker, ID being the SHA-256 of the name (docs.docker.com/engine/
// manage-resources/contexts).
func dockerContext(dir, name string) (container.EngineOptions, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	var meta struct {
		Name      string
		Endpoints map[string]struct {
			Host          string
			SkipTLSVerify bool
		}
	}
	err := readDockerFile(filepath.Join(dir, "contexts", "meta", id, "meta.json"), &meta)
	endpoint, ok := meta.Endpoints["docker"]
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return container.EngineOptions{}, contextError(name, "docker's client has no such context in %s; see docker context ls, or set DOCKER_HOST", dir)
	case err != nil:
		return container.EngineOptions{}, contextError(name, "docker's context in %s: %w; mend it, or set DOCKER_HOST", dir, err)
	case !ok || endpoint.Host == "" || meta.Name != name:
		return container.EngineOptions{}, contextError(name, "docker's context in %s names no engine; mend it, or set DOCKER_HOST", dir)
	case endpoint.SkipTLSVerify:
		return container.EngineOptions{}, contextError(name, "docker's context does not check who answers, and whoever does is root here; give the engine a certificate")
	}
	o := container.EngineOptions{Host: endpoint.Host}
	certs := filepath.Join(dir, "contexts", "tls", id, "docker")
	if fi, err := os.Stat(certs); err == nil && fi.IsDir() {
		o.CertDir = certs
	}
	return o, nil
}

func contextError(name, format string, args ...any) error {
	return workspace.Errorf(workspace.ErrUnavailable, "docker context", name, format, args...)
}

// maxDockerFile bounds a file of docker's client, in bytes.
const maxDockerFile = 1 << 20

// readDockerFile decodes a regular file of docker's client.
func readDockerFile(path string, into any) error {
	if !filepath.IsAbs(path) {
		return fs.ErrNotExist
	}
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return errors.New("it is no file")
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxDockerFile))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
