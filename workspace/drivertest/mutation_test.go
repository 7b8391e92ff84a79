//go:build unix

package drivertest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/wsctl/wsctl/host"
	"github.com/wsctl/wsctl/workspace"
)

// A suite is worth what it catches. Here the local driver is broken in one way
// after another, and the cases that defend what was broken must fail. That
// they pass over the driver as it is, package host's own run of the suite
// shows.

// broken is the local driver with parts replaced.
type broken struct {
	*host.Driver
	dir   string
	run   func(ctx context.Context, d *host.Driver, c workspace.Command, s workspace.Streams) (workspace.Exit, error)
	start func(r workspace.Running) workspace.Running
	files func(f workspace.Files, dir string) workspace.Files
	close func(d *host.Driver) error
}

func (b *broken) Run(ctx context.Context, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
	if b.run == nil {
		return b.Driver.Run(ctx, c, s)
	}
	return b.run(ctx, b.Driver, c, s)
}

func (b *broken) Start(ctx context.Context, c workspace.Command, s workspace.Streams) (workspace.Running, error) {
	r, err := b.Driver.Start(ctx, c, s)
	if err != nil || b.start == nil {
		return r, err
	}
	return b.start(r), nil
}

func (b *broken) Files() workspace.Files {
	if b.files == nil {
		return b.Driver.Files()
	}
	return b.files(b.Driver.Files(), b.dir)
}

func (b *broken) Close() error {
	if b.close == nil {
		return b.Driver.Close()
	}
	return b.close(b.Driver)
}

// harness gives workspaces over the local driver, broken as b says.
func (b broken) harness(real *testing.T, caps Capabilities, wrap func(workspace.Driver) workspace.Driver) Harness {
	return Harness{Capabilities: caps, New: func(t testing.TB, o workspace.Options) (*workspace.Workspace, string) {
		dir := real.TempDir()
		d, err := host.New(dir, host.Options{Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}})
		if err != nil {
			t.Fatal(err)
		}
		mine := b
		mine.Driver, mine.dir = d, dir
		var driver workspace.Driver = &mine
		if wrap != nil {
			driver = wrap(driver)
		}
		ws, err := workspace.New(driver, o)
		if err != nil {
			t.Fatal(err)
		}
		return ws, dir
	}}
}

// sound is what the local driver can do with process groups alone.
var sound = Capabilities{Start: true, Signals: true, Usage: true}

type runFunc = func(ctx context.Context, d *host.Driver, c workspace.Command, s workspace.Streams) (workspace.Exit, error)

// command breaks what a command is before it runs.
func command(change func(*workspace.Command)) runFunc {
	return func(ctx context.Context, d *host.Driver, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
		change(&c)
		return d.Run(ctx, c, s)
	}
}

// streamed breaks a command's streams.
func streamed(change func(*workspace.Streams)) runFunc {
	return func(ctx context.Context, d *host.Driver, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
		change(&s)
		return d.Run(ctx, c, s)
	}
}

// told breaks what is said of a command that has ended.
func toldAs(change func(*workspace.Exit)) runFunc {
	return func(ctx context.Context, d *host.Driver, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
		exit, err := d.Run(ctx, c, s)
		change(&exit)
		return exit, err
	}
}

// through passes what is written on, changed.
func through(w io.Writer, change func([]byte) []byte) io.Writer {
	return writerFunc(func(b []byte) (int, error) {
		if _, err := w.Write(change(b)); err != nil {
			return 0, err
		}
		return len(b), nil
	})
}

func TestBrokenDriversAreCaught(t *testing.T) {
	c := catcher{t: t}
	var once sync.Once
	for name, m := range map[string]struct {
		broken broken
		cases  []string
	}{
		"stderr is dropped": {
			broken{run: streamed(func(s *workspace.Streams) { s.Stderr = io.Discard })},
			[]string{"streams/apart", "streams/any bytes", "exec/not found"},
		},
		"stderr comes on stdout": {
			broken{run: streamed(func(s *workspace.Streams) { s.Stderr = s.Stdout })}, []string{"streams/apart"},
		},
		"output becomes valid UTF-8": {
			broken{run: streamed(func(s *workspace.Streams) {
				s.Stdout = through(s.Stdout, func(b []byte) []byte { return bytes.ToValidUTF8(b, []byte("\ufffd")) })
			})}, []string{"streams/any bytes"},
		},
		"carriage returns are dropped": {
			broken{run: streamed(func(s *workspace.Streams) {
				s.Stdout = through(s.Stdout, func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")) })
			})}, []string{"streams/any bytes"},
		},
		"a newline is added": {
			broken{run: func(ctx context.Context, d *host.Driver, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
				exit, err := d.Run(ctx, c, s)
				io.WriteString(s.Stdout, "\n")
				return exit, err
			}}, []string{"streams/any bytes", "streams/apart"},
		},
		"output waits for the end": {
			broken{run: func(ctx context.Context, d *host.Driver, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
				var held bytes.Buffer
				to := s.Stdout
				s.Stdout = &held
				exit, err := d.Run(ctx, c, s)
				to.Write(held.Bytes())
				return exit, err
			}}, []string{"streams/live"},
		},
		"a timeout drops the output": {
			broken{run: func(ctx context.Context, d *host.Driver, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
				var held bytes.Buffer
				to := s.Stdout
				s.Stdout = &held
				exit, err := d.Run(ctx, c, s)
				if !exit.Stopped {
					to.Write(held.Bytes())
				}
				return exit, err
			}}, []string{"exec/timeout keeps output", "exec/abort"},
		},
		"stdin is dropped": {
			broken{run: streamed(func(s *workspace.Streams) { s.Stdin = nil })}, []string{"streams/stdin", "exec/many at once"},
		},
		"a command without stdin waits for it": {
			broken{run: func(ctx context.Context, d *host.Driver, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
				if s.Stdin == nil {
					r, w := io.Pipe()
					defer w.Close()
					s.Stdin = r
				}
				return d.Run(ctx, c, s)
			}}, []string{"streams/stdin"},
		},
		"statuses become 1": {
			broken{run: toldAs(func(e *workspace.Exit) { e.Code = min(e.Code, 1) })}, []string{"exec/exit codes", "exec/not found", "exec/signals"},
		},
		"signals are not told": {
			broken{run: toldAs(func(e *workspace.Exit) { e.Signal = 0 })}, []string{"exec/signals"},
		},
		"a stop is not told": {
			broken{run: toldAs(func(e *workspace.Exit) { e.Stopped = false })}, []string{"exec/timeout", "exec/abort", "exec/caller's deadline", "lifecycle/close ends a command"},
		},
		"every 124 is a stop": {
			broken{run: func(ctx context.Context, d *host.Driver, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
				exit, err := d.Run(ctx, c, s)
				if exit.Code == 124 {
					return workspace.Exit{}, context.DeadlineExceeded
				}
				return exit, err
			}}, []string{"exec/timeout", "exec/exit codes"},
		},
		"timeouts and aborts are ignored": {
			broken{run: func(ctx context.Context, d *host.Driver, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
				return d.Run(context.WithoutCancel(ctx), c, s)
			}}, []string{"exec/timeout"},
		},
		"only the caller is let go": {
			broken{run: func(ctx context.Context, d *host.Driver, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
				done := make(chan workspace.Exit, 1)
				go func() {
					exit, _ := d.Run(context.WithoutCancel(ctx), c, s)
					done <- exit
				}()
				select {
				case exit := <-done:
					return exit, nil
				case <-ctx.Done():
					return workspace.Exit{Code: 137, Stopped: true}, nil
				}
			}}, []string{"exec/timeout stops it", "exec/cancel storm", "background/timeout of wait"},
		},
		"no grace is given": {
			broken{run: command(func(c *workspace.Command) { c.KillGrace = 0 })}, []string{"exec/grace"},
		},
		"too much grace is given": {
			broken{run: command(func(c *workspace.Command) { c.KillGrace = 3 * time.Second })}, []string{"exec/timeout of a TERM-ignorer"},
		},
		"what is left lives on": {
			broken{run: command(func(c *workspace.Command) { c.Background = workspace.BackgroundKeep })}, []string{"background/returns at exit", "background/kill ends the group"},
		},
		"what is kept is ended": {
			broken{run: command(func(c *workspace.Command) { c.Background = workspace.BackgroundKill })}, []string{"background/keep lets it run", "background/keep does not block", "background/kept server"},
		},
		"the end of the pipes is waited for": {
			broken{run: func(ctx context.Context, d *host.Driver, c workspace.Command, s workspace.Streams) (workspace.Exit, error) {
				exit, err := d.Run(ctx, c, s)
				if strings.Contains(c.Shell, "& echo done") {
					once.Do(func() { time.Sleep(2 * time.Second) })
				}
				return exit, err
			}}, []string{"background/returns at exit"},
		},
		"Dir is ignored": {
			broken{run: command(func(c *workspace.Command) { c.Dir = "." })}, []string{"exec/dir", "exec/lookup"},
		},
		"Env is dropped": {
			broken{run: command(func(c *workspace.Command) { c.Env = nil })}, []string{"exec/env layers"},
		},
		"arguments are joined": {
			broken{run: command(func(c *workspace.Command) {
				if len(c.Args) > 0 {
					c.Shell, c.Args = strings.Join(c.Args, " "), nil
				}
			})}, []string{"exec/argv"},
		},
		"a shell text gets a tail": {
			broken{run: command(func(c *workspace.Command) {
				if c.Shell != "" {
					c.Shell += "; true"
				}
			})}, []string{"exec/shell texts"},
		},
		"a shell text is checked first": {
			broken{run: command(func(c *workspace.Command) {
				if strings.Count(c.Shell, "'")%2 != 0 {
					c.Shell = "echo 'unbalanced quotes' >&2; exit 2"
				}
			})}, []string{"exec/shell texts"},
		},
		"signals are not passed on": {
			broken{run: command(func(c *workspace.Command) { c.Signals = nil })}, []string{"exec/passed signals"},
		},
		"Close ends nothing": {
			broken{close: func(d *host.Driver) error {
				time.AfterFunc(time.Second, func() { d.Close() })
				return nil
			}}, []string{"background/close ends kept"},
		},
		"Wait loses the bit of a signal": {
			broken{start: func(r workspace.Running) workspace.Running { return &forgetful{Running: r} }}, []string{"processes/exit status"},
		},
		"Signal does nothing": {
			broken{start: func(r workspace.Running) workspace.Running { return deaf{r} }}, []string{"processes/signal"},
		},
		"Stop asks and never kills": {
			broken{start: func(r workspace.Running) workspace.Running { return polite{r} }}, []string{"processes/close"},
		},
	} {
		c.catch(name, m.broken.harness(t, sound, nil), m.cases)
	}
	c.wait()
}

// catcher judges broken drivers, several at once: most of what they do is wait.
type catcher struct {
	t    *testing.T
	wg   sync.WaitGroup
	once sync.Once
	room chan struct{}
}

const atOnce = 8

// catch fails the test unless every case fails over the driver.
func (c *catcher) catch(broken string, h Harness, cases []string) {
	c.once.Do(func() { c.room = make(chan struct{}, atOnce) })
	c.wg.Go(func() {
		c.room <- struct{}{}
		defer func() { <-c.room }()
		for _, name := range cases {
			v := judge(c.t, name, h)
			if !v.Failed() {
				c.t.Errorf("%s: %s does not notice", broken, name)
			}
			if said := v.said(); !strings.Contains(said, "the rule: ") {
				c.t.Errorf("%s: %s does not show its rule: %s", broken, name, said)
			}
		}
	})
}

func (c *catcher) wait() { c.wg.Wait() }

// forgetful gives a process's status without its higher bits.
type forgetful struct{ workspace.Running }

func (f *forgetful) Wait() (workspace.Exit, error) {
	exit, err := f.Running.Wait()
	exit.Code &= 0x7f
	return exit, err
}

type deaf struct{ workspace.Running }

func (deaf) Signal(syscall.Signal) error { return nil }

// polite waits for a process to leave, for ten seconds at most, so that the
// test comes to an end.
type polite struct{ workspace.Running }

func (p polite) Stop(time.Duration) error {
	if err := p.Running.Signal(syscall.SIGTERM); err != nil {
		return nil
	}
	return p.Running.Stop(5 * time.Second)
}

// What a harness says of its driver is checked both ways.
func TestFalseClaimsAreCaught(t *testing.T) {
	with := func(change func(*Capabilities)) Capabilities {
		caps := sound
		change(&caps)
		return caps
	}
	c := catcher{t: t}
	noStart := func(d workspace.Driver) workspace.Driver { return struct{ workspace.Driver }{d} }
	for name, m := range map[string]struct {
		caps  Capabilities
		wrap  func(workspace.Driver) workspace.Driver
		cases []string
	}{
		"ends escapees, and does not": {with(func(c *Capabilities) { c.EndsEscapees = true }), nil, []string{"background/kill ends escapees"}},
		"starts, and does not":        {sound, noStart, []string{"processes/dialogue", "errors/unsupported"}},
		"does not start, and does":    {with(func(c *Capabilities) { c.Start = false }), nil, []string{"processes/dialogue"}},
		"has a terminal, and has not": {with(func(c *Capabilities) { c.Terminal = true }), nil, []string{"processes/terminal"}},
		"has no usage, and has":       {with(func(c *Capabilities) { c.Usage = false }), nil, []string{"exec/usage"}},
		"no signals, and has":         {with(func(c *Capabilities) { c.Signals = false }), nil, []string{"exec/signals"}},
		"masked, and is not":          {with(func(c *Capabilities) { c.Masked = true }), nil, []string{"files/state and commands"}},
	} {
		c.catch(name, broken{}.harness(t, m.caps, m.wrap), m.cases)
	}
	c.wait()
	caps := with(func(c *Capabilities) { c.Start = false })
	for _, name := range []string{"processes/dialogue", "processes/terminal", "errors/unsupported", "streams/apart", "files/edit"} {
		if v := judge(t, name, broken{}.harness(t, caps, noStart)); v.Failed() {
			t.Errorf("%s, over a driver that does not start and says so: %s", name, v.said())
		}
	}
}
