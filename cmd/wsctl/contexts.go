//go:build unix

package main

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/wsctl/wsctl/workspace"
)

// contextsFile is in the user's configuration directory, and holds tokens.
const contextsFile = "contexts.json"

// defaultContext is the engine of this machine.
const defaultContext = "default"

// contexts are servers under names, of which one is in use.
type contexts struct {
	Current  string              `json:"current,omitempty"`
	Contexts map[string]endpoint `json:"contexts,omitempty"`
}

// endpoint returns the server of a context; nil for the engine.
func (c contexts) endpoint(name string) (*endpoint, error) {
	if name == "" || name == defaultContext {
		return nil, nil
	}
	e, ok := c.Contexts[name]
	if !ok {
		return nil, workspace.Errorf(workspace.ErrNotFound, "context", name, "there is no such context; wsctl context ls lists them")
	}
	return &e, nil
}

// names are all, the engine's first.
func (c contexts) names() []string {
	return append([]string{defaultContext}, slices.Sorted(maps.Keys(c.Contexts))...)
}

// readContexts returns the user's contexts; there need be none.
func readContexts(ctx context.Context, env environment) (c contexts, err error) {
	if env.configDir() == "" {
		return c, nil
	}
	dir, err := openPrivate(env.configDir())
	if errors.Is(err, workspace.ErrNotFound) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	defer dir.close()
	return c, dir.readJSON(ctx, contextsFile, &c)
}

// changeContexts changes them in one step.
func changeContexts(ctx context.Context, env environment, change func(*contexts) error) error {
	if env.configDir() == "" {
		return workspace.Errorf(workspace.ErrInvalidArgument, "context", "", "neither HOME nor XDG_CONFIG_HOME is an absolute path; set one")
	}
	dir, err := makePrivate(env.configDir())
	if err != nil {
		return err
	}
	defer dir.close()
	c := contexts{}
	if err := dir.readJSON(ctx, contextsFile, &c); err != nil {
		return err
	}
	if c.Contexts == nil {
		c.Contexts = map[string]endpoint{}
	}
	if err := change(&c); err != nil {
		return err
	}
	return dir.writeJSON(ctx, contextsFile, c)
}
