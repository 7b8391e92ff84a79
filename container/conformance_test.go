//go:build unix

package container_test

import (
	"testing"
	"time"

	"github.com/wsctl/wsctl/container"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
	"github.com/wsctl/wsctl/workspace/drivertest"
)

// TestConformance holds both ways of running a command to the contract. Files
// are the same code on both, and every command of the cold way costs an exec, so it
// runs whole in a soak only; as another user, what a user is to commands is all
// there is to see.
func TestConformance(t *testing.T) {
	// Not at once: the hostile chapter leaves little to others.
	t.Run("warm", func(t *testing.T) { conform(t, way{kept: true}) })
	t.Run("cold", func(t *testing.T) {
		if testing.Short() {
			t.Skip("-short: the cold path was left out; it takes minutes")
		}
		conform(t, way{})
	})
}

// TestConformanceOfShells is about the shells that images have besides BusyBox's: the
// persistent shell, and in a soak everything in which a shell takes part, hold over
// each as sh.
func TestConformanceOfShells(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: every shell but BusyBox's was left out; it takes a minute")
	}
	for _, shell := range []string{"dash", "bash"} {
		image := enginetest.ShellAs(t, shell)
		if image == "" {
			continue // this machine has none
		}
		chapters := []string{"shell"}
		if enginetest.Soak() {
			chapters = []string{"shell", "exec", "background", "streams", "hostile", "processes"}
		}
		t.Run(shell, func(t *testing.T) { conform(t, way{kept: true, image: image, chapters: chapters}) })
		if enginetest.Soak() {
			t.Run(shell+", cold", func(t *testing.T) { conform(t, way{image: image, chapters: chapters}) })
		}
	}
}

// way is one way to run commands.
type way struct {
	kept     bool
	image    string   // empty: BusyBox
	chapters []string // nil: those of an ordinary run
}

func conform(t *testing.T, w way) {
	t.Helper()
	engine, kept := connect(t), w.kept
	limited := func(t testing.TB, o workspace.Options, l drivertest.Limits) (*workspace.Workspace, string) {
		opts := options(t)
		opts.Memory, opts.Pids = l.Memory, l.Pids
		if !kept {
			opts.Keeper = ""
		}
		if w.image != "" {
			opts.Image = w.image
		}
		root := newRoot(t)
		d, err := container.New(t.Context(), engine, root, opts)
		if err != nil {
			t.Fatal(err)
		}
		ws, err := workspace.New(d, o)
		if err != nil {
			t.Fatal(err)
		}
		return ws, root
	}
	slower, maxArgs, slack := 1, 0, time.Duration(0)
	chapters := w.chapters
	switch {
	case chapters != nil:
	case testing.Short():
		chapters = []string{"exec"}
	case !kept && !enginetest.Soak():
		chapters = []string{"streams", "errors"}
	}
	keep := snapshots
	if !kept {
		// Each command is an exec of its own, and the engine starts several at
		// once no faster than one after the other.
		slower, maxArgs, slack = 3, 256<<10, 2*time.Second
		keep = nil // what a command left cannot be told from what keeps the container
	}
	drivertest.Run(t, drivertest.Harness{
		Slower:   slower,
		Slack:    slack,
		Chapters: chapters,
		MaxArgs:  maxArgs,
		New: func(t testing.TB, o workspace.Options) (*workspace.Workspace, string) {
			return limited(t, o, drivertest.Limits{})
		},
		NewLimited: limited,
		Snapshots:  keep,
		Capabilities: drivertest.Capabilities{
			Confined:     true,
			Masked:       true,
			EndsEscapees: kept,
			Start:        true,
			Terminal:     kept,
			Signals:      kept,
			Usage:        kept,
			Pause:        true,
		},
	})
}
