//go:build unix

package container

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/wsctl/wsctl/keeper"
	"github.com/wsctl/wsctl/workspace"
)

const (
	// idleServer is how long a serving keeper may wait for work before it is
	// closed; one is always left to wait.
	idleServer = 30 * time.Second
	// startersAtOnce is how many serving keepers are started at a time.
	startersAtOnce = 2
	// eagerServers is how many there may be before it is asked whether another
	// one pays: a few commands that take long are to run at once.
	eagerServers = 4
	// pidsPerServer is what a serving keeper and a small command count for
	// in the container's process limit: a Go program's threads, a shell.
	pidsPerServer = 8
	// maxServers bounds the commands that run at once in one container.
	maxServers = 64
	// busyWait is how long a command waits for its turn when that many run.
	busyWait = 30 * time.Second
	// launchTimeout is how long a serving keeper may take to come to be.
	launchTimeout = 10 * time.Second
)

// server is one serving keeper: an attached exec that runs one command after
// another.
type server struct {
	client *keeper.Client
	expiry *time.Timer // while it is idle
}

// pool holds the serving keepers of one container. How many there are follows
// the demand: one is started when a command finds none idle and it pays, up to a
// bound that leaves commands most of the process limit.
type pool struct {
	launch func(context.Context) (*server, error)
	limit  int

	mu       sync.Mutex
	idle     []*server // the last one used is last
	busy     int       // commands that hold a server, retired servers included
	starting int
	waiters  []chan *server // first come, first served
	pace     pace
	later    *time.Timer // asks again whether a start pays; nil: none is needed
	err      error       // of the last start, nil when it was good
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
	return &pool{launch: launch, limit: int(limit), pace: pace{launch: firstLaunch}, ctx: ctx, cancel: cancel}
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
		p.pace.handed(time.Now(), false)
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
		if p.busy+p.starting >= eagerServers {
			if wait := p.pace.wait(time.Now(), len(p.waiters)-p.starting); wait > 0 {
				p.askLater(wait)
				return
			}
		}
		p.start()
	}
}

// askLater has startMore called again. mu is held.
func (p *pool) askLater(wait time.Duration) {
	if p.later == nil {
		p.later = time.AfterFunc(wait, func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.later = nil
			p.startMore()
		})
	}
}

// start starts one server. mu is held.
func (p *pool) start() {
	p.starting++
	p.starts.Add(1)
	go func() {
		defer p.starts.Done()
		begun := time.Now()
		s, err := p.launch(p.ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.starting--
		p.err = err
		if err != nil {
			p.failWaiters(err)
			return
		}
		p.pace.launch = time.Since(begun)
		p.hand(s, false)
		p.startMore()
	}()
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

// hand gives s to whoever has waited longest, or lets it wait for work. freed says
// that a command was done with it. mu is held.
func (p *pool) hand(s *server, freed bool) {
	if len(p.waiters) > 0 {
		turn := p.waiters[0]
		p.waiters = p.waiters[1:]
		p.busy++
		p.pace.handed(time.Now(), freed)
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
		p.hand(s, true)
		p.startMore()
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
		p.hand(s, false)
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
	if p.later != nil {
		p.later.Stop()
	}
	for _, s := range p.idle {
		s.expiry.Stop()
		_ = s.client.Close()
	}
	p.idle = nil
	p.failWaiters(errPoolClosed)
	p.mu.Unlock()
	p.starts.Wait()
}

// launchServer starts a serving keeper by an attached exec and waits until it
// takes commands. That the engine accepts an exec does not mean that it will be.
func (b *box) launchServer(ctx context.Context) (*server, error) {
	conn, err := b.exec(ctx, []string{b.keeper, keeper.ModeServe})
	if err != nil {
		return nil, err
	}
	s := &server{client: keeper.NewClient(stdin{conn}, rand.Reader)}
	go func() {
		err := conn.demux(s.client.Stdout(), s.client.Stderr())
		s.client.Lost(err)
		_ = conn.Close()
	}()
	bounded, cancel := context.WithTimeout(ctx, launchTimeout)
	defer cancel()
	if err := s.client.Ready(bounded); err != nil {
		_ = conn.Close()
		if whilePaused(err.Error()) {
			return nil, b.pausedMoment()
		}
		return nil, b.noServer(ctx, err)
	}
	return s, nil
}
