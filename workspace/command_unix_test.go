//go:build unix

package workspace_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// A closed channel delivers nothing, and costs nothing.
func TestClosedSignals(t *testing.T) {
	ws := open(t, newInprocess(map[string]program{"wait": func(p *goprocess) int {
		p.sleep(200 * time.Millisecond)
		return 0
	}}), workspace.Options{})
	signals := make(chan os.Signal)
	close(signals)
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		t.Fatal(err)
	}
	if _, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"wait"}, Signals: signals}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		t.Fatal(err)
	}
	spent := time.Duration(after.Utime.Nano() - before.Utime.Nano())
	if spent > 100*time.Millisecond {
		t.Errorf("200 ms of waiting took %v of processor time", spent)
	}
}
