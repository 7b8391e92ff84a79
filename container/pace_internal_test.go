//go:build unix

package container

import (
	"testing"
	"time"
)

// Another keeper pays once the queue, at the pace at which servers become free,
// takes longer than a start.
func TestPace(t *testing.T) {
	const launch = 60 * time.Millisecond
	now := time.Now()
	short := pace{launch: launch}
	for range 50 {
		now = now.Add(time.Millisecond)
		short.handed(now, true)
	}
	if wait := short.wait(now, 40); wait <= 0 || wait > launch/40 {
		t.Errorf("40 commands of a millisecond: %v", wait)
	}
	if wait := short.wait(now.Add(launch/40), 40); wait > 0 {
		t.Errorf("nothing became free since: %v", wait)
	}
	if wait := short.wait(now, 80); wait > 0 {
		t.Errorf("80 of them: %v", wait)
	}
	long := pace{launch: launch}
	long.handed(now, false)
	if wait := long.wait(now, 1); wait != launch {
		t.Errorf("one that has just begun: %v", wait)
	}
	if wait := long.wait(now.Add(time.Second), 1); wait > 0 {
		t.Errorf("one that takes a second: %v", wait)
	}
}
