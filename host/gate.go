//go:build unix

package host

import (
	"math"
	"sync/atomic"
)

// gate counts the calls under way, so that Close closes no descriptor that one
// of them uses. A call may call again from inside, also while Close waits: it
// is then turned away instead of waiting for itself.
type gate struct {
	n    atomic.Int64
	idle chan struct{} // gets a token when the last call leaves a shut gate
}

// shut is added to the count of a gate that is shut.
const shut = math.MinInt64 / 2

func newGate() *gate { return &gate{idle: make(chan struct{}, 1)} }

// enter reports whether the call may go on; leave must follow only then.
func (g *gate) enter() bool {
	if g.n.Add(1) > 0 {
		return true
	}
	g.leave()
	return false
}

func (g *gate) leave() {
	if g.n.Add(-1) == shut {
		select {
		case g.idle <- struct{}{}:
		default:
		}
	}
}

// close shuts the gate and returns when nobody is inside. It is called once.
func (g *gate) close() {
	g.n.Add(shut)
	for g.n.Load() != shut {
		<-g.idle
	}
}
