package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// modulePath is this module's; its packages are below it as its directories are
// below the root.
const modulePath = "github.com/wsctl/wsctl"

// event is a line of go test -json, see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build-output and build-fail, in place of Package
	Test        string
	Elapsed     float64 // seconds
	Output      string
	FailedBuild string
}

// test names a test in one of the passes.
type test struct{ pkg, name string }

// report gathers events, prints failures as they come, and the counts at the
// end. A test counts once a pass; so does each subtest. Many goroutines may read
// into one.
type report struct {
	mu     sync.Mutex
	out    io.Writer
	pass   string              // after the package name in what is printed; empty for the first pass
	output map[test][]string   // of tests that have not ended; name "" is the package's own
	build  map[string][]string // compiler output by import path
	broken map[string]bool     // packages that failed in this pass, or a test of which did
	lost   []test              // that failed in this pass, parents included
	// packages counts those that failed in this pass as a whole.
	packages int
	unsteady []string // tests that failed beside others and passed alone
	passed   int
	failed   int
	skipped  int
	ran      map[test]bool       // tests that passed in an earlier pass
	reasons  map[string][]string // skipped tests by reason
	order    []string            // the reasons as they came
	elsehow  int                 // skipped in a later pass, and run in the first
}

func newReport(out io.Writer) *report {
	return &report{
		out: out, output: map[test][]string{}, build: map[string][]string{}, broken: map[string]bool{},
		ran: map[test]bool{}, reasons: map[string][]string{},
	}
}

// read takes lines until their end.
func (r *report) read(from io.Reader) {
	in := bufio.NewReaderSize(from, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if err != nil {
			return
		}
	}
}

// line takes one line of output: an event, or what a tool printed among them.
func (r *report) line(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e event
	if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &e) != nil {
		fmt.Fprintf(r.out, "%s", line)
		return
	}
	at := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		r.build[e.ImportPath] = append(r.build[e.ImportPath], e.Output)
	case "output":
		r.output[at] = append(r.output[at], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e)
		} else {
			r.endTest(e, at)
		}
		delete(r.output, at)
	}
}

func (r *report) endTest(e event, at test) {
	switch e.Action {
	case "pass":
		r.passed++
		if r.pass == "" {
			r.ran[at] = true
		}
	case "fail":
		r.failed++
		r.broken[e.Package] = true
		r.lost = append(r.lost, at)
		fmt.Fprintf(r.out, "FAIL %s %s%s\n%s", e.Package, e.Test, r.pass, strings.Join(r.output[at], ""))
	case "skip":
		r.skipped++
		if r.ran[at] {
			r.elsehow++
			return
		}
		why := reason(r.output[at])
		if r.reasons[why] == nil {
			r.order = append(r.order, why)
		}
		r.reasons[why] = append(r.reasons[why], short(e.Package)+" "+e.Test+r.pass)
	}
}

// endPackage prints the package's line. A package that failed without a failed
// test did not build, ended early or ran out of time: that counts as one failure
// and everything it said is shown.
func (r *report) endPackage(e event) {
	switch {
	case e.Action == "skip":
		return // no test files
	case e.Action == "pass":
		fmt.Fprintf(r.out, "ok   %s%s %.1fs\n", e.Package, r.pass, e.Elapsed)
	case r.broken[e.Package] && len(r.unfinished(e.Package)) == 0:
		fmt.Fprintf(r.out, "FAIL %s%s %.1fs\n", e.Package, r.pass, e.Elapsed)
	default:
		r.failed++
		r.packages++
		r.broken[e.Package] = true
		fmt.Fprintf(r.out, "FAIL %s%s %.1fs\n%s", e.Package, r.pass, e.Elapsed, strings.Join(r.build[e.FailedBuild], ""))
		for _, at := range append(r.unfinished(e.Package), test{e.Package, ""}) {
			fmt.Fprint(r.out, strings.Join(r.output[at], ""))
			delete(r.output, at)
		}
	}
}

// failures is how many there were so far.
func (r *report) failures() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// hasFailed reports whether a test of the package, or the package, failed in this
// pass.
func (r *report) hasFailed(pkg string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken[pkg]
}

// unfinished are the tests of the package that began and did not end.
func (r *report) unfinished(pkg string) []test {
	var found []test
	for at := range r.output {
		if at.pkg == pkg && at.name != "" {
			found = append(found, at)
		}
	}
	slices.SortFunc(found, func(a, b test) int { return strings.Compare(a.name, b.name) })
	return found
}

// close prints what was not run and the counts, in a line that counts in any
// language.
func (r *report) close() {
	for _, why := range r.order {
		names := r.reasons[why]
		fmt.Fprintf(r.out, "not run: %s\n", why)
		const most = 8
		for _, n := range names[:min(most, len(names))] {
			fmt.Fprintf(r.out, "    %s\n", n)
		}
		if len(names) > most {
			fmt.Fprintf(r.out, "    and %d more\n", len(names)-most)
		}
	}
	if r.elsehow > 0 {
		fmt.Fprintf(r.out, "%d skipped as another user had run as root\n", r.elsehow)
	}
	r.closeUnsteady()
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
}

// reason is what a skipped test said: its output without the lines that go test
// adds and without the place in the file.
func reason(output []string) string {
	var said []string
	for _, line := range strings.Split(strings.Join(output, ""), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "===") || strings.HasPrefix(line, "---") {
			continue
		}
		if place, text, ok := strings.Cut(line, ": "); ok && strings.Contains(place, ".go:") {
			line = text
		}
		said = append(said, line)
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

// short is an import path below the module's.
func short(pkg string) string {
	return strings.TrimPrefix(pkg, modulePath+"/")
}
