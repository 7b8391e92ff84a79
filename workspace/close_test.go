package workspace_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

func TestCloseEndsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newInprocess(map[string]program{"it": func(p *goprocess) int {
			p.stdout.Write([]byte("partial"))
			<-p.terminated
			return 143
		}})
		ws := open(t, d, workspace.Options{})
		type result struct {
			out *workspace.Output
			err error
		}
		results := make(chan result, 3)
		for range 3 {
			go func() {
				out, err := ws.Exec(t.Context(), workspace.Command{Args: []string{"it"}})
				results <- result{out, err}
			}()
		}
		synctest.Wait()
		if err := ws.Close(); err != nil {
			t.Error(err)
		}
		if _, running, closes := d.counts(); running != 0 || closes != 1 {
			t.Errorf("after Close %d run; the driver was closed %d times", running, closes)
		}
		for range 3 {
			r := <-results
			wantCode(t, r.err, workspace.ErrDisposed)
			if r.out == nil || string(r.out.Stdout) != "partial" {
				t.Errorf("the partial output is lost: %+v", r.out)
			}
		}
	})
}

func TestCloseIsIdempotent(t *testing.T) {
	cause := errors.New("cannot remove the container")
	d := &failingClose{newInprocess(nil), cause}
	ws, err := workspace.New(d, workspace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := ws.Close(); err != cause {
				t.Errorf("Close: %v", err)
			}
		})
	}
	wg.Wait()
	if _, _, closes := d.counts(); closes != 1 {
		t.Errorf("the driver was closed %d times", closes)
	}
}

type failingClose struct {
	*inprocess
	err error
}

func (d *failingClose) Close() error {
	d.inprocess.Close()
	return d.err
}

func TestClosedAnswersDisposed(t *testing.T) {
	d := newInprocess(map[string]program{"true": succeed})
	d.files.tree["f"] = &fstest.MapFile{}
	ws := open(t, d, workspace.Options{})
	fsys := ws.FS(t.Context())
	if err := ws.Close(); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"Ready":     func() error { return ws.Ready(ctx) },
		"Exec":      func() error { _, err := ws.Exec(ctx, trueCommand); return err },
		"Start":     func() error { _, err := ws.Start(ctx, trueCommand); return err },
		"Open":      func() error { _, err := ws.Open(ctx, "f"); return err },
		"ReadFile":  func() error { _, err := ws.ReadFile(ctx, "f", 0); return err },
		"Stat":      func() error { _, err := ws.Stat(ctx, "f"); return err },
		"Lstat":     func() error { _, err := ws.Lstat(ctx, "f"); return err },
		"ReadLink":  func() error { _, err := ws.ReadLink(ctx, "f"); return err },
		"ReadDir":   func() error { _, err := ws.ReadDir(ctx, ".", workspace.ListOptions{}); return err },
		"WriteFile": func() error { _, err := ws.WriteFile(ctx, "f", nil, workspace.WriteOptions{}); return err },
		"Write": func() error {
			_, err := ws.Write(ctx, "f", strings.NewReader(""), workspace.WriteOptions{})
			return err
		},
		"Edit": func() error {
			_, err := ws.Edit(ctx, "f", workspace.EditOptions{}, func(b []byte) ([]byte, error) { return b, nil })
			return err
		},
		"Mkdir":   func() error { return ws.Mkdir(ctx, "d", workspace.MkdirOptions{}) },
		"Symlink": func() error { return ws.Symlink(ctx, "f", "l") },
		"Remove":  func() error { return ws.Remove(ctx, "f", workspace.RemoveOptions{}) },
		"Rename":  func() error { return ws.Rename(ctx, "f", "g", workspace.RenameOptions{}) },
		"Copy":    func() error { _, err := ws.Copy(ctx, "f", "g", workspace.WriteOptions{}); return err },
		"Chmod":   func() error { return ws.Chmod(ctx, "f", 0o600) },
		"FS":      func() error { _, err := fs.Stat(fsys, "f"); return err },
	} {
		err := call()
		if workspace.CodeOf(err) != workspace.ErrDisposed || !errors.Is(err, fs.ErrClosed) {
			t.Errorf("%s: %v, want DISPOSED", name, err)
		}
	}
	if len(d.files.names) != 0 {
		t.Errorf("the driver was asked for %q", d.files.names)
	}
}

// A refused workspace owns nothing: its driver stays open.
func TestRefusedOptionsLeaveTheDriverAlone(t *testing.T) {
	d := newInprocess(nil)
	_, err := workspace.New(d, workspace.Options{Timeout: -2})
	wantCode(t, err, workspace.ErrInvalidArgument)
	if _, _, closes := d.counts(); closes != 0 {
		t.Error("the driver was closed")
	}
}

func TestEndedContextRunsNothing(t *testing.T) {
	d := newInprocess(map[string]program{"true": succeed})
	ws := open(t, d, workspace.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"Exec":     func() error { _, err := ws.Exec(ctx, trueCommand); return err },
		"Start":    func() error { _, err := ws.Start(ctx, trueCommand); return err },
		"Ready":    func() error { return ws.Ready(ctx) },
		"ReadFile": func() error { _, err := ws.ReadFile(ctx, "f", 0); return err },
	} {
		err := call()
		if workspace.CodeOf(err) != workspace.ErrAborted || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want ABORTED", name, err)
		}
	}
	if readies, _, _ := d.counts(); readies != 0 || len(d.files.names) != 0 {
		t.Errorf("the driver was started %d times and asked for %q", readies, d.files.names)
	}
}

func TestTimeoutAbortAndOwnStatusAreToldApart(t *testing.T) {
	own := func(p *goprocess) int { return 124 }
	for _, c := range []struct {
		name     string
		main     program
		command  workspace.Command
		deadline time.Duration
		timedOut bool
		status   int
		code     workspace.Code
		is       error
	}{
		{"timeout", obedient, workspace.Command{Timeout: time.Second}, 0, true, 124, "", nil},
		{"timeout of a stubborn one", stubborn, workspace.Command{Timeout: time.Second}, 0, true, 124, "", nil},
		{"own 124", own, workspace.Command{Timeout: time.Second}, 0, false, 124, "", nil},
		{"the caller's deadline", obedient, workspace.Command{Timeout: time.Minute}, time.Second, false, 143, workspace.ErrAborted, context.DeadlineExceeded},
		{"no timeout", obedient, workspace.Command{Timeout: workspace.NoTimeout}, time.Hour, false, 143, workspace.ErrAborted, context.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ws := open(t, newInprocess(map[string]program{"it": c.main}), workspace.Options{Timeout: 30 * time.Second})
				ctx := t.Context()
				if c.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.deadline)
					defer cancel()
				}
				c.command.Args = []string{"it"}
				out, err := ws.Exec(ctx, c.command)
				wantCode(t, err, c.code)
				if !errors.Is(err, c.is) {
					t.Errorf("%v is not %v", err, c.is)
				}
				if out == nil || out.TimedOut != c.timedOut || out.ExitCode != c.status {
					t.Errorf("got %+v, want status %d, timed out %v", out, c.status, c.timedOut)
				}
			})
		})
	}
}
