//go:build unix

package drivertest

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// The cases here would harm the machine if nothing confined them. Each shows
// that its attack works where it may: else a driver that cannot run it would
// pass.
func hostileCases() []testCase {
	confined := []capability{needConfined()}
	hostile := func(c testCase) testCase {
		c.needs = append(confined, c.needs...)
		if c.limit == 0 {
			c.limit = time.Minute
		}
		return c
	}
	cases := []testCase{
		{name: "kill all", run: killAll, rule: "A command that kills every process it may is told as ended, and the next command works."},
		{name: "signals to PID 1", run: signalsToInit, rule: "No signal to PID 1 ends the place where commands run."},
		{name: "fork storm", run: forkStorm, rule: "A fork storm ends in its timeout, harms nobody, and the next command works."},
		{name: "pids used up", run: pidsUsedUp, rule: "With the process limit used up the timeout holds and the next command works."},
		{name: "out of memory", run: outOfMemory, rule: "A command that the kernel ends for want of memory has 137 and OOMKilled, and is no timeout; the place lives on."},
		{name: "memory of many", run: memoryOfMany, rule: "The memory limit is one of all commands together, and what is killed is told apart from what is not."},
		{name: "files outside", run: filesOutside, rule: "A command reaches nothing of this machine but the root."},
		{name: "privileges", run: privileges, rule: "A command has no capability, gains none, and is under a system call filter."},
		{name: "network", run: network, rule: "By default there is no network but the loopback."},
		{name: "descriptors used up", run: descriptorsUsedUp, rule: "A command that opens all it may disturbs none that comes after it."},
		{name: "earlier commands", run: earlierCommands, rule: "Nothing of an earlier command's input, arguments or environment is to be found by a later one."},
		{name: "shared memory full", run: sharedMemoryFull, rule: "A full /dev/shm or /tmp of one command leaves the next one working, files included."},
		{name: "zombies", run: zombies, rule: "What died is reaped: orphans and ended commands leave no zombies."},
		{name: "root attacked", run: rootAttacked, rule: "Commands that take away the root's modes leave it repairable, and never the machine's other files changed."},
	}
	for i, c := range cases {
		cases[i] = hostile(c)
	}
	return cases
}

func killAll(t *checker) {
	t = t.fresh(workspace.Options{KillGrace: shortGrace})
	mark := t.mark()
	t.run(workspace.Command{Shell: "sleep " + mark + " >/dev/null 2>&1 &", Background: workspace.BackgroundKeep})
	t.wantAlive("a kept process", mark)
	for _, text := range []string{"kill -9 -1", "kill -TERM -1; sleep .2", "sh -c 'kill -9 -1'; exit 3", "kill -9 1; kill -9 $PPID; exit 3"} {
		out, err := t.exec(workspace.Command{Shell: text, Timeout: 5 * time.Second})
		// Where its status is gone with whatever carried it, that is said;
		// a status that is made up would be 0.
		if err != nil {
			t.wantCode(text, err, workspace.ErrUnavailable, workspace.ErrIO)
		} else if out.ExitCode == 0 && !strings.Contains(text, "TERM") {
			t.Errorf("%q%s", text, told(out))
		}
		t.works(text)
	}
	t.wantDead("after kill -9 -1", mark) // the attack works
}

func signalsToInit(t *checker) {
	t = t.fresh(workspace.Options{KillGrace: shortGrace})
	const identity = "cut -d' ' -f1,22 /proc/1/stat" // its start time
	first := t.ok(identity)
	signal := func(to string, signals ...int) {
		kills := ""
		for _, sig := range signals {
			kills += fmt.Sprintf("kill -%d %s; ", sig, to)
		}
		out, err := t.exec(workspace.Command{Shell: kills + "exit 7", Timeout: 5 * time.Second})
		if err == nil && out.ExitCode == 0 {
			t.Errorf("signals %v to %s%s", signals, to, told(out))
		}
		if err == nil && out.ExitCode == 7 && to != "1" {
			return // it was not ended by it, nor was what runs it
		}
		if out, err := t.exec(workspace.Command{Shell: "exit 5"}); err != nil || out.ExitCode != 5 {
			t.Errorf("after signals %v to %s the next command fails: %v%s", signals, to, err, told(out))
		}
	}
	var all []int
	for sig := 1; sig <= 64; sig++ {
		if sig != 32 && sig != 33 { // the C library's own
			all = append(all, sig)
		}
	}
	if t.caps.EndsEscapees {
		for _, sig := range all {
			signal("1", sig)
		}
	} else {
		signal("1", all...)
	}
	// The engine's own init, which serves where there is no keeper, may end;
	// the place is then made anew, as the commands above have seen.
	if now := t.ok(identity); t.caps.EndsEscapees && now != first {
		t.Errorf("PID 1 was %q and is %q", first, now)
	}
	for _, sig := range all {
		if sig <= 34 || sig == 64 { // those between are as these
			signal("$PPID", sig)
		}
	}
	out := t.sh("{ sleep 5 & kill -9 $!; wait $!; echo $?; } 2>/dev/null") // the attack works
	t.wantOut("kill of a process of its own", out, 0, "137\n", "")
}

func forkStorm(t *checker) {
	t = t.limited(workspace.Options{KillGrace: shortGrace}, Limits{Pids: 64})
	t.works("opening")
	for _, text := range []string{
		`f() { f | f & }; f 2>/dev/null; sleep 10`,
		`f() { f & f & }; f 2>/dev/null; while :; do :; done`,
		`trap '' TERM; f() { setsid sh -c 'sleep 100' & f & f & }; f 2>/dev/null; sleep 10`,
	} {
		began := time.Now()
		out, err := t.exec(workspace.Command{Shell: text, Timeout: 2 * time.Second, KillGrace: shortGrace, MaxOutput: 1000})
		t.within(text, began, 2*time.Second+shortGrace+time.Second)
		if err != nil || out.ExitCode != 124 && out.ExitCode != 2 {
			t.Errorf("%q: %v%s", text, err, told(out))
		}
		t.works(text)
	}
}

func pidsUsedUp(t *checker) {
	t = t.limited(workspace.Options{KillGrace: shortGrace}, Limits{Pids: 64})
	mark := t.mark()
	began := time.Now()
	out, err := t.exec(workspace.Command{
		Shell: "i=0; while [ $i -lt 200 ]; do sleep " + mark + " & i=$((i+1)); done; wait", Timeout: 2 * time.Second, KillGrace: shortGrace, MaxOutput: 2000,
	})
	t.within("a full process table", began, 2*time.Second+shortGrace+time.Second)
	if err != nil || out.ExitCode == 0 {
		t.Errorf("200 processes in 64: %v%s", err, told(out))
	}
	t.works("a full process table")
	t.wantDead("after it", mark)
	// Kept processes fill it for longer than their command; Close ends them.
	t.run(workspace.Command{
		Shell: "i=0; while [ $i -lt 20 ]; do sleep " + mark + " >/dev/null 2>&1 & i=$((i+1)); done", Background: workspace.BackgroundKeep,
	})
	t.works("twenty kept processes")
}

func outOfMemory(t *checker) {
	t = t.limited(workspace.Options{}, Limits{Memory: 64 << 20})
	t.works("opening")
	out := t.run(workspace.Command{Shell: "echo before; exec dd if=/dev/zero of=/dev/null bs=200000000 count=1", Timeout: 10 * time.Second})
	if out.ExitCode != 137 || out.TimedOut || !out.OOMKilled || string(out.Stdout) != "before\n" {
		t.Errorf("200 MB in 64 MB: OOMKilled %v%s", out.OOMKilled, told(out))
	}
	t.works("an out-of-memory kill")
	out = t.sh("kill -9 $$")
	if out.ExitCode != 137 || out.OOMKilled {
		t.Errorf("a SIGKILL of its own is told as want of memory: %+v", out)
	}
	out = t.sh("exit 137")
	if out.ExitCode != 137 || out.OOMKilled {
		t.Errorf("exit 137 is told as want of memory: %+v", out)
	}
}

func memoryOfMany(t *checker) {
	t = t.limited(workspace.Options{}, Limits{Memory: 64 << 20})
	var wg sync.WaitGroup
	small := make([]*workspace.Output, 2)
	for i := range small {
		wg.Go(func() {
			out, err := t.exec(workspace.Command{Shell: "sleep 1; echo fine", Timeout: 10 * time.Second})
			if err != nil {
				t.Error(err)
			}
			small[i] = out
		})
	}
	big := t.run(workspace.Command{Shell: "exec dd if=/dev/zero of=/dev/null bs=200000000 count=1", Timeout: 10 * time.Second})
	if big.ExitCode != 137 || !big.OOMKilled {
		t.Errorf("the large one%s", told(big))
	}
	wg.Wait()
	for _, out := range small {
		if out != nil && (out.ExitCode != 0 || out.OOMKilled) {
			t.Errorf("a small one beside it: OOMKilled %v%s", out.OOMKilled, told(out))
		}
	}
}

func filesOutside(t *checker) {
	out, intact := t.outside()
	defer intact()
	if t.host != "" {
		for _, p := range []string{out + "/secret", "/proc/1/root" + out + "/secret", "/proc/self/root" + out + "/secret"} {
			if got := t.sh("cat '" + p + "'"); got.ExitCode == 0 {
				t.Errorf("%s is read%s", p, told(got))
			}
		}
	}
	for _, p := range []string{"/var/run/docker.sock", "/run/docker.sock", "/proc/kcore", "/dev/mem", "/dev/kmsg", "/sys/firmware/x", "/root/.ssh", "/etc/shadow"} {
		if got := t.sh("test -e " + p + " && cat " + p + " | head -c1 | grep -q ."); got.ExitCode == 0 {
			t.Errorf("%s can be read", p)
		}
	}
	for _, text := range []string{"echo x > /sys/kernel/x", "echo 1 > /proc/sys/kernel/hostname", "echo b > /proc/sysrq-trigger", "mount -t tmpfs none /mnt", "mknod dev b 8 0", "chroot / true"} {
		if got := t.sh(text); got.ExitCode == 0 {
			t.Errorf("%q works", text)
		}
	}
	if got := t.ok("echo x > inside && cat inside"); got != "x\n" { // what may be done can be done
		t.Errorf("in the root it reads %q", got)
	}
}

func privileges(t *checker) {
	out := t.ok("grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		want := map[string]string{"NoNewPrivs": "1", "Seccomp": "2"}[name]
		if want == "" {
			want = strings.Repeat("0", 16)
		}
		if value != want {
			t.Errorf("%s is %s, want %s", name, value, want)
		}
	}
	if strings.Count(out, "\n") != 7 {
		t.Errorf("/proc/self/status says %q", out)
	}
}

func network(t *checker) {
	if out := t.ok("ls /sys/class/net 2>/dev/null || tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"); strings.TrimSpace(out) != "lo" {
		t.Errorf("the interfaces are %q, want lo", out)
	}
	if out := t.ok("tail -n +2 /proc/net/route"); out != "" {
		t.Errorf("there are routes: %q", out)
	}
}

func descriptorsUsedUp(t *checker) {
	t = t.fresh(workspace.Options{KillGrace: shortGrace})
	t.run(workspace.Command{
		Shell:   "for i in 1 2 3 4 5 6 7 8 9; do (n=3; while [ $n -lt 10 ]; do eval \"exec $n</dev/null\"; n=$((n+1)); done; sleep 5) & done; wait",
		Timeout: t.short(), KillGrace: shortGrace,
	})
	t.works("many descriptors")
}

func earlierCommands(t *checker) {
	t = t.fresh(workspace.Options{})
	const canary = "canary-of-an-earlier-command"
	for range 3 {
		t.run(workspace.Command{Shell: "cat >/dev/null; : " + canary, Stdin: strings.NewReader(canary), Env: []string{"CANARY=" + canary}})
	}
	out := t.sh("cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c canary-of-an[-]; env | grep -c canary-of-an[-]; cat")
	t.wantOut("looking for it", out, 0, "0\n0\n", "")
	for _, p := range []string{"mem", "environ", "fd", "maps"} {
		text := "for p in 1 $PPID; do [ $p = 0 ] || { ls -l /proc/$p/" + p + "/ || cat /proc/$p/" + p + "; } >/dev/null 2>&1 && echo open $p; done; :"
		if p != "fd" {
			text = "for p in 1; do head -c1 /proc/$p/" + p + " 2>/dev/null | grep -qa . && echo open $p; done; :"
		}
		// The engine's own init, which serves where there is no keeper, hides
		// nothing, and knows nothing.
		if out := t.sh(text); p != "fd" && t.caps.EndsEscapees && len(out.Stdout) > 0 {
			t.Errorf("/proc/1/%s is open to a command: %q", p, out.Stdout)
		}
	}
}

func sharedMemoryFull(t *checker) {
	t = t.fresh(workspace.Options{})
	out := t.run(workspace.Command{Shell: "cat /dev/zero > /dev/shm/full; echo $?", Timeout: 10 * time.Second, KillGrace: shortGrace})
	if strings.TrimSpace(string(out.Stdout)) == "0" {
		t.Errorf("/dev/shm has no end%s", told(out)) // the attack works: it was filled
	}
	t.works("a full /dev/shm")
	t.write("f", "x")
	if got := t.ok("cat f"); got != "x" {
		t.Errorf("a command reads %q", got)
	}
	t.sh("rm -f /dev/shm/full")
}

func zombies(t *checker) {
	t = t.fresh(workspace.Options{KillGrace: shortGrace})
	count := func() int {
		n, err := strconv.Atoi(strings.TrimSpace(t.ok("cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | grep -c '^Z' || :")))
		t.must(err)
		return n
	}
	t.ok("i=0; while [ $i -lt 200 ]; do (sleep .05 &); i=$((i+1)); done; sleep .2")
	for range 10 {
		t.run(workspace.Command{Shell: "sleep 5 & sleep 5", Timeout: 50 * time.Millisecond, KillGrace: workspace.NoKillGrace})
	}
	if !t.eventually(func() bool { return count() == 0 }) {
		t.Errorf("%d zombies are left", count())
	}
}

func rootAttacked(t *checker) {
	t = t.fresh(workspace.Options{})
	t.write("f", "x")
	t.sh("chmod 0 .")
	_, err := t.ws.ReadFile(t.ctx, "f", 0)
	if err != nil {
		t.wantCode("a root without permissions", err, workspace.ErrDenied)
	}
	if err := t.ws.Chmod(t.ctx, ".", 0o755); err != nil {
		t.Errorf("the root's mode cannot be repaired: %v", err)
	}
	t.wantFile("f", "x")
	t.works("chmod 0 of the root")
}
