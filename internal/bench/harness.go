//go:build linux

package main

import (
	"context"
	"math"
	"runtime"
	"slices"
	"time"
)

// side is one way to do a piece of work.
type side struct {
	name string
	// block is how many calls it makes in a row before the next side's turn;
	// 0: 1. Each is timed by itself.
	block int
	// prepare makes what one call will use up, before the block and untimed.
	// May be nil.
	prepare func() error
	call    func() error

	times   []time.Duration
	mallocs uint64 // of all timed calls, by the whole process
	bytes   uint64
}

// alternate lets the sides take turns, in another order each round, until the
// next round would go beyond the budget; each has one at least.
func alternate(ctx context.Context, budget time.Duration, sides ...*side) error {
	begun := time.Now()
	clock := clockCost()
	longest := time.Duration(0)
	for round := 0; round == 0 || time.Since(begun)+longest < budget; round++ {
		start := time.Now()
		for i := range sides {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := sides[(i+round)%len(sides)].turn(clock); err != nil {
				return err
			}
		}
		longest = max(longest, time.Since(start))
	}
	return nil
}

// turn is one block of calls. The collector is run before it, so that no side
// pays for what another has left.
func (s *side) turn(clock time.Duration) error {
	var before, after runtime.MemStats
	runtime.GC()
	for range max(s.block, 1) {
		if s.prepare != nil {
			if err := s.prepare(); err != nil {
				return err
			}
		}
	}
	runtime.ReadMemStats(&before)
	for range max(s.block, 1) {
		start := time.Now()
		err := s.call()
		s.times = append(s.times, max(time.Since(start)-clock, 0))
		if err != nil {
			return err
		}
	}
	runtime.ReadMemStats(&after)
	s.mallocs += after.Mallocs - before.Mallocs
	s.bytes += after.TotalAlloc - before.TotalAlloc
	return nil
}

// clockCost is what it takes to read the clock twice.
func clockCost() time.Duration {
	costs := make([]time.Duration, 1001)
	for i := range costs {
		start := time.Now()
		costs[i] = time.Since(start)
	}
	return quantile(costs, 0.5)
}

// quantile is the smallest value that the fraction q of them does not exceed
// (nearest rank). It sorts its argument.
func quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[max(int(math.Ceil(q*float64(len(times))))-1, 0)]
}

func (s *side) at(q float64) time.Duration { return quantile(s.times, q) }

// mean is for calls whose sum is what counts.
func (s *side) mean() time.Duration {
	var sum time.Duration
	for _, t := range s.times {
		sum += t
	}
	return sum / time.Duration(max(len(s.times), 1))
}

// ratio is how much longer s takes than peer at that quantile.
func (s *side) ratio(peer *side, q float64) float64 {
	return float64(s.at(q)) / float64(peer.at(q))
}
