package enginetest

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
)

// Left is a container that mounts something of a test's directory.
type Left struct {
	ID    string
	Name  string // with the engine's leading slash
	State string // created, running, paused, exited, dead …
}

// Dir returns a new directory for the roots of a test, without links in its
// path, and removes every container that still mounts anything below it when the
// test ends. No other container is looked at, so tests that run at the same time
// leave each other's alone.
func Dir(t testing.TB) string {
	t.Helper()
	cli := Client(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// The test's own context is done by now.
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		left, err := mounting(ctx, cli, dir)
		if err != nil {
			t.Errorf("sweep of %s: %v", dir, err)
		}
		for _, c := range left {
			_ = cli.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		}
	})
	return dir
}

// Below lists the containers, in whatever state, that mount dir or anything
// below it: what a test for leftovers expects to be empty.
func Below(t testing.TB, dir string) []Left {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	left, err := mounting(ctx, Client(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	return left
}

// mounting goes by the mounts, which the engine knows of every container, and
// not by labels, which are what the code under test may get wrong. What has no name
// is the shadow of a container that is gone, which the engine lists for ever.
func mounting(ctx context.Context, cli *client.Client, dir string) ([]Left, error) {
	all, err := cli.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return nil, err
	}
	var found []Left
	for _, c := range all {
		if len(c.Names) == 0 {
			continue
		}
		for _, m := range c.Mounts {
			if m.Source == dir || strings.HasPrefix(m.Source, dir+"/") {
				found = append(found, Left{ID: c.ID, Name: strings.Join(c.Names, ","), State: string(c.State)})
				break
			}
		}
	}
	return found, nil
}
