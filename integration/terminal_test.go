//go:build unix

package integration

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/wsctl/wsctl/internal/enginetest"
)

// session is a wsctl that runs on a terminal, whose other end the test holds.
type session struct {
	t    *testing.T
	cmd  *exec.Cmd
	keys *os.File // the test's end
	tty  *os.File // wsctl's end, kept open to look at its state
	done chan struct{}

	mu   sync.Mutex
	seen bytes.Buffer // guarded by mu
}

// open starts wsctl on a new terminal of 24 by 80.
func open(t *testing.T, args ...string) *session {
	t.Helper()
	keys, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Setsize(keys, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	s := &session{t: t, cmd: command(t, args...), keys: keys, tty: tty, done: make(chan struct{})}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 4096)
		for {
			n, err := keys.Read(b)
			s.mu.Lock()
			s.seen.Write(b[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() {
		_ = s.cmd.Wait()
		close(s.done)
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
		_ = tty.Close()
		_ = keys.Close()
		<-read
	})
	return s
}

// screen is all that came so far.
func (s *session) screen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen.String()
}

// sees waits for a text.
func (s *session) sees(pattern string) {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	eventually(s.t, 20*time.Second, func() string {
		if screen := s.screen(); !re.MatchString(screen) {
			return "no " + pattern + " on the screen: " + strconv.Quote(screen)
		}
		return ""
	})
}

func (s *session) types(text string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for wsctl to end and compares its status.
func (s *session) ends(want int, within time.Duration) {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(within):
		s.t.Fatalf("wsctl has not ended after %v; screen %q", within, s.screen())
	}
	if got := s.cmd.ProcessState.ExitCode(); got != want {
		s.t.Errorf("status %d, want %d; screen %q", got, want, s.screen())
	}
}

// state is the terminal's.
func (s *session) state() *term.State {
	s.t.Helper()
	state, err := term.GetState(int(s.tty.Fd()))
	if err != nil {
		s.t.Fatal(err)
	}
	return state
}

// onEachDriver runs a test on the host driver and, where there is an engine, in
// a container. args are the flags that choose the driver and a new root; root is
// that root.
func onEachDriver(t *testing.T, test func(t *testing.T, root string, args []string)) {
	t.Run("host", func(t *testing.T) {
		root := t.TempDir()
		test(t, root, []string{"-q", "--driver", "host", "--root", root})
	})
	t.Run("container", func(t *testing.T) {
		root := project(t)
		test(t, root, []string{"-q", "--root", root})
		nothingLeft(t, root, 5*time.Second)
	})
}

// project is a new directory that a container may be over. What mounts it goes
// with the test.
func project(t *testing.T) string {
	t.Helper()
	root := filepath.Join(enginetest.Dir(t), "proj")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

// with puts flags and a command together.
func with(verb string, flags []string, rest ...string) []string {
	return append(append([]string{verb}, flags...), rest...)
}

func TestTerminalIsRawWhileTheCommandHasItAndRestoredAfter(t *testing.T) {
	onEachDriver(t, func(t *testing.T, _ string, flags []string) {
		s := open(t, with("run", flags, "-t", "--", "sh", "-c", "echo rea''dy; read -r line; echo \"got:$line\"; exit 5")...)
		before := s.state()
		s.sees("ready")
		if reflect.DeepEqual(s.state(), before) {
			t.Error("the terminal is not raw while the command has it")
		}
		s.types("hello\r")
		s.sees("got:hello\r\n")
		s.ends(5, 10*time.Second)
		if !reflect.DeepEqual(s.state(), before) {
			t.Error("the terminal is not as it was")
		}
	})
}

func TestTerminalSizeFollows(t *testing.T) {
	onEachDriver(t, func(t *testing.T, _ string, flags []string) {
		s := open(t, with("run", flags, "-t", "--", "sh", "-c",
			"stty size; trap 'stty size' WINCH; echo rea''dy; while read -r line; do stty size; done")...)
		s.sees("24 80\r\n")
		s.sees("ready")
		if err := pty.Setsize(s.keys, &pty.Winsize{Rows: 50, Cols: 132}); err != nil {
			t.Fatal(err)
		}
		eventually(t, 20*time.Second, func() string {
			s.types("\r")
			time.Sleep(50 * time.Millisecond)
			if screen := s.screen(); !strings.Contains(screen, "50 132\r\n") {
				return "the new size is not there: " + strconv.Quote(screen)
			}
			return ""
		})
		s.types("\x04")
		s.ends(0, 10*time.Second)
	})
}

func TestKeysGoToTheCommandOnATerminal(t *testing.T) {
	onEachDriver(t, func(t *testing.T, _ string, flags []string) {
		s := open(t, with("run", flags, "-t", "--", "sh", "-c",
			"trap 'echo inter''rupted' INT; echo rea''dy; while :; do read -r line && [ \"$line\" = end ] && exit 6; done")...)
		s.sees("ready")
		s.types("\x03")
		s.sees("interrupted")
		s.types("\x03")
		s.types("end\r")
		s.ends(6, 10*time.Second)
	})
}

func TestSignalsRestoreTheTerminal(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			s := open(t, "run", "-q", "--driver", "host", "--root", t.TempDir(), "-t", "--kill-grace", "1", "--", "sh", "-c", "echo rea''dy; sleep 300")
			before := s.state()
			s.sees("ready")
			if err := s.cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			s.ends(128+int(sig), 10*time.Second)
			if !reflect.DeepEqual(s.state(), before) {
				t.Error("the terminal is not as it was")
			}
		})
	}
}

func TestShellIsInteractiveAndPassesItsStatus(t *testing.T) {
	onEachDriver(t, func(t *testing.T, root string, flags []string) {
		s := open(t, with("shell", flags)...)
		s.types("echo $((6*7)) >answer; tty && echo it''is\r")
		s.sees("itis")
		if b, err := os.ReadFile(filepath.Join(root, "answer")); err != nil || string(b) != "42\n" {
			t.Errorf("answer: %q, %v", b, err)
		}
		s.types("exit 9\r")
		s.ends(9, 10*time.Second)
	})
}

// Without a terminal of its own a command cannot drive the user's.
func TestOutputCannotDriveTheTerminal(t *testing.T) {
	onEachDriver(t, func(t *testing.T, _ string, flags []string) {
		line := `printf 'A\033[31mred\033[0m\007\010\033]52;c;Zm9v\033\\\302\233x\233evil\rgood é\n'`
		const want = `A\x1b[31mred\x1b[0m\x07\x08\x1b]52;c;Zm9v\x1b\\u009bx\x9bevil\x0dgood é` + "\r\n"
		s := open(t, with("run", flags, "-c", line+"; "+line+" >&2")...)
		s.ends(0, 20*time.Second)
		s.sees(regexp.QuoteMeta(want + want))
		if screen := s.screen(); screen != want+want {
			t.Errorf("screen %q", screen)
		}
		// As JSON the text is exact, and the document drives nothing either.
		s = open(t, with("run", flags, "--json", "-c", line)...)
		s.ends(0, 20*time.Second)
		s.sees(`"stdout"`)
		if screen := s.screen(); strings.ContainsAny(screen, "\x1b\x07\x08") || strings.Contains(screen, "\u009b") || !strings.Contains(screen, `\u001b[31m`) {
			t.Errorf("screen %q", screen)
		}
		// A pipe gets the bytes as they are.
		if got := run(t, with("run", flags, "-c", line)...).must(t).stdout; got != "A\x1b[31mred\x1b[0m\a\b\x1b]52;c;Zm9v\x1b\\\u009bx\x9bevil\rgood é\n" {
			t.Errorf("pipe %q", got)
		}
	})
}

func TestInterruptKeyStopsTheCommandAsATerminalWould(t *testing.T) {
	onEachDriver(t, func(t *testing.T, _ string, flags []string) {
		s := open(t, with("run", flags, "-c", "trap 'echo inter''rupted; exit 7' INT; echo rea''dy; while :; do sleep 0.1; done")...)
		s.sees("ready")
		s.types("\x03")
		s.sees("interrupted")
		s.ends(7, 10*time.Second)
	})
}

func TestSecondInterruptKills(t *testing.T) {
	onEachDriver(t, func(t *testing.T, root string, flags []string) {
		s := open(t, with("run", flags, "-c", "trap '' INT TERM HUP; echo $$ >pid; echo rea''dy; while :; do sleep 0.1; done")...)
		s.sees("ready")
		s.types("\x03")
		time.Sleep(300 * time.Millisecond)
		select {
		case <-s.done:
			t.Fatalf("the first interrupt ended a command that ignores it; screen %q", s.screen())
		default:
		}
		began := time.Now()
		s.types("\x03")
		s.ends(137, 10*time.Second)
		t.Logf("killed and gone in %v", time.Since(began).Round(time.Millisecond))
		if strings.Contains(strings.Join(flags, " "), "host") {
			gone(t, filepath.Join(root, "pid"))
		}
	})
}

// gone fails the test unless the process named in a file has ended.
func gone(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || pid < 2 {
		t.Fatalf("pid %q", text)
	}
	eventually(t, 5*time.Second, func() string {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
			return "process " + strconv.Itoa(pid) + " is there"
		}
		return ""
	})
}
