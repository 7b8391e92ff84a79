package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// feed makes a report of events written as go test -json writes them.
func feed(t *testing.T, r *report, lines ...string) {
	t.Helper()
	r.read(strings.NewReader(strings.Join(lines, "\n") + "\n"))
}

const pkg = "github.com/wsctl/wsctl/host"

func ev(action, name, output string) string {
	return fmt.Sprintf(`{"Action":%q,"Package":%q,"Test":%q,"Output":%q}`, action, pkg, name, output)
}

func TestReportEndsWithWhatWasNotRunAndTheCounts(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	feed(t, r,
		ev("run", "TestA", ""), ev("output", "TestA", "noise\n"), ev("pass", "TestA", ""),
		ev("output", "TestB", "=== RUN   TestB\n"), ev("output", "TestB", "    client.go:12: no engine: at 12:30\n"),
		ev("output", "TestB", "--- SKIP: TestB (0.00s)\n"), ev("skip", "TestB", ""), ev("pass", "", ""))
	r.close()
	want := "ok   " + pkg + " 0.0s\nnot run: no engine: at 12:30\n    host TestB\n1 passed, 0 failed, 1 skipped\n"
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}

func TestReportShowsAFailuresOutput(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	feed(t, r, ev("output", "TestA", "a.go:1: wrong\n"), ev("fail", "TestA", ""), ev("fail", "", ""))
	if !strings.Contains(out.String(), "a.go:1: wrong\n") || r.failed != 1 {
		t.Errorf("%d failed, output:\n%s", r.failed, out.String())
	}
}

func TestReportCountsAPackageThatEndedEarly(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	feed(t, r,
		ev("output", "TestA", "a.go:1: wrong\n"), ev("fail", "TestA", ""),
		ev("output", "TestHangs", "panic: test timed out\n"), ev("fail", "", ""))
	if !strings.Contains(out.String(), "panic: test timed out\n") || r.failed != 2 {
		t.Errorf("%d failed, output:\n%s", r.failed, out.String())
	}
}

func TestReportCountsAPackageThatDoesNotBuild(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	feed(t, r,
		`{"ImportPath":"x [x.test]","Action":"build-output","Output":"x.go:3:1: syntax error\n"}`,
		`{"ImportPath":"x [x.test]","Action":"build-fail"}`,
		`{"Action":"fail","Package":"x","FailedBuild":"x [x.test]"}`)
	if !strings.Contains(out.String(), "syntax error") || r.failed != 1 {
		t.Errorf("%d failed, output:\n%s", r.failed, out.String())
	}
}

func TestReportTellsASkipOfTheSecondPassFromATestThatNeverRan(t *testing.T) {
	var out strings.Builder
	r := newReport(&out)
	feed(t, r, ev("pass", "TestRootOnly", ""))
	r.pass = " as uid 65534"
	feed(t, r, ev("output", "TestRootOnly", "a.go:1: needs root\n"), ev("skip", "TestRootOnly", ""),
		ev("output", "TestNever", "a.go:2: needs a moon\n"), ev("skip", "TestNever", ""))
	out.Reset()
	r.close()
	want := "not run: needs a moon\n    host TestNever as uid 65534\n1 skipped as another user had run as root\n1 passed, 0 failed, 2 skipped\n"
	if out.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", out.String(), want)
	}
}

func TestAgain(t *testing.T) {
	failing := []string{ev("pass", "TestOK", ""), ev("fail", "TestA/b/c", ""), ev("fail", "TestA/b", ""), ev("fail", "TestA", ""), ev("fail", "", "")}
	for name, c := range map[string]struct {
		more      []string // of the first run
		alone     []string
		asked     int
		failed    int
		mentioned bool
	}{
		"passes alone":     {alone: []string{ev("pass", "TestA/b/c", ""), ev("pass", "TestA", ""), ev("pass", "", "")}, asked: 1, mentioned: true},
		"fails alone":      {alone: []string{ev("fail", "TestA/b/c", ""), ev("fail", "", "")}, asked: 1, failed: 3},
		"not found":        {alone: []string{ev("pass", "", "")}, asked: 1, failed: 3},
		"leaks alone":      {alone: []string{ev("pass", "TestA/b/c", ""), ev("fail", "", "")}, asked: 1, failed: 3},
		"a package failed": {more: []string{`{"Action":"fail","Package":"x"}`}, failed: 4},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			r, asked := newReport(&out), 0
			feed(t, r, append(failing, c.more...)...)
			err := again(r, func(p, pattern string, alone *report) error {
				asked++
				if p != pkg || pattern != "^TestA$/^b$/^c$" {
					t.Errorf("asked for %s %s", p, pattern)
				}
				feed(t, alone, c.alone...)
				return nil
			})
			r.close()
			if err != nil || asked != c.asked || r.failed != c.failed || strings.Contains(out.String(), "passed alone:\n    host TestA/b/c\n") != c.mentioned {
				t.Errorf("%v, %d asked, %d failed:\n%s", err, asked, r.failed, out.String())
			}
		})
	}
	t.Run("too many", func(t *testing.T) {
		r := newReport(io.Discard)
		for i := range mostAgain + 1 {
			feed(t, r, ev("fail", fmt.Sprint("Test", i), ""))
		}
		if err := again(r, func(string, string, *report) error { t.Error("run again"); return nil }); err != nil || r.failed != mostAgain+1 {
			t.Errorf("%v, %d failed", err, r.failed)
		}
	})
}

func TestRunRefusesABadCommandLine(t *testing.T) {
	for _, args := range [][]string{{}, {"-nosuch", "."}, {"-timeout", "soon", "."}} {
		var out, errs strings.Builder
		if code := run(t.Context(), args, &out, &errs); code != 2 || errs.Len() == 0 {
			t.Errorf("%q: exit %d, stderr %q", args, code, errs.String())
		}
	}
}
