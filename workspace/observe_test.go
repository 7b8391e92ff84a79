package workspace_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/wsctl/wsctl/workspace"
)

// watcher is an Observer that keeps what it is told.
type watcher struct {
	refuse error

	mu           sync.Mutex
	begun, ended []workspace.Activity
}

func (o *watcher) Begin(_ context.Context, a workspace.Activity) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.begun = append(o.begun, a)
	return o.refuse
}

func (o *watcher) End(_ context.Context, a workspace.Activity) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = append(o.ended, a)
}

func observed(t *testing.T, d *inprocess) (*workspace.Workspace, *watcher) {
	t.Helper()
	o := &watcher{}
	w, err := workspace.New(d, workspace.Options{Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w, o
}

// Every command is told of before it runs and once it has ended, with its
// status; of its environment nothing is told.
func TestObserverOfCommands(t *testing.T) {
	w, o := observed(t, newInprocess(map[string]program{"three": func(*goprocess) int { return 3 }}))
	if _, err := w.Exec(t.Context(), workspace.Command{Args: []string{"three", "x"}, Env: []string{"S=canary"}}); err != nil {
		t.Fatal(err)
	}
	p, err := w.Start(t.Context(), workspace.Command{Args: []string{"three"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Exec(t.Context(), workspace.Command{}); err == nil {
		t.Error("no command is no error")
	}
	if len(o.begun) != 3 || len(o.ended) != 3 {
		t.Fatalf("begun %+v\nended %+v", o.begun, o.ended)
	}
	for i, op := range []string{"exec", "start", "exec"} {
		b, e := o.begun[i], o.ended[i]
		if b.Op != op || e.Op != op || !b.Began.Equal(e.Began) || e.Duration < 0 {
			t.Errorf("%d: begun %+v, ended %+v", i, b, e)
		}
	}
	if e := o.ended[0]; e.Exit == nil || *e.Exit != 3 || e.Err != nil || !slices.Equal(e.Args, []string{"three", "x"}) {
		t.Errorf("ended %+v", e)
	}
	if e := o.ended[1]; e.Exit == nil || *e.Exit != 3 {
		t.Errorf("ended %+v", e)
	}
	if e := o.ended[2]; e.Exit != nil || !errors.Is(e.Err, workspace.ErrInvalidArgument) {
		t.Errorf("ended %+v", e)
	}
}

// What an observer refuses does not run, and nothing is started for it.
func TestObserverRefuses(t *testing.T) {
	d := newInprocess(map[string]program{"x": func(*goprocess) int { t.Error("it ran"); return 0 }})
	w, o := observed(t, d)
	o.refuse = workspace.Errorf(workspace.ErrTooMany, "exec", "", "no room")
	if _, err := w.Exec(t.Context(), workspace.Command{Args: []string{"x"}}); !errors.Is(err, workspace.ErrTooMany) {
		t.Errorf("exec: %v", err)
	}
	if _, err := w.Start(t.Context(), workspace.Command{Args: []string{"x"}}); !errors.Is(err, workspace.ErrTooMany) {
		t.Errorf("start: %v", err)
	}
	if d.readies != 0 || len(o.ended) != 0 {
		t.Errorf("made ready %d times, ended %+v", d.readies, o.ended)
	}
}

// Every change of files is told of, with its error; reading is not.
func TestObserverOfChanges(t *testing.T) {
	w, o := observed(t, newInprocess(nil))
	ctx := t.Context()
	_, _ = w.WriteFile(ctx, "a", []byte("x"), workspace.WriteOptions{})
	_, _ = w.Edit(ctx, "a", workspace.EditOptions{}, func([]byte) ([]byte, error) { return []byte("y"), nil })
	_ = w.Mkdir(ctx, "d", workspace.MkdirOptions{})
	_ = w.Symlink(ctx, "a", "l")
	_, _ = w.Copy(ctx, "a", "b", workspace.WriteOptions{})
	_ = w.Rename(ctx, "b", "c", workspace.RenameOptions{})
	_ = w.Chmod(ctx, "a", 0o600)
	_ = w.Remove(ctx, "../out", workspace.RemoveOptions{})
	_, _ = w.ReadFile(ctx, "a", 0)
	_, _ = w.Stat(ctx, "a")
	_, _ = w.ReadDir(ctx, ".", workspace.ListOptions{})
	var got []string
	for _, a := range o.ended {
		got = append(got, strings.TrimSpace(a.Op+" "+a.Path+" "+a.To))
	}
	want := []string{"write a", "edit a", "mkdir d", "symlink l a", "copy a b", "rename b c", "chmod a", "remove ../out"}
	if !slices.Equal(got, want) || len(o.begun) != 0 {
		t.Errorf("got %q, want %q; begun %+v", got, want, o.begun)
	}
	if err := o.ended[len(o.ended)-1].Err; !errors.Is(err, workspace.ErrOutside) {
		t.Errorf("the error of a change that failed: %v", err)
	}
}
