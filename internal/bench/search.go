//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/search"
	"github.com/wsctl/wsctl/workspace"
)

// measureSearch searches the tree of Go itself.
func measureSearch(ctx context.Context, r *report) error {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env GOROOT: %w", err)
	}
	dir := strings.TrimSpace(string(root))
	d, err := host.New(dir, host.Options{})
	if err != nil {
		return err
	}
	ws, err := workspace.New(d, workspace.Options{})
	if err != nil {
		return errors.Join(err, d.Close())
	}
	defer ws.Close()
	for _, g := range []struct {
		name, pattern string
		ignoreCase    bool
		some          bool // it has a match
		limit         float64
	}{
		{"literal", "Context", false, true, 1.5},
		{"no-hit", "zqzqNoSuchText", false, false, 1.5},
		{"regexp", "func .*Context", false, true, 2},
		{"ignore-case", "deadline", true, true, 3},
	} {
		ours := &side{name: "search.Grep", call: func() error {
			m, err := search.Grep(ctx, ws, g.pattern, search.GrepOptions{IgnoreCase: g.ignoreCase})
			if err == nil && ((m.Count > 0) != g.some || m.Searched < 1000) {
				err = fmt.Errorf("%d matches in %d files", m.Count, m.Searched)
			}
			return err
		}}
		args := []string{"--no-config", "--line-number", "-e", g.pattern, dir}
		if g.ignoreCase {
			args = append([]string{"--ignore-case"}, args...)
		}
		rg := &side{name: "rg", call: program(ctx, g.some, "rg", args...)}
		if err := alternate(ctx, 7*time.Second, ours, rg); err != nil {
			return err
		}
		r.compared("grep "+g.pattern+" in the Go tree", ours, rg)
		r.add(bar{name: "tools.grep-" + g.name, measured: ours.ratio(rg, 0.5), limit: g.limit})
	}
	ours := &side{name: "search.Glob", call: func() error {
		f, err := search.Glob(ctx, ws, "**/*_test.go", search.FindOptions{})
		if err == nil && f.Total < 100 {
			err = fmt.Errorf("%d files", f.Total)
		}
		return err
	}}
	fd := &side{name: "fdfind", call: program(ctx, true, "fdfind", "--glob", "*_test.go", dir)}
	if err := alternate(ctx, 4*time.Second, ours, fd); err != nil {
		return err
	}
	r.compared("glob **/*_test.go in the Go tree", ours, fd)
	r.add(bar{name: "tools.glob", measured: ours.ratio(fd, 0.5), limit: 1.5})
	return nil
}

// program runs a program, its output dropped. Where it is to find nothing it
// exits with 1.
func program(ctx context.Context, finds bool, name string, args ...string) func() error {
	return func() error {
		err := exec.CommandContext(ctx, name, args...).Run()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 && !finds {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
}
