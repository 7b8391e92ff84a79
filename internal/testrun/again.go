package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// mostAgain is how many tests may fail and be run again. More than these have a
// cause that they share.
const mostAgain = 20

// again runs each test that failed in this pass once more, alone. The contract has
// limits of time, and beside other packages on a small machine one may be missed.
// When all of them pass, none counts as failed, and the report says at the end
// which they were. What failed as a package (a build, a leak, the time) is not run
// again. one runs the tests of a package whose names match a pattern of go test.
func again(r *report, one func(pkg, pattern string, r *report) error) error {
	failed := r.leaves()
	if len(failed) == 0 || len(failed) > mostAgain || r.packages > 0 {
		return nil
	}
	for _, at := range failed {
		fmt.Fprintf(r.out, "once more, alone: %s %s%s\n", short(at.pkg), at.name, r.pass)
		alone := newReport(r.out)
		alone.pass = r.pass + " alone"
		if err := one(at.pkg, exactly(at.name), alone); err != nil {
			return err
		}
		if alone.failed > 0 || alone.passed == 0 {
			return nil
		}
	}
	for _, at := range failed {
		r.unsteady = append(r.unsteady, short(at.pkg)+" "+at.name+r.pass)
	}
	r.failed -= len(r.lost)
	return nil
}

// leaves are the tests that failed in this pass and have no subtest that did.
func (r *report) leaves() []test {
	var list []test
	for _, at := range r.lost {
		inner := func(o test) bool { return o.pkg == at.pkg && strings.HasPrefix(o.name, at.name+"/") }
		if !slices.ContainsFunc(r.lost, inner) {
			list = append(list, at)
		}
	}
	return list
}

// begin begins another pass, whose name follows package names.
func (r *report) begin(pass string) {
	r.pass, r.lost, r.packages = pass, nil, 0
	clear(r.broken)
}

// exactly is the pattern of go test for one test.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// closeUnsteady prints what has failed only beside others.
func (r *report) closeUnsteady() {
	if len(r.unsteady) > 0 {
		fmt.Fprintf(r.out, "failed beside others, passed alone:\n    %s\n", strings.Join(r.unsteady, "\n    "))
	}
}
