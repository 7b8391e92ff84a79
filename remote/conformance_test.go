//go:build unix

package remote_test

import (
	"net/http/httptest"
	"runtime"
	"testing"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/internal/enginetest"
	"github.com/wsctl/wsctl/remote"
	"github.com/wsctl/wsctl/workspace"
	"github.com/wsctl/wsctl/workspace/drivertest"
)

// hostEnv is what the commands of these tests need.
const hostEnv = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// newHost returns a workspace over an empty directory of this machine. It is
// closed when the test ends.
func newHost(t testing.TB) (ws *workspace.Workspace, dir string) {
	t.Helper()
	dir = t.TempDir()
	o := host.Options{Env: []string{hostEnv}}
	if runtime.GOOS == "linux" {
		o.Keeper = enginetest.Keeper(t)
	}
	d, err := host.New(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	ws, err = workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ws.Close(); err != nil {
			t.Errorf("Close of the served workspace: %v", err)
		}
	})
	return ws, dir
}

// serve serves ws to everybody and returns the address.
func serve(t testing.TB, ws *workspace.Workspace, o remote.Options) (address string) {
	t.Helper()
	o.Anonymous = o.Authority == nil
	h, err := remote.Handler(ws, o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(func() {
		h.Close()
		server.Close()
	})
	return server.URL
}

// dial returns a driver over the workspace at address.
func dial(t testing.TB, address string, token remote.Token) *remote.Driver {
	t.Helper()
	d, err := remote.Dial(t.Context(), address, token, remote.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// both is a dialled driver whose Close also closes what is served: the contract
// has it that Close ends processes that were kept, and those are the served
// workspace's.
type both struct {
	*remote.Driver
	served *workspace.Workspace
}

func (b both) Close() error {
	err := b.Driver.Close()
	if e := b.served.Close(); err == nil {
		err = e
	}
	return err
}

// TestConformance holds a dialled workspace to the contract that the served one
// keeps.
func TestConformance(t *testing.T) {
	var chapters []string
	if !enginetest.Soak() {
		chapters = []string{"files", "exec", "streams", "processes", "errors"}
	}
	drivertest.Run(t, drivertest.Harness{
		Chapters: chapters,
		New: func(t testing.TB, o workspace.Options) (*workspace.Workspace, string) {
			served, dir := newHost(t)
			d := dial(t, serve(t, served, remote.Options{}), "")
			ws, err := workspace.New(both{d, served}, o)
			if err != nil {
				t.Fatal(err)
			}
			return ws, dir
		},
		Capabilities: drivertest.Capabilities{
			EndsEscapees: runtime.GOOS == "linux",
			Start:        true,
			Terminal:     runtime.GOOS == "linux",
			Signals:      true,
			Usage:        true,
		},
	})
}
