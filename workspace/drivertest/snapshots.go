//go:build unix

package drivertest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/wsctl/wsctl/workspace"
)

func snapshotCases() []testCase {
	kept := []capability{needSnapshots()}
	return []testCase{
		{name: "rewind", run: rewind, needs: kept, rule: "A rewind brings the files of a turn back and gives what was kept with it; the state before it is a snapshot too."},
		{name: "dry run", run: restoreDryRun, needs: kept, rule: "A dry run changes nothing and tells what is then done."},
		{name: "paths", run: restorePaths, needs: kept, rule: "A restore of paths takes every spelling, changes nothing else, and refuses what is outside."},
		{name: "diff", run: diffPaths, needs: kept, rule: "A diff tells what changed, of paths in every spelling, and refuses what is outside."},
		{name: "busy", run: restoreIsBusy, needs: kept, rule: "While a command runs a restore is BUSY, a dry run says so, and who wants to can go on beside it."},
		{name: "busy with what was left", run: restoreIsBusyWithKept, needs: kept, rule: "What a command left running counts as a command."},
		{name: "commands wait", run: commandsWait, needs: kept, rule: "A command or another restore that begins during a restore is BUSY; files are read and written."},
		{name: "aborted", run: restoreAborted, needs: kept, rule: "A restore that is given up is ABORTED, and commands run again."},
		{name: "paused", run: restorePaused, needs: []capability{needSnapshots(), needPause()}, rule: "Commands that are paused for a restore change nothing meanwhile, and go on after."},
		{name: "observed", run: restoreObserved, needs: kept, rule: "The observer is told of a restore and of its snapshot."},
		{name: "closed", run: restoreClosed, needs: kept, rule: "After Close nothing is saved or restored: DISPOSED."},
	}
}

// lateSnapshots are handed to a workspace before it is known where its root is. A
// restore waits for hold, when there is one, and says so by held.
type lateSnapshots struct {
	workspace.Snapshotter
	mu         sync.Mutex
	hold, held chan struct{}
}

func (l *lateSnapshots) Restore(ctx context.Context, id string, o workspace.RestoreOptions) (workspace.Restored, error) {
	l.mu.Lock()
	hold, held := l.hold, l.held
	l.hold, l.held = nil, nil
	l.mu.Unlock()
	if hold != nil {
		close(held)
		select {
		case <-hold:
		case <-ctx.Done():
			return workspace.Restored{}, workspace.Errorf(workspace.ErrAborted, "restore", "", "%w", ctx.Err())
		}
	}
	return l.Snapshotter.Restore(ctx, id, o)
}

// stop makes the next restore wait.
func (l *lateSnapshots) stop() (held <-chan struct{}, goOn func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold, l.held = make(chan struct{}), make(chan struct{})
	return l.held, sync.OnceFunc(func(hold chan struct{}) func() { return func() { close(hold) } }(l.hold))
}

// keeping gives the case a workspace of its own that keeps snapshots.
func (t *checker) keeping(o workspace.Options) (*checker, *lateSnapshots) {
	t.Helper()
	late := &lateSnapshots{}
	o.Snapshots = late
	k := t.fresh(o)
	late.Snapshotter = t.suite.harness.Snapshots(t.TB, k.host)
	return k, late
}

// checkpoint saves the tree before a turn.
func (t *checker) checkpoint(turn, metadata string) workspace.Snapshot {
	t.Helper()
	s, err := t.ws.Checkpoint(t.ctx, turn, json.RawMessage(metadata))
	t.must(err)
	return s
}

// running starts a shell text that goes on until end is called, and returns when
// it has made the file "began".
func (t *checker) running(text string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = t.ws.Exec(ctx, workspace.Command{Shell: "echo > began; " + text})
	}()
	end = func() { cancel(); <-done }
	if !t.eventually(func() bool { _, err := t.ws.Stat(t.ctx, "began"); return err == nil }) {
		end()
		t.Fatal("the command does not begin")
	}
	return end
}

func rewind(t *checker) {
	k, _ := t.keeping(workspace.Options{})
	k.write("a", "A")
	k.write("d/b", "B")
	first := k.checkpoint("1", `{"message":7}`)
	k.write("a", "other")
	k.write("new", "x")
	k.must(k.ws.Remove(k.ctx, "d/b", workspace.RemoveOptions{}))
	done, err := k.ws.Rewind(k.ctx, "1", workspace.RestoreOptions{})
	k.must(err)
	k.wantFile("a", "A")
	k.wantFile("d/b", "B")
	k.wantGone("new")
	if done.Snapshot.ID != first.ID || string(done.Snapshot.Metadata) != `{"message":7}` || done.Backup == "" {
		t.Errorf("the rewind tells %+v", done)
	}
	_, err = k.ws.Restore(k.ctx, done.Backup, workspace.RestoreOptions{NoBackup: true})
	k.must(err)
	k.wantFile("a", "other")
	k.wantFile("new", "x")
	k.wantGone("d/b")
	for _, turn := range []string{"2", ""} {
		_, err := k.ws.Rewind(k.ctx, turn, workspace.RestoreOptions{})
		k.wantCode("a turn that was not saved", err, workspace.ErrNotFound)
	}
	_, err = k.ws.Checkpoint(k.ctx, "", nil)
	k.wantCode("a turn without a name", err, workspace.ErrInvalidArgument)
	_, err = k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{WhileRunning: "sometimes"})
	k.wantCode("an unknown WhileRunning", err, workspace.ErrInvalidArgument)
}

func restoreDryRun(t *checker) {
	k, _ := t.keeping(workspace.Options{})
	k.write("a", "A")
	first := k.checkpoint("1", "")
	k.write("a", "other")
	k.write("new", "x")
	dry, err := k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{DryRun: true})
	k.must(err)
	k.wantFile("a", "other")
	if !dry.DryRun || dry.Busy || dry.Backup != "" {
		t.Errorf("the dry run tells %+v", dry)
	}
	done, err := k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{})
	k.must(err)
	if !slices.Equal(done.Restored, []string{"a"}) || !slices.Equal(done.Deleted, []string{"new"}) ||
		!slices.Equal(dry.Restored, done.Restored) || !slices.Equal(dry.Deleted, done.Deleted) {
		t.Errorf("the dry run tells %+v, the restore did %+v", dry, done)
	}
}

func restorePaths(t *checker) {
	k, _ := t.keeping(workspace.Options{})
	for _, name := range []string{"a", "d/[b]", "c"} {
		k.write(name, "old")
	}
	first := k.checkpoint("1", "")
	for _, name := range []string{"a", "d/[b]", "c"} {
		k.write(name, "new")
	}
	_, err := k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{Paths: []string{k.abs("a"), "./d/../d/[b]"}})
	k.must(err)
	k.wantFile("a", "old")
	k.wantFile("d/[b]", "old")
	k.wantFile("c", "new")
	for _, name := range []string{"../c", "/etc/passwd"} {
		_, err = k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{Paths: []string{"c", name}})
		k.wantCode("a restore of "+name, err, workspace.ErrOutside)
	}
	k.wantFile("c", "new")
}

func diffPaths(t *checker) {
	k, _ := t.keeping(workspace.Options{})
	k.write("a", "A\n")
	k.write("d/b", "B\n")
	first := k.checkpoint("1", "")
	k.write("a", "other\n")
	k.write("d/b", "other\n")
	for _, paths := range [][]string{{"a"}, {k.abs("a")}, {"d/../a"}, {"a", "none"}} {
		d, err := k.ws.Diff(k.ctx, first.ID, "", workspace.DiffOptions{Paths: paths})
		k.must(err)
		if len(d.Changes) != 1 || d.Changes[0].Path != "a" || d.Changes[0].Kind != workspace.Modified || !strings.Contains(d.Changes[0].Patch, "-A\n+other\n") {
			t.Errorf("of %q differs %+v", paths, d.Changes)
		}
	}
	for _, name := range []string{"../c", "/etc/passwd"} {
		_, err := k.ws.Diff(k.ctx, first.ID, "", workspace.DiffOptions{Paths: []string{name}})
		k.wantCode("a diff of "+name, err, workspace.ErrOutside)
	}
	_, err := k.ws.Diff(k.ctx, "none", "", workspace.DiffOptions{})
	k.wantCode("a diff from nothing", err, workspace.ErrNotFound)
}

func restoreIsBusy(t *checker) {
	k, _ := t.keeping(workspace.Options{})
	k.write("a", "A")
	first := k.checkpoint("1", "")
	k.write("a", "other")
	end := k.running("sleep 60")
	defer end()
	_, err := k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{})
	k.wantCode("a restore while a command runs", err, workspace.ErrBusy)
	k.wantFile("a", "other")
	dry, err := k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{DryRun: true})
	k.must(err)
	if !dry.Busy {
		t.Error("the dry run does not say that it is busy")
	}
	_, err = k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{WhileRunning: workspace.ProceedWhileRunning})
	k.must(err)
	k.wantFile("a", "A")
	end()
	k.write("a", "other")
	_, err = k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{})
	k.must(err)
	k.wantFile("a", "A")
	k.works("a restore")
}

func restoreIsBusyWithKept(t *checker) {
	k, _ := t.keeping(workspace.Options{})
	first := k.checkpoint("1", "")
	k.run(workspace.Command{Shell: "while ! test -e end; do sleep 0.05; done &", Background: workspace.BackgroundKeep})
	_, err := k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{})
	k.wantCode("a restore while something that was left runs", err, workspace.ErrBusy)
	k.write("end", "")
	if !k.eventually(func() bool {
		_, err = k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{})
		return workspace.CodeOf(err) != workspace.ErrBusy
	}) {
		t.Error("it stays BUSY though nothing runs")
	}
	k.must(err)
}

func commandsWait(t *checker) {
	k, late := t.keeping(workspace.Options{})
	k.write("a", "A")
	first := k.checkpoint("1", "")
	k.write("a", "other")
	held, goOn := late.stop()
	defer goOn()
	done := make(chan error, 1)
	go func() {
		_, err := k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{})
		done <- err
	}()
	<-held
	_, err := k.exec(workspace.Command{Shell: "echo ran > ran"})
	k.wantCode("a command during a restore", err, workspace.ErrBusy)
	if k.caps.Start {
		_, err := k.ws.Start(k.ctx, workspace.Command{Shell: "echo ran > ran"})
		k.wantCode("Start during a restore", err, workspace.ErrBusy)
	}
	_, err = k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{})
	k.wantCode("another restore", err, workspace.ErrBusy)
	k.wantFile("a", "other")
	k.wantGone("ran")
	goOn()
	k.must(<-done)
	k.wantFile("a", "A")
	k.works("a restore")
}

func restoreAborted(t *checker) {
	k, late := t.keeping(workspace.Options{})
	first := k.checkpoint("1", "")
	held, goOn := late.stop()
	defer goOn()
	ctx, cancel := context.WithCancel(k.ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := k.ws.Restore(ctx, first.ID, workspace.RestoreOptions{})
		done <- err
	}()
	<-held
	cancel()
	err := <-done
	k.wantCode("a restore that is given up", err, workspace.ErrAborted)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v is not context.Canceled", err)
	}
	k.works("a restore that was given up")
}

func restorePaused(t *checker) {
	k, _ := t.keeping(workspace.Options{})
	first := k.checkpoint("1", "")
	end := k.running("while :; do echo x >> grows; done")
	defer end()
	grows := func() bool {
		_, err := k.ws.Stat(k.ctx, "grows")
		return err == nil
	}
	if !k.eventually(grows) {
		t.Fatal("the command does not write")
	}
	done, err := k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{WhileRunning: workspace.PauseWhileRunning})
	k.must(err)
	if !slices.Contains(done.Deleted, "grows") || len(done.Kept) > 0 {
		t.Errorf("the restore did %+v", done)
	}
	if !k.eventually(grows) {
		t.Error("the paused command does not go on")
	}
}

// restores are the restores that an observer is told of.
type restores struct {
	mu   sync.Mutex
	told []workspace.Activity
}

func (*restores) Begin(context.Context, workspace.Activity) error { return nil }

func (r *restores) End(_ context.Context, a workspace.Activity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.Op == "restore" {
		r.told = append(r.told, a)
	}
}

func restoreObserved(t *checker) {
	seen := &restores{}
	k, _ := t.keeping(workspace.Options{Observer: seen})
	first := k.checkpoint("1", "")
	_, err := k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{DryRun: true})
	k.must(err)
	_, err = k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{})
	k.must(err)
	_, err = k.ws.Restore(k.ctx, "none", workspace.RestoreOptions{})
	k.wantCode("a restore of nothing", err, workspace.ErrNotFound)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if len(seen.told) != 2 || seen.told[0].To != first.ID || seen.told[0].Err != nil || seen.told[1].To != "none" || workspace.CodeOf(seen.told[1].Err) != workspace.ErrNotFound {
		t.Errorf("the observer is told %+v", seen.told)
	}
}

func restoreClosed(t *checker) {
	k, _ := t.keeping(workspace.Options{})
	first := k.checkpoint("1", "")
	k.must(k.ws.Close())
	_, err := k.ws.Restore(k.ctx, first.ID, workspace.RestoreOptions{})
	k.wantCode("a restore", err, workspace.ErrDisposed)
	_, err = k.ws.Rewind(k.ctx, "1", workspace.RestoreOptions{})
	k.wantCode("a rewind", err, workspace.ErrDisposed)
	_, err = k.ws.Checkpoint(k.ctx, "2", nil)
	k.wantCode("a checkpoint", err, workspace.ErrDisposed)
	_, err = k.ws.Diff(k.ctx, first.ID, "", workspace.DiffOptions{})
	k.wantCode("a diff", err, workspace.ErrDisposed)
}
