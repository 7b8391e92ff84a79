//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/docker/docker/client"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/workspace"
)

// bed is a workspace in a container, and the engine's API to do the same with.
type bed struct {
	bin    string // directory of the built programs
	dir    string // everything of this run, removed at its end
	image  string
	engine *container.Engine
	ws     *workspace.Workspace
	raw    rawEngine
	id     string // the workspace's container
}

func measureExec(ctx context.Context, r *report, o options) error {
	b := &bed{}
	err := b.open(ctx, o)
	for _, measure := range []func(context.Context, *report) error{b.warm, b.parallel, b.bulk, b.whole} {
		if err == nil {
			err = measure(ctx, r)
		}
	}
	return errors.Join(err, b.close())
}

// connect finds the built programs and the engine, and makes what both need.
func (b *bed) connect(ctx context.Context, o options) (err error) {
	if b.bin, err = filepath.Abs(o.bin); err != nil {
		return err
	}
	for _, name := range []string{"wsctl", "wskeeper"} {
		if _, err := os.Stat(filepath.Join(b.bin, name)); err != nil {
			return fmt.Errorf("%w (`make build` makes it)", err)
		}
	}
	if b.raw.cli, err = client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation()); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "wsctl-bench-"); err != nil {
		return err
	}
	if err := os.Mkdir(b.root(), 0o755); err != nil {
		return err
	}
	if b.image, err = b.raw.busyBox(ctx); err != nil {
		return err
	}
	b.engine, err = container.Connect(ctx, container.EngineOptions{Host: b.raw.cli.DaemonHost(), CertDir: os.Getenv("DOCKER_CERT_PATH")})
	return err
}

// options are those of every container here.
func (b *bed) options() container.Options {
	return container.Options{Image: b.image, CacheDir: filepath.Join(b.dir, "cache"), Keeper: filepath.Join(b.bin, "wskeeper")}
}

func (b *bed) open(ctx context.Context, o options) error {
	if err := b.connect(ctx, o); err != nil {
		return err
	}
	d, err := container.New(ctx, b.engine, b.root(), b.options())
	if err != nil {
		return err
	}
	if b.ws, err = workspace.New(d, workspace.Options{}); err != nil {
		return errors.Join(err, d.Close())
	}
	if err := b.ws.Ready(ctx); err != nil {
		return err
	}
	b.id, err = b.raw.below(ctx, b.root())
	return err
}

func (b *bed) root() string { return filepath.Join(b.dir, "root") }

func (b *bed) close() error {
	var errs []error
	if b.ws != nil {
		errs = append(errs, b.ws.Close())
	}
	if b.engine != nil {
		errs = append(errs, b.engine.Close())
	}
	if b.raw.cli != nil {
		errs = append(errs, b.raw.cli.Close())
	}
	if b.dir != "" {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return errors.Join(errs...)
}

// run is a command of ours that must succeed.
func (b *bed) run(ctx context.Context, c workspace.Command) error {
	out, err := b.ws.Exec(ctx, c)
	if err == nil && out.ExitCode != 0 {
		err = fmt.Errorf("%v: status %d: %s", c.Args, out.ExitCode, out.Stderr)
	}
	return err
}

func trueCommand() workspace.Command { return workspace.Command{Args: []string{"true"}} }

// warm compares one command after another.
func (b *bed) warm(ctx context.Context, r *report) error {
	// The first command starts the keeper that the others find.
	if err := b.run(ctx, trueCommand()); err != nil {
		return err
	}
	ours := &side{name: "Workspace.Exec", block: 100, call: func() error { return b.run(ctx, trueCommand()) }}
	raw := &side{name: "create, start, inspect by the API", block: 5, call: func() error { return b.raw.exec(ctx, b.id, io.Discard, "true") }}
	if err := alternate(ctx, 12*time.Second, ours, raw); err != nil {
		return err
	}
	cli := &side{name: "docker exec", call: func() error { return command(ctx, nil, "docker", "exec", b.id, "true") }}
	sides := []*side{cli}
	other, err := startTestcontainer(ctx, b.image)
	if err != nil {
		// It looks for more than an engine: networks, its own reaper.
		r.line("testcontainers-go is not measured: %v", err)
	} else {
		sides = append(sides, &side{name: "testcontainers-go Exec", call: func() error { return other.exec(ctx, "true") }})
	}
	err = alternate(ctx, 3*time.Second, sides...)
	if other.c != nil {
		err = errors.Join(err, other.close(ctx))
	}
	if err != nil {
		return err
	}
	r.compared("true, one after another", append([]*side{ours, raw}, sides...)...)
	r.add(bar{name: "exec.warm-p50", measured: ours.ratio(raw, 0.5), limit: 1.0 / 20})
	r.add(bar{name: "exec.warm-p99", measured: ours.ratio(raw, 0.99), limit: 1.0 / 10})
	return nil
}

// parallel compares many commands at once. Raw ones are fewer, since 400 of them
// take half a minute; what is compared are rates. The first of ours start the
// keepers that the others find.
func (b *bed) parallel(ctx context.Context, r *report) error {
	const atOnce, oursEach, rawEach = 40, 400, 40
	ours := &side{name: "400 of ours, 40 at a time", call: func() error {
		return many(oursEach, atOnce, func() error { return b.run(ctx, trueCommand()) })
	}}
	raw := &side{name: "40 raw ones, 40 at a time", call: func() error {
		return many(rawEach, atOnce, func() error { return b.raw.exec(ctx, b.id, io.Discard, "true") })
	}}
	if err := alternate(ctx, 10*time.Second, ours, raw); err != nil {
		return err
	}
	r.compared("true, 40 at a time", ours, raw)
	oursRate, rawRate := oursEach/ours.mean().Seconds(), rawEach/raw.mean().Seconds()
	r.line("  %.0f commands a second against %.1f raw ones; at least 15×", oursRate, rawRate)
	r.add(bar{name: "exec.parallel", measured: oursRate / rawRate, limit: 15, atLeast: true})
	return nil
}

// many makes n calls, so many at once, and returns the first error.
func many(n, atOnce int, call func() error) error {
	var wg sync.WaitGroup
	errs := make(chan error, n)
	turns := make(chan struct{}, atOnce)
	for range n {
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if err := call(); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// bulk compares how fast much output comes, and looks at our memory meanwhile.
func (b *bed) bulk(ctx context.Context, r *report) error {
	const size = 64 << 20
	line := fmt.Sprintf("head -c %d /dev/zero", size)
	var most, base uint64
	ours := &side{name: "Workspace.Exec with a writer", call: func() error {
		var got counter
		base = max(base, heap())
		stop := watchHeap(&most)
		err := b.run(ctx, workspace.Command{Shell: line, Stdout: &got})
		stop()
		return got.expect(size, err)
	}}
	raw := &side{name: "raw exec", call: func() error {
		var got counter
		return got.expect(size, b.raw.exec(ctx, b.id, &got, "sh", "-c", line))
	}}
	if err := alternate(ctx, 8*time.Second, ours, raw); err != nil {
		return err
	}
	r.compared("64 MiB of output", ours, raw)
	grown := float64(max(most, base)-base) / (1 << 20)
	r.line("  %.0f MiB/s against %.0f raw; at least 0.9×. Our heap grows by %.1f MiB meanwhile", size>>20/ours.at(0.5).Seconds(), size>>20/raw.at(0.5).Seconds(), grown)
	r.add(bar{name: "exec.bulk", measured: 1 / ours.ratio(raw, 0.5), limit: 0.9, atLeast: true})
	r.add(bar{name: "exec.bulk-heap-MiB", measured: grown, limit: 8})
	return nil
}

// counter counts what is written to it.
type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

func (c *counter) expect(n int64, err error) error {
	if err == nil && c.n != n {
		err = fmt.Errorf("%d bytes of output, not %d", c.n, n)
	}
	return err
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// watchHeap raises *most to the largest heap that it sees until stop.
func watchHeap(most *uint64) (stop func()) {
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				*most = max(*most, heap())
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-stopped }
}

// whole compares a run of the program with what it takes by hand.
func (b *bed) whole(ctx context.Context, r *report) error {
	same, err := b.raw.request(ctx, b.id)
	if err != nil {
		return err
	}
	env := append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(b.dir, "xdg"), "DOCKER_HOST="+b.raw.cli.DaemonHost())
	ours := &side{name: "wsctl run -- true", call: func() error {
		return command(ctx, env, filepath.Join(b.bin, "wsctl"), "run", "-q", "--root", b.root(), "--image", b.image, "--", "true")
	}}
	raw := &side{name: "create, start, exec, remove", call: func() error { return b.raw.whole(ctx, same) }}
	if err := alternate(ctx, 12*time.Second, ours, raw); err != nil {
		return err
	}
	r.compared("container and all", ours, raw)
	r.add(bar{name: "exec.run", measured: ours.ratio(raw, 0.5), limit: 1.35})
	return nil
}
