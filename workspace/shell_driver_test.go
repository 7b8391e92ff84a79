//go:build unix

package workspace_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// processes is the in-process driver with commands that are real processes of
// this machine, each in a group of its own: what a shell does cannot be played.
type processes struct {
	*inprocess
	dir string

	mu   sync.Mutex
	sent bytes.Buffer // all that commands were sent as standard input
}

// Write takes note of standard input.
func (d *processes) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sent.Write(p)
}

func (d *processes) Run(ctx context.Context, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
	return workspace.RunStarted(ctx, d, c, s)
}

func (d *processes) Start(ctx context.Context, c workspace.Command, s workspace.Streams) (workspace.Running, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	args := c.Args
	if len(args) == 0 {
		args = []string{"/bin/sh", "-c", c.Shell}
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = filepath.Join(d.dir, c.Dir)
	cmd.Env = workspace.MergeEnv([]string{"PATH=/usr/bin:/bin", "HOME=" + d.dir, "TMPDIR=" + d.dir}, c.Env)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p := &osprocess{cmd: cmd, done: make(chan struct{})}
	var copies sync.WaitGroup
	var theirs []io.Closer
	output := func(to io.Writer) *os.File {
		r, w, err := os.Pipe()
		if err != nil {
			panic(err)
		}
		theirs = append(theirs, w)
		copies.Go(func() {
			defer r.Close()
			io.Copy(to, r)
		})
		return w
	}
	cmd.Stdout, cmd.Stderr = output(s.Stdout), output(s.Stderr)
	stdin := io.Closer(io.NopCloser(nil))
	if s.Stdin != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		cmd.Stdin, stdin, theirs = r, w, append(theirs, r)
		go func() {
			defer w.Close()
			io.Copy(w, io.TeeReader(s.Stdin, d))
		}()
	}
	err := cmd.Start()
	for _, c := range theirs {
		c.Close()
	}
	if err != nil {
		copies.Wait()
		stdin.Close()
		return nil, err
	}
	go func() {
		defer close(p.done)
		state, _ := cmd.Process.Wait()
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		copies.Wait()
		stdin.Close()
		status := state.Sys().(syscall.WaitStatus)
		p.exit.Code = status.ExitStatus()
		if status.Signaled() {
			p.exit.Code, p.exit.Signal = 128+int(status.Signal()), status.Signal()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.exit.Stopped = p.stopped
	}()
	return p, nil
}

type osprocess struct {
	cmd  *exec.Cmd
	done chan struct{}
	exit workspace.Exit

	mu      sync.Mutex
	stopped bool
}

func (p *osprocess) Wait() (workspace.Exit, error) {
	<-p.done
	return p.exit, nil
}

func (p *osprocess) Resize(workspace.TerminalSize) error { return errors.ErrUnsupported }

func (p *osprocess) Signal(sig syscall.Signal) error {
	select {
	case <-p.done:
		return os.ErrProcessDone
	default:
		return syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

func (p *osprocess) Stop(grace time.Duration) error {
	p.mu.Lock()
	p.stopped = true
	p.mu.Unlock()
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
	}
	_ = p.Signal(syscall.SIGKILL)
	select {
	case <-p.done:
	case <-time.After(500 * time.Millisecond):
	}
	return nil
}

// shells are the shells of this machine that OpenShell is for.
func shells(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{"sh": "sh"}
	for _, name := range []string{"dash", "bash"} {
		if path, err := exec.LookPath(name); err == nil {
			found[name] = path
		}
	}
	if path, err := exec.LookPath("busybox"); err == nil {
		link := filepath.Join(t.TempDir(), "ash")
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		found["ash"] = link
	}
	return found
}

// eachShell runs f with every shell in a workspace of its own.
func eachShell(t *testing.T, f func(t *testing.T, s *shellTest)) {
	t.Helper()
	eachShellWith(t, time.Second, f)
}

// eachShellWith is eachShell where an interrupted command has that long.
func eachShellWith(t *testing.T, grace time.Duration, f func(t *testing.T, s *shellTest)) {
	t.Helper()
	t.Parallel()
	for name, path := range shells(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			d := &processes{inprocess: newInprocess(nil), dir: dir}
			ws := open(t, d, workspace.Options{KillGrace: grace})
			sh, err := ws.OpenShell(t.Context(), workspace.ShellOptions{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := sh.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			f(t, &shellTest{T: t, sh: sh, ws: ws, dir: dir, bash: name == "bash", marks: func() []string {
				d.mu.Lock()
				defer d.mu.Unlock()
				return regexp.MustCompile("\x1e[A-Z2-7]{26}").FindAllString(d.sent.String(), -1)
			}})
		})
	}
}

// shellTest is a shell under test.
type shellTest struct {
	*testing.T
	sh   *workspace.Shell
	ws   *workspace.Workspace
	dir  string
	bash bool
	// marks are all marks that shells were sent.
	marks func() []string
}

// run runs a command that must give a result.
func (s *shellTest) run(c workspace.ShellCommand) *workspace.ShellOutput {
	s.Helper()
	if c.Timeout == 0 {
		c.Timeout = 20 * time.Second
	}
	out, err := s.sh.Run(s.Context(), c)
	if err != nil {
		s.Fatalf("%.80q: %v", c.Text, err)
	}
	return out
}

// want runs text and compares all there is to its result.
func (s *shellTest) want(text string, status int, stdout, stderr string) {
	s.Helper()
	out := s.run(workspace.ShellCommand{Text: text})
	if out.ExitCode != status || string(out.Stdout) != stdout || string(out.Stderr) != stderr || out.TimedOut || out.Lost != "" {
		s.Errorf("%.80q: status %d %.200q %.200q timed out %v lost %q; want %d %.200q %.200q",
			text, out.ExitCode, out.Stdout, out.Stderr, out.TimedOut, out.Lost, status, stdout, stderr)
	}
}

// fails runs text, which must fail with a message and leave the shell's state.
func (s *shellTest) fails(text string) {
	s.Helper()
	s.want("kept=yes", 0, "", "")
	out := s.run(workspace.ShellCommand{Text: text})
	if out.ExitCode == 0 || len(out.Stderr) == 0 || out.Lost != "" {
		s.Errorf("%.80q: status %d %q %q lost %q", text, out.ExitCode, out.Stdout, out.Stderr, out.Lost)
	}
	s.want("echo $kept; unset kept", 0, "yes\n", "")
}
