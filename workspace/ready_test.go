package workspace_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

func succeed(*goprocess) int { return 0 }

// starting is an in-process driver whose start takes as long as gate is open.
func starting(gate <-chan error) *inprocess {
	d := newInprocess(map[string]program{"true": succeed})
	d.start = func(ctx context.Context) error {
		select {
		case err := <-gate:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return d
}

var trueCommand = workspace.Command{Args: []string{"true"}}

func TestFirstCallsShareOneStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan error)
		d := starting(gate)
		ws := open(t, d, workspace.Options{})
		var ok atomic.Int32
		for i := range 16 {
			go func() {
				var err error
				switch i % 3 {
				case 0:
					err = ws.Ready(t.Context())
				case 1:
					_, err = ws.Exec(t.Context(), trueCommand)
				case 2:
					_, err = ws.Start(t.Context(), trueCommand)
				}
				if err != nil {
					t.Errorf("call %d: %v", i, err)
				}
				ok.Add(1)
			}()
		}
		synctest.Wait()
		if readies, _, _ := d.counts(); readies != 1 || ok.Load() != 0 {
			t.Errorf("%d starts under way, %d calls done", readies, ok.Load())
		}
		close(gate)
		synctest.Wait()
		if readies, _, _ := d.counts(); readies != 1 || ok.Load() != 16 {
			t.Errorf("%d starts, %d calls done, want 1 and 16", readies, ok.Load())
		}
	})
}

func TestFailingStartIsSeenByAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan error)
		d := starting(gate)
		ws := open(t, d, workspace.Options{})
		cause := errors.New("no engine")
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				_, err := ws.Exec(t.Context(), trueCommand)
				wantCode(t, err, workspace.ErrUnavailable)
				if !errors.Is(err, cause) {
					t.Errorf("%v does not wrap its cause", err)
				}
			})
		}
		synctest.Wait()
		gate <- cause
		wg.Wait()
		close(gate)
		if _, err := ws.Exec(t.Context(), trueCommand); err != nil {
			t.Errorf("the next call must try again: %v", err)
		}
		if readies, _, _ := d.counts(); readies != 2 {
			t.Errorf("%d starts, want 2", readies)
		}
	})
}

func TestStartsCodeIsKept(t *testing.T) {
	d := newInprocess(nil)
	d.start = func(context.Context) error {
		return workspace.Errorf(workspace.ErrBusy, "start", "", "the container is paused")
	}
	wantCode(t, open(t, d, workspace.Options{}).Ready(t.Context()), workspace.ErrBusy)
}

// A start goes on while one caller wants it, whoever asked first.
func TestStartOutlivesItsFirstCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan error)
		d := starting(gate)
		ws := open(t, d, workspace.Options{})
		first, leave := context.WithCancel(t.Context())
		var firstErr, secondErr error
		var wg sync.WaitGroup
		wg.Go(func() { firstErr = ws.Ready(first) })
		synctest.Wait()
		wg.Go(func() { secondErr = ws.Ready(t.Context()) })
		synctest.Wait()
		leave()
		synctest.Wait()
		wantCode(t, firstErr, workspace.ErrAborted)
		if !errors.Is(firstErr, context.Canceled) {
			t.Errorf("%v does not wrap the context's error", firstErr)
		}
		close(gate)
		wg.Wait()
		if readies, _, _ := d.counts(); secondErr != nil || readies != 1 {
			t.Errorf("second caller: %v after %d starts", secondErr, readies)
		}
	})
}

// slowUndo is a start that takes a minute to come to an end once nobody wants
// it.
func slowUndo(d *inprocess, undone *atomic.Bool) {
	d.start = func(ctx context.Context) error {
		if undone.Load() {
			return nil
		}
		<-ctx.Done()
		time.Sleep(time.Minute)
		undone.Store(true)
		return ctx.Err()
	}
}

func TestStartLeftByAllIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newInprocess(map[string]program{"true": succeed})
		var undone atomic.Bool
		slowUndo(d, &undone)
		ws := open(t, d, workspace.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				err := ws.Ready(ctx)
				wantCode(t, err, workspace.ErrAborted)
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v does not wrap the context's error", err)
				}
			})
		}
		time.Sleep(2 * time.Second)
		// This one comes while the start is being undone: it waits for
		// that, and starts anew.
		if _, err := ws.Exec(t.Context(), trueCommand); err != nil || !undone.Load() {
			t.Errorf("%v, undone %v", err, undone.Load())
		}
		wg.Wait()
		if readies, _, _ := d.counts(); readies != 2 {
			t.Errorf("%d starts, want 2", readies)
		}
	})
}

// Whoever waits for an abandoned start to be undone can leave as well.
func TestWaitForUndoingCanBeLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newInprocess(map[string]program{"true": succeed})
		var undone atomic.Bool
		slowUndo(d, &undone)
		ws := open(t, d, workspace.Options{})
		first, leave := context.WithCancel(t.Context())
		go ws.Ready(first)
		synctest.Wait()
		leave()
		synctest.Wait()
		began := time.Now()
		second, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := ws.Ready(second)
		wantCode(t, err, workspace.ErrAborted)
		if took := time.Since(began); took != time.Second {
			t.Errorf("the call came back after %v, its context ended after 1s", took)
		}
	})
}

func TestCloseDuringStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newInprocess(map[string]program{"true": succeed})
		var undone atomic.Bool
		slowUndo(d, &undone)
		ws := open(t, d, workspace.Options{})
		failed := make(chan error, 1)
		go func() { failed <- ws.Ready(t.Context()) }()
		synctest.Wait()
		if err := ws.Close(); err != nil {
			t.Error(err)
		}
		wantCode(t, <-failed, workspace.ErrDisposed)
		if _, _, closes := d.counts(); closes != 1 || !undone.Load() {
			t.Errorf("the driver was closed %d times, its start undone: %v", closes, undone.Load())
		}
	})
}
