package wrapper_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/wrapper"
)

// shells are those that the wrapper must work in; the key is the program that is
// `sh` in the test's PATH.
var shells = []string{"dash", "bash", "busybox"}

// eachShell runs a test once a shell. dash and bash are demanded.
func eachShell(t *testing.T, test func(t *testing.T, s shell)) {
	t.Helper()
	for _, name := range shells {
		t.Run(name, func(t *testing.T) {
			program, err := exec.LookPath(name)
			if err != nil && name == "busybox" {
				t.Skip("there is no busybox on this machine: its ash is not tested")
			}
			check(t, err)
			dir := t.TempDir()
			check(t, os.Symlink(program, filepath.Join(dir, "sh")))
			test(t, shell{path: filepath.Join(dir, "sh"), env: []string{
				"PATH=" + dir + ":/usr/local/bin:/usr/bin:/bin", "LC_ALL=C.UTF-8",
			}})
		})
	}
}

type shell struct {
	path string
	env  []string
}

type result struct {
	code           int
	stdout, stderr string
}

// command is one that is wrapped.
type command struct {
	script wrapper.Script
	dir    string
	keep   bool
	stdin  []byte
}

// process is the running wrapper.
type process struct {
	*wrapper.Reader
	cmd            *exec.Cmd
	stdout, stderr *bytes.Buffer
	input          io.WriteCloser
}

func (s shell) start(t *testing.T, c command) *process {
	t.Helper()
	if c.dir == "" {
		c.dir = t.TempDir()
	}
	text, err := c.script.Text()
	check(t, err)
	token, err := wrapper.NewToken(rand.Reader)
	check(t, err)
	input, err := wrapper.Input(token, c.dir, text)
	check(t, err)
	p := &process{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
	p.Reader = wrapper.NewReader(token, p.stdout, p.stderr)
	p.cmd = &exec.Cmd{
		Path: s.path, Args: wrapper.Command(c.keep), Env: s.env, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		Stdout: p.Stdout(), Stderr: p.Stderr(),
	}
	// What a command leaves may hold the pipes; that is what the markers are for.
	p.cmd.WaitDelay = time.Second
	p.input, err = p.cmd.StdinPipe()
	check(t, err)
	check(t, p.cmd.Start())
	go func() {
		_, _ = p.input.Write(slices.Concat(wrapper.Greeting(token), input, c.stdin))
		_ = p.input.Close()
	}()
	t.Cleanup(func() { _ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) })
	return p
}

// wait returns the status that the markers tell.
func (p *process) wait(t *testing.T) result {
	t.Helper()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) {
		t.Fatal(err)
	}
	code, err := p.Status()
	if err != nil {
		t.Fatalf("%v; preamble %q", err, p.Preamble())
	}
	return result{code, p.stdout.String(), p.stderr.String()}
}

func (s shell) run(t *testing.T, c command) result {
	t.Helper()
	return s.start(t, c).wait(t)
}

// plain is what `sh -c` itself makes of a line: the measure.
func (s shell) plain(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := &exec.Cmd{Path: s.path, Args: append([]string{"sh"}, args...), Env: s.env, Dir: t.TempDir(), Stdout: &out, Stderr: &errs}
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	code := cmd.ProcessState.ExitCode()
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	return result{code, out.String(), errs.String()}
}

func line(text string, env ...string) command {
	return command{script: wrapper.Script{Shell: text, Env: env}}
}

func args(list ...string) command { return command{script: wrapper.Script{Args: list}} }

func lines(list ...string) string { return strings.Join(list, "\n") }
