//go:build unix

package container

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/workspace"
	"github.com/wsctl/wsctl/wrapper"
)

const (
	// idleServer is how long a serving keeper may wait for work before it is
	// closed; one is always left to wait.
	idleServer = 30 * time.Second
	// startersAtOnce is how many serving keepers are started at a time. An
	// exec costs the engine tens of milliseconds of one processor, and a
	// keeper that has become free in the meantime is had sooner.
	startersAtOnce = 2
	// pidsPerServer is what a serving keeper and a small command count for
	// in the container's process limit: a Go program's threads, a shell.
	pidsPerServer = 8
	// maxServers bounds the commands that run at once in one container.
	maxServers = 64
	// busyWait is how long a command waits for its turn when that many run.
	busyWait = 30 * time.Second
)

// server is one serving keeper: an attached exec that runs one command after
// another.
type server struct {
	client *keeper.Client
	// markers counts the writes of its that held a marker's first byte.
	markers atomic.Int64
	expiry  *time.Timer // while it is idle
}

// pool holds the serving keepers of one container. How many there are follows
// the demand: one is started whenever a command finds none idle, up to a bound
// that leaves commands most of the process limit.
type pool struct {
	launch func(context.Context) (*server, error)
	limit  int

	mu       sync.Mutex
	idle     []*server // the last one used is last
	busy     int       // commands that hold a server, retired servers included
	starting int
	waiters  []chan *server // first come, first served
	err      error          // of the last start, nil when it was good
	closed   bool
	ctx      context.Context //nolint:containedctx // the pool's life
	cancel   context.CancelFunc
	starts   sync.WaitGroup
}

// newPool returns a pool whose keepers launch starts. pids is the container's
// process limit, 0 for none.
func newPool(launch func(context.Context) (*server, error), pids int64) *pool {
	limit := int64(maxServers)
	if pids > 0 {
		limit = min(limit, max(pids/pidsPerServer, 1))
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &pool{launch: launch, limit: int(limit), ctx: ctx, cancel: cancel}
}

// errPoolClosed is the error of a pool whose container is being given up.
var errPoolClosed error = &notRun{errors.New("the container is being removed")}

// get returns an idle server, or waits for one to become idle or to be started,
// whichever is first.
func (p *pool) get(ctx context.Context) (*server, error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, errPoolClosed
	}
	if s := p.takeIdle(); s != nil {
		p.busy++
		p.mu.Unlock()
		return s, nil
	}
	turn := make(chan *server, 1)
	p.waiters = append(p.waiters, turn)
	p.startMore()
	p.mu.Unlock()

	patience := time.NewTimer(busyWait)
	defer patience.Stop()
	var failed error
	select {
	case s := <-turn:
		if s != nil {
			return s, nil
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		return nil, p.failure()
	case <-ctx.Done():
		failed = ctx.Err()
	case <-patience.C:
		failed = workspace.Errorf(workspace.ErrTooMany, "exec", "", "%d commands run in the workspace already; wait for one to end, or raise the process limit", p.limit)
		p.mu.Lock()
		if p.err != nil {
			failed = p.err
		}
		p.mu.Unlock()
	}
	p.leave(turn)
	return nil, failed
}

// failure is why waiters got nothing. mu is held.
func (p *pool) failure() error {
	if p.closed || p.err == nil {
		return errPoolClosed
	}
	return p.err
}

// takeIdle returns the server that was used last: its memory is warm, and the
// others grow old and go. mu is held.
func (p *pool) takeIdle() *server {
	for n := len(p.idle); n > 0; n = len(p.idle) {
		s := p.idle[n-1]
		p.idle = p.idle[:n-1]
		s.expiry.Stop()
		if s.client.Free() {
			return s
		}
		_ = s.client.Close()
	}
	return nil
}

// startMore starts servers for those who wait, as far as the bounds allow. mu is
// held.
func (p *pool) startMore() {
	for !p.closed && p.starting < min(startersAtOnce, len(p.waiters)) && p.busy+p.starting < p.limit {
		p.starting++
		p.starts.Add(1)
		go func() {
			defer p.starts.Done()
			s, err := p.launch(p.ctx)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.starting--
			p.err = err
			if err != nil {
				p.failWaiters(err)
				return
			}
			p.hand(s)
			p.startMore()
		}()
	}
}

// failWaiters tells everybody who waits that no server can be had, unless there
// are servers that will become free. mu is held.
func (p *pool) failWaiters(err error) {
	p.err = err
	if p.busy > 0 && !p.closed {
		return
	}
	for _, turn := range p.waiters {
		turn <- nil
	}
	p.waiters = nil
}

// hand gives s to whoever has waited longest, or lets it wait for work. mu is
// held.
func (p *pool) hand(s *server) {
	if len(p.waiters) > 0 {
		turn := p.waiters[0]
		p.waiters = p.waiters[1:]
		p.busy++
		turn <- s
		return
	}
	if p.closed {
		_ = s.client.Close()
		return
	}
	p.idle = append(p.idle, s)
	s.expiry = time.AfterFunc(idleServer, func() { p.expire(s) })
}

// expire closes s if it is still idle and not the only one.
func (p *pool) expire(s *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.idle {
		if other != s {
			continue
		}
		if len(p.idle) == 1 {
			s.expiry.Reset(idleServer)
			return
		}
		p.idle = append(p.idle[:i], p.idle[i+1:]...)
		_ = s.client.Close()
		return
	}
}

// put gives s back after its command has ended.
func (p *pool) put(s *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	if s.client.Free() {
		p.hand(s)
		return
	}
	// It has retired with processes that were kept, or it is lost: the one
	// ends by itself, the other has ended.
	p.startMore()
}

// leave takes somebody who no longer wants a server off the queue.
func (p *pool) leave(turn chan *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range p.waiters {
		if other == turn {
			p.waiters = append(p.waiters[:i], p.waiters[i+1:]...)
			return
		}
	}
	// It was handed one in the very moment.
	if s := <-turn; s != nil {
		p.busy--
		p.hand(s)
	}
}

// close ends every idle server and refuses the next command. Servers at work
// end with their container.
func (p *pool) close() {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return
	}
	p.closed = true
	p.cancel()
	for _, s := range p.idle {
		s.expiry.Stop()
		_ = s.client.Close()
	}
	p.idle = nil
	p.failWaiters(errPoolClosed)
	p.mu.Unlock()
	p.starts.Wait()
}

// launchServer starts a serving keeper by an attached exec. That the engine
// accepts the exec does not mean that it will be.
func (b *box) launchServer(ctx context.Context) (*server, error) {
	conn, err := b.exec(ctx, []string{b.keeper, keeper.ModeServe})
	if err != nil {
		return nil, err
	}
	s := &server{client: keeper.NewClient(stdin{conn}, rand.Reader)}
	go func() {
		err := conn.demux(markerCounter{s.client.Stdout(), &s.markers}, s.client.Stderr())
		s.client.Lost(err)
		_ = conn.Close()
	}()
	return s, nil
}

// markerCounter counts the writes that pass through it in which a marker may begin.
type markerCounter struct {
	io.Writer
	n *atomic.Int64
}

func (c markerCounter) Write(p []byte) (int, error) {
	if bytes.IndexByte(p, wrapper.RecordSeparator) >= 0 {
		c.n.Add(1)
	}
	return c.Writer.Write(p)
}
