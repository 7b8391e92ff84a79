// Testrun runs the tests of this module as `make test` wants them: go test on
// the given packages, and, where it is started by root, once more the packages
// of -other as a user without rights. It prints what failed, a line a package,
// and at the end what was not run and why, and the counts.
//
//	testrun [-race] [-timeout D] [-run RE] [-retry] [-other LIST] [-other-short LIST] PACKAGE…
//
// The exit status is 0 when nothing failed, 1 when something did, 2 when the
// tests could not be run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	defaultSignals()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the flags.
type options struct {
	race       bool
	timeout    time.Duration // of each package
	only       string        // -run of go test
	retry      bool
	other      []string // directories whose tests also run as another user
	otherShort []string // the same under -test.short
	packages   []string
}

// run is main without the process.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(stderr, "testrun:", err)
		return 2
	}
	r := newReport(stdout)
	err = goTest(ctx, o, r, stderr)
	if err == nil && o.retry {
		err = again(r, func(pkg, pattern string, r *report) error {
			alone := o
			alone.packages, alone.only = []string{pkg}, pattern
			return goTest(ctx, alone, r, stderr)
		})
	}
	if err != nil {
		fmt.Fprintln(stderr, "testrun:", err)
		return 2
	}
	if os.Geteuid() == 0 && len(o.other)+len(o.otherShort) > 0 {
		if err := asOtherUser(ctx, o, r, stderr); err != nil {
			fmt.Fprintln(stderr, "testrun: as another user:", err)
			return 2
		}
	}
	r.close()
	if r.failed > 0 {
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var other, otherShort string
	flags := flag.NewFlagSet("testrun", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.race, "race", false, "with the race detector")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "for the tests of one package")
	flags.StringVar(&o.only, "run", "", "only tests that match, as in go test")
	flags.BoolVar(&o.retry, "retry", false, "run what fails once more, alone: only what fails again counts")
	flags.StringVar(&other, "other", "", "as root: package directories, separated by commas, to test once more as a user without rights")
	flags.StringVar(&otherShort, "other-short", "", "the same under -test.short")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.other, o.otherShort = list(other), list(otherShort)
	o.packages = flags.Args()
	if len(o.packages) == 0 {
		return o, errors.New("no package given")
	}
	return o, nil
}

func list(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}

// parallel is how many parallel tests of a package run at once. They wait for
// processes and containers more than they compute; with more of them the engine,
// which computes too, misses the limits of time that they ask for.
func parallel() int { return 2 * runtime.GOMAXPROCS(0) }

// goTest runs go test on the packages, results never taken from the cache:
// an engine and a kernel are no inputs that the cache knows.
func goTest(ctx context.Context, o options, r *report, stderr io.Writer) error {
	args := []string{"test", "-json", "-count=1", "-timeout=" + o.timeout.String(), "-parallel=" + strconv.Itoa(parallel())}
	if o.race {
		args = append(args, "-race")
	}
	if o.only != "" {
		args = append(args, "-run="+o.only)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, o.packages...)...)
	return stream(cmd, r, stderr)
}

// stream runs a command that prints test events and feeds them to the report.
// That tests failed is in the events; an error means that there were none to
// tell why the command failed.
func stream(cmd *exec.Cmd, r *report, stderr io.Writer) error {
	cmd.Stderr = stderr
	// An interrupt goes to the tests, so that they clean up, before the kill.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 15 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	failed := r.failures()
	r.read(out)
	if err := cmd.Wait(); err != nil && r.failures() == failed {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args[:min(3, len(cmd.Args))], " "), err)
	}
	return nil
}
