//go:build unix

package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/wsctl/wsctl/workspace"
)

// One owner's long queue does not hold up another's first request: room goes
// round.
func TestBudgetIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(Budget{Running: 1, Wait: time.Hour})
		release, err := b.acquire(t.Context(), "first", Limits{})
		if err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 10)
		ask := func(owner string) {
			go func() {
				r, err := b.acquire(t.Context(), owner, Limits{})
				if err != nil {
					t.Error(err)
					return
				}
				order <- owner
				r()
			}()
			synctest.Wait()
		}
		for range 3 {
			ask("greedy")
		}
		ask("modest")
		release()
		synctest.Wait()
		var got []string
		for range 4 {
			got = append(got, <-order)
		}
		if fmt.Sprint(got) != "[greedy modest greedy greedy]" {
			t.Errorf("served in the order %v", got)
		}
		if running, _, _, waiting := b.usage(); running != 0 || waiting != 0 || len(b.byOwner) != 0 || b.turns.Len() != 0 {
			t.Errorf("left: %d running, %d waiting, %v", running, waiting, b.byOwner)
		}
	})
}

// A large request is not passed over by small ones for ever, and one that gives
// up makes way for those behind it.
func TestBudgetServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(Budget{Memory: 10, Wait: time.Minute})
		release, err := b.acquire(t.Context(), "a", Limits{Memory: 6})
		if err != nil {
			t.Fatal(err)
		}
		big, small := make(chan error, 1), make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			_, err := b.acquire(ctx, "a", Limits{Memory: 8})
			big <- err
		}()
		synctest.Wait()
		go func() {
			_, err := b.acquire(t.Context(), "a", Limits{Memory: 3})
			small <- err
		}()
		synctest.Wait()
		select {
		case <-small:
			t.Error("the small one went ahead of the large one")
		default:
		}
		cancel()
		if err := <-big; !errors.Is(err, workspace.ErrAborted) || !errors.Is(err, context.Canceled) {
			t.Errorf("the one that gave up: %v", err)
		}
		if err := <-small; err != nil {
			t.Errorf("the one behind it: %v", err)
		}
		release()
		if running, memory, _, _ := b.usage(); running != 1 || memory != 3 {
			t.Errorf("%d running, %d bytes", running, memory)
		}
		if err := b.possible(Limits{Memory: 11}); !errors.Is(err, workspace.ErrInvalidArgument) {
			t.Errorf("what never fits: %v", err)
		}
	})
}

// Waiting has an end, and so has the queue.
func TestBudgetTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(Budget{Running: 1, Wait: 10 * time.Second, MaxWaiting: 1})
		if _, err := b.acquire(t.Context(), "a", Limits{}); err != nil {
			t.Fatal(err)
		}
		waits := make(chan error, 1)
		began := time.Now()
		go func() {
			_, err := b.acquire(t.Context(), "a", Limits{})
			waits <- err
		}()
		synctest.Wait()
		if _, err := b.acquire(t.Context(), "b", Limits{}); !errors.Is(err, workspace.ErrTooMany) || time.Since(began) != 0 {
			t.Errorf("a full queue: %v after %v", err, time.Since(began))
		}
		if err := <-waits; !errors.Is(err, workspace.ErrTooMany) || time.Since(began) != 10*time.Second {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
	})
}
