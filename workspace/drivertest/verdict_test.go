//go:build unix

package drivertest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// verdict is the test that a case runs under: it takes note of a failure and
// fails nothing.
type verdict struct {
	testing.TB
	ctx context.Context //nolint:containedctx // what Context returns

	mu       sync.Mutex
	failed   bool
	text     strings.Builder
	cleanups []func()
}

func (v *verdict) Context() context.Context { return v.ctx }
func (v *verdict) Helper()                  {}

func (v *verdict) note(text string, failed bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.failed = v.failed || failed
	fmt.Fprintln(&v.text, text)
}

func (v *verdict) Failed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.failed
}

// said is all that was noted so far: a case that was given up may still speak.
func (v *verdict) said() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.text.String()
}

func (v *verdict) Log(a ...any)              { v.note(fmt.Sprintln(a...), false) }
func (v *verdict) Logf(f string, a ...any)   { v.note(fmt.Sprintf(f, a...), false) }
func (v *verdict) Error(a ...any)            { v.note(fmt.Sprintln(a...), true) }
func (v *verdict) Errorf(f string, a ...any) { v.note(fmt.Sprintf(f, a...), true) }
func (v *verdict) Fatal(a ...any)            { v.Error(a...); v.FailNow() }
func (v *verdict) Fatalf(f string, a ...any) { v.Errorf(f, a...); v.FailNow() }
func (v *verdict) Fail()                     { v.note("", true) }

func (v *verdict) FailNow() {
	v.Fail()
	runtime.Goexit()
}

func (v *verdict) Cleanup(f func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cleanups = append(v.cleanups, f)
}

// judge runs one case over a driver.
func judge(t *testing.T, name string, h Harness) *verdict {
	t.Helper()
	for _, ch := range chapters() {
		for _, c := range ch.cases {
			if ch.name+"/"+c.name != name {
				continue
			}
			v := &verdict{TB: t}
			var cancel context.CancelFunc
			v.ctx, cancel = context.WithCancel(t.Context())
			s := newSuite(v, h)
			c.limit, s.patience = 4*time.Second, time.Second
			s.check(v, ch, c)
			cancel()
			for _, f := range slices.Backward(v.cleanups) {
				f()
			}
			return v
		}
	}
	t.Fatalf("there is no case %q", name)
	return nil
}
