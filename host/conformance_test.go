//go:build unix

package host_test

import (
	"testing"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
	"github.com/wsctl/wsctl/workspace/drivertest"
)

// TestConformance holds the driver to the contract, with a keeper and without.
func TestConformance(t *testing.T) {
	t.Parallel()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			conform(t, w.keeper)
		})
	}
}

func conform(t *testing.T, kept bool) {
	t.Helper()
	var chapters []string
	switch {
	case testing.Short():
		// Where a user's rights show.
		chapters = []string{"files", "paths", "exec", "errors"}
	case !kept && !enginetest.Soak():
		// Files are the same code on both ways.
		chapters = []string{"lifecycle", "exec", "streams", "background", "processes", "errors", "snapshots"}
	}
	drivertest.Run(t, drivertest.Harness{
		Chapters: chapters,
		New: func(t testing.TB, o workspace.Options) (*workspace.Workspace, string) {
			dir := t.TempDir()
			options := host.Options{Env: []string{path}}
			if kept {
				options.Keeper = keeperPath(t)
			}
			d, err := host.New(dir, options)
			if err != nil {
				t.Fatal(err)
			}
			if d.EndsEscapees() != kept {
				t.Errorf("EndsEscapees is %v", d.EndsEscapees())
			}
			ws, err := workspace.New(d, o)
			if err != nil {
				t.Fatal(err)
			}
			return ws, dir
		},
		Snapshots: snapshots,
		Capabilities: drivertest.Capabilities{
			EndsEscapees: kept,
			Start:        true,
			Terminal:     kept,
			Signals:      true,
			Usage:        true,
		},
	})
}
