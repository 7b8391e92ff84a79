//go:build unix

package host_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/workspace"
)

// path is what the commands of these tests need.
const path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// ways are the two ways to run commands.
var ways = []struct {
	name   string
	keeper bool
}{{"keeper", true}, {"groups", false}}

// open returns a workspace over an empty directory, closed when the test ends.
func open(t testing.TB, kept bool, o host.Options) *workspace.Workspace {
	t.Helper()
	if kept {
		o.Keeper = keeperPath(t)
	}
	if o.Env == nil {
		o.Env = []string{path}
	}
	d, err := host.New(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ws.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return ws
}

// keeperPath is a keeper, where there is one for this system.
func keeperPath(t testing.TB) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("a keeper runs on Linux only")
	}
	return enginetest.Keeper(t)
}

// each runs a test in both ways.
func each(t *testing.T, run func(t *testing.T, kept bool)) {
	t.Helper()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			run(t, w.keeper)
		})
	}
}

// BenchmarkTrue is a command that does nothing, as a caller of the workspace
// waits for it.
func BenchmarkTrue(b *testing.B) {
	for _, w := range ways {
		b.Run(w.name, func(b *testing.B) {
			ws := open(b, w.keeper, host.Options{})
			if err := ws.Ready(b.Context()); err != nil {
				b.Fatal(err)
			}
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				out, err := ws.Exec(b.Context(), workspace.Command{Args: []string{"true"}})
				if err != nil || out.ExitCode != 0 {
					b.Fatal(out, err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
		})
	}
}
