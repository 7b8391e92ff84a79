package wrapper_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/wrapper"
)

// A whole command line is the command's own affair: broken, odd or hostile, it
// gives what `sh -c` gives.
func TestOddLinesAreAsWithoutUs(t *testing.T) {
	odd := []string{
		`echo a #`, `echo a \`, `echo "open`, `echo a; }`, `) ; echo x`, `fi`, "cat <<E\ntext\nE", "cat <<E\ntext",
		`case x in x) echo 1;; esac`, `echo $((1<<2))`, lines("a=$(cat <<E", "it's", "E", `); echo "$a"`),
		`echo "${x:-"}"}"`, `printf 'no newline' >&2; exit 3`, `exit 255`, `kill -KILL $$`, `kill -TERM $$`, `kill -INT $$`, `nosuch`,
		`echo a; exec nosuch`, `set -e; false; echo never`, `printf 'ok\376\377\000z\n'`, ``, ` `, "\n\necho x\n\n", `:`,
		`echo "$0 $#"`, `printf '%075d\n' 0; printf 0123456789 >&2`, `exec 3>&-; echo x`, `trap 'echo t' EXIT; exit 4`,
		`wsctl_token=1; echo $wsctl_token $wsctl_script $wsctl_line`, `echo "$OLDPWD"; env | grep -c wsctl`,
	}
	eachShell(t, func(t *testing.T, s shell) {
		for _, text := range odd {
			if got, want := s.run(t, line(text)), s.plain(t, "-c", text); got != want {
				t.Errorf("%q:\n got %+v\nwant %+v", text, got, want)
			}
		}
	})
}

func TestArgumentsThatCannotRun(t *testing.T) {
	eachShell(t, func(t *testing.T, s shell) {
		dir := t.TempDir()
		check(t, os.WriteFile(filepath.Join(dir, "no-x"), []byte("x"), 0o644))
		check(t, os.WriteFile(filepath.Join(dir, "no-interpreter"), []byte("#!/nonexistent\n"), 0o755))
		check(t, os.WriteFile(filepath.Join(dir, "no-hashbang"), []byte("echo ran $1\n"), 0o755))
		for _, c := range []struct {
			args []string
			code int
			out  string
		}{
			{[]string{"nosuch"}, 127, ""},
			{[]string{"./no-x"}, 126, ""},
			{[]string{"./no-hashbang", "it"}, 0, "ran it\n"},
			{[]string{"./gone"}, 127, ""},
			{[]string{"-x"}, 127, ""},
			{[]string{"--"}, 127, ""},
			{[]string{"echo", "-n", "--"}, 0, "--"},
			{[]string{"./no-interpreter"}, -1, ""},
		} {
			cold := args(c.args...)
			cold.dir = dir
			got := s.run(t, cold)
			if c.code >= 0 && got.code != c.code || c.code < 0 && got.code != 126 && got.code != 127 || got.stdout != c.out || (got.stderr == "") != (got.code == 0) {
				t.Errorf("%q: got %+v, want %d", c.args, got, c.code)
			}
			if c.args[0][0] == '.' {
				continue // plain has a directory of its own
			}
			if warm := s.plain(t, argv(c.args)[1:]...); warm.code != c.code || warm.stdout != c.out || (warm.stderr == "") != (warm.code == 0) {
				t.Errorf("warm %q: got %+v", c.args, warm)
			}
		}
	})
}

// Every byte that an argument, a variable or a line can have arrives as it is.
func TestAllBytes(t *testing.T) {
	var all []byte
	for b := 1; b < 256; b++ {
		all = append(all, byte(b))
	}
	text := string(all) + "'" + string(all) + `\` + "'"
	eachShell(t, func(t *testing.T, s shell) {
		if got := s.run(t, args("printf", "%s", text)); got.stdout != text {
			t.Errorf("argument: got %q", got.stdout)
		}
		if got := s.run(t, command{script: wrapper.Script{Args: []string{"printenv", "V"}, Env: append(s.env, "V="+text)}}); got.stdout != text+"\n" {
			t.Errorf("variable: got %q", got.stdout)
		}
		if warm := s.plain(t, argv([]string{"printf", "%s", text})[1:]...); warm.stdout != text {
			t.Errorf("warm: got %q", warm.stdout)
		}
		each := []string{"printf", "%s\\n"}
		want := ""
		for _, b := range all {
			each = append(each, string([]byte{b}))
			want += string([]byte{b, '\n'})
		}
		if got := s.run(t, args(each...)); got.stdout != want {
			t.Errorf("one by one: got %q", got.stdout)
		}
	})
}

func TestEnvironmentIsExact(t *testing.T) {
	eachShell(t, func(t *testing.T, s shell) {
		with := s
		with.env = append(s.env, "GONE=1", "STAYS=2", "wsctl_token=x", "t=1", "s=2")
		got := with.run(t, command{script: wrapper.Script{
			Args: []string{"env"}, Unset: []string{"GONE", "LC_ALL"}, Env: []string{"A=1", "A=2", "EMPTY="},
		}})
		seen := map[string]string{}
		for l := range strings.Lines(got.stdout) {
			name, value, _ := strings.Cut(strings.TrimSuffix(l, "\n"), "=")
			seen[name] = value
		}
		for name, value := range map[string]string{"STAYS": "2", "A": "2", "EMPTY": "", "t": "1", "s": "2"} {
			if v, ok := seen[name]; !ok || v != value {
				t.Errorf("%s is %q", name, v)
			}
		}
		for _, name := range []string{"GONE", "LC_ALL", "OLDPWD", "wsctl_token", "wsctl_script"} {
			if _, ok := seen[name]; ok {
				t.Errorf("%s is there", name)
			}
		}
		if strings.Contains(got.stdout, "wsctl_") {
			t.Errorf("ours in the environment: %q", got.stdout)
		}
	})
}

func TestShellWithoutPath(t *testing.T) {
	eachShell(t, func(t *testing.T, s shell) {
		c := command{script: wrapper.Script{Shell: "echo found; /usr/bin/env", Unset: []string{"PATH"}}}
		got := s.run(t, c)
		c.script = wrapper.Script{Args: []string{"sh", "-c", "echo found; /usr/bin/env"}, Env: []string{"PATH=/nonexistent"}}
		if got := s.run(t, c); !strings.HasPrefix(got.stdout, "found\n") || !strings.Contains(got.stdout, "\nPATH=/nonexistent\n") {
			t.Errorf("useless PATH: got %+v", got)
		}
		// BusyBox makes a PATH of its own for itself and its children; so it is
		// measured against a shell that has none either.
		without := s
		without.env = []string{"LC_ALL=C.UTF-8"}
		want := without.plain(t, "-c", "/usr/bin/env")
		if !strings.HasPrefix(got.stdout, "found\n") || strings.Contains(got.stdout, "PATH=") != strings.Contains(want.stdout, "PATH=") {
			t.Errorf("got %+v, as against %+v", got, want)
		}
		c.script.Shell, c.script.Args, c.script.Env = "fi", nil, []string{"PATH=/nonexistent", "IFS=sh"}
		if got := s.run(t, c); got.code != 2 || !strings.HasPrefix(got.stderr, "sh: ") {
			t.Errorf("message: got %+v", got)
		}
	})
}

func TestTokenIsNowhere(t *testing.T) {
	eachShell(t, func(t *testing.T, s shell) {
		got := s.run(t, line(`tr '\0' '\n' </proc/$PPID/environ; tr '\0' '\n' </proc/$PPID/cmdline; env`))
		for field := range strings.FieldsSeq(got.stdout) {
			if wrapper.ValidToken(field) {
				t.Errorf("a token: %q", field)
			}
		}
		fds := "ls /proc/self/fd"
		if got, want := s.run(t, line(fds)), s.plain(t, "-c", fds); got != want {
			t.Errorf("descriptors: got %+v, want %+v", got, want)
		}
	})
}

func TestStdinIsExact(t *testing.T) {
	in := make([]byte, 1<<20)
	for i := range in {
		in[i] = byte(rand.Uint32())
	}
	eachShell(t, func(t *testing.T, s shell) {
		c := line("cat")
		c.stdin = in
		if got := s.run(t, c); got.stdout != string(in) {
			t.Errorf("%d of %d bytes", len(got.stdout), len(in))
		}
		if got := s.run(t, line("cat; echo done")); got.stdout != "done\n" {
			t.Errorf("no stdin: %+v", got)
		}
	})
}

func TestBigStderrWithoutNewline(t *testing.T) {
	eachShell(t, func(t *testing.T, s shell) {
		got := s.run(t, line(`head -c 10000000 /dev/zero | tr '\0' x >&2`))
		if got.code != 0 || got.stderr != strings.Repeat("x", 10000000) {
			t.Errorf("code %d, %d bytes", got.code, len(got.stderr))
		}
	})
}

func TestLongLine(t *testing.T) {
	eachShell(t, func(t *testing.T, s shell) {
		// Longer than one argument may be, so it goes in stdin only as far as the
		// command does not need it as an argument itself.
		if got := s.run(t, line("echo x #"+strings.Repeat("y", 120000))); got.stdout != "x\n" {
			t.Errorf("got code %d, stderr %.100q", got.code, got.stderr)
		}
	})
}

func TestNoSignalIsIgnoredOrBlocked(t *testing.T) {
	eachShell(t, func(t *testing.T, s shell) {
		got := s.run(t, args("grep", "-E", "^Sig(Ign|Blk)", "/proc/self/status"))
		for l := range strings.Lines(got.stdout) {
			if strings.Fields(l)[1] != "0000000000000000" {
				t.Errorf("%q", l)
			}
		}
		if got := s.run(t, line("yes | head -n1")); got.stdout != "y\n" || got.code != 0 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestDirectory(t *testing.T) {
	eachShell(t, func(t *testing.T, s shell) {
		dir := filepath.Join(t.TempDir(), "a 'b'\n-c")
		check(t, os.Mkdir(dir, 0o755))
		c := line("pwd")
		c.dir = dir
		if got := s.run(t, c); got.stdout != dir+"\n" {
			t.Errorf("got %+v", got)
		}
		odd := filepath.Join(t.TempDir(), "\xff\n\n")
		check(t, os.Mkdir(odd, 0o755))
		c.dir = odd
		if got := s.run(t, c); got.stdout != odd+"\n" {
			t.Errorf("got %+v", got)
		}
		check(t, os.Symlink("/usr/bin", filepath.Join(odd, "link")))
		c.dir = odd + "/link/.."
		if got := s.run(t, c); got.stdout != "/usr\n" {
			t.Errorf("a .. after a link: got %+v", got)
		}
		c.dir = "/nonexistent"
		p := s.start(t, c)
		_ = p.cmd.Wait()
		if _, err := p.Status(); err != wrapper.ErrNoDir || p.stdout.Len()+p.stderr.Len() != 0 {
			t.Errorf("got %v, %q, %q", err, p.stdout, p.stderr)
		}
	})
}

// A signal to the group ends the command; the wrapper tells of it.
func TestSignalToTheGroup(t *testing.T) {
	eachShell(t, func(t *testing.T, s shell) {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGALRM, syscall.SIGPIPE} {
			p := s.start(t, args("sleep", "60"))
			<-p.Started()
			if p.Group() != p.cmd.Process.Pid {
				t.Errorf("group %d of %d", p.Group(), p.cmd.Process.Pid)
			}
			awaitArgs(t, p.Group(), "sleep")
			check(t, syscall.Kill(-p.Group(), sig))
			if got := p.wait(t); got.code != 128+int(sig) || got.stdout+got.stderr != "" {
				t.Errorf("%v: got %+v", sig, got)
			}
		}
		p := s.start(t, line("trap 'echo caught; exit 7' TERM; echo up >&2; while :; do sleep .02; done"))
		<-p.Started()
		awaitArgs(t, p.Group(), "sleep")
		check(t, syscall.Kill(-p.Group(), syscall.SIGTERM))
		if got := p.wait(t); got.code != 7 || got.stdout != "caught\n" {
			t.Errorf("trap: got %+v", got)
		}
	})
}

func TestWhatIsLeftInTheGroup(t *testing.T) {
	eachShell(t, func(t *testing.T, s shell) {
		for _, keep := range []bool{false, true} {
			c := line("sleep 60 & echo $!")
			c.keep = keep
			p := s.start(t, c)
			select {
			case <-p.Done():
			case <-time.After(5 * time.Second):
				t.Fatal("not done when the command is")
			}
			pid, err := strconv.Atoi(strings.TrimSpace(p.stdout.String()))
			check(t, err)
			_ = p.cmd.Wait()
			if !keep {
				await(t, "the end of what was left", func() bool { return !sleeping(pid) })
			} else if !sleeping(pid) {
				t.Error("what should be kept is gone")
			}
		}
	})
}

// An input that ends before the script is whole runs nothing.
func TestGivenUpBeforeTheScript(t *testing.T) {
	eachShell(t, func(t *testing.T, s shell) {
		dir := t.TempDir()
		input, err := wrapper.Input(token, dir, []byte("echo > ran\n"))
		check(t, err)
		whole := slices.Concat(wrapper.Greeting(token), input)
		for _, n := range []int{0, 5, len(wrapper.Greeting(token)), len(whole) - wrapper.TokenLen - 5, len(whole) - 2} {
			cmd := &exec.Cmd{
				Path: s.path, Args: wrapper.Command(false), Env: s.env, Dir: dir, Stdin: bytes.NewReader(whole[:n]),
				SysProcAttr: &syscall.SysProcAttr{Setsid: true},
			}
			var exit *exec.ExitError
			if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 125 {
				t.Errorf("%d of %d bytes: %v", n, len(whole), err)
			}
		}
		if _, err := os.Lstat(filepath.Join(dir, "ran")); err == nil {
			t.Error("a part of a script was run")
		}
	})
}

// sleeping tells whether a process is there and no zombie.
func sleeping(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	return !bytes.HasPrefix(text[bytes.LastIndexByte(text, ')')+1:], []byte(" Z"))
}

// awaitArgs waits for a process in the group whose arguments begin with a word.
func awaitArgs(t *testing.T, group int, word string) {
	t.Helper()
	await(t, word, func() bool {
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			if pid, err := strconv.Atoi(e.Name()); err == nil {
				if g, err := syscall.Getpgid(pid); err == nil && g == group {
					text, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
					if bytes.HasPrefix(text, []byte(word)) {
						return true
					}
				}
			}
		}
		return false
	})
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never came: %s", what)
		}
	}
}

// argv is the list by which a caller that sets the environment itself runs args.
func argv(args []string) []string {
	list, _ := wrapper.Argv(args, "")
	return list
}
