package keeper_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/wsctl/wsctl/keeper"
)

// limited makes a line run with few processes, lest a storm takes the machine. For
// root the kernel ignores the limit, so it becomes another user, whom only these
// tests use.
func limited(t *testing.T, line string) keeper.Request {
	t.Helper()
	req := shell(line)
	if os.Getuid() == 0 {
		setpriv, err := exec.LookPath("setpriv")
		check(t, err)
		req.Path = setpriv
		req.Args = append([]string{"setpriv", "--reuid=39871", "--regid=39871", "--clear-groups"}, "sh", "-c", "ulimit -u 200; "+line)
		return req
	}
	have, err := exec.Command("sh", "-c", "ps -L -u $(id -u) -o lwp= | wc -l").Output()
	check(t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(have)))
	check(t, err)
	req.Args = []string{"sh", "-c", "ulimit -u " + strconv.Itoa(n+200) + "; " + line}
	return req
}

// Whoever forks without end, or hops from process to process, is caught.
func TestStorms(t *testing.T) {
	for name, line := range map[string]string{
		"bomb":          `b() { b | b & }; b 2>/dev/null; echo up; sleep 3; wait`,
		"refill":        `echo up; while :; do setsid sleep 7796 & done 2>/dev/null`,
		"chain":         `echo up; exec perl -e 'for (;;) { if (fork) { exit 0 if $n++ } }'`,
		"setsid chain":  `echo up; exec perl -e 'use POSIX; for (;;) { my $p = fork; next unless defined $p; exit 0 if $p; setsid(); }'`,
		"setsid chains": `echo up; exec perl -e 'use POSIX; fork for 1..4; for (;;) { my $p = fork; next unless defined $p; exit 0 if $p; setsid(); }'`,
	} {
		t.Run(name, func(t *testing.T) {
			l := serve(t)
			var out watched
			r := l.start(t, limited(t, line), keeper.Streams{Stdout: &out})
			out.await(t, "up")
			const grace = 100 * time.Millisecond
			begin := time.Now()
			_ = r.Stop(grace) // a chain's first process may be over already
			status, err := r.Wait(deadline(t))
			check(t, err)
			if took := time.Since(begin); took > grace+time.Second || status.Unfinished != 0 {
				t.Errorf("took %v: %+v", took, status)
			}
			if got := l.run(t, shell("echo next"), nil); got.stdout != "next\n" {
				t.Errorf("next: %+v", got)
			}
		})
	}
}
