//go:build unix

package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/wsctl/wsctl/workspace"
)

// Bounds of the search for sockets below a directory: enough for what somebody
// puts beside a project, cheap enough for every start.
const (
	socketDepth   = 3
	socketEntries = 20_000
)

// refuseSockets refuses a directory with a container engine's socket in it:
// whoever can write to one is root on this machine. dir is the open directory, id
// its identity. Known sockets are found wherever they are, others by their names,
// within bounds and in dir's own file system: mounts below it are not passed on.
func (p placePolicy) refuseSockets(ctx context.Context, dir *os.File, id fileID) error {
	for _, socket := range p.engineSockets() {
		real, err := filepath.EvalSymlinks(socket)
		if err == nil && passes(filepath.Dir(real), id) {
			return errors.New("the engine's socket " + workspace.Printable(socket) + " is in it: a command would be root on this machine; name a directory without it")
		}
	}
	s := socketSearch{dev: id.dev, left: socketEntries}
	found, err := s.search(ctx, dir, ".", socketDepth)
	switch {
	case err != nil:
		return err
	case found != "":
		return errors.New("it holds the socket of a container engine, " + workspace.Printable(found) + ": a command could be root on this machine; remove it, or name a directory without it")
	}
	return nil
}

// engineSockets are the paths at which engines of this machine listen.
func (p placePolicy) engineSockets() []string {
	run := fmt.Sprintf("/run/user/%d", unix.Geteuid())
	sockets := []string{
		"/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock", "/run/crio/crio.sock",
		run + "/docker.sock", run + "/podman/podman.sock", run + "/containerd/containerd.sock",
	}
	if p.EngineSocket != "" {
		sockets = append(sockets, p.EngineSocket)
	}
	for _, home := range p.Homes {
		for _, name := range []string{".docker/run/docker.sock", ".docker/desktop/docker.sock", ".colima/default/docker.sock", ".orbstack/run/docker.sock"} {
			sockets = append(sockets, filepath.Join(home, name))
		}
	}
	return sockets
}

// socketSearch is one bounded search.
type socketSearch struct {
	dev  uint64 // of the file system to stay in
	left int    // entries that may still be looked at
}

// search returns the path, below where it began, of the first engine socket among
// the entries of dir, depth levels deep, or "". Directories that cannot be read
// are passed over: commands run as no more than the caller. It follows no link.
func (s *socketSearch) search(ctx context.Context, dir *os.File, name string, depth int) (string, error) {
	var below []string
	for s.left > 0 {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		entries, err := dir.ReadDir(min(s.left, 512))
		s.left -= len(entries)
		for _, e := range entries {
			switch {
			case e.Type()&fs.ModeSocket != 0 && isEngineSocket(e.Name()):
				return path.Join(name, e.Name()), nil
			case e.IsDir() && depth > 1:
				below = append(below, e.Name())
			}
		}
		if err == io.EOF || len(entries) == 0 {
			break
		}
	}
	for _, e := range below {
		found, err := s.enter(ctx, dir, path.Join(name, e), e, depth-1)
		if found != "" || err != nil {
			return found, err
		}
	}
	return "", nil
}

// enter searches one directory of dir.
func (s *socketSearch) enter(ctx context.Context, dir *os.File, name, entry string, depth int) (string, error) {
	d, st, err := openDirectoryAt(int(dir.Fd()), entry, unix.O_NOFOLLOW)
	if err != nil {
		return "", nil // gone, another kind by now, or not for us
	}
	defer d.Close()
	if uint64(st.Dev) != s.dev {
		return "", nil
	}
	return s.search(ctx, d, name, depth)
}

// isEngineSocket goes by the name; the file is known to be a socket.
func isEngineSocket(name string) bool {
	if !strings.HasSuffix(name, ".sock") {
		return false
	}
	for _, engine := range []string{"docker", "containerd", "podman", "crio", "buildkit"} {
		if strings.Contains(strings.ToLower(name), engine) {
			return true
		}
	}
	return false
}
