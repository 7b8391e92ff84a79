//go:build unix

package orchestrator

import (
	"context"
	"sync"
	"time"
)

// keptEvents is how many events can still be asked for.
const keptEvents = 1024

// events keeps the last ones and wakes who waits for more.
type events struct {
	mu   sync.Mutex
	seq  int64
	kept []Event
	more chan struct{} // closed when there is another
}

func newEvents() *events { return &events{more: make(chan struct{})} }

func (e *events) add(v Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seq++
	v.Seq, v.Time = e.seq, time.Now().UTC()
	e.kept = append(e.kept, v)
	if len(e.kept) > keptEvents {
		e.kept = append(e.kept[:0], e.kept[len(e.kept)-keptEvents:]...)
	}
	close(e.more)
	e.more = make(chan struct{})
}

// Events returns the events after the one with that number, at least one,
// waiting for it, or none when ctx ends first. Only the last thousand or so are
// kept: a gap in the numbers tells what was missed. They begin at 1 again with
// each process.
func (o *Orchestrator) Events(ctx context.Context, after int64) ([]Event, error) {
	e := o.events
	for {
		e.mu.Lock()
		if after > e.seq {
			// From before a restart.
			after = 0
		}
		if n := int64(len(e.kept)); after < e.seq && n > 0 {
			first := e.kept[0].Seq
			list := append([]Event(nil), e.kept[max(0, after-first+1):]...)
			e.mu.Unlock()
			return list, nil
		}
		more := e.more
		e.mu.Unlock()
		select {
		case <-more:
		case <-ctx.Done():
			return nil, nil
		case <-o.life.Done():
			return nil, nil
		}
	}
}
