//go:build unix

package main

import (
	"context"
	"errors"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/wsctl/wsctl/workspace"
)

// completeTime is how long a shell waits for the names at a Tab.
const completeTime = 2 * time.Second

// completeWorkspaces offers the names of workspaces for the first most arguments, 0
// for all.
func (a *app) completeWorkspaces(most int, where *whereOptions) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveDefault
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		f, err := a.fleet(ctx, where)
		if err != nil {
			return nil, directive
		}
		defer f.Close()
		list, err := f.List(ctx)
		if err != nil {
			return nil, directive
		}
		var names []string
		for _, w := range list {
			if strings.HasPrefix(w.Name, begin) && !slices.Contains(args, w.Name) {
				names = append(names, w.Name+"\t"+escapeLine(w.Root))
			}
		}
		return names, directive
	}
}

// untilSignal ends the context when somebody asks wsctl to stop.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
}

// stopped marks a failure that a signal brought.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, workspace.ErrAborted) {
		return &interruptedError{sig: syscall.SIGINT, err: err}
	}
	return err
}

// absolute is the path as seen from the root directory, or itself.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
