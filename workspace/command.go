package workspace

import (
	"io"
	"os"
	"strings"
	"syscall"
	"time"
)

// Bounds of a Command. A value beyond them is refused before anything runs.
const (
	// DefaultKillGrace is the time between SIGTERM and SIGKILL.
	DefaultKillGrace = 2 * time.Second
	// DefaultMaxOutput is how much of each stream an Output keeps, in bytes.
	DefaultMaxOutput = 512 << 10
	// MaxTimeout and MaxKillGrace are the largest values taken.
	MaxTimeout   = 365 * 24 * time.Hour
	MaxKillGrace = time.Hour
	// MaxArg is the largest size of one argument, of one environment entry
	// and of a Shell text, in bytes. Linux takes no more in one string
	// (execve(2), MAX_ARG_STRLEN: 32 pages, with the final NUL).
	MaxArg = 128<<10 - 1
	// MaxArgs is the largest size of all arguments and environment entries
	// together, in bytes: a quarter of the usual 8 MiB stack, less room for
	// what the driver adds (execve(2)).
	MaxArgs = 2<<20 - 64<<10
)

// Values of a Command or Options that turn something off; zero always means
// "the default".
const (
	// NoTimeout is a Timeout that never fires.
	NoTimeout time.Duration = -1
	// NoKillGrace is a KillGrace of nothing: SIGKILL follows at once.
	NoKillGrace time.Duration = -1
	// NoOutput is a MaxOutput that keeps nothing: for a caller that reads
	// the streams through its own writers.
	NoOutput = -1
)

// Background says what becomes of processes that a command leaves running
// when it exits.
type Background string

const (
	// BackgroundKill ends them when the command exits, also those that left
	// its process group, its session or its ancestry, or cleared their
	// environment. It is the default.
	BackgroundKill Background = "kill"
	// BackgroundKeep lets them run until the workspace is closed. What they
	// go on writing is drained and dropped, so they never block on it and
	// never get SIGPIPE.
	BackgroundKeep Background = "keep"
)

// Command is one command to run. Either Args or Shell is given.
type Command struct {
	// Args is the argument vector. Args[0] is looked up in the command's
	// own PATH inside the workspace; with a slash in it, it is relative to
	// Dir. A bare "sh" is found even without a PATH.
	Args []string
	// Shell is a text for sh -c.
	Shell string
	// Dir is where it runs, spelled like any path of the workspace; empty:
	// Options.Dir.
	Dir string
	// Env is added to the workspace's environment, entries "NAME=value",
	// the last of a name wins. A NAME is a shell identifier.
	Env []string
	// Stdin is read until its end or the command's. nil: the command sees
	// end of file at once. A Read that is blocked when the command exits is
	// left behind and its bytes are dropped. Start refuses it.
	Stdin io.Reader
	// Timeout ends the command and everything it started; 0:
	// Options.Timeout. It counts from the start of the command, not of the
	// workspace.
	Timeout time.Duration
	// KillGrace is the time between SIGTERM and SIGKILL; 0:
	// Options.KillGrace.
	KillGrace time.Duration
	// MaxOutput is how many bytes of each stream Output keeps, half from
	// the head and half from the tail; 0: Options.MaxOutput. Exec only.
	MaxOutput int
	// Background is what becomes of what the command leaves running; empty:
	// BackgroundKill. Exec only.
	Background Background
	// Stdout and Stderr, when set, get the bytes as they come, in addition
	// to Output. They are called one call at a time a stream; the same
	// writer given for both is called one call at a time in all. A writer
	// that blocks holds the command back but no timeout; one that fails
	// gets nothing more, and the command goes on.
	Stdout, Stderr io.Writer
	// Signals, when set, passes every signal received from it on to the
	// command and its group, as a terminal's interrupt key would. Exec
	// only; it is not read once the command has ended.
	Signals <-chan os.Signal
	// Terminal, when set, gives the command a terminal of that size as its
	// three streams; all its output is then stdout. Start only.
	Terminal *TerminalSize
}

// TerminalSize is the size of a terminal in characters.
type TerminalSize struct{ Rows, Cols uint16 }

// Output is how a command ended. A status other than zero is a result, not an
// error.
type Output struct {
	// Stdout and Stderr are what the command wrote, byte for byte; over
	// MaxOutput the middle is left out.
	Stdout, Stderr []byte
	// StdoutDropped and StderrDropped say what was left out.
	StdoutDropped, StderrDropped Dropped
	// Truncated reports that anything was left out.
	Truncated bool
	// ExitCode is the status, 0 to 255: as of a shell, 127 not found, 126
	// not executable, 128+n ended by signal n; 124 when Timeout ended it.
	ExitCode int
	// Signal is the signal that ended the command, 0 when none did or the
	// driver cannot know.
	Signal syscall.Signal
	// TimedOut reports that Timeout ended it: an ExitCode of 124 without
	// it is the command's own.
	TimedOut bool
	// OOMKilled reports that the kernel ended it for want of memory.
	OOMKilled bool
	// Ended counts the processes that the command left and that were ended.
	Ended int
	// Recreated is empty, or says why the place where commands run had to
	// be made anew; what commands installed outside the root is lost then.
	Recreated string
	// Duration is the wall time from start to end.
	Duration time.Duration
	// Usage is nil where the kernel does not tell it for one command.
	Usage *Usage
}

// Dropped says how many bytes of a stream are missing and where.
type Dropped struct {
	// Bytes counts what is missing; 0: nothing.
	Bytes int64
	// Offset is where in the kept bytes they are missing.
	Offset int
}

// Usage is what a command and the children it waited for used.
type Usage struct {
	User, System time.Duration
	// MaxRSS is the largest resident set of any one process, in bytes.
	MaxRSS int64
}

// Streams are a command's streams as a driver sees them.
type Streams struct {
	// Stdin is nil for end of file at once.
	Stdin io.Reader
	// Stdout and Stderr are never nil. Each is called one call at a time.
	// An error from them means: drain and drop from here on.
	Stdout, Stderr io.Writer
}

// Exit is what a driver knows of a command that has ended.
type Exit struct {
	// Code is 0 to 255, 128+n when signal n ended it.
	Code int
	// Signal is 0 when none ended it or the driver cannot know.
	Signal syscall.Signal
	// Stopped reports that the end of the context, or Stop, ended it,
	// rather than that it exited first.
	Stopped bool
	// OOMKilled, Ended, Recreated and Usage are as in Output.
	OOMKilled bool
	Ended     int
	Recreated string
	Usage     *Usage
}

// checkEnv refuses entries that are not NAME=value with a name every shell
// can carry.
func checkEnv(op string, env []string) error {
	for _, e := range env {
		name, _, ok := strings.Cut(e, "=")
		switch {
		case !ok:
			return Errorf(ErrInvalidArgument, op, "", "environment entry %s has no '='; write NAME=value", Printable(e))
		case !isIdentifier(name):
			return Errorf(ErrInvalidArgument, op, "", "environment name %q is not a shell identifier; use letters, digits and '_'", name)
		case strings.IndexByte(e, 0) >= 0:
			return Errorf(ErrInvalidArgument, op, "", "environment entry %s holds a NUL byte", name)
		case len(e) > MaxArg:
			return Errorf(ErrTooLarge, op, "", "environment entry %s has %d bytes; the limit is %d", name, len(e), MaxArg)
		}
	}
	return nil
}

// isIdentifier reports whether s is a name by POSIX 3.216 "Name".
func isIdentifier(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// MergeEnv returns the entries of all layers, one a name; the last layer that
// names it wins, and the order is that of first mention.
func MergeEnv(layers ...[]string) []string {
	var out []string
	at := map[string]int{}
	for _, layer := range layers {
		for _, e := range layer {
			name, _, _ := strings.Cut(e, "=")
			if i, ok := at[name]; ok {
				out[i] = e
				continue
			}
			at[name] = len(out)
			out = append(out, e)
		}
	}
	return out
}
