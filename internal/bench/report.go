//go:build linux

package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// report prints tables as they come and keeps the bars for the end.
type report struct {
	out  io.Writer
	bars []bar
}

// bar is a ratio and how large, or with atLeast how small, it may be.
type bar struct {
	name            string
	measured, limit float64
	atLeast         bool
}

func (b bar) verdict() string {
	if b.atLeast && b.measured >= b.limit || !b.atLeast && b.measured <= b.limit {
		return "ok"
	}
	return "short"
}

func (r *report) add(b bar) { r.bars = append(r.bars, b) }

func (r *report) printBars() {
	fmt.Fprintln(r.out)
	for _, b := range r.bars {
		fmt.Fprintf(r.out, "bar %s %s %s %s\n", b.name, figure(b.measured, b.limit), figure(b.limit, b.limit), b.verdict())
	}
}

// figure has two decimals, and three where the limit is a small fraction, so that
// no rounding crosses it.
func figure(v, limit float64) string {
	if limit < 0.2 {
		return fmt.Sprintf("%.3f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// compared prints what each side took, the first being ours, and how many times
// as long that is.
func (r *report) compared(title string, sides ...*side) {
	fmt.Fprintf(r.out, "\n%-34s %7s %10s %10s %10s %9s %9s %9s\n", title, "calls", "p50", "p95", "p99", "allocs", "bytes", "ours is")
	for i, s := range sides {
		ours := ""
		if i > 0 {
			ours = fmt.Sprintf("%8.3f×", sides[0].ratio(s, 0.5))
		}
		n := uint64(max(len(s.times), 1))
		fmt.Fprintf(r.out, "  %-32s %7d %10s %10s %10s %9d %9d %9s\n", s.name, len(s.times),
			short(s.at(0.5)), short(s.at(0.95)), short(s.at(0.99)), s.mallocs/n, s.bytes/n, ours)
	}
}

func (r *report) line(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

// short is a duration with three significant digits.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Microsecond:
		return fmt.Sprintf("%.2fµs", float64(d)/1e3)
	case d < time.Millisecond:
		return fmt.Sprintf("%.0fµs", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.2fms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2fs", d.Seconds())
}

// machine prints what the figures are of.
func machine(out io.Writer) {
	var u unix.Utsname
	_ = unix.Uname(&u) // fails for a bad pointer only
	fmt.Fprintf(out, "%s  %d processors  Linux %s %s  %s  load %s\n", time.Now().Format(time.DateOnly), runtime.NumCPU(),
		unix.ByteSliceToString(u.Release[:]), unix.ByteSliceToString(u.Machine[:]), runtime.Version(), load())
}

// load is what /proc/loadavg says of the last minutes (proc_loadavg(5)).
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
