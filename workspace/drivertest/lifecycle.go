//go:build unix

package drivertest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

func lifecycleCases() []testCase {
	return []testCase{
		{
			name: "descriptor", run: descriptor,
			rule: "Descriptor names a kind of workspace and the absolute root as its own processes see it, and does no I/O.",
		},
		{
			name: "opening creates nothing", run: openingCreatesNothing,
			rule: "Opening is cheap, and closing what was never used leaves nothing behind.",
		},
		{
			name: "files before commands", run: filesBeforeCommands,
			rule: "No file operation starts or needs the place where commands run.",
		},
		{
			name: "first calls share one start", run: firstCallsShareOneStart,
			rule:  "However many first calls there are, there is one start, and all see the same place.",
			limit: time.Minute,
		},
		{
			name: "ready is repeatable", run: readyIsRepeatable,
			rule:  "Ready returns once commands can run, and again when there is nothing to do.",
			limit: time.Minute,
		},
		{
			name: "start can be aborted", run: startCanBeAborted,
			rule:  "A start that its caller aborts is ABORTED, leaves nothing half made, and the next command starts anew.",
			limit: time.Minute,
		},
		{
			name: "close ends a command", run: closeEndsACommand,
			rule:  "Close ends what runs; the call under way answers DISPOSED with the partial Output, and nothing goes on.",
			limit: time.Minute,
		},
		{
			name: "close while starting", run: closeWhileStarting,
			rule:  "Close during a start ends it; nobody waits for ever and the call is DISPOSED.",
			limit: time.Minute,
		},
		{
			name: "close is idempotent", run: closeIsIdempotent,
			rule:  "Close may be called by many and again, and returns the same.",
			limit: time.Minute,
		},
		{
			name: "closed is DISPOSED", run: closedIsDisposed,
			rule:  "After Close every verb is DISPOSED, which is fs.ErrClosed.",
			limit: time.Minute,
		},
		{
			name: "workspaces are apart", run: workspacesAreApart,
			rule:  "Closing one workspace ends nothing of another.",
			limit: time.Minute,
		},
		{
			name: "nothing is left in the root", run: nothingIsLeftInTheRoot,
			rule:  "Commands and Close leave nothing in the root but what commands made, and the state.",
			limit: time.Minute,
		},
	}
}

func descriptor(t *checker) {
	d := t.ws.Descriptor()
	switch d.Kind {
	case workspace.KindLocal, workspace.KindContainer, workspace.KindRemote:
	default:
		t.Errorf("Kind is %q", d.Kind)
	}
	if d.Root != t.ws.Root() || !path.IsAbs(d.Root) || path.Clean(d.Root) != d.Root {
		t.Errorf("Descriptor.Root is %q, Root %q; want one clean absolute path", d.Root, t.ws.Root())
	}
	pwd := strings.TrimSuffix(t.pwd("."), "\n")
	if real, ok := t.ws.Driver().(workspace.Realer); pwd != d.Root && !(ok && pwd == real.Real()) {
		t.Errorf("a command's directory is %q, the root %q", pwd, d.Root)
	}
	env := t.ws.Env()
	if len(env) != 0 {
		t.Errorf("Env is %q; the workspace was given none", env)
	}
}

// pwd is where a command in dir finds itself.
func (t *checker) pwd(dir string) string {
	t.Helper()
	out := t.run(workspace.Command{Shell: "pwd -P", Dir: dir})
	return string(out.Stdout)
}

func openingCreatesNothing(t *checker) {
	ws, host := t.suite.harness.New(t.TB, workspace.Options{})
	t.must(ws.Close())
	if host == "" {
		return
	}
	entries, err := os.ReadDir(host)
	t.must(err)
	if len(entries) != 0 {
		t.Errorf("the root holds %v", entries)
	}
}

func filesBeforeCommands(t *checker) {
	t = t.fresh(workspace.Options{})
	t.write("d/f", "content")
	t.wantFile("d/f", "content")
	t.must(t.ws.Rename(t.ctx, "d", "e", workspace.RenameOptions{}))
	if got := t.names(); len(got) != 1 || got[0] != "e" {
		t.Errorf("the root holds %q", got)
	}
	if got := t.ok("cat e/f"); got != "content" {
		t.Errorf("the first command reads %q", got)
	}
}

func firstCallsShareOneStart(t *checker) {
	t = t.fresh(workspace.Options{})
	const callers = 16
	places := make([]string, callers)
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			// The machine as a process sees it: its name and the identity
			// of its process namespace.
			out, err := t.exec(workspace.Command{Shell: "uname -n; readlink /proc/1/ns/pid /proc/self/ns/pid || :; echo x >> calls"})
			if err != nil || out.ExitCode != 0 {
				t.Errorf("call %d: %v%s", i, err, told(out))
				return
			}
			places[i] = string(out.Stdout)
		})
	}
	wg.Wait()
	for _, p := range places {
		if p != places[0] {
			t.Errorf("commands ran in two places: %q and %q", places[0], p)
		}
	}
	t.wantFile("calls", strings.Repeat("x\n", callers))
}

func readyIsRepeatable(t *checker) {
	t = t.fresh(workspace.Options{})
	for range 3 {
		t.must(t.ws.Ready(t.ctx))
	}
	t.works("Ready")
	began := time.Now()
	t.must(t.ws.Ready(t.ctx))
	t.within("Ready of what is ready", began, time.Second)
}

func startCanBeAborted(t *checker) {
	for _, after := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond} {
		f := t.fresh(workspace.Options{})
		ctx, cancel := context.WithCancel(f.ctx)
		timer := time.AfterFunc(after, cancel)
		if err := f.ws.Ready(ctx); err != nil {
			f.wantCode("Ready aborted after "+after.String(), err, workspace.ErrAborted)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v does not wrap the context's error", err)
			}
		}
		timer.Stop()
		cancel()
		f.works("an aborted start")
		t.must(f.ws.Close())
	}
}

// growing is a command that writes to the file "log" until it is ended.
const growing = "echo partial; while :; do echo x >> log; sleep .02; done"

// untilGrowing waits for that command to run, and for long enough that what it
// wrote first is on its way.
func (t *checker) untilGrowing() {
	t.Helper()
	if !t.eventually(func() bool {
		fi, err := t.ws.Stat(t.ctx, t.path("log"))
		return err == nil && fi.Size() > 20
	}) {
		t.Fatal("the command does not run")
	}
}

// wantStill fails the case when the file "log" still grows. It looks at the
// root of this machine, for the workspace is closed; where that cannot be
// reached there is nothing to look at.
func (t *checker) wantStill(when string) {
	t.Helper()
	if t.host == "" {
		return
	}
	size := func() int64 {
		fi, err := os.Stat(path.Join(t.host, t.dir, "log"))
		t.must(err)
		return fi.Size()
	}
	before := size()
	time.Sleep(150 * time.Millisecond)
	if after := size(); after != before {
		t.Errorf("%s the command goes on: its file grew from %d to %d bytes", when, before, after)
	}
}

func closeEndsACommand(t *checker) {
	t = t.fresh(workspace.Options{KillGrace: shortGrace})
	type result struct {
		out *workspace.Output
		err error
	}
	done := make(chan result, 1)
	go func() {
		out, err := t.exec(workspace.Command{Shell: growing})
		done <- result{out, err}
	}()
	t.untilGrowing()
	began := time.Now()
	t.must(t.ws.Close())
	t.within("Close", began, shortGrace+2*time.Second)
	t.wantStill("after Close")
	r := <-done
	t.wantCode("the command under way", r.err, workspace.ErrDisposed)
	if r.out == nil || string(r.out.Stdout) != "partial\n" {
		t.Errorf("the partial output is lost%s", told(r.out))
	}
}

func closeWhileStarting(t *checker) {
	for _, after := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, 150 * time.Millisecond} {
		f := t.fresh(workspace.Options{KillGrace: shortGrace})
		done := make(chan error, 1)
		go func() {
			_, err := f.exec(workspace.Command{Shell: "sleep 100"})
			done <- err
		}()
		time.Sleep(after)
		t.must(f.ws.Close())
		t.wantCode("Exec closed after "+after.String(), <-done, workspace.ErrDisposed)
	}
}

func closeIsIdempotent(t *checker) {
	t = t.fresh(workspace.Options{})
	t.works("opening")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := t.ws.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
}

func closedIsDisposed(t *checker) {
	t = t.fresh(workspace.Options{})
	t.write("f", "x")
	t.works("opening")
	fsys := t.ws.FS(t.ctx)
	t.must(t.ws.Close())
	for name, call := range t.verbs(t.ctx, "f", "g") {
		err := call()
		t.wantCode(name, err, workspace.ErrDisposed)
		if !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s: %v is not fs.ErrClosed", name, err)
		}
	}
	_, err := fs.Stat(fsys, "f")
	t.wantCode("FS", err, workspace.ErrDisposed)
	_, err = t.exec(workspace.Command{Args: []string{"true"}})
	t.wantCode("Exec", err, workspace.ErrDisposed)
	t.wantCode("Ready", t.ws.Ready(t.ctx), workspace.ErrDisposed)
	if t.caps.Start {
		_, err = t.ws.Start(t.ctx, workspace.Command{Args: []string{"true"}})
		t.wantCode("Start", err, workspace.ErrDisposed)
	}
}

// verbs are all file verbs, applied to name, a regular file, and where a verb
// takes a second, new name, to other.
func (t *checker) verbs(ctx context.Context, name, other string) map[string]func() error {
	ws := t.ws
	return map[string]func() error{
		"Open": func() error {
			f, err := ws.Open(ctx, name)
			if err == nil {
				f.Close()
			}
			return err
		},
		"ReadFile":  func() error { _, err := ws.ReadFile(ctx, name, 0); return err },
		"Stat":      func() error { _, err := ws.Stat(ctx, name); return err },
		"Lstat":     func() error { _, err := ws.Lstat(ctx, name); return err },
		"ReadLink":  func() error { _, err := ws.ReadLink(ctx, name); return err },
		"ReadDir":   func() error { _, err := ws.ReadDir(ctx, name, workspace.ListOptions{}); return err },
		"WriteFile": func() error { _, err := ws.WriteFile(ctx, name, []byte("new"), workspace.WriteOptions{}); return err },
		"Append": func() error {
			_, err := ws.WriteFile(ctx, name, []byte("new"), workspace.WriteOptions{Append: true})
			return err
		},
		"Edit": func() error {
			_, err := ws.Edit(ctx, name, workspace.EditOptions{}, func(b []byte) ([]byte, error) { return append(b, '!'), nil })
			return err
		},
		"Mkdir":       func() error { return ws.Mkdir(ctx, name, workspace.MkdirOptions{}) },
		"Symlink":     func() error { return ws.Symlink(ctx, "target", name) },
		"Remove":      func() error { return ws.Remove(ctx, name, workspace.RemoveOptions{Recursive: true}) },
		"Trash":       func() error { return ws.Remove(ctx, name, workspace.RemoveOptions{Trash: true}) },
		"Rename from": func() error { return ws.Rename(ctx, name, other, workspace.RenameOptions{}) },
		"Rename to":   func() error { return ws.Rename(ctx, other, name, workspace.RenameOptions{Overwrite: true}) },
		"Copy from":   func() error { _, err := ws.Copy(ctx, name, other, workspace.WriteOptions{}); return err },
		"Copy to":     func() error { _, err := ws.Copy(ctx, other, name, workspace.WriteOptions{}); return err },
		"Chmod":       func() error { return ws.Chmod(ctx, name, 0o600) },
	}
}

func workspacesAreApart(t *checker) {
	one, two := t.fresh(workspace.Options{}), t.fresh(workspace.Options{})
	mark := t.mark()
	out := one.run(workspace.Command{
		Shell: "sleep " + mark + " >/dev/null 2>&1 & echo done", Background: workspace.BackgroundKeep,
	})
	t.wantOut("a command that leaves a kept process", out, 0, "done\n", "")
	two.works("opening")
	t.must(two.ws.Close())
	one.wantAlive("after the other workspace's Close", mark)
	one.works("the other workspace's Close")
}

func nothingIsLeftInTheRoot(t *checker) {
	t = t.fresh(workspace.Options{KillGrace: shortGrace})
	t.ok("echo x > made")
	t.run(workspace.Command{Shell: "sleep 5", Timeout: t.short()})
	list := func() (names []string) {
		if t.host == "" {
			return t.names()
		}
		entries, err := os.ReadDir(t.host)
		t.must(err)
		for _, e := range entries {
			if e.Name() != ".wsctl" {
				names = append(names, e.Name())
			}
		}
		return names
	}
	if got := list(); len(got) != 1 || got[0] != "made" {
		t.Errorf("the root holds %q, want what the command made", got)
	}
	if t.host == "" {
		return
	}
	t.must(t.ws.Close())
	if got := list(); len(got) != 1 || got[0] != "made" {
		t.Errorf("after Close the root holds %q, want what the command made", got)
	}
}
