//go:build unix

package host

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// The pause between two looks at a group that is to end grows between these two;
// keptPoll is for one that may live on.
const (
	shortPoll = time.Millisecond
	longPoll  = 25 * time.Millisecond
	keptPoll  = 250 * time.Millisecond
)

// groups starts commands that are process groups of their own. It is what there
// is without a keeper: what leaves the group gets away.
type groups struct {
	mu     sync.Mutex
	closed bool
	all    map[*group]struct{} // running, or kept and not yet gone
}

func newGroups() *groups { return &groups{all: map[*group]struct{}{}} }

// group is one command and what it has started, as far as that is still in the
// process group that the command leads.
//
// The group's number is the command's pid. The system gives it to nobody else
// while anything is in the group; after that, no signal goes to it any more.
type group struct {
	pid     int
	keep    bool
	streams *pipes

	mu       sync.Mutex
	exited   bool // the command itself has
	stopped  bool // it was asked to end before it had exited
	stopping bool // what is left has its grace
	killed   time.Time
	gone     bool // nothing is in the group any more

	left chan struct{} // closed when gone is set
	done chan struct{} // closed when exit is set
	exit workspace.Exit
	err  error
}

func (*groups) ready(context.Context) error { return nil }

// busy reports whether anything is left of any group.
func (gs *groups) busy() bool {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	for g := range gs.all {
		select {
		case <-g.done:
			// It may still be in the list for a moment.
			if g.keep && groupAlive(g.pid) {
				return true
			}
		default:
			return true
		}
	}
	return false
}

func (gs *groups) start(ctx context.Context, p *program, s workspace.Streams) (workspace.Running, error) {
	switch {
	case ctx.Err() != nil:
		return nil, aborted(ctx)
	case p.terminal != nil:
		return nil, workspace.Errorf(workspace.ErrUnsupported, "start", "", "a terminal needs a keeper; install wskeeper beside wsctl, or run without a terminal")
	}
	streams, files, err := newPipes(s)
	if err != nil {
		return nil, startError("exec", err)
	}
	defer files.close()
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.closed {
		streams.close()
		return nil, disposed()
	}
	proc, err := os.StartProcess(shell, p.args, &os.ProcAttr{
		Dir: heldDir(p.dir), Env: p.env, Files: files.list(), Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		streams.close()
		step := "exec"
		if os.IsPermission(err) {
			step = "chdir" // everybody may run the shell
		}
		return nil, startError(step, err)
	}
	g := &group{pid: proc.Pid, keep: p.keep, streams: streams, left: make(chan struct{}), done: make(chan struct{})}
	gs.all[g] = struct{}{}
	streams.begin(s)
	go func() {
		g.watch(proc)
		if g.keep {
			g.outlive(keptPoll, keptPoll)
			streams.wait()
		}
		streams.close()
		gs.mu.Lock()
		defer gs.mu.Unlock()
		delete(gs.all, g)
	}()
	return g, nil
}

// watch waits for the command, ends what it left, and sets how it ended.
func (g *group) watch(proc *os.Process) {
	state, err := proc.Wait()
	g.mu.Lock()
	g.exited = true
	stopping, stopped := g.stopping, g.stopped
	g.mu.Unlock()
	if !g.keep || stopping {
		if !stopping {
			g.kill()
		}
		g.outlive(shortPoll, longPoll)
	}
	g.streams.settle()
	if err != nil {
		g.err = workspace.Errorf(workspace.ErrIO, "exec", "", "the command's status is not known: %w", err)
	} else {
		g.exit = exitOf(state)
		g.exit.Stopped = stopped
	}
	close(g.done)
}

// exitOf reads how a process ended.
func exitOf(state *os.ProcessState) workspace.Exit {
	e := workspace.Exit{Code: state.ExitCode()}
	if st, ok := state.Sys().(syscall.WaitStatus); ok && st.Signaled() {
		e.Signal = st.Signal()
		e.Code = 128 + int(e.Signal)
	}
	if u, ok := state.SysUsage().(*syscall.Rusage); ok {
		e.Usage = &workspace.Usage{User: state.UserTime(), System: state.SystemTime(), MaxRSS: maxRSS(u)}
	}
	return e
}

// outlive returns when nothing is in the group any more, or when what is there
// does not go although it was killed: it hangs in the kernel, or is another
// user's by now.
func (g *group) outlive(pause, longest time.Duration) {
	for groupAlive(g.pid) {
		g.mu.Lock()
		stuck := !g.killed.IsZero() && time.Since(g.killed) > stopTime
		g.mu.Unlock()
		if stuck {
			return
		}
		time.Sleep(pause)
		pause = min(pause*3/2, longest)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.gone {
		g.gone = true
		close(g.left)
	}
}

// kill ends the group at once.
func (g *group) kill() {
	g.signal(syscall.SIGKILL)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.killed.IsZero() {
		g.killed = time.Now()
	}
}

// signal sends sig to the group while there is one.
func (g *group) signal(sig syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.gone {
		_ = syscall.Kill(-g.pid, sig)
	}
}

// Wait implements workspace.Running.
func (g *group) Wait() (workspace.Exit, error) {
	<-g.done
	return g.exit, g.err
}

// Signal implements workspace.Running.
func (g *group) Signal(sig syscall.Signal) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.exited {
		return os.ErrProcessDone
	}
	err := syscall.Kill(-g.pid, sig)
	if err == syscall.ESRCH {
		// The command has exited right now, and nothing is left of its group.
		return os.ErrProcessDone
	}
	return err
}

// Resize implements workspace.Running.
func (g *group) Resize(workspace.TerminalSize) error {
	return workspace.Errorf(workspace.ErrInvalidArgument, "resize", "", "the process has no terminal")
}

// Stop implements workspace.Running. It also ends what was kept.
func (g *group) Stop(grace time.Duration) error {
	g.mu.Lock()
	g.stopping = true
	g.stopped = g.stopped || !g.exited
	g.mu.Unlock()
	g.signal(syscall.SIGTERM)
	g.signal(syscall.SIGCONT)
	if !within(grace, g.left) {
		g.kill()
	}
	// The end is told late while a stream's writer blocks.
	if within(stopTime, g.left) {
		return nil
	}
	return workspace.Errorf(workspace.ErrIO, "stop", "", "the command is not over %v after it was killed", stopTime)
}

func (gs *groups) close() error {
	gs.mu.Lock()
	gs.closed = true
	var all []*group
	for g := range gs.all {
		all = append(all, g)
	}
	gs.mu.Unlock()
	var first error
	for _, g := range all {
		g.kill()
	}
	for _, g := range all {
		if err := g.Stop(0); err != nil && first == nil {
			first = err
		}
		g.streams.close()
	}
	return first
}
