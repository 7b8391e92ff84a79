//go:build linux

package main

import (
	"context"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/wsctl/wsctl/orchestrator"
)

// pooled is how many workspaces wait ready where claims are measured.
const pooled = 4

// measureClaim measures what one gets out of the warm pool against what is made
// anew: the same Create, of a workspace that is ready for commands when it returns.
func measureClaim(ctx context.Context, r *report, o options) error {
	b := &bed{}
	err := b.connect(ctx, o)
	if err == nil {
		err = b.claims(ctx, r)
	}
	return errors.Join(err, b.close())
}

func (b *bed) claims(ctx context.Context, r *report) (err error) {
	config := func(pool int) orchestrator.Config {
		return orchestrator.Config{
			Dir: filepath.Join(b.dir, "server"), Pool: pool,
			Backends: func(prefix string) map[string]orchestrator.Backend {
				return map[string]orchestrator.Backend{orchestrator.DriverContainer: orchestrator.ContainerBackend{Engine: b.engine, Prefix: prefix, Options: b.options()}}
			},
		}
	}
	server, err := orchestrator.Open(ctx, config(pooled))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close(), emptied(config(0))) }()
	made := ""
	create := func(s orchestrator.Spec) func() error {
		return func() error {
			w, err := server.Create(ctx, s)
			made = w.ID
			return err
		}
	}
	// Each is removed before the next one is made, and the pool is full again:
	// nothing goes on beside what is timed.
	settle := func() error {
		if made != "" {
			if err := server.Remove(ctx, made); err != nil {
				return err
			}
			made = ""
		}
		return waitPooled(ctx, server, pooled)
	}
	claim := &side{name: "Create, out of the pool", prepare: settle, call: create(orchestrator.Spec{})}
	// Labels do not matter to the pool; a network that is named does.
	cold := &side{name: "Create, from nothing", prepare: settle, call: create(orchestrator.Spec{Network: "none"})}
	if err := alternate(ctx, 25*time.Second, claim, cold); err != nil {
		return err
	}
	r.compared("a workspace that is ready", claim, cold)
	r.add(bar{name: "orchestrator.claim", measured: claim.ratio(cold, 0.5), limit: 1.0 / 20})
	return nil
}

// waitPooled waits until so many wait in the pool.
func waitPooled(ctx context.Context, server *orchestrator.Orchestrator, n int) error {
	want := "\nwsctl_pooled " + strconv.Itoa(n) + "\n"
	for ctx.Err() == nil {
		w := httptest.NewRecorder()
		server.Metrics().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if strings.Contains(w.Body.String(), want) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return ctx.Err()
}

// emptied opens a server once more, and removes what it has: a pool that is to have
// none is given up by its next server.
func emptied(c orchestrator.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server, err := orchestrator.Open(ctx, c)
	if err != nil {
		return err
	}
	defer server.Close()
	err = waitPooled(ctx, server, 0)
	for _, w := range server.List() {
		err = errors.Join(err, server.Remove(ctx, w.ID))
	}
	return err
}
