package keeper_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/keeper"
)

// A command of the same user can neither open the keeper's memory and descriptors
// nor read its environment: that is why a keeper waits, and not a shell.
func TestKeeperIsClosedToItsCommands(t *testing.T) {
	var l *local
	if os.Getuid() == 0 {
		// Root may do all that, so the keeper and its command become another user.
		setpriv, err := exec.LookPath("setpriv")
		check(t, err)
		l = serveFrom(t, setpriv, "setpriv", "--reuid=39872", "--regid=39872", "--clear-groups", public(t), keeper.ModeServe)
	} else {
		l = serve(t)
	}
	for _, file := range []string{"environ", "mem", "maps", "fd/0", "auxv"} {
		got := l.run(t, shell("cat /proc/$PPID/"+file), nil)
		if got.Code == 0 || got.stdout != "" || !strings.Contains(got.stderr, "Permission denied") {
			t.Errorf("%s: %+v", file, got)
		}
	}
	got := l.run(t, shell("readlink /proc/self/exe; cat /proc/self/oom_score_adj"), nil)
	if got.stderr != "" || !strings.HasSuffix(got.stdout, "\n1000\n") {
		t.Errorf("the positive control, and the memory killer's score: %+v", got)
	}
}

// public copies the test binary to where every user may run it, as a keeper.
func public(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "keeper")
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o755))
	from, err := os.Open(self(t))
	check(t, err)
	defer from.Close()
	named := filepath.Join(dir, keeper.Name)
	to, err := os.OpenFile(named, os.O_CREATE|os.O_WRONLY, 0o755)
	check(t, err)
	_, err = io.Copy(to, from)
	check(t, err)
	check(t, to.Close())
	return named
}
