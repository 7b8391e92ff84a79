package keeper_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/wsctl/wsctl/keeper"
)

// A command may change limits and scheduling of every process of its user, its
// keeper included, and commands inherit them. None reaches the next command.
func TestSpoiledKeeperRunsNothingMore(t *testing.T) {
	for tool, line := range map[string]string{
		"prlimit": "prlimit --pid $PPID --fsize=1000:1000",
		"renice":  "renice -n 5 -p $PPID",
		"chrt":    "chrt -b -p 0 $PPID",
		"ionice":  "ionice -c 3 -p $PPID",
	} {
		t.Run(tool, func(t *testing.T) {
			_, err := exec.LookPath(tool)
			check(t, err) // of util-linux
			l := serve(t)
			if got := l.run(t, shell("true"), nil); got.Retired {
				t.Fatalf("retired for nothing: %+v", got)
			}
			got := l.run(t, shell(line+" >/dev/null"), nil)
			if got.Code != 0 || !got.Retired || l.Free() {
				t.Errorf("free: %v, %+v", l.Free(), got)
			}
			<-l.Gone()
		})
	}
}

// What happens to a keeper that waits is seen before it runs anything.
func TestKeeperSpoiledInWaitingRunsNothing(t *testing.T) {
	by, l := serve(t), serve(t)
	l.run(t, shell("true"), nil)
	by.run(t, shell("prlimit --fsize=1000:1000 --pid "+strconv.Itoa(l.cmd.Process.Pid)), nil)
	mark := filepath.Join(t.TempDir(), "ran")
	_, err := l.Start(deadline(t), shell("echo > "+mark), keeper.Streams{})
	if err == nil {
		t.Error("a command started")
	}
	<-l.Gone()
	if _, err := os.Lstat(mark); err == nil {
		t.Error("it ran")
	}
}

// Processors are given back: a keeper can.
func TestProcessorsAreGivenBack(t *testing.T) {
	l := serve(t)
	const show = "taskset -p $$ | sed 's/.*: //'"
	before := l.run(t, shell(show), nil)
	if before.Code != 0 || before.stdout == "" {
		t.Fatalf("%+v", before)
	}
	got := l.run(t, shell("taskset -p 1 $PPID"), nil)
	after := l.run(t, shell(show), nil)
	if got.Code != 0 || after.stdout != before.stdout || !strings.Contains(got.stdout, "mask") {
		t.Errorf("before %+v, changed %+v, after %+v", before, got, after)
	}
}
