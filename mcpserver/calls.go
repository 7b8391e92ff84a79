package mcpserver

import (
	"context"
	"sync"
)

// calls are those under way, by the session that made them, so that they end
// with it.
type calls struct {
	mu   sync.Mutex
	next int
	ends map[string]map[int]context.CancelFunc // guarded by mu
}

// begin notes a call; the function it returns forgets it.
func (c *calls) begin(session string, end context.CancelFunc) (done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ends == nil {
		c.ends = map[string]map[int]context.CancelFunc{}
	}
	if c.ends[session] == nil {
		c.ends[session] = map[int]context.CancelFunc{}
	}
	c.next++
	id := c.next
	c.ends[session][id] = end
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.ends[session], id)
		if len(c.ends[session]) == 0 {
			delete(c.ends, session)
		}
	}
}

// endSession ends the calls of a session. What has none is in no session.
func (c *calls) endSession(session string) {
	if session == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range c.ends[session] {
		end()
	}
}
