package keeper

import (
	"sync"

	"github.com/wsctl/wsctl/wrapper"
)

// reporter writes the markers that come while a command runs. The command may
// have filled the pipe and its reader be slow; stops must be heard meanwhile.
type reporter struct {
	mu    sync.Mutex
	more  *sync.Cond
	queue []report
	busy  bool
}

type report struct {
	fd     int
	marker []byte
}

func newReporter() *reporter {
	r := &reporter{}
	r.more = sync.NewCond(&r.mu)
	go r.run()
	return r
}

func (r *reporter) run() {
	r.mu.Lock()
	for {
		for len(r.queue) == 0 {
			r.busy = false
			r.more.Broadcast()
			r.more.Wait()
		}
		next := r.queue[0]
		r.queue = r.queue[1:]
		r.busy = true
		r.mu.Unlock()
		// A stream that is gone shows at the end marker, which must be written.
		_ = writeAll(next.fd, next.marker)
		r.mu.Lock()
	}
}

func (r *reporter) add(fd int, token, body string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue = append(r.queue, report{fd, wrapper.AppendMarker(nil, token, body)})
	r.busy = true
	r.more.Broadcast()
}

// wait returns when all markers are written.
func (r *reporter) wait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.busy {
		r.more.Wait()
	}
}
