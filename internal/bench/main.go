//go:build linux

// Bench measures this module against what the same work costs by other means:
// the standard library, the engine's own API, other programs. Ours and each peer
// take turns in one run, so that both meet the same machine; a bar is a ratio of
// the two.
//
//	bench [-only files|exec|snapshots|tools|orchestrator] [-bin DIR]
//
// It prints a table for each comparison and last a line a bar,
//
//	bar NAME MEASURED LIMIT ok|short
//
// where LIMIT is an upper bound unless the table says "at least". A short bar is
// a figure, not a failure: the exit status is 0 when everything was measured, 1
// when something could not be, 2 for wrong arguments.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// areas are what can be measured, in this order. Each takes less than 50 s on a
// machine that does nothing else.
func areas() []area {
	return []area{
		{name: "files", measure: measureFiles},
		{name: "exec", measure: measureExec},
		{name: "snapshots", measure: measureSnapshots},
		{name: "tools", measure: measureTools},
		{name: "orchestrator", measure: measureOrchestrator},
	}
}

// area is a part of the module that is measured by itself.
type area struct {
	name    string
	measure func(ctx context.Context, r *report, o options) error
}

// options are the flags.
type options struct {
	only string // name of an area; empty: all
	bin  string // directory with wsctl and wskeeper
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.only, "only", "", "the one `area` to measure")
	flags.StringVar(&o.bin, "bin", "bin", "the `directory` of wsctl and wskeeper")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var chosen []area
	for _, a := range areas() {
		if o.only == "" || o.only == a.name {
			chosen = append(chosen, a)
		}
	}
	if len(chosen) == 0 || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "bench: the areas are files, exec, snapshots, tools and orchestrator")
		return 2
	}
	r := &report{out: stdout}
	machine(stdout)
	code := 0
	for _, a := range chosen {
		begun := time.Now()
		if err := a.measure(ctx, r, o); err != nil {
			fmt.Fprintf(stderr, "bench: %s: %v\n", a.name, err)
			code = 1
		}
		fmt.Fprintf(stdout, "\n%s took %.0f s; load now %s\n", a.name, time.Since(begun).Seconds(), load())
	}
	r.printBars()
	return code
}
