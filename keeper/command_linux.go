package keeper

import (
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// command is one command on a serving keeper. All methods are called by the
// server's goroutine.
type command struct {
	*server
	order    *order
	leader   int // its pid, session and group
	exited   bool
	stopping bool
	told     map[int]bool // by a stop, pids
	killAt   time.Time
	begun    time.Time
	watched  bool // its pid is told, and every child's death is noticed
	input    *input
	terminal *terminal
	streams  *jobStreams // of a job; nil: the keeper's own
	deadline time.Time   // of a job; zero: none
	timedOut bool
	status   Status
}

// start runs the command. what says which step an error is of: "chdir" or "exec".
func (c *command) start() (what string, err error) {
	// One command at a time: the keeper itself can go there, which tells an error
	// of chdir from one of exec.
	if err := unix.Chdir(c.order.Dir); err != nil {
		return "chdir", err
	}
	defer func() { _ = unix.Chdir("/") }()
	attr := &syscall.ProcAttr{
		Env:   c.order.Env,
		Files: []uintptr{0, 1, 2},
		// Pdeathsig: should we be killed, the command goes too. What it has started
		// then belongs to PID 1, which sweeps.
		Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	stdin := -1
	switch {
	case c.streams != nil:
		attr.Files = c.streams.files()
	case c.order.Terminal != nil:
		c.terminal, stdin, err = openTerminal(*c.order.Terminal)
		if err != nil {
			return "exec", err
		}
		attr.Sys.Setctty = true // of descriptor 0 in the child
		attr.Files = []uintptr{uintptr(stdin), uintptr(stdin), uintptr(stdin)}
		c.input = newInput(c.terminal.master, c.ack, []byte{veof})
		c.terminal.copyOut(1)
	case c.order.noStdin:
		if stdin, err = unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return "exec", err
		}
		attr.Files[0] = uintptr(stdin)
	default:
		var ends [2]int
		if err = unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
			return "exec", err
		}
		stdin = ends[0]
		attr.Files[0] = uintptr(stdin)
		_ = unix.SetNonblock(ends[1], true)
		c.input = newInput(os.NewFile(uintptr(ends[1]), "command's stdin"), c.ack, nil)
	}
	c.events.leader = -1
	attr.Sys.PidFD = &c.events.leader
	c.leader, err = c.fork(attr)
	if stdin >= 0 {
		_ = unix.Close(stdin)
	}
	if err != nil {
		c.closeStreams(time.Now())
		return "exec", err
	}
	c.begun = time.Now()
	if c.input != nil || c.events.leader < 0 {
		// It is not for a moment; or the kernel has no pidfd.
		c.watch()
	}
	// The memory killer takes the command rather than us. The child, not we
	// ourselves: our own file is root's, as we are not dumpable.
	oom := "/proc/" + strconv.Itoa(c.leader) + "/oom_score_adj"
	if fd, err := unix.Open(oom, unix.O_WRONLY|unix.O_CLOEXEC, 0); err == nil {
		_, _ = unix.Write(fd, []byte("1000"))
		_ = unix.Close(fd)
	}
	return "", nil
}

// fork starts the order's program: the inner one at once where that is plain, else
// the outer one, which knows what to say.
func (c *command) fork(attr *syscall.ProcAttr) (pid int, err error) {
	if inner, ok := plainProgram(&c.order.Request); ok {
		env := attr.Env
		attr.Env = withDir(env)
		if pid, err = syscall.ForkExec(inner, c.order.Args[c.order.Inner:], attr); err == nil {
			return pid, nil
		}
		attr.Env = env
	}
	return syscall.ForkExec(c.order.Path, c.order.Args, attr)
}

// watch is for a command that is not over at once: it tells the pid, and has all
// dead children noticed.
func (c *command) watch() {
	c.watched = true
	c.listen()
	c.report.add(1, c.order.token, "pid "+strconv.Itoa(c.leader))
}

func (c *command) ack(n int) { c.report.add(1, c.order.token, "ack "+strconv.Itoa(n)) }

// wait returns when the command has exited, or must be killed. owned is false
// when stdin ended or the owner sent what it must not.
func (c *command) wait() (owned bool) {
	for {
		alive := c.reap()
		if c.exited && (!c.stopping || !alive) {
			return true
		}
		if c.exited {
			c.tellNew()
		}
		if c.stopping && !time.Now().Before(c.killAt) {
			return true
		}
		if !c.stopping && !c.deadline.IsZero() && !time.Now().Before(c.deadline) {
			c.timedOut = true
			c.stop(c.streams.grace)
			continue
		}
		if !c.watched && time.Since(c.begun) >= shortTime {
			c.watch()
			continue // what died before shows in reap
		}
		c.events.wait(c.patience())
		for f, ok := c.in.next(); ok; f, ok = c.in.next() {
			if !c.handle(f) {
				c.refused = true
				return false
			}
		}
		if c.in.err != nil {
			return false
		}
	}
}

// shortTime is how long a command may take to be done without watch.
const shortTime = 5 * time.Millisecond

// patience is how long wait may wait for events.
func (c *command) patience() time.Duration {
	switch {
	case c.stopping:
		return max(time.Until(c.killAt), 0)
	case !c.watched:
		return max(shortTime-time.Since(c.begun), 0)
	case !c.deadline.IsZero():
		return max(time.Until(c.deadline), 0)
	}
	return -1
}

// reap takes what is dead and tells whether something lives.
func (c *command) reap() bool {
	for {
		pid, err := exited()
		if err != nil || pid == 0 {
			return err == nil
		}
		if pid == c.leader && !c.order.Keep && !c.stopping {
			// While the leader is a zombie its group's number is its own.
			_ = unix.Kill(-pid, unix.SIGKILL)
		}
		status, usage := reapOne(pid)
		c.note(pid, status, usage)
		if pid == c.leader && !c.stopping {
			return true // what it left is for the caller to decide on
		}
	}
}

// note takes down one dead process.
func (c *command) note(pid int, status unix.WaitStatus, usage unix.Rusage) {
	u := &c.status.Usage
	u.User += time.Duration(usage.Utime.Nano())
	u.System += time.Duration(usage.Stime.Nano())
	u.MaxRSS = max(u.MaxRSS, int64(usage.Maxrss)*1024) // KiB, getrusage(2)
	if pid != c.leader {
		if c.exited && status.Signaled() && status.Signal() == unix.SIGKILL {
			c.status.Ended++
		}
		return
	}
	c.exited = true
	if c.events.leader >= 0 {
		_ = unix.Close(c.events.leader)
		c.events.leader = -1
	}
	if status.Signaled() {
		c.status.Signal = int(status.Signal())
		c.status.Code = 128 + c.status.Signal
	} else {
		c.status.Code = status.ExitStatus()
	}
}

func (c *command) handle(f frame) bool {
	d := decoder{b: f.payload}
	switch f.kind {
	case frameStdin:
		return c.input == nil || c.input.add(f.payload)
	case frameEOF:
		switch {
		case c.input != nil:
			c.input.finish()
		case c.streams != nil:
			c.streams.endInput()
		}
		return len(f.payload) == 0
	case frameSignal:
		sig := d.uint(64)
		if d.end() && !c.exited {
			_ = unix.Kill(-c.leader, unix.Signal(sig))
		}
		return d.end()
	case frameStop:
		grace, ok := graceOf(f.payload)
		if ok {
			c.stop(grace)
		}
		return ok
	case frameResize:
		size := d.size()
		if d.end() && c.terminal != nil {
			c.terminal.resize(size)
		}
		return d.end()
	}
	return false
}

// stop asks everything to end; the grace later it is killed. Of several stops
// the earliest end holds.
func (c *command) stop(grace time.Duration) {
	list := descendants()
	grouped := 0
	if !c.exited {
		grouped = c.leader
		c.status.Stopped = true
		_ = unix.Kill(-c.leader, unix.SIGTERM)
		_ = unix.Kill(-c.leader, unix.SIGCONT)
	}
	c.told = map[int]bool{}
	for _, p := range list {
		c.told[p.pid] = true
		if g, err := unix.Getpgid(p.pid); err == nil && g != grouped {
			p.terminate()
		}
	}
	if at := time.Now().Add(grace); !c.stopping || at.Before(c.killAt) {
		c.killAt = at
	}
	c.stopping = true
	if !c.watched {
		c.watch()
	}
}

// tellNew asks what was forked since the stop to end too: by a shell that had the
// signal pending, or by a handler.
func (c *command) tellNew() {
	for _, p := range descendants() {
		if !c.told[p.pid] {
			c.told[p.pid] = true
			p.terminate()
		}
	}
}

// end ends what the command has left, or finds that it is to be kept.
func (c *command) end(owned bool) {
	switch {
	case !owned:
		c.abandon()
	case c.order.Keep && !c.stopping:
		c.status.Retired = reapAll()
	default:
		patience := leftTime
		if c.stopping {
			patience = endTime
		}
		c.status.Unfinished = endAll(time.Now().Add(patience), c.note)
		c.status.Retired = c.status.Unfinished > 0
		if !c.exited {
			c.status.Code, c.status.Signal = 128+int(unix.SIGKILL), int(unix.SIGKILL)
		}
	}
	c.closeStreams(time.Now().Add(endTime))
	if owned {
		c.report.wait()
	}
}

// closeStreams closes our ends. What a terminal still holds is passed on, which
// ends by itself when no process has it open, and at the deadline otherwise.
func (c *command) closeStreams(deadline time.Time) {
	if c.input != nil {
		c.input.close()
	}
	if c.terminal != nil {
		c.terminal.drain(deadline)
	}
}
