//go:build unix

package container

import "time"

// pace tells when it pays to start another serving keeper for those who wait. A
// start takes the engine as much processor time as dozens of short commands, so
// while servers become free quickly it only delays everybody; while they do not,
// each moment without one is lost. Hence one is started as soon as the queue,
// served at the pace of late, would take longer than a start.
type pace struct {
	// launch is what the last start took.
	launch time.Duration
	// moved is when a server was last given to a command; between is how far apart
	// servers have become free lately, while commands waited.
	moved   time.Time
	between time.Duration
}

// firstLaunch is taken for what a start takes until there was one.
const firstLaunch = 100 * time.Millisecond

// handed notes that a command has got a server. freed says that another command
// was done with it and that this one had waited.
func (p *pace) handed(now time.Time, freed bool) {
	if freed {
		// What is longer than a start says no more than that one pays.
		p.between = (3*p.between + min(now.Sub(p.moved), p.launch)) / 4
	}
	p.moved = now
}

// wait is how long it still does not pay to start one, when so many wait and
// nothing becomes free; not positive: it pays now.
func (p *pace) wait(now time.Time, waiters int) time.Duration {
	each := p.launch / time.Duration(max(waiters, 1))
	return each - max(p.between, now.Sub(p.moved))
}
